// What could not be compared is never in parity, and what can be is.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

using testing::HasSubstr;

class NotComparableTest : public ComparisonTest {};

TEST_F(NotComparableTest, ComparesPaddingMissingInTheReference) {
  const std::vector<float> ref = {1, 2, -3, 4, 5, -6, 7, -8, 9, 3, 2, 5, 4, 70};
  std::vector<float> got = ref;
  std::fill(got.begin() + 11, got.end(), -1e9F);
  const Comparison comparison = compare(line("logits", 0, ref), line("logits", 0, got));
  EXPECT_EQ(comparison.verdict, Verdict::kWrong);
  EXPECT_EQ(comparison.argmax_agree, 0);
  EXPECT_FALSE(compare(line("logits", 0, got), line("logits", 0, ref)).pass);
}

TEST_F(NotComparableTest, ExcludesCommonPaddingOfAnyValue) {
  const std::vector<float> plain = {1, 2, -3, 4, 5, -6, 7, -8, 9, 3, 2};
  for (const float fill : {-INFINITY, -1e9F}) {
    std::vector<float> ref = plain;
    std::vector<float> got = plain;
    ref.insert(ref.end(), 3, -1e9F);
    got.insert(got.end(), 3, fill);
    options_.quarantine = QuarantineMode::kExclude;
    EXPECT_EQ(verdict(ref, got), Verdict::kMatch);
    got[0] = 2;  // far less than the padding
    EXPECT_EQ(verdict(ref, got), Verdict::kDrift);
  }
  // Equal on both sides it is no garbage.
  std::vector<float> padded = plain;
  padded.insert(padded.end(), 3, -1e9F);
  options_.quarantine = QuarantineMode::kFail;
  EXPECT_EQ(verdict(padded, padded), Verdict::kMatch);
}

// Breaks if a limit that does not apply were taken as held.
TEST_F(NotComparableTest, RecordWithoutAnApplicableLimitDoesNotPass) {
  options_.policy = Policy::from_file(put("kl.json", R"({"default":{"kl":0.1}})"));
  const Comparison layer =
      compare(line("layer_0_output", 0, {1, 2, 3}), line("layer_0_output", 0, {-5, 200, 1e6F}));
  EXPECT_EQ(layer.verdict, Verdict::kIncomplete);
  EXPECT_FALSE(layer.pass);
  ASSERT_TRUE(layer.evidence.first_unproven);
  EXPECT_THAT(layer.evidence.first_unproven->reason,
              HasSubstr("no limit of the policy can be held there"));
  EXPECT_TRUE(compare(line("logits", 0, {1, 2, 3}), line("logits", 0, {1, 2, 3})).pass);
  const std::string head = line("logits", 0, {1, 2}, ",\"n\":9");
  EXPECT_EQ(compare(head, head).verdict, Verdict::kIncomplete);
}

// Breaks if a negated tensor passed under a max_abs that is wider than all its values.
TEST_F(NotComparableTest, MaxAbsWiderThanTheValuesProvesNoOtherTensor) {
  options_.policy = Policy::from_file(put("wide.json", R"({"default":{"max_abs":900}})"));
  const std::string ref = line("q", 0, {1, -2, 3});
  EXPECT_TRUE(compare(ref, line("q", 0, {1, -2, 3.5})).pass);
  for (const std::string& got : {line("q", 0, {-1, 2, -3}), line("q", 0, {0, 0, 0})}) {
    const Comparison comparison = compare(ref, got);
    EXPECT_FALSE(comparison.pass);
    ASSERT_EQ(comparison.verdict, Verdict::kIncomplete);
    EXPECT_THAT(comparison.evidence.first_unproven->reason, HasSubstr("max_abs"));
  }
}

TEST_F(NotComparableTest, MaxAbsAppliesToBoundsOfTheWholeTensor) {
  options_.policy = Policy::from_file(put("max.json", R"({"default":{"max_abs":0.001}})"));
  const std::string ref = line("logits", 0, {1, 2}, sketch_of(100));
  EXPECT_TRUE(compare(ref, ref).pass);
  const Comparison comparison = compare(ref, line("logits", 0, {1, 2}, sketch_of(-500)));
  EXPECT_EQ(comparison.verdict, Verdict::kWrong);
  EXPECT_EQ(metric_name(comparison.first_divergence->metric), "max_abs");
  // ||d|| is 600, so that one of the 1000 elements differs by at least that over sqrt(1000).
  EXPECT_NEAR(comparison.first_divergence->value, 600 / std::sqrt(1000.0), 1e-6);
  const std::string empty = line("logits", 0, {}, sketch_of(1));
  EXPECT_EQ(compare(empty, empty).verdict, Verdict::kIncomplete) << "no value to hold it to";
}

// Breaks if a checkpoint of which nothing is known were in parity because another one is.
TEST_F(NotComparableTest, IncomparableCheckpointIsNotInParity) {
  const std::string embedding = line("embedding", 0, {1, 2, 3});
  const auto empty = [](const std::string& name, int token) {
    return line(name, token, {}, ",\"n\":1000");
  };
  for (const std::string name : {"logits", "layer_0_output"}) {
    const Comparison comparison = compare(embedding + empty(name, 0), embedding + empty(name, 0));
    EXPECT_EQ(comparison.verdict, Verdict::kIncomplete);
    EXPECT_FALSE(comparison.pass);
    EXPECT_EQ(comparison.results[1].evidence, Evidence::kUnproven);
    EXPECT_THAT(comparison.evidence.first_unproven->reason,
                HasSubstr("no value, sketch or summary of it in common"));
    const std::string known = line(name, 1, std::vector<float>(1000, 1.0F));
    const Comparison partly = compare(empty(name, 0) + known, empty(name, 0) + known);
    EXPECT_FALSE(partly.pass);
    EXPECT_EQ(partly.evidence.unproven, 1);
  }
  EXPECT_TRUE(
      compare(line("logits", 0, {}, sketch_of(1)), line("logits", 0, {}, sketch_of(1))).pass);
}

// Breaks if the one logit that an engine computed, which it always chooses, stood for all.
TEST_F(NotComparableTest, LogitsOfLessThanHalfAVocabularyAreNotOfTheSameOne) {
  const std::string embedding = line("embedding", 0, {1, 2, 3});
  const std::string all = embedding + line("logits", 0, {9, 1, 2, 3});
  for (const std::vector<float>& few : {std::vector<float>{}, {9}}) {
    const std::string some = embedding + line("logits", 0, few);
    EXPECT_EQ(compare(all, some).first_divergence->metric, Metric::kSize);
    EXPECT_EQ(compare(some, all).first_divergence->metric, Metric::kSize);
  }
}

// Breaks if the token that the reference chooses could be cut away.
TEST_F(NotComparableTest, ArgmaxBeyondTheOtherLogitsFails) {
  std::vector<float> logits = waves(64);
  logits[5] = 8;
  logits[63] = 9;
  const std::vector<float> cut(logits.begin(), logits.begin() + 40);
  const Comparison comparison = compare(line("logits", 0, logits), line("logits", 0, cut));
  EXPECT_FALSE(comparison.pass);
  EXPECT_EQ(metric_name(comparison.first_divergence->metric), "argmax");
  EXPECT_EQ(comparison.first_divergence->value, 1);
  EXPECT_EQ(comparison.argmax_agree, 0);
  EXPECT_FALSE(compare(line("logits", 0, {1}, ",\"n\":64,\"summary\":{\"argmax\":63}"),
                       line("logits", 0, cut))
                   .pass);
  logits[63] = 0;
  EXPECT_TRUE(compare(line("logits", 0, logits), line("logits", 0, cut)).pass);
}

TEST_F(NotComparableTest, ZeroSketchAgainstAnotherIsInfinitelyOff) {
  const auto log = [](const std::string& whole) {
    return line("embedding", 0, {1, 2}) + line("layer_0_output", 0, {0, 0}, whole);
  };
  const std::string norm = ",\"n\":1000,\"summary\":{\"l2\":9}";
  for (const std::string& other : {sketch_of(1000), norm}) {
    EXPECT_EQ(compare(log(sketch_of(0)), log(other)).verdict, Verdict::kWrong);
    EXPECT_EQ(compare(log(other), log(sketch_of(0))).verdict, Verdict::kWrong);
  }
}

}  // namespace
}  // namespace assay
