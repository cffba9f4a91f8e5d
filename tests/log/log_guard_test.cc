#include "assay/log/log_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/log/unlocked.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

const LogOptions kOptions = {.team = "ours", .head_values = 2, .summary = true, .sketch = true};

// A record of `width` values, and its line.
class Logged {
 public:
  explicit Logged(std::string name, size_t width = 3)
      : name_(std::move(name)), shape_{1, static_cast<int64_t>(width)}, values_(width, 0.1F) {}

  RawRecord record() const { return {name_, 7, "f32", shape_, values_, kTime, nullptr, "s"}; }
  std::string line() const {
    std::string text;
    append_log_line(text, record(), kOptions);
    return text;
  }

 private:
  static constexpr std::string_view kTime = "\"2026-11-21T22:50:08.123456Z\"";
  std::string name_;
  std::vector<int64_t> shape_;
  std::vector<float> values_;
};

const Logged kFirst("first");
const Logged kSecond("second", 777);

class LogGuardTest : public TemporaryFolder {
 protected:
  // The log after a process that did `work` on it was killed, and its guard has ended.
  std::string after_kill(const std::function<void(int fd, LogGuard& guard)>& work) {
    const std::string log = path("log.jsonl");
    const pid_t child = fork();
    if (child == 0) {
      if (group_) setpgid(0, 0);
      const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
      if (flock(fd, LOCK_EX | LOCK_NB) != 0) _exit(1);
      const auto guard = LogGuard::start(fd, 0, kOptions);
      if (guard) work(fd, *guard);
      kill(group_ ? 0 : getpid(), SIGKILL);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    wait_until_unlocked(log);
    return contents(log);
  }

  bool group_ = false;  // whether the whole group of the process is killed
};

void write_all(int fd, std::string_view text) {
  if (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(1);
}

TEST_F(LogGuardTest, WritesWhatAKilledProcessLeft) {
  EXPECT_EQ(after_kill([](int, LogGuard& guard) {
              guard.add(kFirst.record());
              guard.add(kSecond.record());
            }),
            kFirst.line() + kSecond.line());
}

// Breaks if the guard were in the group of the process, which a shell and timeout kill.
TEST_F(LogGuardTest, OutlivesTheGroupOfTheProcess) {
  group_ = true;
  EXPECT_EQ(after_kill([](int, LogGuard& guard) { guard.add(kFirst.record()); }), kFirst.line());
}

// Breaks if a kill within a write doubled or tore a record: at each byte of two.
TEST_F(LogGuardTest, WritesTheRestOfAWriteThatAKillEnded) {
  const std::string whole = kFirst.line() + kSecond.line();
  for (size_t written = 0; written <= whole.size(); written += 37) {
    EXPECT_EQ(after_kill([&](int fd, LogGuard& guard) {
                guard.add(kFirst.record());
                guard.add(kSecond.record());
                write_all(fd, std::string_view(whole).substr(0, written));
              }),
              whole)
        << written;
    std::filesystem::remove(path("log.jsonl"));
  }
}

TEST_F(LogGuardTest, WritesNothingTwice) {
  EXPECT_EQ(after_kill([](int fd, LogGuard& guard) {
              guard.add(kFirst.record());
              write_all(fd, kFirst.line());
              guard.clear(std::ssize(kFirst.line()));
              guard.add(kSecond.record());
              write_all(fd, kSecond.line());
            }),
            kFirst.line() + kSecond.line());
}

TEST_F(LogGuardTest, RefusesRecordsThatDoNotFit) {
  const int fd = open(path("log.jsonl").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const auto guard = LogGuard::start(fd, 0, kOptions);
  ASSERT_NE(guard, nullptr);
  EXPECT_FALSE(guard->add(Logged("large", 100000).record()));
  const Logged usual("usual", 5000);
  size_t taken = 0;
  while (taken < 1000 && guard->add(usual.record())) ++taken;
  EXPECT_GT(taken, 4U);
  EXPECT_LT(taken, 1000U);
  const std::vector<RawRecord> pending = guard->pending();
  ASSERT_EQ(pending.size(), taken);
  for (const RawRecord& record : pending) {
    std::string text;
    append_log_line(text, record, kOptions);
    ASSERT_EQ(text, usual.line());
  }
  guard->clear(0);
  EXPECT_TRUE(guard->pending().empty());
  EXPECT_TRUE(guard->add(usual.record()));
  close(fd);
}

// Breaks if a reader of a pipe, or a writer that waits for another file's lock, waited for a guard.
TEST_F(LogGuardTest, KeepsNoOtherFileOpen) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int fd = open(path("log.jsonl").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const auto guard = LogGuard::start(fd, 0, kOptions);
  ASSERT_NE(guard, nullptr);
  close(ends[1]);
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
  close(fd);
}

}  // namespace
}  // namespace assay
