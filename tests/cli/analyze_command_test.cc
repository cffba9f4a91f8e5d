#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/cli/program.h"

namespace assay {
namespace {

using testing::HasSubstr;

class AnalyzeCommand : public Program {};

TEST_F(AnalyzeCommand, SaysWhatALogHolds) {
  const std::string log = put("a.jsonl", line("logits", 0, {1, 2}) + line("logits", 1, {3, 4}));
  const Outcome outcome = run({"analyze", log, "--stats", "--compare", log});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("2 of 1 checkpoints at 2 tokens"));
  EXPECT_THAT(outcome.out, HasSubstr("logits"));
}

TEST_F(AnalyzeCommand, PrintsOneJsonObject) {
  const std::string log = put("a.jsonl", line("logits", 0, {1, 2}));
  rapidjson::Document json;
  json.Parse(run({"analyze", log, "--json", "--compare", log}).out.c_str());
  ASSERT_FALSE(json.HasParseError());
  EXPECT_EQ(json["records"].GetInt(), 1);
  EXPECT_EQ(json["stats"].Size(), 1U);
  EXPECT_EQ(json["compare"]["tokens"].GetInt(), 1);
}

TEST_F(AnalyzeCommand, NumpyIsNotThereYet) {
  const std::string log = put("a.jsonl", line("logits", 0, {1, 2}));
  expect_error({"analyze", log, "--numpy", "a.npz"},
               "--numpy: not available yet; read the values from the log itself");
}

}  // namespace
}  // namespace assay
