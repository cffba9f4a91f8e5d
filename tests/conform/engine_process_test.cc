// Engines from outside are strange: each end of theirs is an answer.
#include "assay/conform/engine_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;
using Outcome = EngineAnswer::Outcome;

class Engine : public TemporaryFolder {
 protected:
  EngineCase one() const {
    return {
        .model_dir = "m", .gguf = "g", .tokens = {3, 5}, .surface = "alone", .log = path("log")};
  }

  EngineAnswer once(const std::string& line, seconds timeout = seconds(20)) const {
    EngineProcess engine({"sh", "-c", line}, false, path("errors"), timeout);
    return engine.run(one());
  }

  // A process that is given the case, twice.
  std::vector<EngineAnswer> served(const std::string& line, seconds timeout = seconds(20)) const {
    EngineProcess engine({"sh", "-c", line}, true, path("errors"), timeout);
    std::vector<EngineAnswer> answers;
    for (int i = 0; i < 2; ++i) answers.push_back(engine.run(one()));
    return answers;
  }
};

TEST_F(Engine, FindsTheCaseInItsEnvironment) {
  const EngineAnswer answer = once(
      "echo $ASSAY_MODEL_DIR $ASSAY_GGUF $ASSAY_TOKENS $ASSAY_SURFACE [$ASSAY_SERVE]"
      " > $ASSAY_LOG_FILE");
  EXPECT_EQ(answer.outcome, Outcome::kLogged);
  EXPECT_EQ(contents(path("log")), "m g 3,5 alone []\n");
}

TEST_F(Engine, CannotPassByAnOldLog) {
  put("log", "of yesterday");
  const EngineAnswer answer = once("true");
  EXPECT_EQ(answer.outcome, Outcome::kCrashed);
  EXPECT_EQ(answer.message, "said that it logged, and wrote no log");
  EXPECT_EQ(once(": > $ASSAY_LOG_FILE").outcome, Outcome::kCrashed);
}

// Nor by one that stays because it cannot be removed, as in a folder of somebody else's.
TEST_F(Engine, IsNotRunWhereAnOldLogStays) {
  std::filesystem::create_directories(path("log/inner"));
  EXPECT_THAT([&] { once("touch " + path("ran")); },
              ThrowsMessage<Error>(HasSubstr("log: cannot remove the log of an earlier run: ")));
  EXPECT_FALSE(std::filesystem::exists(path("ran")));
}

// Breaks if an engine that does not stop writing could fill the disk until its time is up, or what
// it wrote stayed.
TEST_F(Engine, IsStoppedWhenItWritesWithoutEnd) {
  const EngineAnswer endless = once("exec cat /dev/zero > $ASSAY_LOG_FILE", seconds(300));
  EXPECT_EQ(endless.outcome, Outcome::kCrashed);
  EXPECT_EQ(endless.message,
            "wrote more than 256 MB to its log, more than the case can need, and was stopped; what "
            "it wrote is removed");
  EXPECT_FALSE(std::filesystem::exists(path("log")));
  const std::string large = "head -c 300000000 /dev/zero > " + path("log");
  EXPECT_THAT(once(large).message, StartsWith("wrote more than 256 MB to its log"));
  EXPECT_FALSE(std::filesystem::exists(path("log")));
  EXPECT_EQ(once("exec cat /dev/zero >&2", seconds(300)).message,
            "wrote more than 256 MB of errors, and was stopped; what it wrote is removed");
  EXPECT_FALSE(std::filesystem::exists(path("errors")));
  // One that serves is started again for the next case.
  const auto answers = served("read line; exec cat /dev/zero > " + path("log"), seconds(300));
  for (const EngineAnswer& answer : answers) {
    EXPECT_THAT(answer.message, StartsWith("wrote more than 256 MB to its log"));
  }
}

// Breaks if a log that a case needs were over its limit: with all digits of all values of a large
// model, or of several prompts.
TEST_F(Engine, MayLogMoreOfALargerCase) {
  std::filesystem::create_directories(path("model"));
  put("model/model.safetensors", "");
  std::filesystem::resize_file(path("model/model.safetensors"), int64_t{100} << 20);
  EngineCase one{.model_dir = path("model"), .gguf = {}, .tokens = {3}, .log = {}};
  EXPECT_EQ(log_limit_of(one), int64_t{400} << 20);
  one.tokens = {3, 5};
  EXPECT_EQ(log_limit_of(one), int64_t{800} << 20);
  one.surface = "batch:3";
  EXPECT_EQ(log_limit_of(one), int64_t{2400} << 20);
  std::filesystem::resize_file(path("model/model.safetensors"), 1000);
  EXPECT_EQ(log_limit_of(one), kLeastLogLimit);
}

TEST_F(Engine, SaysWhatItDoesNotSupport) {
  const EngineAnswer answer = once("echo no windows >&2; echo; exit 3");
  EXPECT_EQ(answer.outcome, Outcome::kUnsupported);
  EXPECT_EQ(answer.message, "no windows");
}

TEST_F(Engine, CrashesInManyWays) {
  EngineAnswer answer = once("echo oh >&2; echo x > $ASSAY_LOG_FILE; exit 1");
  EXPECT_EQ(answer.outcome, Outcome::kCrashed);
  EXPECT_EQ(answer.message, "ended with exit code 1: oh");
  answer = once("kill -SEGV $$");
  EXPECT_EQ(answer.outcome, Outcome::kCrashed);
  EXPECT_EQ(answer.message, "was ended by SIGSEGV");
  EXPECT_THAT([&] { once("nosuch_program_at_all"); },
              ThrowsMessage<Error>(HasSubstr("cannot be run: sh: 1: nosuch_program_at_all")));
}

// With what it started: a helper of it does not stay.
TEST_F(Engine, IsEndedAfterItsTime) {
  const EngineAnswer answer = once("sleep 60 & echo $! > " + path("helper") + "; wait", seconds(1));
  EXPECT_EQ(answer.outcome, Outcome::kCrashed);
  EXPECT_EQ(answer.message, "gave no answer within 1 s");
  pid_t helper = 0;
  std::ifstream(path("helper")) >> helper;
  ASSERT_GT(helper, 0);
  for (int i = 0; i < 100 && kill(helper, 0) == 0; ++i) usleep(20'000);
  std::ifstream state("/proc/" + std::to_string(helper) + "/stat");
  std::string text;
  std::getline(state, text);
  EXPECT_TRUE(text.empty() || text.find(") Z ") != std::string::npos) << text;
}

TEST_F(Engine, ThatIsMissingIsAnError) {
  EngineProcess engine({path("nosuch")}, false, path("errors"), seconds(5));
  EXPECT_THAT([&] { engine.run(one()); }, ThrowsMessage<Error>(HasSubstr("cannot be run")));
}

TEST_F(Engine, ServesCaseAfterCase) {
  const std::vector<EngineAnswer> answers = served(
      "n=0; while read -r line; do n=$((n+1)); echo \"$n $ASSAY_SERVE $line\" >> " + path("seen") +
      "; echo x > " + path("log") + R"(; echo '{"exit":0,"message":""}'; done)");
  EXPECT_EQ(answers[0].outcome, Outcome::kLogged);
  EXPECT_EQ(answers[1].outcome, Outcome::kLogged);
  const std::string line =
      R"({"model_dir":"m","gguf":"g","tokens":[3,5],"surface":"alone","log":")" + path("log") +
      "\"}\n";
  EXPECT_EQ(contents(path("seen")), "1 1 " + line + "2 1 " + line);
}

// Each case after a crash has a new process.
TEST_F(Engine, ThatCrashesWhileItServesIsStartedAgain) {
  const std::vector<EngineAnswer> answers =
      served("read -r line; if [ -e " + path("second") + " ]; then echo x > " + path("log") +
             R"(; echo '{"exit":0}'; read -r more; else touch )" + path("second") +
             "; echo shape mismatch >&2; exit 134; fi");
  EXPECT_EQ(answers[0].outcome, Outcome::kCrashed);
  EXPECT_EQ(answers[0].message, "ended with exit code 134: shape mismatch");
  EXPECT_EQ(answers[1].outcome, Outcome::kLogged);
}

TEST_F(Engine, AnswersNonsense) {
  for (const char* said : {"hello", "[]", "{}", R"({"exit":"0"})", R"({"exit":1.5})"}) {
    const auto answers = served("while read -r line; do echo '" + std::string(said) + "'; done");
    for (const EngineAnswer& answer : answers) {
      EXPECT_EQ(answer.outcome, Outcome::kCrashed) << said;
      EXPECT_THAT(answer.message, StartsWith("answered with '"));
    }
  }
}

TEST_F(Engine, AnswersWithItsReason) {
  const auto answers =
      served(R"(while read -r line; do echo '{"exit":3,"message":"no windows"}'; done)");
  EXPECT_EQ(answers[1].outcome, Outcome::kUnsupported);
  EXPECT_EQ(answers[1].message, "no windows");
  const auto crashes = served(R"(while read -r line; do echo '{"exit":70,"message":"oh"}'; done)");
  EXPECT_EQ(crashes[1].outcome, Outcome::kCrashed);
  EXPECT_EQ(crashes[1].message, "oh");
}

TEST_F(Engine, ThatStaysSilentOrTalksForEverIsEnded) {
  const auto silent = served("cat > /dev/null", seconds(1));
  EXPECT_EQ(silent[0].message, "gave no answer within 1 s");
  const auto loud = served("yes | tr -d '\\n'", seconds(20));
  EXPECT_EQ(loud[0].outcome, Outcome::kCrashed);
}

}  // namespace
}  // namespace assay
