// What one log tells of elements that the other does not list.
#include "assay/compare/single_values.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "assay/log/sketch.h"
#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(MinDifferences, FindsElementsThatTheOtherLogContradicts) {
  const std::vector<float> values = {1, 2, 30, -4};
  const std::vector<TopValue> top = {{4, 9}, {5, 8}};
  Summary summary;
  summary.max = 9;
  summary.min = -1;
  const SingleValues listed{values, {}, nullptr, {}};
  const SingleValues told{{}, top, &summary, 8};
  EXPECT_THAT(min_differences(listed, told, 0), ElementsAre(Pair(2, 22), Pair(3, 3)));
  EXPECT_THAT(min_differences(told, listed, 0), ElementsAre(Pair(2, 22), Pair(3, 3)));
  EXPECT_THAT(min_differences(listed, told, 3), ElementsAre(Pair(3, 3)));
  const std::vector<TopValue> others = {{4, 9}, {6, 8.5F}};
  const SingleValues two{{}, top, nullptr, 8};
  EXPECT_THAT(min_differences({{}, others, nullptr, 8.5}, two, 0), ElementsAre(Pair(6, 0.5)));
  EXPECT_THAT(min_differences(two, two, 0), IsEmpty());
}

class SingleValuesTest : public ComparisonTest {
 protected:
  // Values that alternate between -0.5 and 0.5, and the five largest at other places.
  static std::vector<float> with_peaks(size_t begin) {
    std::vector<float> values(100);
    for (size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 0.5F : -0.5F;
    for (size_t k = 0; k < 5; ++k) values[begin + 2 * k] = static_cast<float>(9 - k);
    return values;
  }

  // The first `n` of the values, with a summary of all of them or not.
  static std::string head(const std::vector<float>& values, size_t n, bool summarized) {
    std::string rest = fmt::format(",\"n\":{}", values.size());
    if (summarized) {
      const Summary summary = summarize(values);
      std::string top;
      for (const TopValue& value : summary.top) {
        top += fmt::format("{}[{},{}]", top.empty() ? "" : ",", value.index, value.value);
      }
      rest += fmt::format(
          R"(,"summary":{{"min":{},"max":{},"mean":{},"l2":{},"argmax":{},"top":[{}]}})",
          summary.min, summary.max, summary.mean, summary.l2, summary.argmax, top);
    }
    return line("layer_0_output", 0,
                std::vector<float>(values.begin(), values.begin() + static_cast<long>(n)), rest);
  }
};

// Breaks if summaries whose sums agree hid that the largest values are elsewhere.
TEST_F(SingleValuesTest, LargestValuesAtOtherIndicesDiffer) {
  const std::vector<float> ref = with_peaks(40);
  const std::vector<float> got = with_peaks(80);
  const double rel_l2 =
      compare(head(ref, 100, false), head(got, 100, false)).results[0].metrics.rel_l2;
  EXPECT_GT(rel_l2, 1);
  for (const size_t n : {size_t{10}, size_t{100}}) {
    for (const size_t m : {size_t{10}, size_t{100}}) {
      const Comparison comparison = compare(head(ref, n, n < 100), head(got, m, m < 100));
      EXPECT_EQ(comparison.verdict, Verdict::kWrong) << n << " and " << m;
      EXPECT_LE(comparison.results[0].metrics.rel_l2, rel_l2 * (1 + 1e-6)) << n << " and " << m;
      EXPECT_TRUE(compare(head(ref, n, n < 100), head(ref, m, m < 100)).pass);
    }
  }
}

TEST_F(SingleValuesTest, ValuesBeyondTheExtremesDiffer) {
  const std::vector<float> ref = with_peaks(40);
  std::vector<float> got = ref;
  std::fill(got.begin() + 20, got.end(), -700.0F);
  EXPECT_FALSE(compare(head(ref, 10, true), head(got, 99, false)).pass);
  EXPECT_FALSE(compare(head(got, 99, false), head(ref, 10, true)).pass);
  EXPECT_TRUE(compare(head(ref, 10, true), head(ref, 99, false)).pass);
}

// Breaks if a NaN went unseen because the other log lists fewer values.
TEST_F(SingleValuesTest, NonfiniteBeyondTheOtherHeadFails) {
  for (const bool summarized : {false, true}) {
    const std::vector<float> ref = with_peaks(40);
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      std::vector<float> got = ref;
      got[15] = bad;
      for (const auto mode :
           {QuarantineMode::kExclude, QuarantineMode::kFail, QuarantineMode::kOff}) {
        options_.quarantine = mode;
        EXPECT_FALSE(compare(head(ref, 10, summarized), head(got, 20, false)).pass) << bad;
        EXPECT_FALSE(compare(head(got, 20, false), head(ref, 10, summarized)).pass) << bad;
      }
    }
  }
}

TEST(NonfiniteBeyond, AcceptsMasksAndCountedInfinities) {
  Record record;
  record.checkpoint = "logits";
  record.values = {NAN, 1, NAN, INFINITY, -INFINITY, 2};
  EXPECT_EQ(nonfinite_beyond(record, 1, {}, {}, true), 2);
  EXPECT_EQ(nonfinite_beyond(record, 1, {}, {}, false), 3);
  EXPECT_EQ(nonfinite_beyond(record, 1, {}, 0, true), 3);
  EXPECT_EQ(nonfinite_beyond(record, 1, {}, 1, true), 2);
  EXPECT_EQ(nonfinite_beyond(record, 1, {}, 5, true), 1);
  EXPECT_EQ(nonfinite_beyond(record, 1, std::vector<int64_t>{2}, {}, true), 1);
  EXPECT_EQ(nonfinite_beyond(record, 9, {}, {}, true), 0);
  record.checkpoint = "q";
  EXPECT_EQ(nonfinite_beyond(record, 1, {}, {}, true), 3);
}

TEST(HasMask, IsNoPaddingAtTheEnd) {
  Record record;
  record.values = {1, -INFINITY, 2, -INFINITY, -INFINITY};
  EXPECT_TRUE(has_mask(record, 0));
  EXPECT_FALSE(has_mask(record, 2));
  EXPECT_FALSE(has_mask(record, 9));
}

}  // namespace
}  // namespace assay
