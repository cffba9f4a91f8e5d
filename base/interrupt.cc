#include "base/interrupt.h"

#include <signal.h>

#include <atomic>

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

}  // namespace assay
