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
#include <string>

namespace assay {
namespace {

constexpr size_t kCapacity = size_t{256} * 1024;  // half of a small second-level cache
constexpr size_t kLargest = size_t{32} * 1024;

// What stands before a record's shape, values and texts.
struct Head {
  size_t bytes;  // of all, a multiple of 8
  int64_t token_idx;
  size_t dims;
  size_t values;
  size_t checkpoint;
  size_t dtype;
  size_t ts;
  size_t sequence;
};

size_t bytes_of(const RawRecord& record) {
  const size_t bytes = sizeof(Head) + record.shape.size_bytes() + record.values.size_bytes() +
                       record.checkpoint.size() + record.dtype.size() + record.ts.size() +
                       record.sequence.size();
  return (bytes + 7) / 8 * 8;
}

void store(const RawRecord& record, std::byte* at) {
  const auto put = [&at](const void* data, size_t bytes) {
    if (bytes > 0) std::memcpy(at, data, bytes);
    at += bytes;
  };
  const Head head = {bytes_of(record),     record.token_idx,         record.shape.size(),
                     record.values.size(), record.checkpoint.size(), record.dtype.size(),
                     record.ts.size(),     record.sequence.size()};
  put(&head, sizeof(head));
  put(record.shape.data(), record.shape.size_bytes());
  put(record.values.data(), record.values.size_bytes());
  put(record.checkpoint.data(), record.checkpoint.size());
  put(record.dtype.data(), record.dtype.size());
  put(record.ts.data(), record.ts.size());
  put(record.sequence.data(), record.sequence.size());
}

RawRecord view(const std::byte* at, const Head& head) {
  const auto* shape = reinterpret_cast<const int64_t*>(at + sizeof(Head));
  const auto* values = reinterpret_cast<const float*>(shape + head.dims);
  const auto* texts = reinterpret_cast<const char*>(values + head.values);
  const char* ts = texts + head.checkpoint + head.dtype;
  return {{texts, head.checkpoint},
          head.token_idx,
          {texts + head.checkpoint, head.dtype},
          {shape, head.dims},
          {values, head.values},
          {ts, head.ts},
          nullptr,
          {ts + head.ts, head.sequence}};
}

// A process without signals, which a terminal sends to all processes of a job.
int fork_without_signals() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int child = fork();
  // In a group of its own: whoever kills that of this process must leave the child. Both say so, as
  // either may be the first.
  if (child >= 0) setpgid(child, 0);
  if (child != 0) pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return child;
}

}  // namespace

struct LogGuard::Shared {
  std::atomic<int64_t> file_size{0};  // without the pending records
  std::atomic<size_t> length{0};
  alignas(8) std::byte records[kCapacity];
};

std::vector<RawRecord> LogGuard::records_of(const Shared& shared) {
  std::vector<RawRecord> records;
  const size_t length = shared.length.load(std::memory_order_acquire);
  for (size_t at = 0; at < length;) {
    Head head;
    std::memcpy(&head, shared.records + at, sizeof(head));
    records.push_back(view(shared.records + at, head));
    at += head.bytes;
  }
  return records;
}

// Runs in the child of a process that may have had other threads. It uses the allocator, which
// glibc keeps usable after a fork, and locks nothing else that such a thread may have held.
void LogGuard::stand_guard(const Shared* shared, int log, int owner, const LogOptions& options) {
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
  if ((ended.revents & POLLIN) == 0) _exit(1);
  try {
    write_rest(*shared, log, options);
  } catch (...) {  // no memory, and no process is left that could report it
    _exit(1);
  }
  _exit(0);
}

void LogGuard::write_rest(const Shared& shared, int log, const LogOptions& options) {
  struct stat status {};
  if (fstat(log, &status) != 0) return;
  // The process may have ended within a write: of the text, so much is in the file.
  int64_t written = status.st_size - shared.file_size.load();
  std::string line;
  for (const RawRecord& record : records_of(shared)) {
    line.clear();
    append_log_line(line, record, options);
    auto done = static_cast<size_t>(std::clamp<int64_t>(written, 0, std::ssize(line)));
    written -= std::ssize(line);
    while (done < line.size()) {
      const ssize_t count = ::write(log, line.data() + done, line.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;  // at most a line is torn
      done += static_cast<size_t>(count);
    }
  }
}

std::unique_ptr<LogGuard> LogGuard::start(int fd, int64_t file_size, const LogOptions& options) {
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
  if (helper == 0) stand_guard(shared, fd, owner, options);
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

bool LogGuard::add(const RawRecord& record) {
  const size_t length = shared_->length.load(std::memory_order_relaxed);
  const size_t bytes = bytes_of(record);
  if (bytes > kLargest || bytes > kCapacity - length) return false;
  store(record, shared_->records + length);
  shared_->length.store(length + bytes, std::memory_order_release);
  return true;
}

std::vector<RawRecord> LogGuard::pending() const {
  return records_of(*shared_);
}

void LogGuard::clear(int64_t file_size) {
  shared_->length.store(0);  // first: at any moment, the helper writes nothing twice
  shared_->file_size.store(file_size);
}

}  // namespace assay
