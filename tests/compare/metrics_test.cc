#include "assay/compare/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/compare/made_records.h"

namespace assay {
namespace {

TEST(Metrics, MatchValuesComputedByHand) {
  const Metrics m = compare_records(record({3, 4, 0, 0}), record({3, 4, 0, 1}), true);
  EXPECT_EQ(m.max_abs, 1);
  EXPECT_EQ(m.mean_abs, 0.25);
  EXPECT_EQ(m.rms, 0.5);
  EXPECT_EQ(m.rel_l2, 0.2);
  EXPECT_NEAR(m.nmse, 0.04, 1e-15);
  EXPECT_NEAR(m.cosine, 25 / (5 * std::sqrt(26.0)), 1e-15);
  EXPECT_EQ(m.argmax_ref, 1);
  EXPECT_EQ(m.argmax_got, 1);
  EXPECT_EQ(m.regret, 0);
  EXPECT_FALSE(m.identical);
}

TEST(Metrics, RegretUsesTheReference) {
  const Metrics m = compare_records(record({1, 5, 4.5F}), record({1, 5, 6}), true);
  EXPECT_EQ(m.argmax_ref, 1);
  EXPECT_EQ(m.argmax_got, 2);
  EXPECT_EQ(m.regret, 0.5);
}

TEST(Metrics, TopkOverlapIsTheSharedShareOfTheLargest) {
  const Metrics m =
      compare_records(record({9, 8, 7, 6, 5, 0, 0, 0}), record({9, 8, 7, 0, 0, 6, 5, 0}), true);
  EXPECT_DOUBLE_EQ(*m.topk_overlap, 0.6);
}

TEST(Metrics, OnlyLogitsHaveAnArgmax) {
  const Metrics m = compare_records(record({1, 2}, "q"), record({1, 2}, "q"), false);
  EXPECT_FALSE(m.argmax_ref || m.kl || m.topk_overlap || m.regret);
  EXPECT_TRUE(m.identical);
}

// Breaks if 0/0 were taken for parity or for NaN.
TEST(Metrics, ZerosProveNothing) {
  const Metrics both = compare_records(record({0, 0}), record({0, -0.0F}), false);
  EXPECT_TRUE(both.all_zero);
  EXPECT_EQ(both.rel_l2, 0);
  const Metrics one = compare_records(record({0, 0}), record({0, 1}), false);
  EXPECT_FALSE(one.all_zero);
  EXPECT_EQ(one.rel_l2, std::numeric_limits<double>::infinity());
  EXPECT_EQ(one.cosine, 0);
}

// Breaks if any distance came out as a number that a tolerance could admit.
TEST(Metrics, NaNPoisonsEveryDistance) {
  const float nan = std::nanf("");
  for (const auto& [a, b] : std::vector<std::pair<std::vector<float>, std::vector<float>>>{
           {{1, nan}, {1, 2}}, {{1, 2}, {nan, 2}}, {{1, nan}, {1, nan}}}) {
    const Metrics m = compare_records(record(a), record(b), true);
    EXPECT_EQ(m.nonfinite, 1);
    for (const double value : {m.max_abs, m.mean_abs, m.rms, m.rel_l2, m.cosine, m.nmse, *m.kl}) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(Metrics, PaddingWithEqualInfinitiesIsEqual) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Metrics m = compare_records(record({1, 2, -infinity}), record({1, 2, -infinity}), true);
  EXPECT_EQ(m.nonfinite, 0);
  EXPECT_TRUE(m.identical);
  EXPECT_EQ(m.rel_l2, 0);
  EXPECT_EQ(*m.kl, 0);
}

// Breaks if an error outside of the head went unseen: what a golden of heads is for.
TEST(Metrics, SketchesRevealDifferencesBeyondTheHead) {
  const Record ref = record(random_values(20000, 1), "layer_0_output");
  Record got = ref;
  for (size_t i = 10; i < got.values.size(); ++i) got.values[i] *= 1.05F;
  const Record golden = head_of(ref, 10, false, true);
  for (const Record& other : {got, head_of(got, 10, false, true)}) {
    const Metrics m = compare_records(golden, other, false);
    EXPECT_EQ(m.max_abs, 0);
    EXPECT_EQ(m.compared, 10);
    EXPECT_NEAR(m.rel_l2, 0.05, 0.02);
    EXPECT_FALSE(m.identical);
  }
  EXPECT_EQ(compare_records(golden, ref, false).rel_l2, 0);
}

TEST(Metrics, SummariesBoundTheErrorFromBelow) {
  const Record ref = record(random_values(5000, 2), "x");
  Record got = ref;
  for (float& value : got.values) value *= 1.5F;
  std::copy_n(ref.values.begin(), 10, got.values.begin());
  const Metrics m =
      compare_records(head_of(ref, 10, true, false), head_of(got, 10, true, false), false);
  EXPECT_NEAR(m.rel_l2, 0.5, 0.01);
}

// Breaks if a small head made the whole tensor look far off.
TEST(Metrics, SmallHeadIsScaledByTheWholeTensor) {
  Record ref = record(random_values(10000, 3), "x");
  for (size_t i = 0; i < 10; ++i) ref.values[i] = 1e-4F;
  Record got = ref;
  got.values[0] += 1e-5F;
  const Metrics m =
      compare_records(head_of(ref, 10, true, false), head_of(got, 10, true, false), false);
  EXPECT_LT(m.rel_l2, 1e-5);
}

TEST(Metrics, CountsNonfiniteElementsBeyondTheHead) {
  const Record ref = record(random_values(100, 4), "x");
  Record got = ref;
  got.values[50] = std::nanf("");
  const Metrics m =
      compare_records(head_of(ref, 10, true, true), head_of(got, 10, true, true), false);
  EXPECT_EQ(m.nonfinite, 1);
  EXPECT_TRUE(std::isnan(m.rel_l2));
}

TEST(Metrics, HeadArgmaxComesFromTheSummary) {
  Record ref = record(random_values(1000, 5));
  ref.values[700] = 50;
  ref.values[800] = 49;
  Record got = ref;
  got.values[800] = 51;
  const Metrics m =
      compare_records(head_of(ref, 10, true, false), head_of(got, 10, true, false), true);
  EXPECT_EQ(m.argmax_ref, 700);
  EXPECT_EQ(m.argmax_got, 800);
  EXPECT_EQ(m.regret, 1);
  EXPECT_EQ(m.observed_error, 2);
  EXPECT_FALSE(m.kl.has_value());
  EXPECT_FALSE(compare_records(head_of(ref, 10, false, false), got, true).argmax_ref.has_value());
  const Metrics mixed = compare_records(head_of(ref, 10, true, false), got, true);
  EXPECT_EQ(mixed.argmax_got, 800);
  EXPECT_EQ(mixed.topk_overlap, m.topk_overlap);
}

// Whatever of the whole tensor each of the two logs holds, an error behind the head is seen, and
// what is right passes.
TEST(Metrics, ComparesEveryFormOfRecordWithEveryOther) {
  const Record ref = record(random_values(20000, 6), "x");
  Record got = ref;
  for (size_t i = 10; i < got.values.size(); ++i) got.values[i] *= 1.05F;
  const auto forms = [](const Record& whole) {
    return std::vector<Record>{whole, head_of(whole, 10, false, true),
                               head_of(whole, 10, true, true), head_of(whole, 10, true, false),
                               head_of(whole, 0, false, true)};
  };
  for (const Record& a : forms(ref)) {
    for (const Record& same : forms(ref)) EXPECT_LT(compare_records(a, same, false).rel_l2, 1e-6);
    for (const Record& b : forms(got)) {
      const auto both = [&](auto holds) {
        return (holds(a) || a.has_all_values()) && (holds(b) || b.has_all_values());
      };
      const bool known = both([](const Record& r) { return r.sketch.has_value(); }) ||
                         both([](const Record& r) { return r.summary.has_value(); });
      // A sketch alone and a summary alone have nothing in common.
      const double rel_l2 = compare_records(a, b, false).rel_l2;
      EXPECT_EQ(rel_l2 > 0.02, known);
    }
  }
  const Record bare = head_of(ref, 10, false, false);
  EXPECT_EQ(compare_records(bare, got, false).rel_l2, 0) << "the head is equal, no more is known";
  EXPECT_EQ(compare_records(bare, got, false).compared, 10);
}

// Breaks if a padded vocabulary's tail, which a sketch adds up too, made the same logits differ.
TEST(Metrics, StatementsOfAPaddedTensorAreNotCompared) {
  const Record plain = record(random_values(1000, 7));
  for (const float padding : {0.0F, -5.0F, -std::numeric_limits<float>::infinity(), 1e20F}) {
    Record padded = plain;
    padded.values.resize(1016, padding);
    padded.n = 1016;
    for (const auto& [a, b] : {std::pair(plain, padded), std::pair(padded, plain)}) {
      EXPECT_EQ(compare_records(a, b, true).rel_l2, 0) << padding;
      const Metrics m =
          compare_records(head_of(a, 10, true, true), head_of(b, 10, true, true), true);
      EXPECT_EQ(m.rel_l2, 0) << padding;
      EXPECT_EQ(m.compared, 10);
      EXPECT_EQ(m.nonfinite, 0) << padding;
    }
    // All values of the longer one tell what the shorter one's sketch is of.
    Record wrong = padded;
    for (size_t i = 10; i < 1000; ++i) wrong.values[i] *= 1.1F;
    const Record golden = head_of(plain, 10, true, true);
    EXPECT_LT(compare_records(golden, padded, true).rel_l2, 1e-6) << padding;
    EXPECT_GT(compare_records(golden, wrong, true).rel_l2, 0.05) << padding;
    EXPECT_GT(compare_records(wrong, golden, true).rel_l2, 0.05) << padding;
  }
}

TEST(Metrics, ArgmaxInExcludedPaddingIsUnknown) {
  const Record plain = record(random_values(1000, 8));
  Record padded = plain;
  padded.values.resize(1016, 1e20F);
  padded.n = 1016;
  const Metrics m =
      compare_records(head_of(plain, 10, true, true), head_of(padded, 10, true, true), true);
  EXPECT_TRUE(m.argmax_ref.has_value());
  EXPECT_EQ(m.argmax_got, 1000);
  std::vector<int64_t> padding(16);
  std::iota(padding.begin(), padding.end(), 1000);
  EXPECT_EQ(compare_records(plain, padded, true, {padding}).argmax_got, m.argmax_ref);
}

TEST(Metrics, IgnoresExcludedElements) {
  const std::vector<int64_t> excluded = {1};
  const Metrics m = compare_records(record({3, 1e30F, 4}), record({3, 7, 4}), true, {excluded});
  EXPECT_EQ(m.max_abs, 0);
  EXPECT_EQ(m.compared, 2);
  EXPECT_EQ(m.argmax_ref, 2);
  EXPECT_TRUE(m.identical);
}

}  // namespace
}  // namespace assay
