#include "assay/compare/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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

}  // namespace
}  // namespace assay
