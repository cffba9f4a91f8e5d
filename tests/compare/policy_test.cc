#include "assay/compare/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PolicyTest : public LogFiles {};

TEST_F(PolicyTest, DefaultsToOnePercent) {
  EXPECT_EQ(Policy().tolerance("logits").rel_l2, 1e-2);
  EXPECT_FALSE(Policy().tolerance("logits").max_abs.has_value());
}

TEST_F(PolicyTest, FirstMatchingGlobApplies) {
  const Policy policy = Policy::from_file(put("p.json", R"({
    "checkpoints": {"layer_0_*": {"rel_l2": 1e-7}, "layer_*": {"rel_l2": 1e-6, "max_abs": 2}},
    "default": {"max_abs": 0.5}})"));
  EXPECT_EQ(policy.tolerance("layer_0_q").rel_l2, 1e-7);
  EXPECT_FALSE(policy.tolerance("layer_0_q").max_abs.has_value());
  EXPECT_EQ(policy.tolerance("layer_1_q").max_abs, 2);
  EXPECT_EQ(policy.tolerance("logits").max_abs, 0.5);
  EXPECT_FALSE(policy.tolerance("logits").rel_l2.has_value());
}

// Breaks if a reference that logs log-probabilities got the wider default.
TEST_F(PolicyTest, LogProbabilitiesHaveTheToleranceOfLogits) {
  const auto read = [&](const std::string& text) { return Policy::from_file(put("p.json", text)); };
  const Policy logits =
      read(R"({"checkpoints": {"logits": {"rel_l2": 1e-6}}, "default": {"rel_l2": 0.01}})");
  EXPECT_EQ(logits.tolerance("logprobs").rel_l2, 1e-6);
  EXPECT_EQ(logits.tolerance("output_norm").rel_l2, 0.01);
  EXPECT_THAT(logits.unused_globs({"logprobs"}), IsEmpty());
  EXPECT_THAT(logits.unused_globs({"output_norm"}), ElementsAre("logits"));
  const Policy both =
      read(R"({"checkpoints": {"logits": {"rel_l2": 1e-6}, "logprob*": {"rel_l2": 1e-5}}})");
  EXPECT_EQ(both.tolerance("logprobs").rel_l2, 1e-5);
  EXPECT_THAT(both.unused_globs({"logprobs"}), ElementsAre("logits"));
  // Floors are of what was measured.
  const Policy measured = read(R"({"k": 4, "checkpoints": {"logits": {"floor": 1e-6}}})");
  EXPECT_THAT(error_of([&] { measured.tolerance("logprobs"); }), HasSubstr("has no floor"));
}

// Breaks if a mistyped or hostile policy loosened a test or crashed.
TEST_F(PolicyTest, RejectsMalformedPolicies) {
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"{}", "the policy names no tolerance"},
      {R"({"checkpoints": {}})", "the policy names no tolerance"},
      {"[]", "the policy is not an object"},
      {std::string(200000, '['), "not valid JSON"},
      {R"({"defaults": {"rel_l2": 1}})", "unknown key 'defaults'"},
      {R"({"default": {"rel_l3": 1}})", "unknown metric 'rel_l3'"},
      {R"({"default": {}})", "names no metric"},
      {R"({"default": {"rel_l2": -1}})", "not a number of 0 or more"},
      {R"({"default": {"rel_l2": "1"}})", "not a number of 0 or more"},
      {R"({"default": {"rel_l2": NaN}})", "not valid JSON"},
      {R"({"default": {"rel_l2": 0.1}, "default": {"rel_l2": 0.2}})",
       "has the key 'default' twice"},
      {R"({"checkpoints": {"a": 1}})", "'a' is not an object"},
      {R"({"checkpoints": {")" + std::string(300, '*') + R"(": {"kl": 1}}})",
       "more than 256 bytes"},
  };
  for (const auto& test : cases) {
    const std::string path = put("p.json", test.text);
    const std::string error = error_of([&] { Policy::from_file(path); });
    EXPECT_THAT(error, HasSubstr(test.message));
    EXPECT_THAT(error, HasSubstr(path));
  }
  EXPECT_THAT(error_of([&] { Policy::from_file(folder_ + "/none"); }), HasSubstr("cannot open"));
}

// Breaks if a limit that nothing can exceed made a comparison pass.
TEST_F(PolicyTest, RejectsLimitsThatPassAnything) {
  const std::pair<const char*, const char*> cases[] = {
      {"rel_l2", "1"},     {"rel_l2", "1e9"},    {"rel_l2", "1e308"}, {"max_abs", "1000"},
      {"max_abs", "1e38"}, {"max_abs", "1e308"}, {"kl", "1"},         {"kl", "1e308"}};
  for (const auto& [metric, limit] : cases) {
    const std::string tolerance = std::string("{\"") + metric + "\": " + limit + "}";
    const std::string all = put("all.json", R"({"default": )" + tolerance + "}");
    EXPECT_THAT(error_of([&] { Policy::from_file(all); }),
                AllOf(HasSubstr(std::string("'") + metric + "' of 'default' is "),
                      HasSubstr("which lets anything pass"), HasSubstr(all)));
    const std::string one =
        put("one.json",
            R"({"default": {"rel_l2": 0.01}, "checkpoints": {"layer_*": )" + tolerance + "}}");
    EXPECT_THAT(error_of([&] { Policy::from_file(one); }),
                HasSubstr(std::string("'") + metric + "' of 'layer_*' is "));
  }
  EXPECT_THAT(
      error_of([&] { Policy::from_file(put("p.json", R"({"default":{"rel_l2":1e999}})")); }),
      HasSubstr("not valid JSON"));
  Policy::from_file(
      put("loose.json", R"({"default": {"rel_l2": 0.99, "max_abs": 999, "kl": 0.9}})"));
}

constexpr const char* kMeasured = R"({"measured": {"program": "assay", "runs": [
    {"log": "a.jsonl", "model_sha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
    {"log": "b.jsonl", "model_sha256": null}]}, "k": 3, "checkpoints": {
    "embedding": {"floor": 0, "run": 1, "token_idx": 0, "records": 3},
    "layer_0_output": {"floor": 1e-6, "run": 1, "token_idx": 2, "records": 3},
    "layer_1_*": {"floor": 0.3}, "layer_1_output": {"floor": 1e-3}, "logits": {"rel_l2": 1e-5}}})";

TEST_F(PolicyTest, AMeasuredFloorAllowsKTimesIt) {
  const Policy policy = Policy::from_file(put("p.json", kMeasured));
  EXPECT_TRUE(policy.is_measured());
  EXPECT_EQ(policy.model_hashes().size(), 1U);
  EXPECT_DOUBLE_EQ(*policy.tolerance("layer_0_output").rel_l2, 3e-6);
  EXPECT_DOUBLE_EQ(*policy.tolerance("layer_0_output").floor, 1e-6);
  // Values are logged as 32-bit floats, and zeros are off by 1.
  EXPECT_EQ(*policy.tolerance("embedding").rel_l2, 3 * 0x1p-24);
  EXPECT_DOUBLE_EQ(*policy.tolerance("layer_1_ffn_out").rel_l2, 0.9);
  // A glob that comes before a name stands before it.
  EXPECT_DOUBLE_EQ(*policy.tolerance("layer_1_output").rel_l2, 0.9);
  EXPECT_EQ(policy.tolerance("logits").rel_l2, 1e-5);
  EXPECT_FALSE(Policy::from_file(put("q.json", R"({"default": {"kl": 0.1}})")).is_measured());
}

// Breaks if the default of 1e-2 were used where nothing was measured.
TEST_F(PolicyTest, ACheckpointWithoutFloorIsAnError) {
  const std::string path = put("p.json", kMeasured);
  EXPECT_THAT(error_of([&] { Policy::from_file(path).tolerance("layer_2_output"); }),
              AllOf(HasSubstr(path + ": has no floor for 'layer_2_output'"),
                    HasSubstr("--checkpoints"), HasSubstr("assay floors")));
  const Policy with_default = Policy::from_file(put(
      "d.json", R"({"k": 2, "default": {"rel_l2": 0.1}, "checkpoints": {"a": {"floor": 1e-3}}})"));
  EXPECT_EQ(with_default.tolerance("layer_2_output").rel_l2, 0.1);
}

TEST_F(PolicyTest, RejectsMalformedFloors) {
  const std::pair<std::string, const char*> cases[] = {
      {R"({"checkpoints": {"a": {"floor": 1e-3}}})", "'a' has a floor, and the policy no k"},
      {R"({"k": 3, "checkpoints": {"a": {"floor": 1}}})", "3 times it lets anything pass"},
      {R"({"k": 3, "checkpoints": {"a": {"floor": 0.34}}})", "3 times it lets anything pass"},
      {R"({"k": 3, "checkpoints": {"a": {"floor": 1e300}}})", "3 times it lets anything pass"},
      {R"({"k": 3, "checkpoints": {"a": {"floor": -1e-9}}})", "not a number of 0 or more"},
      {R"({"k": 3, "checkpoints": {"a": {"floor": "1e-9"}}})", "not a number of 0 or more"},
      {R"({"k": 3, "checkpoints": {"a": {"floor": 1e-3, "rel_l2": 1e-2}}})",
       "has both a floor and rel_l2"},
      {R"({"k": 3, "checkpoints": {"a": {"run": 1}}})", "names no metric"},
      {R"({"k": 0.5, "checkpoints": {"a": {"floor": 1e-3}}})", "'k' is not a number from 1 to 10"},
      {R"({"k": 11, "checkpoints": {"a": {"floor": 1e-3}}})", "'k' is not a number from 1 to 10"},
      {R"({"k": "3", "checkpoints": {"a": {"floor": 1e-3}}})", "'k' is not a number from 1 to 10"},
      {R"({"k": 3})", "the policy names no tolerance"},
      {R"({"measured": {"runs": []}, "default": {"kl": 0.1}})", "unknown key 'measured'"},
      {R"({"k": 3, "measured": 1, "default": {"kl": 0.1}})", "'measured' is not an object"},
      {R"({"k": 3, "measured": {}, "default": {"kl": 0.1}})", "has no array 'runs'"},
      {R"({"k": 3, "measured": {"runs": [1]}, "default": {"kl": 0.1}})",
       "a run of 'measured' is not an object"},
      {R"({"k": 3, "measured": {"runs": []}, "default": {"kl": 0.1}})",
       "'runs' of 'measured' is empty; write the file with assay floors"},
      {R"({"k": 3, "measured": {"runs": [{"log": "a"}]}, "default": {"kl": 0.1}})",
       "a run of 'measured' has no 'model_sha256'; write the file with assay floors"},
      {R"({"k": 3, "measured": {"runs": [{"model_sha265": ")" + std::string(64, '0') +
           R"("}]}, "default": {"kl": 0.1}})",
       "a run of 'measured' has no 'model_sha256'"},
      {R"({"k": 3, "measured": {"runs": [{"model_sha256": "no"}]}, "default": {"kl": 0.1}})",
       "is no SHA-256"},
  };
  for (const auto& [text, message] : cases) {
    const std::string path = put("p.json", text);
    EXPECT_THAT(error_of([&] { Policy::from_file(path); }), HasSubstr(message)) << text;
  }
}

// A model of 126 layers has 2400 checkpoints, each with a floor of its own.
TEST_F(PolicyTest, NamesAreNotCountedAsGlobs) {
  std::string text = R"({"k": 3, "checkpoints": {"a": {"floor": 1e-3})";
  for (int i = 0; i < 3000; ++i)
    text += ", \"layer_" + std::to_string(i) + "_q\": {\"floor\": 1e-4}";
  const Policy policy = Policy::from_file(put("names.json", text + "}}"));
  EXPECT_DOUBLE_EQ(*policy.tolerance("layer_2999_q").rel_l2, 3e-4);
  EXPECT_EQ(policy.unused_globs({"a", "layer_7_q"}).size(), 2999U);
  std::string globs = R"({"checkpoints": {"a": {"rel_l2": 1e-3})";
  for (int i = 0; i < 1001; ++i) globs += ", \"layer_" + std::to_string(i) + "_*\": {\"kl\": 1e-4}";
  EXPECT_THAT(error_of([&] { Policy::from_file(put("globs.json", globs + "}}")); }),
              HasSubstr("more than 1000 globs"));
}

}  // namespace
}  // namespace assay
