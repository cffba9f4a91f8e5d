// What can happen to a log while it is written.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>

#include "tests/faults/fault_case.h"

namespace assay {
namespace {

using testing::HasSubstr;

class WrittenLog : public FaultCase {
 protected:
  // The log holds the first whole records of the run, and nothing else.
  void expect_whole_lines(const std::string& log) {
    const std::string cut = contents(log);
    EXPECT_EQ(run(long_run(path("whole.jsonl"))).exit_code, 0);
    EXPECT_TRUE(contents(path("whole.jsonl")).starts_with(cut));
    EXPECT_GT(cut.size(), 1000U);
    EXPECT_EQ(cut.back(), '\n');
    EXPECT_EQ(run({"compare", log, path("whole.jsonl")}).exit_code, 0);
    EXPECT_EQ(run({"compare", path("whole.jsonl"), log}).exit_code, 2) << "the rest is missing";
  }

  // Starts a long run and stops it in the middle of its log.
  pid_t start_and_stop(const std::string& log) {
    const pid_t child = start(long_run(log));
    EXPECT_TRUE(wait_for([&] { return size_of(log) > 10000; }));
    kill(child, SIGSTOP);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, WUNTRACED), child);
    EXPECT_TRUE(WIFSTOPPED(status)) << "it came too late to stop anything";
    return child;
  }
  Outcome go_on(pid_t child) {
    kill(child, SIGCONT);
    return finish(child);
  }
};

// Mounts an empty file system of 256 KiB at `folder`, for this process alone.
bool mount_small_disk(const std::string& folder) {
  const uid_t user = geteuid();
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  if (user != 0) {  // is root in the new namespace
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1\n";
  }
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("small", folder.c_str(), "tmpfs", 0, "size=256k") == 0;
}

TEST_F(WrittenLog, AFullDiskEndsItWithAWholeRecord) {
  const std::string disk = path("disk");
  std::filesystem::create_directory(disk);
  const std::string log = disk + "/log.jsonl";
  const auto arguments = long_run(log);
  // The disk is there for the child alone: it runs the program and copies the log out.
  const pid_t child = fork();
  if (child == 0) {
    if (!mount_small_disk(disk)) _exit(77);
    const Outcome outcome = finish(start(arguments));
    put("err", outcome.err);
    put("log.jsonl", contents(log));
    _exit(outcome.exit_code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "mount: no file system may be mounted here";
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_EQ(contents(path("err")), "assay: " + log +
                                       ": cannot write: No space left on device; the log ends with "
                                       "the last whole record\n");
  EXPECT_GT(size_of(path("log.jsonl")), 200000);
  expect_whole_lines(path("log.jsonl"));
}

// Stands for a quota, too: the same path in the writer. It meets a write in the middle of a record.
TEST_F(WrittenLog, ALimitOfItsSizeEndsItWithAWholeRecord) {
  for (const rlim_t bytes : {100000U, 100001U, 123456U, 250000U}) {
    SCOPED_TRACE(bytes);
    const std::string log = path("log.jsonl");
    const Outcome outcome = run_in(
        [&] {
          const rlimit limit = {bytes, bytes};
          setrlimit(RLIMIT_FSIZE, &limit);
        },
        long_run(log));
    expect_one_line(
        outcome, log + ": cannot write: File too large; the log ends with the last whole record");
    expect_whole_lines(log);
  }
}

TEST_F(WrittenLog, ADeviceWithoutRoomIsTold) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "system: no /dev/full here";
  expect_one_line(run(long_run("/dev/full")), "/dev/full: cannot write: No space left on device");
}

// No other output is left half written, nor anything beside it.
TEST_F(WrittenLog, OutputsWithoutRoomAreNotThere) {
  put("config.json", kConfig);
  const std::string copy = path("copy.jsonl");
  std::filesystem::copy_file(kLog, copy);
  const std::string q8 = kGolden + std::string("q8_0-ops.jsonl");
  const std::vector<std::vector<std::string>> commands = {
      {"compare", kLog, copy, "--format", "json", "-o", path("out.json")},
      {"compare", kLog, copy, "--format", "html", "-o", path("out.html")},
      {"synth", path("config.json"), "-o", path("out.gguf")},
      {"convert", q8, path("out.npz")},
      {"convert", q8, path("out.safetensors")},
      {"analyze", q8, "--numpy", path("out2.npz")},
  };
  const auto before = files();
  for (const auto& command : commands) {
    SCOPED_TRACE(testing::PrintToString(command));
    const Outcome outcome = run_in(
        [] {
          const rlimit limit = {1000, 1000};
          setrlimit(RLIMIT_FSIZE, &limit);
        },
        command);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(files(), before);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("File too large"));
  }
}

TEST_F(WrittenLog, RemovedWhileItIsWrittenItIsThereAgain) {
  const std::string log = path("log.jsonl");
  const pid_t child = start_and_stop(log);
  std::filesystem::remove(log);
  const Outcome outcome = go_on(child);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err,
              HasSubstr("assay: warning: " + log +
                        ": was removed while it was written; all of it is in " + log + " now\n"));
  run(long_run(path("whole.jsonl")));
  EXPECT_EQ(contents(log), contents(path("whole.jsonl")));
}

TEST_F(WrittenLog, RemovedForAnotherFileItIsBesideThat) {
  const std::string log = path("log.jsonl");
  const pid_t child = start_and_stop(log);
  std::filesystem::remove(log);
  put("log.jsonl", "of somebody else");
  const Outcome outcome = go_on(child);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("all of it is in " + log + ".1 now\n"));
  EXPECT_EQ(contents(log), "of somebody else");
  run(long_run(path("whole.jsonl")));
  EXPECT_EQ(contents(log + ".1"), contents(path("whole.jsonl")));
}

TEST_F(WrittenLog, RemovedAndInterruptedItIsThereAgain) {
  const std::string log = path("log.jsonl");
  const pid_t child = start_and_stop(log);
  std::filesystem::remove(log);
  kill(child, SIGINT);
  EXPECT_EQ(go_on(child).exit_code, 130);
  expect_whole_lines(log);
}

TEST_F(WrittenLog, RemovedWithItsFolderItIsToldToBeLost) {
  std::filesystem::create_directory(path("folder"));
  const std::string log = path("folder/log.jsonl");
  const pid_t child = start_and_stop(log);
  std::filesystem::remove_all(path("folder"));
  expect_one_line(go_on(child), log +
                                    ": was removed while it was written, and cannot be written "
                                    "again: No such file or directory");
}

// What a rotation of logs does.
TEST_F(WrittenLog, MovedWhileItIsWrittenItGoesOnWhereItIs) {
  const std::string log = path("log.jsonl");
  const pid_t child = start_and_stop(log);
  std::filesystem::rename(log, path("moved.jsonl"));
  EXPECT_EQ(go_on(child).exit_code, 0);
  run(long_run(path("whole.jsonl")));
  EXPECT_EQ(contents(path("moved.jsonl")), contents(path("whole.jsonl")));
}

TEST_F(WrittenLog, ASecondRunIsRefusedAndHarmsNothing) {
  const std::string log = path("log.jsonl");
  const pid_t child = start_and_stop(log);
  const std::string before = contents(log);
  expect_error(long_run(log), log +
                                  ": another writer has this log open; give each running engine a "
                                  "log of its own");
  EXPECT_EQ(contents(log), before);
  EXPECT_EQ(go_on(child).exit_code, 0);
  run(long_run(path("whole.jsonl")));
  EXPECT_EQ(contents(log), contents(path("whole.jsonl")));
}

// Breaks if two that begin at the same moment both believed that the log is theirs.
TEST_F(WrittenLog, OfTwoRunsAtOnceOneWritesIt) {
  const std::string log = path("log.jsonl");
  run(long_run(path("whole.jsonl")));
  for (int i = 0; i < 10; ++i) {
    const pid_t first = start(long_run(log));
    const pid_t second = start(long_run(log));
    int status[2];
    waitpid(first, &status[0], 0);
    waitpid(second, &status[1], 0);
    const int good = (WEXITSTATUS(status[0]) == 0 ? 1 : 0) + (WEXITSTATUS(status[1]) == 0 ? 1 : 0);
    EXPECT_GE(good, 1);
    EXPECT_THAT(WEXITSTATUS(status[0]), testing::AnyOf(0, 2));
    EXPECT_THAT(WEXITSTATUS(status[1]), testing::AnyOf(0, 2));
    EXPECT_EQ(contents(log), contents(path("whole.jsonl")));
  }
}

TEST_F(WrittenLog, AReaderThatClosesItsPipeIsTold) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const pid_t child = start(long_run(pipe));
  const int reader = open(pipe.c_str(), O_RDONLY);
  std::string log(20000, '\0');
  size_t held = 0;
  for (ssize_t got = 1; held < log.size() && got > 0; held += static_cast<size_t>(got)) {
    got = ::read(reader, log.data() + held, log.size() - held);
  }
  EXPECT_EQ(held, log.size());
  close(reader);
  const Outcome outcome = finish(child);
  expect_one_line(outcome, pipe + ": cannot write: Broken pipe");
  run(long_run(path("whole.jsonl")));
  EXPECT_TRUE(contents(path("whole.jsonl")).starts_with(log));
}

}  // namespace
}  // namespace assay
