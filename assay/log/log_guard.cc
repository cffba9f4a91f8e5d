#include "assay/log/log_guard.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <new>

namespace assay {
namespace {

constexpr size_t kCapacity = size_t{64} * 1024;  // larger writes are hardly faster

// A process without signals, which a terminal sends to all processes of a job.
int fork_without_signals() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int child = fork();
  if (child != 0) pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return child;
}

}  // namespace

struct LogGuard::Shared {
  std::atomic<int64_t> file_size{0};  // without the pending text
  std::atomic<size_t> length{0};
  char text[kCapacity];
};

// Runs in the child of a process that may have had other threads: system calls only.
void LogGuard::stand_guard(const Shared* shared, int log, int owner) {
  // Standard output stays open: whoever reads it to its end finds the log complete. Other files
  // must not: their locks would last as long as this process.
  const int last = std::max(log, owner);
  const int first = std::min(log, owner);
  const auto close_all = [](int from, int to) {
    if (from <= to) syscall(SYS_close_range, from, to, 0);
  };
  close_all(STDERR_FILENO + 1, first - 1);
  close_all(first + 1, last - 1);
  close_all(last + 1, INT_MAX);
  pollfd ended{owner, POLLIN, 0};
  while (poll(&ended, 1, -1) < 0 && errno == EINTR) {
  }
  struct stat status {};
  if ((ended.revents & POLLIN) == 0 || fstat(log, &status) != 0) _exit(1);
  // The process may have ended within a write.
  const int64_t written = status.st_size - shared->file_size.load();
  const size_t length = shared->length.load();
  size_t done = written > 0 ? static_cast<size_t>(written) : 0;
  while (done < length) {
    const ssize_t count = ::write(log, shared->text + done, length - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;  // no process is left that could report it; at most a line is torn
    done += static_cast<size_t>(count);
  }
  _exit(0);
}

std::unique_ptr<LogGuard> LogGuard::start(int fd, int64_t file_size) {
  const auto owner = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (owner < 0) return nullptr;
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    close(owner);
    return nullptr;
  }
  auto* shared = new (memory) Shared;
  shared->file_size = file_size;
  const int helper = fork_without_signals();
  if (helper == 0) stand_guard(shared, fd, owner);
  close(owner);
  if (helper > 0) return std::unique_ptr<LogGuard>(new LogGuard(shared, helper));
  munmap(memory, sizeof(Shared));
  return nullptr;
}

LogGuard::~LogGuard() {
  kill(helper_, SIGKILL);
  while (waitpid(helper_, nullptr, 0) < 0 && errno == EINTR) {
  }
  munmap(shared_, sizeof(Shared));
}

bool LogGuard::add(std::string_view line) {
  const size_t length = shared_->length.load(std::memory_order_relaxed);
  if (line.size() > kCapacity - length) return false;
  std::memcpy(shared_->text + length, line.data(), line.size());
  shared_->length.store(length + line.size(), std::memory_order_release);
  return true;
}

std::string_view LogGuard::pending() const {
  return {shared_->text, shared_->length.load(std::memory_order_relaxed)};
}

void LogGuard::clear(int64_t file_size) {
  shared_->length.store(0);  // first: at any moment, the helper writes nothing twice
  shared_->file_size.store(file_size);
}

}  // namespace assay
