#include "base/interrupt.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/error.h"

namespace assay {
namespace {

// State of the whole process, as signals are.
std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler sets it");

}  // namespace

void interrupt(int signal) noexcept {
  received.store(signal, std::memory_order_relaxed);
}

int interrupting_signal() noexcept {
  return received.load(std::memory_order_relaxed);
}

void check_interrupted() {
  if (const int signal = interrupting_signal(); signal != 0) throw Interrupted{signal};
}

bool pass_interrupt_on(pid_t child) noexcept {
  return interrupting_signal() != 0 && kill(child, SIGTERM) == 0;
}

// Looks again and again: a call that waits would miss a signal that comes just before it.
int wait_for_child(pid_t child, const std::string& command) {
  constexpr long kLongest = 20'000'000;  // ns
  timespec pause = {0, 500'000};
  int status = 0;
  pid_t ended = 0;
  bool asked = false;  // once: the child may need its time to end
  while ((ended = waitpid(child, &status, WNOHANG)) != child) {
    if (ended < 0 && errno != EINTR) {
      check_interrupted();
      throw Error(std::string("cannot tell whether it failed: ") + std::strerror(errno), command,
                  "run it where SIGCHLD is not ignored");
    }
    asked = asked || pass_interrupt_on(child);
    nanosleep(&pause, nullptr);
    pause.tv_nsec = std::min(2 * pause.tv_nsec, kLongest);
  }
  check_interrupted();
  return status;
}

}  // namespace assay
