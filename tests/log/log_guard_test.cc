#include "assay/log/log_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>

#include "tests/log/unlocked.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

class LogGuardTest : public TemporaryFolder {
 protected:
  // The log after a process that did `work` on it was killed, and its guard has ended.
  std::string after_kill(const std::function<void(int fd, LogGuard& guard)>& work) {
    const std::string log = path("log.jsonl");
    const pid_t child = fork();
    if (child == 0) {
      const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
      if (flock(fd, LOCK_EX | LOCK_NB) != 0) _exit(1);
      const auto guard = LogGuard::start(fd, 0);
      if (guard) work(fd, *guard);
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    wait_until_unlocked(log);
    return contents(log);
  }
};

void write_all(int fd, std::string_view text) {
  if (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(1);
}

TEST_F(LogGuardTest, WritesWhatAKilledProcessLeft) {
  EXPECT_EQ(after_kill([](int, LogGuard& guard) {
              guard.add("first\n");
              guard.add("second\n");
            }),
            "first\nsecond\n");
}

// Breaks if a kill within a write doubled or tore a record.
TEST_F(LogGuardTest, WritesTheRestOfAWriteThatAKillEnded) {
  EXPECT_EQ(after_kill([](int fd, LogGuard& guard) {
              guard.add("first\n");
              guard.add("second\n");
              write_all(fd, "first\nsec");
            }),
            "first\nsecond\n");
}

TEST_F(LogGuardTest, WritesNothingTwice) {
  EXPECT_EQ(after_kill([](int fd, LogGuard& guard) {
              guard.add("first\n");
              write_all(fd, guard.pending());
              guard.clear(6);
              guard.add("second\n");
              write_all(fd, guard.pending());
            }),
            "first\nsecond\n");
}

TEST_F(LogGuardTest, RefusesALineThatDoesNotFit) {
  const int fd = open(path("log.jsonl").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const auto guard = LogGuard::start(fd, 0);
  ASSERT_NE(guard, nullptr);
  const std::string line(40000, 'x');
  EXPECT_TRUE(guard->add(line));
  EXPECT_FALSE(guard->add(line));
  EXPECT_EQ(guard->pending(), line);
  guard->clear(40000);
  EXPECT_TRUE(guard->add(line));
  close(fd);
}

// Breaks if a reader of a pipe, or a writer that waits for another file's lock, waited for a guard.
TEST_F(LogGuardTest, KeepsNoOtherFileOpen) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int fd = open(path("log.jsonl").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const auto guard = LogGuard::start(fd, 0);
  ASSERT_NE(guard, nullptr);
  close(ends[1]);
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
  close(fd);
}

}  // namespace
}  // namespace assay
