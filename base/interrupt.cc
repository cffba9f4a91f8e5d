#include "base/interrupt.h"

#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <cstring>

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

void pass_interrupt_on(pid_t child) noexcept {
  if (interrupting_signal() != 0) kill(child, SIGTERM);
}

int wait_for_child(pid_t child, const std::string& command) {
  int status = 0;
  while (waitpid(child, &status, 0) != child) {
    if (errno != EINTR) {
      check_interrupted();
      throw Error(std::string("cannot tell whether it failed: ") + std::strerror(errno), command,
                  "run it where SIGCHLD is not ignored");
    }
    pass_interrupt_on(child);
  }
  check_interrupted();
  return status;
}

}  // namespace assay
