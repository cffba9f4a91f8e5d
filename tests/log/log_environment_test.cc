#include "assay/log/log_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace assay {
namespace {

class LogEnvironment : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"ORCH_LOG_FILE", "ORCH_LOG_TEAM", "ORCH_LOG_VALUES",
                             "ASSAY_LOG_CHECKPOINTS", "ASSAY_LOG_TS"}) {
      unsetenv(name);
    }
  }
  void TearDown() override { SetUp(); }
};

TEST_F(LogEnvironment, AsksForNothingWithoutAFile) {
  setenv("ORCH_LOG_TEAM", "ours", 1);
  EXPECT_FALSE(log_request_from_environment().has_value());
}

TEST_F(LogEnvironment, HasDefaults) {
  setenv("ORCH_LOG_FILE", "a.jsonl", 1);
  const auto request = log_request_from_environment();
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->path, "a.jsonl");
  EXPECT_EQ(request->options.head_values, 10);
  EXPECT_EQ(request->options.team, "");
  EXPECT_TRUE(request->checkpoints.matches("logits"));
  EXPECT_FALSE(request->checkpoints.matches("embedding"));
}

TEST_F(LogEnvironment, ReadsEverything) {
  setenv("ORCH_LOG_FILE", "a.jsonl", 1);
  setenv("ORCH_LOG_TEAM", "ours", 1);
  setenv("ORCH_LOG_VALUES", "all", 1);
  setenv("ASSAY_LOG_CHECKPOINTS", "layers", 1);
  const auto request = log_request_from_environment();
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->options.team, "ours");
  EXPECT_EQ(request->options.head_values, kAllValues);
  EXPECT_TRUE(request->checkpoints.matches("layer_3_output"));
}

// Breaks if a mistyped variable were taken for a default and the log lacked what was asked for.
TEST_F(LogEnvironment, NamesTheVariableThatHasNoMeaning) {
  setenv("ORCH_LOG_FILE", "a.jsonl", 1);
  for (const char* text : {"ten", "-1", "1.5", "10x", "99999999999999999999"}) {
    setenv("ORCH_LOG_VALUES", text, 1);
    try {
      log_request_from_environment();
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("ORCH_LOG_VALUES"));
    }
  }
}

// The page's time between tokens needs them; what is recorded to be compared by bytes does not.
TEST_F(LogEnvironment, TimesAreLoggedUnlessTheyAreOff) {
  setenv("ORCH_LOG_FILE", "a.jsonl", 1);
  EXPECT_TRUE(log_request_from_environment()->options.times);
  setenv("ASSAY_LOG_TS", "off", 1);
  EXPECT_FALSE(log_request_from_environment()->options.times);
  setenv("ASSAY_LOG_TS", "on", 1);
  EXPECT_TRUE(log_request_from_environment()->options.times);
  setenv("ASSAY_LOG_TS", "1", 1);
  EXPECT_THAT(
      [] { log_request_from_environment(); },
      testing::ThrowsMessage<Error>("ASSAY_LOG_TS: '1' is neither on nor off; give one of them"));
  EXPECT_FALSE(LogOptions().times);
}

}  // namespace
}  // namespace assay
