// The header against LogWriter and against the ways in which a process ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <span>
#include <thread>

#include "assay/log/json_text.h"
#include "assay/log/log_reader.h"
#include "assay/log/log_writer.h"
#include "assay/log/record_text.h"
#include "tests/compare/log_files.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"
#include "tests/tap/tap_case.h"

namespace assay {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// Reads a log whose last line may be torn; a line torn elsewhere is an error of the reader's.
std::set<int64_t> tokens_in(const std::string& path) {
  std::set<int64_t> tokens;
  LogReader reader(path);
  while (const Record* record = reader.next()) {
    EXPECT_TRUE(record->has_all_values());
    tokens.insert(record->token_idx);
  }
  return tokens;
}

TEST_F(TapTest, WritesTheBytesOfLogWriter) {
  expect_records(program_path("tap_engine"));
}

// The time alone differs from a log without, and stands where LogWriter has it.
TEST_F(TapTest, RecordsSayWhenTheyWereLogged) {
  const Environment without = {{"ORCH_LOG_FILE", log()}, {"ASSAY_LOG_CHECKPOINTS", "ops"}};
  ASSERT_EQ(run_engine("records", without).first, 0);
  const std::string bare = contents(log());
  Environment with = without;
  with["ASSAY_LOG_TS"] = "on";
  expect_times([&] { ASSERT_EQ(run_engine("records", with).first, 0); }, log(), bare);
  with["ASSAY_LOG_TS"] = "";
  expect_times([&] { ASSERT_EQ(run_engine("records", with).first, 0); }, log(), bare);
  with["ASSAY_LOG_TS"] = "no";
  EXPECT_THAT(run_engine("records", with).second, HasSubstr("ASSAY_LOG_TS is neither on nor off"));
}

// Breaks if an engine's processor mode changed the summary of its tensors, or was not restored.
TEST_F(TapTest, DenormalsAreSummarisedWhereTheProcessorFlushesThem) {
  expect_denormals(program_path("tap_engine"));
}

TEST_F(TapTest, DenormalsAreSummarisedInAnEngineBuiltWithFastMath) {
  if (run_program({"which", "gcc"}).first != 0) {
    GTEST_SKIP() << "program: gcc is not installed";
  }
  const std::string engine = folder_ + "/engine";
  const auto [exit_code, text] =
      run_program({"gcc", "-O3", "-ffast-math", "-pthread", "-I" + source_path("tap"),
                   source_path("tests/tap/engine.c"), "-o", engine, "-lm"});
  ASSERT_EQ(exit_code, 0) << text;
  expect_denormals(engine);
}

// The reader is the judge: 0x3C00 is 1 as a half, 0.0078125 as a bfloat16.
TEST_F(TapTest, NarrowTypesAreWidened) {
  run_engine("records", {{"ORCH_LOG_FILE", log()}, {"ASSAY_LOG_CHECKPOINTS", "ops"}});
  LogReader reader(log());
  std::map<std::string, Record> records;
  while (const Record* record = reader.next()) records[record->dtype] = *record;
  const std::vector<float>& half = records.at("f16").values;
  EXPECT_EQ(half.at(0), 1.0F);
  EXPECT_EQ(half.at(1), -0x1p-24F);
  EXPECT_EQ(half.at(2), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(half.at(3)));
  EXPECT_EQ(half.at(4), 0.0F);
  EXPECT_EQ(half.at(5), 65504.0F);
  EXPECT_EQ(records.at("bf16").values.at(0), 0.0078125F);
}

// What `assay convert` writes of a record is what the header wrote.
TEST_F(TapTest, ARecordSaysWhereItBelongs) {
  const auto [exit_code, said] = run_engine("coordinates", {{"ORCH_LOG_FILE", log()},
                                                            {"ASSAY_LOG_CHECKPOINTS", "ops"},
                                                            {"ORCH_LOG_VALUES", "all"},
                                                            {"ASSAY_LOG_TS", "off"}});
  ASSERT_EQ(exit_code, 0);
  EXPECT_THAT(said,
              HasSubstr("'x' cannot be logged; give a sequence that is not empty, a known phase, "
                        "and ranks from 0 to 32767"));
  EXPECT_THAT(said, EndsWith("-1-1-1-1-1-1-1-1-1-1-1-1"));
  std::string written;
  std::vector<Record> records;
  LogReader reader(log());
  while (const Record* record = reader.next()) {
    append_record_line(written, *record);
    records.push_back(*record);
  }
  EXPECT_EQ(written, contents(log()));
  ASSERT_EQ(records.size(), 5);
  EXPECT_FALSE(records[1].step || records[1].phase || records[1].rank || records[1].dims);
  EXPECT_EQ(records[2].sequence, "chat \"7\"");
  EXPECT_EQ(records[2].step, 0);
  EXPECT_EQ(records[2].phase, Phase::kPrefill);
  EXPECT_EQ(records[2].rank->tp, 1);
  EXPECT_EQ(records[2].rank->ep, 2);
  EXPECT_EQ(records[2].dims, "t h[tp]");
  EXPECT_EQ(records[3].phase, Phase::kDecode);
  EXPECT_EQ(records[3].rank->pp, 3);
}

TEST_F(TapTest, AHeaderNamesTheSequencesOfABatch) {
  const auto [exit_code, said] = run_engine("batch", {{"ORCH_LOG_FILE", log()}});
  ASSERT_EQ(exit_code, 0);
  EXPECT_THAT(said, EndsWith("-1-1-1"));
  const char* sequences =
      R"(},"tokens":[[1,2,3],[4],[]],"sequences":["0","chat","none"],"engine":"e")";
  EXPECT_THAT(contents(log()), HasSubstr(sequences));
  EXPECT_THAT(contents(log()), HasSubstr(R"("rank":{"tp":0,"pp":0,"ep":0,"sp":3},)"));
}

TEST_F(TapTest, NothingIsLoggedUnlessTheEnvironmentAsks) {
  EXPECT_EQ(run_engine("ask", {}).second, "0000");
  EXPECT_EQ(run_engine("ask", {{"ORCH_LOG_FILE", ""}}).second, "0000");
  EXPECT_EQ(run_engine("ask", {{"ORCH_LOG_FILE", log()}}).second, "1100");
  const auto ask = [&](const std::string& set) {
    return run_engine("ask", {{"ORCH_LOG_FILE", log()}, {"ASSAY_LOG_CHECKPOINTS", set}}).second;
  };
  EXPECT_EQ(ask("layers"), "1110");
  EXPECT_EQ(ask("ops"), "1111");
  EXPECT_EQ(ask(" layer_7_* , logits"), "1111");
}

// Breaks if a mistyped name logged nothing without a message.
TEST_F(TapTest, ReportsAnItemThatMatchesNoCheckpoint) {
  const auto ask = [&](const std::string& set, const std::string& mode = "ask") {
    return run_engine(mode, {{"ORCH_LOG_FILE", log()}, {"ASSAY_LOG_CHECKPOINTS", set}});
  };
  const auto [exit_code, text] = ask("layr_*");
  EXPECT_EQ(exit_code, 0);
  EXPECT_THAT(text, StartsWith("assay_tap: " + log() +
                               ": 'layr_*' of ASSAY_LOG_CHECKPOINTS matches no checkpoint: nothing "
                               "was logged; the engine has 'l"));  // the first that it asks for
  EXPECT_THAT(text, EndsWith("'; give logits, layers, ops or globs\n1000"));
  EXPECT_THAT(ask("logits,layer_8_*,layr_*").second,
              StartsWith("assay_tap: " + log() +
                         ": 'layer_8_*' of ASSAY_LOG_CHECKPOINTS matches no checkpoint; the "
                         "engine has 'l"));
  // What a set names beside others is not missed, nor what matches the same as another item.
  EXPECT_EQ(ask("layers,layer_7_*,*,logits").second, "1111");
  std::string many = "logits";
  for (int i = 0; i < 100; ++i) many += ",logits";
  EXPECT_EQ(ask(many).second, "1100");
  EXPECT_THAT(ask("layr_*," + many).second, StartsWith("assay_tap: "));
  // Told once, when the log is closed, and not of a log that is never asked for anything.
  const std::string closed = ask("half,none", "closed").second;
  EXPECT_EQ(closed.find("'none' of"), closed.rfind("'none' of")) << closed;
  EXPECT_EQ(ask("layr_*", "error").second, "0");
}

// One line on standard error, and the engine goes on.
TEST_F(TapTest, ReportsAnInvalidEnvironment) {
  EXPECT_EQ(
      run_engine("ask", {{"ORCH_LOG_FILE", log()}, {"ORCH_LOG_VALUES", "ten"}}),
      std::pair(0, "assay_tap: " + log() +
                       ": ORCH_LOG_VALUES is not a count of values; give a number of 0 or more, "
                       "or all\n0000"));
  EXPECT_THAT(
      run_engine("ask", {{"ORCH_LOG_FILE", log()}, {"ASSAY_LOG_CHECKPOINTS", "a,,b"}}).second,
      HasSubstr("ASSAY_LOG_CHECKPOINTS has an empty item"));
  EXPECT_THAT(run_engine("ask", {{"ORCH_LOG_FILE", folder_ + "/none/log"}}).second,
              HasSubstr("/none/log: cannot open the log for writing: No such file"));
}

// Breaks if a tap emptied the log that another engine is writing.
TEST_F(TapTest, ASecondWriterIsRefusedAndDestroysNothing) {
  LogWriter writer(log(), {});
  writer.write("x", 0, std::vector<float>{1});
  const std::string before = contents(log());
  EXPECT_THAT(run_engine("ask", {{"ORCH_LOG_FILE", log()}}).second, HasSubstr("another writer"));
  EXPECT_EQ(contents(log()), before);
}

// Breaks if a question emptied the log, be it an older one or the one just ended.
TEST_F(TapTest, OnlyARecordEmptiesTheLog) {
  std::ofstream(log()) << "older\n";
  EXPECT_EQ(run_engine("ask", {{"ORCH_LOG_FILE", log()}}).second, "1100");
  EXPECT_EQ(contents(log()), "older\n");
  const Environment records = {{"ORCH_LOG_FILE", log()},
                               {"ASSAY_LOG_CHECKPOINTS", "l*,half,brain"}};
  ASSERT_EQ(run_engine("records", records).first, 0);
  const std::string whole = contents(log());
  EXPECT_THAT(whole, testing::StartsWith("{\"assay\":1"));
  EXPECT_EQ(run_engine("closed", records), std::pair(0, std::string("011110")));
  EXPECT_TRUE(contents(log()) == whole) << "the log has changed";
}

TEST_F(TapTest, ToAskForAnErrorOpensNoLog) {
  EXPECT_EQ(run_engine("error", {{"ORCH_LOG_FILE", log()}}), std::pair(0, std::string("0")));
  EXPECT_FALSE(std::filesystem::exists(log()));
}

// Breaks if one invalid call ended the log, or if each one were reported.
TEST_F(TapTest, AnInvalidCallIsReportedOnceAndLoggingContinues) {
  const Environment all = {{"ORCH_LOG_FILE", log()}, {"ASSAY_LOG_CHECKPOINTS", "ops"}};
  EXPECT_EQ(
      run_engine("wrong", all),
      std::pair(0, "assay_tap: " + log() +
                       ": 'x' cannot be logged; give a name, a token_idx of 0 or more, values, "
                       "a shape of at most 8 dimensions, a known type\n"
                       "1-1-1-1-1-1-1-11-11-1-1101"));
  EXPECT_THAT(tokens_in(log()), testing::ElementsAre(0, 2));
}

// Breaks if the engine ended because the pipe for messages is closed, or because a message would
// exceed the file size limit.
TEST_F(TapTest, AMessageThatCannotBeWrittenStopsNothing) {
  const auto run = [&](const std::string& set_up, const std::string& path,
                       const std::string& mode) {
    return run_program({"bash", "-c",
                        "(" + set_up + "; ORCH_LOG_FILE=" + path +
                            " ASSAY_LOG_CHECKPOINTS=ops exec " + program_path("tap_engine") + " " +
                            mode + ") | cat; exit ${PIPESTATUS[0]}"});
  };
  const std::string unread = "exec 2> >(exit); wait $!";
  [[maybe_unused]] const std::string at_limit = "exec 2> " + folder_ + "/errors; ulimit -f 0";
  EXPECT_EQ(run(unread, log(), "wrong"), std::pair(0, std::string("1-1-1-1-1-1-1-11-11-1-1101")));
  EXPECT_EQ(run(unread, folder_ + "/none/log", "ask"), std::pair(0, std::string("0000")));
#if !defined(__SANITIZE_THREAD__)  // whose runtime writes a file of its own before main()
  EXPECT_EQ(run(at_limit, folder_ + "/none/log", "ask"), std::pair(0, std::string("0000")));
#endif
}

// Breaks if a child that lives on kept its parent from a new log, or gave its lock away.
TEST_F(TapTest, ALogIsBegunAnewBesideForkedChildren) {
  const Environment all = {{"ORCH_LOG_FILE", log()}, {"ASSAY_LOG_CHECKPOINTS", "ops"}};
  EXPECT_EQ(run_engine("reopen", all), std::pair(0, std::string("01")));
  EXPECT_THAT(tokens_in(log()), testing::ElementsAre(1));
}

// Breaks if a parent's close() released the log that its child writes, or if it were never
// released.
TEST_F(TapTest, ALogIsFreeWhenTheLastOfItsWritersHasClosedIt) {
  const Environment all = {{"ORCH_LOG_FILE", log()}, {"ASSAY_LOG_CHECKPOINTS", "ops"}};
  EXPECT_EQ(run_engine("beside", all),
            std::pair(0, "assay_tap: " + log() +
                             ": another writer has this log open; give each running engine a log "
                             "of its own\n0-11"));
  EXPECT_THAT(tokens_in(log()), testing::ElementsAre(4));
}

TEST_F(TapTest, AForkedProcessBeginsALogAnewBesideItsOwnChild) {
  const Environment all = {{"ORCH_LOG_FILE", log()}, {"ASSAY_LOG_CHECKPOINTS", "ops"}};
  EXPECT_EQ(run_engine("daemon", all).first, 0);
  EXPECT_THAT(tokens_in(log()), testing::ElementsAre(1));
}

// Breaks if one process emptied the log after another had written to it.
TEST_F(TapTest, ProcessesForkedBeforeTheFirstRecordEmptyTheLogOnce) {
  for (int round = 0; round < 20; ++round) {
    std::ofstream(log()) << "older\n";
    const Environment all = {{"ORCH_LOG_FILE", log()}, {"ASSAY_LOG_CHECKPOINTS", "ops"}};
    ASSERT_EQ(run_engine("early", all).first, 0);
    std::set<int64_t> tokens;
    LogReader reader(log());
    while (const Record* record = reader.next()) tokens.insert(record->token_idx);
    ASSERT_THAT(tokens, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  }
}

TEST_F(TapTest, AFullDiskIsReportedOnceAndStopsNothing) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "system: no /dev/full here";
  const auto [exit_code, text] =
      run_engine("full", {{"ORCH_LOG_FILE", "/dev/full"}, {"ASSAY_LOG_CHECKPOINTS", "ops"}});
  EXPECT_EQ(exit_code, 0);
  EXPECT_EQ(
      text,
      "assay_tap: /dev/full: cannot write: No space left on device; the log ends with the last "
      "whole record\n");
}

// Breaks if SIGPIPE ended the engine, or if one from another sender were consumed.
TEST_F(TapTest, AClosedPipeStopsNothing) {
  const std::string pipe = folder_ + "/pipe";
  for (const std::string mode : {"full", "held"}) {
    const auto [exit_code, text] =
        run_program({"bash", "-c",
                     "rm -f " + pipe + "; mkfifo " + pipe + "; head -c 100 " + pipe +
                         " > /dev/null & ORCH_LOG_FILE=" + pipe + " ASSAY_LOG_CHECKPOINTS=ops " +
                         program_path("tap_engine") + " " + mode + " 2>&1 > " + folder_ + "/out"});
    EXPECT_EQ(exit_code, 0) << mode << ": " << text;
    EXPECT_EQ(text, "assay_tap: " + pipe +
                        ": cannot write: Broken pipe; the log ends with the last whole record\n");
  }
}

// Breaks if SIGXFSZ ended the engine, or if a record cut short by a full disk stayed in the file.
TEST_F(TapTest, ARecordThatDoesNotFitIsTakenBack) {
  const auto [exit_code, text] =
      run_program({"bash", "-c",
                   "ulimit -f 100; ORCH_LOG_FILE=" + log() +
                       " ORCH_LOG_VALUES=all ASSAY_LOG_CHECKPOINTS=ops exec " +
                       program_path("tap_engine") + " full"});
  EXPECT_EQ(exit_code, 0) << text;
  EXPECT_THAT(text, HasSubstr("File too large"));
  LogReader reader(log());
  int64_t count = 0;
  while (reader.next() != nullptr) ++count;
  EXPECT_GT(count, 0);
  EXPECT_THAT(reader.warnings(), testing::IsEmpty());
}

// A running engine whose records, once finished, come through a pipe.
class Running {
 public:
  Running(const std::string& mode, const std::string& log) {
    int ends[2];
    if (pipe(ends) != 0) return;
    const std::string engine = program_path("tap_engine");
    child_ = fork();
    if (child_ == 0) {
      setenv("ORCH_LOG_FILE", log.c_str(), 1);
      setenv("ORCH_LOG_VALUES", "all", 1);
      setenv("ASSAY_LOG_CHECKPOINTS", "ops", 1);
      dup2(ends[1], STDOUT_FILENO);
      const rlimit no_core = {0, 0};
      setrlimit(RLIMIT_CORE, &no_core);
      execl(engine.c_str(), engine.c_str(), mode.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    out_ = ends[0];
    reader_ = std::thread([this] {
      for (int64_t token; read(out_, &token, sizeof(token)) == sizeof(token);) {
        finished_.insert(token);
      }
    });
  }
  void kill() const { ::kill(child_, SIGKILL); }
  // The tokens of the records that had returned.
  std::set<int64_t> wait(int* status) {
    waitpid(child_, status, 0);
    reader_.join();
    close(out_);
    return finished_;
  }

 private:
  pid_t child_ = -1;
  int out_ = -1;
  std::thread reader_;
  std::set<int64_t> finished_;
};

void expect_contains(const std::set<int64_t>& all, const std::set<int64_t>& part) {
  for (const int64_t token : part) EXPECT_TRUE(all.contains(token)) << token << " was lost";
}

TEST_F(TapTest, KillAtAnyMomentLosesNoFinishedRecord) {
  std::mt19937 random(7);
  size_t records = 0;
  // Where the program takes long to start, as under a sanitizer, more of the kills come too early.
  for (int round = 0; round < 25 || (records <= 100 && round < 500); ++round) {
    Running engine("loop", log());
    usleep(static_cast<unsigned>(random() % 60000));
    engine.kill();
    int status = 0;
    const std::set<int64_t> finished = engine.wait(&status);
    EXPECT_TRUE(WIFSIGNALED(status));
    records += finished.size();
    if (!finished.empty()) expect_contains(tokens_in(log()), finished);
  }
  EXPECT_GT(records, 100U);
}

TEST_F(TapTest, ExitAndAbortLoseNoFinishedRecord) {
  for (const std::string mode : {"exit", "abort"}) {
    Running engine(mode, log());
    int status = 0;
    const std::set<int64_t> finished = engine.wait(&status);
    EXPECT_EQ(WIFSIGNALED(status), mode == "abort");
    EXPECT_GE(finished.size(), 100U);
    EXPECT_EQ(tokens_in(log()), finished);
  }
}

// Breaks if a child were left a lock without an owner, or if lines of two processes were mixed.
TEST_F(TapTest, ForkedChildrenLogToo) {
  Running engine("fork", log());
  int status = 0;
  const std::set<int64_t> finished = engine.wait(&status);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const std::set<int64_t> tokens = tokens_in(log());
  expect_contains(tokens, finished);
  for (int64_t token = 1000; token < 1200; ++token) EXPECT_TRUE(tokens.contains(token)) << token;
}

// The compilers that engines are built with.
struct Compiler {
  const char* name;
  std::vector<std::string> command;
};

class TapCompiler : public TapTest, public testing::WithParamInterface<Compiler> {};

TEST_P(TapCompiler, BuildsWithoutAWarningAndWritesTheSame) {
  std::vector<std::string> command = GetParam().command;
  if (run_program({"which", command[0]}).first != 0) {
    GTEST_SKIP() << (command[0] == "nvcc" ? "nvcc: " : "program: ") << command[0]
                 << " is not installed";
  }
  const std::string engine = folder_ + "/engine";
  command.insert(command.end(), {"-O2", "-I" + source_path("tap"),
                                 source_path("tests/tap/engine.c"), "-o", engine, "-lm"});
  const auto [exit_code, text] = run_program(command);
  ASSERT_EQ(exit_code, 0) << text;
  expect_records(engine);
}

std::vector<std::string> strict(std::vector<std::string> command) {
  command.insert(command.end(), {"-pthread", "-pedantic", "-Wall", "-Wextra", "-Wconversion",
                                 "-Wshadow", "-Werror"});
  return command;
}

INSTANTIATE_TEST_SUITE_P(
    All, TapCompiler,
    testing::Values(Compiler{"GccC99", strict({"gcc", "-std=c99"})},
                    Compiler{"GccC11Native", strict({"gcc", "-std=gnu11", "-march=native"})},
                    Compiler{"GccCpp11", strict({"g++", "-x", "c++", "-std=c++11"})},
                    Compiler{"GccCpp20", strict({"g++", "-x", "c++", "-std=c++20"})},
                    Compiler{"ClangC99", strict({"clang", "-std=c99"})},
                    Compiler{"ClangCpp20", strict({"clang++", "-x", "c++", "-std=c++20"})},
                    Compiler{"Nvcc", {"nvcc", "-x", "cu", "-Werror", "all-warnings"}}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace assay
