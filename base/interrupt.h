#pragma once

#include <sys/types.h>

#include <string>

namespace assay {

// What ends work that the user no longer wants. No error: nothing but the program catches it, so
// what it passes through is cleaned up as after an error, and it reaches the end.
struct Interrupted {
  int signal = 0;
};

// Asks all work to end. For the program's signal handlers: may be called in one.
void interrupt(int signal) noexcept;

// The signal of interrupt(), 0 without one.
int interrupting_signal() noexcept;

// Throws Interrupted after interrupt(). What computes, reads or waits for long calls it now and
// then; ThreadPool::parallel_for() does.
void check_interrupted();

// After interrupt(), asks the process `child`, which the caller waits for, to end too.
void pass_interrupt_on(pid_t child) noexcept;

// Waits for the end of the process `child`, which runs `command`, and returns its wait status. An
// interrupt is passed on to it, and thrown as Interrupted once it has ended. Throws Error where the
// system does not keep how children end, as with SIGCHLD ignored: nobody knows then if it failed.
int wait_for_child(pid_t child, const std::string& command);

}  // namespace assay
