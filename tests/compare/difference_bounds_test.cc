// Each rule raises the distance by what two statements show, and says nothing where they do not.
#include "assay/compare/difference_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/compare/made_records.h"

namespace assay {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kElements = 100;

RecordView with_l2(double l2) {
  RecordView view;
  view.l2 = l2;
  return view;
}

RecordView with_sketch(double sum) {
  RecordView view;
  view.sketch.emplace().fill(sum);
  return view;
}

RecordView with_summary(double min, double max, double mean) {
  RecordView view;
  view.summary = silent_summary();
  view.summary->min = min;
  view.summary->max = max;
  view.summary->mean = mean;
  return view;
}

RecordView with_top(const std::vector<TopValue>& top) {
  RecordView view;
  view.summary = silent_summary();
  view.summary->top = view.top = top;
  view.most_unlisted = top.back().value;
  return view;
}

// What the rules make of two views of `n` elements whose common values are equal.
Metrics bounds(const RecordView& ref, const RecordView& got, int64_t n = kElements,
               bool is_logits = false) {
  Metrics metrics;
  metrics.n = n;
  metrics.identical = metrics.all_zero = true;
  metrics.is_logits = is_logits;
  const size_t common = std::min(ref.values.size(), got.values.size());
  double head_norm = 0;
  double difference = 0;
  for (size_t i = 0; i < common; ++i) {
    head_norm += std::pow(static_cast<double>(ref.values[i]), 2);
    difference += std::pow(static_cast<double>(ref.values[i]) - got.values[i], 2);
  }
  raise_to_bounds(
      pair_views(ref, got, common, std::sqrt(difference), std::sqrt(head_norm), metrics), metrics);
  return metrics;
}

// Of views that state nothing that the other side can be held to.
void expect_nothing(const Metrics& metrics) {
  EXPECT_EQ(metrics.rel_l2, 0);
  EXPECT_FALSE(metrics.facts.any());
}

TEST(DifferenceBounds, WithoutStatementsNothingChanges) {
  expect_nothing(bounds({}, {}));
  expect_nothing(bounds(with_summary(-5, 9, 1), {}));
  expect_nothing(bounds({}, with_summary(-5, 9, 1)));
  expect_nothing(bounds(with_sketch(3), {}));
  expect_nothing(bounds(with_l2(3), {}));
}

TEST(DifferenceBounds, SketchesEstimateTheDifference) {
  RecordView ref = with_sketch(10);
  const Metrics near = bounds(ref, with_sketch(9.5));
  EXPECT_NEAR(near.rel_l2, 0.05, 1e-12);
  EXPECT_TRUE(near.facts.sketch);
  EXPECT_FALSE(near.facts.summary) << "estimates of the norm prove nothing";
  EXPECT_FALSE(near.identical);
  ref.l2 = 5;  // what differences are taken against
  EXPECT_NEAR(bounds(ref, with_sketch(9.5)).rel_l2, 0.1, 1e-12);
  const Metrics same = bounds(ref, ref);
  EXPECT_EQ(same.rel_l2, 0);
  EXPECT_TRUE(same.identical);
  EXPECT_TRUE(std::isnan(bounds(ref, with_sketch(kNaN)).rel_l2));
  EXPECT_TRUE(std::isnan(bounds(with_sketch(kNaN), ref).rel_l2));
}

// Breaks if values that differ passed because both logs hold one sketch of some other tensor.
TEST(DifferenceBounds, ValuesDifferByNoMoreThanTheirSketches) {
  const std::vector<float> values = {3, 4, 0, 0};
  const std::vector<float> others = {3, 4, 1, 0};
  RecordView ref = with_sketch(1000);
  ref.values = values;
  RecordView got = ref;
  EXPECT_EQ(bounds(ref, got).rel_l2, 0);
  got.values = others;
  EXPECT_NEAR(bounds(ref, got).rel_l2, 0.2, 1e-12) << "in the norm of the values";
  got.sketch->fill(1001);
  EXPECT_NEAR(bounds(ref, got).rel_l2, 1e-3, 1e-9) << "the sketches tell of as much";
  got = ref;
  const std::vector<float> near = {3, 4.04F, 0, 0};
  got.values = near;
  EXPECT_EQ(bounds(ref, got).rel_l2, 0) << "values may be rounded";
}

TEST(DifferenceBounds, NormsDifferByTheirDifference) {
  const Metrics metrics = bounds(with_l2(20), with_l2(21));
  EXPECT_NEAR(metrics.rel_l2, 0.05, 1e-12);
  EXPECT_TRUE(metrics.facts.summary);
  EXPECT_FALSE(metrics.all_zero);
  EXPECT_EQ(bounds(with_l2(20), with_l2(20 * (1 + 5e-7))).rel_l2, 0) << "another order of sums";
  EXPECT_GT(bounds(with_l2(20), with_l2(20 * (1 + 2e-6))).rel_l2, 0);
}

TEST(DifferenceBounds, ANormOfZeroIsNoneOfATensor) {
  EXPECT_EQ(bounds(with_l2(0), with_l2(1)).rel_l2, HUGE_VAL);
  EXPECT_EQ(bounds(with_l2(1), with_l2(0)).rel_l2, 1);
  EXPECT_EQ(bounds(with_sketch(0), with_l2(1)).rel_l2, HUGE_VAL);
  EXPECT_EQ(bounds(with_l2(1), with_sketch(0)).rel_l2, 1);
  const Metrics both = bounds(with_l2(0), with_l2(0));
  EXPECT_EQ(both.rel_l2, 0);
  EXPECT_TRUE(both.facts.zeros);
  EXPECT_TRUE(both.all_zero);
  EXPECT_FALSE(bounds(with_l2(0), {}).facts.zeros);
}

// Breaks if an estimate were held as exactly as a norm, or not at all.
TEST(DifferenceBounds, EstimatedNormHoldsWithinItsError) {
  for (const bool swapped : {false, true}) {
    const auto both = [&](double exact, double estimate) {
      return swapped ? bounds(with_sketch(estimate), with_l2(exact))
                     : bounds(with_l2(exact), with_sketch(estimate));
    };
    for (const double factor : {0.51, 0.8, 1.0, 1.5}) expect_nothing(both(20, 20 * factor));
    for (const double factor : {0.4, 2.1, 100.0}) {
      EXPECT_GT(both(20, 20 * factor).rel_l2, 0.5) << factor;
      EXPECT_FALSE(both(20, 20 * factor).facts.any()) << factor;
    }
    EXPECT_FALSE(both(20, kNaN).rel_l2 <= 1) << "NaN is no estimate that is near";
  }
}

// |max a - max b| and the like are differences of one element, a mean's of all.
TEST(DifferenceBounds, ExtremesAndMeansEachBoundTheDifference) {
  RecordView ref = with_summary(-6, 8, 1);
  ref.l2 = 50;
  const auto against = [&](double min, double max, double mean) {
    return bounds(ref, with_summary(min, max, mean));
  };
  EXPECT_EQ(against(-6, 8, 1).rel_l2, 0);
  EXPECT_TRUE(against(-6, 8, 1).facts.summary);
  EXPECT_TRUE(against(-6, 8, 1).identical);
  EXPECT_NEAR(against(-6, 9, 1).rel_l2, 1 / 50.0, 1e-12);
  EXPECT_NEAR(against(-5, 8, 1).rel_l2, 1 / 50.0, 1e-12);
  EXPECT_NEAR(against(-6, 8, 1.5).rel_l2, 0.5 * 10 / 50, 1e-12);
  EXPECT_NEAR(against(-3, 9, 1.1).rel_l2, 3 / 50.0, 1e-12) << "the largest of the three";
  for (const auto& known : {against(-5, kNaN, kNaN), against(kNaN, 9, kNaN)}) {
    EXPECT_NEAR(known.rel_l2, 1 / 50.0, 1e-12);
    EXPECT_TRUE(known.facts.summary);
    EXPECT_FALSE(known.identical);
  }
  EXPECT_NEAR(against(kNaN, kNaN, 1.5).rel_l2, 0.1, 1e-12);
  expect_nothing(against(kNaN, kNaN, kNaN));
}

TEST(DifferenceBounds, LargestElementsAtOtherIndicesDiffer) {
  const Metrics same = bounds(with_top({{40, 9}, {50, 8}}), with_top({{40, 9}, {50, 8}}));
  EXPECT_EQ(same.rel_l2, 0);
  EXPECT_TRUE(same.facts.top);
  EXPECT_FALSE(same.facts.summary);
  EXPECT_TRUE(same.identical);
  const Metrics off = bounds(with_top({{40, 9}, {50, 8}}), with_top({{40, 9}, {50, 7}}));
  EXPECT_EQ(off.observed_error, 1);
  EXPECT_NEAR(off.rel_l2, 1 / std::hypot(9, 8), 1e-6) << "in the norm of those listed";
  const Metrics elsewhere = bounds(with_top({{40, 9}, {50, 8}}), with_top({{40, 9}, {60, 8.5F}}));
  EXPECT_FALSE(elsewhere.identical);
  EXPECT_EQ(elsewhere.observed_error, 0.5) << "60 is at most 8 there";
  const Metrics apart = bounds(with_top({{1, 0}}), with_top({{1, 0}}));
  EXPECT_FALSE(apart.facts.top) << "a zero proves nothing";
}

// Breaks if what a head shows counted a second time, or as a fact beyond it.
// Breaks if an error of the one element that the other log lists is taken against the norm of a
// longer list of the reference, or of all: a serving engine's best token may be off by 3 nats then.
TEST(DifferenceBounds, ErrorOfAListIsTakenAgainstWhatBothList) {
  constexpr int64_t kVocabulary = 100000;
  std::vector<TopValue> listed;
  for (int64_t i = 0; i < 1000; ++i) listed.push_back({i, -2.0F - 0.01F * static_cast<float>(i)});
  const auto error = [&](size_t of_ref, size_t of_got, float off) {
    std::vector<TopValue> got(listed.begin(), listed.begin() + static_cast<ptrdiff_t>(of_got));
    got.front().value += off;
    const RecordView ref =
        with_top({listed.begin(), listed.begin() + static_cast<ptrdiff_t>(of_ref)});
    return bounds(ref, with_top(got), kVocabulary, true).rel_l2;
  };
  const double alone = error(1, 1, 1.0F);
  EXPECT_GT(alone, 0.4);
  EXPECT_DOUBLE_EQ(error(20, 1, 1.0F), alone);
  EXPECT_DOUBLE_EQ(error(1000, 1, 1.0F), alone);
  EXPECT_LT(error(1000, 1000, 1.0F), 0.01);  // one of a thousand
}

TEST(DifferenceBounds, LargestElementsWithinTheHeadAddNoFact) {
  const std::vector<float> values = {9, 1};
  RecordView view = with_top({{0, 9}});
  view.values = values;
  EXPECT_FALSE(bounds(view, view).facts.top);
  view.top.push_back({40, 5});
  EXPECT_TRUE(bounds(view, view).facts.top);
}

TEST(DifferenceBounds, HeadNormIsBoundedByTheOthersNorm) {
  const std::vector<float> values = {30, 40};
  RecordView head;
  head.values = values;
  EXPECT_NEAR(bounds(head, with_l2(40)).rel_l2, 0.25, 1e-12);
  EXPECT_NEAR(bounds(with_l2(40), head).rel_l2, 0.25, 1e-12);
  expect_nothing(bounds(head, with_l2(50)));
  expect_nothing(bounds(head, with_l2(900)));
}

TEST(DifferenceBounds, ElementIsBoundedByTheOthersNorm) {
  EXPECT_NEAR(bounds(with_summary(-50, 3, kNaN), with_l2(40)).rel_l2, 0.25, 1e-12);
  EXPECT_NEAR(bounds(with_l2(40), with_summary(-3, 50, kNaN)).rel_l2, 0.25, 1e-12);
  expect_nothing(bounds(with_l2(40), with_summary(-3, 40, kNaN)));
}

TEST(DifferenceBounds, NormIsBoundedByItsElements) {
  EXPECT_NEAR(bounds(with_l2(40), with_summary(-2, 3, kNaN)).rel_l2, 0.25, 1e-12);
  EXPECT_NEAR(bounds(with_summary(-3, 2, kNaN), with_l2(40)).rel_l2, 0.25, 1e-12);
  expect_nothing(bounds(with_l2(40), with_summary(-4, 3, kNaN)));
  expect_nothing(bounds(with_l2(40), with_summary(kNaN, 3, kNaN)));  // one extreme is not known
}

// Breaks if a statement were held to a norm and not to the sketch that estimates it, within 0.5.
TEST(DifferenceBounds, StatementsAreBoundedByTheOthersSketch) {
  const std::vector<float> values = {60, 80};
  RecordView head;
  head.values = values;
  for (const RecordView& view : {head, with_summary(-100, 3, kNaN), with_summary(kNaN, 100, kNaN),
                                 with_summary(kNaN, kNaN, -10), with_top({{3, 80}, {5, 60}})}) {
    EXPECT_NEAR(bounds(with_sketch(40), view).rel_l2, 0.5, 1e-12);
    EXPECT_NEAR(bounds(view, with_sketch(40)).rel_l2, 0.5, 1e-12);
    expect_nothing(bounds(with_sketch(50), view));
  }
  EXPECT_NEAR(bounds(with_sketch(62), with_summary(-2, 3, kNaN)).rel_l2, 10.0 / 62, 1e-12);
  expect_nothing(bounds(with_sketch(46), with_summary(-2, 3, kNaN)));
}

TEST(DifferenceBounds, MeanIsBoundedByTheOthersNormAndExtremes) {
  EXPECT_NEAR(bounds(with_l2(40), with_summary(kNaN, kNaN, 5)).rel_l2, 0.25, 1e-12);
  expect_nothing(bounds(with_l2(40), with_summary(kNaN, kNaN, 4)));
  EXPECT_NEAR(bounds(with_summary(kNaN, 3, kNaN), with_summary(kNaN, kNaN, 6)).rel_l2, 10, 1e-12);
  EXPECT_NEAR(bounds(with_summary(-6, kNaN, kNaN), with_summary(kNaN, kNaN, -9)).rel_l2, 5, 1e-12);
  expect_nothing(bounds(with_summary(-6, kNaN, kNaN), with_summary(kNaN, kNaN, -6)));
  // How many logits are padding, which their mean is without, is not known.
  expect_nothing(bounds(with_l2(40), with_summary(kNaN, kNaN, 5), kElements, true));
}

// Breaks if a NaN were followed by a number, which a tolerance may admit.
TEST(DifferenceBounds, NaNStaysNaN) {
  RecordView ref = with_sketch(3);
  ref.l2 = 3;
  RecordView got = with_sketch(kNaN);
  got.l2 = 30;
  EXPECT_TRUE(std::isnan(bounds(ref, got).rel_l2));
  Metrics metrics;
  metrics.n = kElements;
  metrics.rel_l2 = kNaN;
  const RecordView a = with_l2(1);
  const RecordView b = with_l2(9);
  raise_to_bounds(pair_views(a, b, 0, 0, 0, metrics), metrics);
  EXPECT_TRUE(std::isnan(metrics.rel_l2));
}

// Breaks if a bound lowered a distance that was measured.
TEST(DifferenceBounds, OnlyRaise) {
  Metrics metrics;
  metrics.n = kElements;
  metrics.rel_l2 = 0.3;
  const RecordView a = with_l2(20);
  const RecordView b = with_l2(21);
  raise_to_bounds(pair_views(a, b, 0, 0, 0, metrics), metrics);
  EXPECT_EQ(metrics.rel_l2, 0.3);
}

TEST(PairViews, DifferencesAreTakenAgainstTheBestKnownNorm) {
  Metrics metrics;
  metrics.n = 8;
  const std::vector<float> values = {3, 4};
  RecordView head;
  head.values = values;
  const RecordView silent;
  EXPECT_EQ(pair_views(with_l2(7), with_l2(9), 0, 0, 0, metrics).norm, 7);
  EXPECT_EQ(pair_views(with_sketch(7), with_l2(9), 0, 0, 0, metrics).norm, 7) << "an estimate";
  EXPECT_EQ(pair_views(silent, with_l2(9), 0, 0, 0, metrics).norm, 9) << "the other's";
  EXPECT_EQ(pair_views(head, silent, 0, 0, 0, metrics).norm, 10) << "as if all were like these";
  EXPECT_EQ(pair_views(with_summary(-6, 2, kNaN), silent, 0, 0, 0, metrics).norm, 6);
  EXPECT_EQ(pair_views(with_summary(kNaN, kNaN, -6), silent, 0, 0, 0, metrics).norm,
            6 * std::sqrt(8))
      << "at least";
  EXPECT_EQ(pair_views(with_top({{0, 3}, {5, 4}}), silent, 0, 0, 0, metrics).norm, 5);
}

// Breaks if every error of logits were small beside the norm of their padding.
TEST(PairViews, LogitScaleIgnoresPadding) {
  RecordView ref = with_top({{0, 5}});
  ref.l2 = 1e10;
  Metrics metrics;
  metrics.n = kElements;
  EXPECT_EQ(pair_views(ref, ref, 0, 0, 0, metrics).norm, 1e10) << "a layer has none";
  metrics.is_logits = true;
  const ViewPair padded = pair_views(ref, ref, 0, 0, 0, metrics);
  EXPECT_EQ(padded.norm, 50) << "the largest in each place";
  EXPECT_EQ(padded.sums, 1e10);
  EXPECT_TRUE(padded.padded);
  ref.l2 = 300;
  const ViewPair plain = pair_views(ref, ref, 0, 0, 0, metrics);
  EXPECT_EQ(plain.norm, 300);
  EXPECT_FALSE(plain.padded);
}

}  // namespace
}  // namespace assay
