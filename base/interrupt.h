#pragma once

#include <sys/types.h>

#include <string>

namespace assay {

// Ends work that the user has interrupted. Not an Error: only the program catches it, so it passes
// through all other code, which cleans up as after an error.
struct Interrupted {
  int signal = 0;
};

// Asks all work to end. For the program's signal handlers.
void interrupt(int signal) noexcept;

// The signal of interrupt(), 0 without one.
int interrupting_signal() noexcept;

// Throws Interrupted after interrupt(). Code that computes, reads or waits for long calls it now
// and then; ThreadPool::parallel_for() does.
void check_interrupted();

// After interrupt(), asks the process `child`, which the caller waits for, to end too; whether it
// did.
bool pass_interrupt_on(pid_t child) noexcept;

// Waits for the end of the process `child`, which runs `command`, and returns its wait status. An
// interrupt is passed on to it, and thrown as Interrupted once it has ended. Throws Error if the
// system does not keep the exit status of children, as with SIGCHLD ignored: then it is unknown
// whether it failed.
int wait_for_child(pid_t child, const std::string& command);

}  // namespace assay
