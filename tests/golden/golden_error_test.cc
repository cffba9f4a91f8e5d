#include "assay/golden/golden_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "assay/log/sketch.h"

namespace assay {
namespace {

constexpr size_t kLength = 300;
constexpr size_t kHead = 8;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> row() {
  std::vector<float> values(kLength);
  for (size_t i = 0; i < kLength; ++i) values[i] = std::sin(1.7F * static_cast<float>(i + 1));
  return values;
}

// As a fixture holds it: the first values, and what is known of all.
Record record_of(const std::vector<float>& values) {
  Record record;
  record.checkpoint = "logits";
  record.values.assign(values.begin(), values.begin() + kHead);
  record.n = static_cast<int64_t>(values.size());
  record.summary = summarize(values);
  record.sketch = compute_sketch(values);
  return record;
}

// What changes one element of the row by `by`, at `index`.
double error_of_change(size_t index, float by) {
  std::vector<float> got = row();
  got[index] += by;
  return golden_error(record_of(row()), got);
}

TEST(GoldenError, TheSameValuesHaveNoError) {
  EXPECT_EQ(golden_error(record_of(row()), row()), 0.0);
}

// A sketch leaves out what is not finite, and the head ends before it: both would see next to
// nothing.
TEST(GoldenError, NonfiniteValuesBeyondTheHeadGiveNaN) {
  for (const float wrong : {kNaN, kInfinity, -kInfinity}) {
    for (const size_t index : {size_t{0}, size_t{20}, kLength - 1}) {
      std::vector<float> got = row();
      got[index] = wrong;
      EXPECT_TRUE(std::isnan(golden_error(record_of(row()), got))) << wrong << " at " << index;
    }
  }
}

TEST(GoldenError, AnotherLengthIsNoNumber) {
  const std::vector<float> values = row();
  const Record want = record_of(values);
  EXPECT_TRUE(std::isnan(golden_error(want, std::span(values).first(kLength - 1))));
  EXPECT_TRUE(std::isnan(golden_error(want, std::span(values).first(kHead - 1))));
  EXPECT_TRUE(std::isnan(golden_error(want, {})));
  std::vector<float> longer = values;
  longer.push_back(0.0F);
  EXPECT_TRUE(std::isnan(golden_error(want, longer)));
}

// Division by the head's own norm, or by none, would make another number of it.
TEST(GoldenError, ADifferenceIsRelativeToTheWhole) {
  const double l2 = summarize(row()).l2;
  EXPECT_NEAR(error_of_change(3, 0.5F), 0.5 / l2, 1e-6);
  EXPECT_NEAR(error_of_change(200, 0.5F), 0.5 / l2, 1e-6);  // one element: the sketch is exact
  EXPECT_TRUE(error_of_change(200, 1e-4F) > 0.0);
}

// A record without information must not pass everything.
TEST(GoldenError, AnInsufficientRecordGivesNaN) {
  const std::vector<float> values = row();
  Record want = record_of(values);
  want.summary.reset();
  EXPECT_TRUE(std::isnan(golden_error(want, values)));
  want = record_of(values);
  want.sketch.reset();
  EXPECT_TRUE(std::isnan(golden_error(want, values)));
  want = record_of(values);
  want.sketch->at(5) = kNaN;
  EXPECT_TRUE(std::isnan(golden_error(want, values)));
  want = record_of(values);
  want.values[2] = kNaN;
  EXPECT_TRUE(std::isnan(golden_error(want, values)));
  for (const double l2 : {0.0, -1.0, static_cast<double>(kNaN)}) {
    want = record_of(values);
    want.summary->l2 = l2;
    EXPECT_TRUE(std::isnan(golden_error(want, values))) << l2;
  }
  std::vector<float> wrong = values;
  wrong[20] = kNaN;
  EXPECT_TRUE(std::isnan(golden_error(record_of(wrong), wrong)));
}

}  // namespace
}  // namespace assay
