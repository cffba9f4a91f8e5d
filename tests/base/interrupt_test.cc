#include "base/interrupt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

pid_t child_that_exits_with(int code) {
  const pid_t child = fork();
  if (child == 0) _exit(code);
  return child;
}

TEST(WaitForChild, ReturnsTheWaitStatus) {
  for (const int code : {0, 3}) {
    const int status = wait_for_child(child_that_exits_with(code), "oracle");
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), code);
  }
}

// Breaks if a child of unknown exit status were taken for one that succeeded.
TEST(WaitForChild, AnUnknownExitStatusIsAnError) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  const pid_t child = child_that_exits_with(3);
  EXPECT_THAT([&] { wait_for_child(child, "oracle"); },
              ThrowsMessage<Error>(HasSubstr("oracle: cannot tell whether it failed: No child "
                                             "processes; run it where SIGCHLD is not ignored")));
  signal(SIGCHLD, before);
}

}  // namespace
}  // namespace assay
