// NaN or an infinity that the reference does not have fails wherever the judged log holds it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "assay/log/sketch.h"
#include "base/error.h"
#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

class NonfiniteRulesTest : public ComparisonTest {
 protected:
  // A head of a tensor of 1000 elements, and further members.
  static std::string head(const std::string& checkpoint, const std::string& more) {
    return line(checkpoint, 0, waves(10), ",\"n\":1000" + more);
  }

  // A sketch of which one sum is `sum` (JSON).
  static std::string sketch_with(const std::string& sum) {
    const std::vector<int> rest(kSketchSize - 1, 30);
    return fmt::format(",\"sketch\":[{},{}]", sum, fmt::join(rest, ","));
  }

  // Fails: exit 1, and not merely incomplete.
  void expect_failure(const std::string& ref, const std::string& got) {
    const Comparison comparison = compare(ref, got);
    EXPECT_GT(comparison.failed, 0) << got;
    EXPECT_FALSE(comparison.pass) << got;
  }

  const std::string right_ = line("embedding", 0, waves(64));
};

// Breaks if a sketch were read only where the other log has one, too.
TEST_F(NonfiniteRulesTest, InASketchThatTheReferenceDoesNotHave) {
  for (const std::string more : {"", R"(,"summary":{"l2":30})"}) {
    const std::string ref = head("layer_0_output", more);
    EXPECT_TRUE(compare(ref, head("layer_0_output", sketch_with("30") + more)).pass);
    for (const char* sum : {"\"NaN\"", "\"Infinity\""}) {
      expect_failure(ref, head("layer_0_output", sketch_with(sum) + more));
    }
  }
}

// Breaks if an infinite element that is listed as the largest were one that nothing denies.
TEST_F(NonfiniteRulesTest, AmongTheLargestElements) {
  const auto log = [](const char* checkpoint, const char* first, const char* second) {
    constexpr const char* kSummary = R"(,"summary":{{"mean":0,"top":[[40,{}],[41,{}]]}})";
    return head(checkpoint, fmt::format(kSummary, first, second));
  };
  for (const char* checkpoint : {"layer_0_output", "logits"}) {
    const std::string ref = head(checkpoint, R"(,"summary":{"mean":0})");
    EXPECT_TRUE(compare(ref, log(checkpoint, "5", "4")).pass);
    expect_failure(ref, log(checkpoint, "\"Infinity\"", "4"));
    const Comparison masked = compare(ref, log(checkpoint, "5", "\"-Infinity\""));
    EXPECT_EQ(masked.failed, checkpoint == std::string("logits") ? 0 : 1) << "padding";
  }
}

// Breaks if narrowing a comparison hid a NaN that the reference does not have.
TEST_F(NonfiniteRulesTest, InWhatIsNotSelected) {
  std::vector<float> bad = waves(16, 2);
  bad[5] = std::numeric_limits<float>::quiet_NaN();
  const auto log = [&](const std::vector<float>& q, const std::vector<float>& later) {
    return right_ + line("layer_0_q", 0, q) + line("embedding", 1, later);
  };
  const std::string ref = log(waves(16, 2), waves(64, 3));
  options_.selection.set_checkpoints("embedding", "--checkpoints");
  EXPECT_TRUE(compare(ref, log(waves(16, 7), waves(64, 3))).pass) << "other values are left out";
  const Comparison comparison = compare(ref, log(bad, waves(64, 3)));
  EXPECT_FALSE(comparison.pass);
  ASSERT_TRUE(comparison.first_divergence);
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "layer_0_q");
  EXPECT_EQ(comparison.evidence.whole, 2);
  EXPECT_TRUE(compare(log(bad, waves(64, 3)), log(bad, waves(64, 3))).pass) << "both have it";
  std::vector<float> worse = bad;
  worse[6] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(compare(log(bad, waves(64, 3)), log(worse, waves(64, 3))).pass);
  options_.selection.set_checkpoints("ops", "--checkpoints");
  options_.selection.set_tokens("1", "--tokens");
  expect_failure(ref, log(bad, waves(64, 3)));
}

// Breaks if only the values and counts of a record that has no counterpart were looked at.
TEST_F(NonfiniteRulesTest, InASketchOrTopOfACheckpointThatOnlyTheJudgedLogHas) {
  EXPECT_TRUE(compare(right_, right_ + head("layer_9_k", sketch_with("30"))).pass);
  expect_failure(right_, right_ + head("layer_9_k", sketch_with("\"NaN\"")));
  const auto top = [](const char* value) {
    return fmt::format(R"(,"summary":{{"l2":30,"top":[[40,{}]]}})", value);
  };
  EXPECT_TRUE(compare(right_, right_ + head("layer_9_k", top("3"))).pass);
  expect_failure(right_, right_ + head("layer_9_k", top("\"NaN\"")));
  expect_failure(right_, right_ + head("layer_9_k", top("\"Infinity\"")));
}

// Breaks if a NaN among the elements that only the longer of two records has were called padding.
TEST_F(NonfiniteRulesTest, AmongElementsThatTheReferenceDoesNotHave) {
  const auto logits = [](int n, const char* counts) {
    return line("logits", 0, {1, 2, 3},
                fmt::format(R"(,"n":{},"summary":{{"l2":30,"argmax":2{}}})", n, counts));
  };
  const std::string ref = logits(60, "");
  EXPECT_TRUE(compare(ref, logits(64, R"(,"nonfinite":4,"nan":0)")).pass);
  expect_failure(ref, logits(64, R"(,"nonfinite":4,"nan":1)"));
  EXPECT_EQ(compare(ref, logits(64, R"(,"nonfinite":4)")).verdict, Verdict::kIncomplete);
}

// Breaks if what a record of a whole sequence states of all its rows were lost with the first row.
TEST_F(NonfiniteRulesTest, InTheSummaryOfAWholeSequence) {
  const auto sequence = [](const std::string& checkpoint, int nan) {
    return fmt::format(R"({{"checkpoint":"{}","token_idx":0,"dtype":"f32","shape":[4,64],)"
                       R"("values":[1,2,3],"n":256,)"
                       R"("summary":{{"l2":30,"nonfinite":{},"nan":{}}}}})",
                       checkpoint, nan, nan) +
           "\n";
  };
  const std::string first = line("embedding", 0, {1, 2, 3}, ",\"n\":64");
  EXPECT_TRUE(compare(first, sequence("embedding", 0)).pass);
  expect_failure(first, sequence("embedding", 5));
  EXPECT_TRUE(compare(right_, right_ + sequence("layer_9_output", 0)).pass);
  expect_failure(right_, right_ + sequence("layer_9_output", 5));
}

// Breaks if what a record of a whole sequence states of all its rows were not held to its values.
TEST_F(NonfiniteRulesTest, AWholeSequenceMayNotContradictItself) {
  const std::vector<float> rows = waves(256);
  const auto sequence = [&](const std::string& more) {
    return fmt::format(R"({{"checkpoint":"embedding","token_idx":0,"dtype":"f32","shape":[4,64],)"
                       R"("values":[{}]{}}})",
                       fmt::join(rows, ","), more) +
           "\n";
  };
  const std::string plain = sequence("");
  const double l2 = summarize(rows).l2;
  EXPECT_TRUE(compare(plain, sequence(fmt::format(R"(,"summary":{{"l2":{}}})", l2))).pass);
  for (const std::string& lie :
       {fmt::format(R"(,"summary":{{"l2":{}}})", 3 * l2), std::string(R"(,"summary":{"max":77})"),
        sketch_with("1"), sketch_with("\"NaN\"")}) {
    expect_failure(plain, sequence(lie));
    EXPECT_FALSE(compare(sequence(lie), plain).pass) << "nothing can be held to it";
  }
}

// Breaks if a part of a tensor were compared as if it were all of it.
TEST_F(NonfiniteRulesTest, PartsOfTensorsAreRejected) {
  const auto part = [](const char* dims) {
    return line("embedding", 0, waves(64), fmt::format(R"(,"dims":"{}")", dims));
  };
  EXPECT_TRUE(compare(part("h"), part("h")).pass);
  for (const char* dims : {"t h[tp]", "h[tp]", "h +[tp]"}) {
    EXPECT_THROW(compare(part(dims), part(dims)), Error) << dims;
    EXPECT_THROW(compare(part("h"), part(dims)), Error) << dims;
  }
}

// Breaks if a list beside logits were read only under the name of log-probabilities.
TEST_F(NonfiniteRulesTest, InAListOfTokensBesideLogits) {
  const std::string ref = line("logits", 0, {1, 2, 3, 4});
  expect_failure(ref, line("logits", 0, {1, 2, 3, 4}, R"(,"top":[[3,"NaN"]])"));
  const std::string part = line("logits", 0, {1, 2}, ",\"n\":9");
  expect_failure(part, line("logits", 0, {1, 2}, R"(,"n":9,"top":[[3,"NaN"]])"));
}

// Breaks if a NaN went with the list or the count that no constant relates to the logits.
TEST_F(NonfiniteRulesTest, InLogProbabilitiesThatNothingRelatesToTheLogits) {
  const std::string ref = line("logits", 0, {1, 2, 3}, ",\"n\":9");
  EXPECT_EQ(compare(ref, line("logprobs", 0, {}, R"(,"n":9,"top":[[5,-0.5]])")).verdict,
            Verdict::kIncomplete);
  expect_failure(ref, line("logprobs", 0, {}, R"(,"n":9,"top":[[5,-0.5],[6,"NaN"]])"));
  expect_failure(
      ref, line("logprobs", 0, {-3, -2}, R"(,"n":9,"summary":{"l2":9,"nonfinite":3,"nan":3})"));
}

// Breaks if padding could be more elements than the reference lacks: 26 of those that it has are
// not finite.
TEST_F(NonfiniteRulesTest, BeyondWhatPaddingCanBe) {
  const std::string ref = line("logits", 0, waves(60));
  const auto padded = [](int nonfinite) {
    return line("logits", 0, waves(10),
                fmt::format(R"(,"n":64,"summary":{{"l2":5.5,"nonfinite":{}}})", nonfinite));
  };
  EXPECT_EQ(compare(ref, padded(4)).failed, 0);
  expect_failure(ref, padded(30));
}

}  // namespace
}  // namespace assay
