#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "assay/log/sketch.h"
#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// An engine whose own log has garbage in it must not hide its choice behind it, nor the rest of a
// tensor that only a sketch tells of.
class OwnGarbageTest : public ComparisonTest {
 protected:
  OwnGarbageTest() {
    ref_[2] = 20;
    ref_[40] = 19;
  }

  Comparison with_first(const std::vector<float>& first) {
    std::vector<float> got = ref_;
    std::copy(first.begin(), first.end(), got.begin());
    return compare(line("logits", 0, ref_), line("logits", 0, got));
  }

  const float pointer_ = std::bit_cast<float>(0x7FFFU);
  std::vector<float> ref_ = waves(64, 3);
};

TEST_F(OwnGarbageTest, DoesNotExcuseANaN) {
  EXPECT_FALSE(with_first({NAN, pointer_}).pass);
}

TEST_F(OwnGarbageTest, CanBeTheArgmaxIfTheEngineMayHaveComputedIt) {
  EXPECT_FALSE(with_first({1e6F, 0}).pass);
  for (float& value : ref_) value = std::round(value * 1e6F) / 1e6F;  // as "%.6f" prints it
  const Comparison comparison = with_first({1e6F, 0});
  ASSERT_FALSE(comparison.pass);
  EXPECT_EQ(metric_name(comparison.first_divergence->metric), "argmax");
  EXPECT_EQ(comparison.results[0].metrics.argmax_got, 0);
  EXPECT_TRUE(with_first({1e9F, pointer_}).pass) << "no engine computes an address";
}

// Breaks if a spike and a zero beside it were called an address in a log that prints addresses.
TEST_F(OwnGarbageTest, IsComparedWhereTheLogWouldShowAnAddress) {
  std::vector<float> got = ref_;
  got[0] = 5000;
  got[1] = 0;
  const auto log = [](const std::vector<float>& values) { return line("q", 0, values); };
  EXPECT_EQ(compare(log(ref_), log(got)).verdict, Verdict::kWrong);
  got[1] = pointer_;
  EXPECT_TRUE(compare(log(ref_), log(got)).pass);
  for (std::vector<float>* values : {&ref_, &got}) {
    for (float& value : *values) value = std::round(value * 1e6F) / 1e6F;
  }
  EXPECT_TRUE(compare(log(ref_), log(got)).pass);
  ref_[5] = got[5] = std::nextafter(5.0F, 6.0F);  // which that prints as 5
  EXPECT_EQ(compare(log(ref_), log(got)).verdict, Verdict::kWrong);
}

// Breaks if sums that one value swamps proved the others, where nothing else is logged.
TEST_F(OwnGarbageTest, InSummariesAloneLeavesTheRestUnproven) {
  const auto log = [](double largest, double least) {
    return line("layer_0_q", 0, {},
                fmt::format(R"(,"n":64,"summary":{{"min":{},"max":{},"mean":{},"l2":{}}})", least,
                            largest, largest / 64, largest));
  };
  EXPECT_EQ(compare(log(1e30, -1), log(1e30, -9)).verdict, Verdict::kIncomplete);
  EXPECT_EQ(compare(log(1e30, -1), log(1e30, -1)).verdict, Verdict::kIncomplete);
  EXPECT_TRUE(compare(log(1e5, -1), log(1e5, -1)).pass) << "a massive activation";
}

// Breaks if the low half of an address could be a NaN that nobody hears of.
TEST_F(OwnGarbageTest, InTheReferenceDoesNotExcuseANaN) {
  std::vector<float> garbage = ref_;
  garbage[0] = NAN;
  garbage[1] = pointer_;
  const auto log = [](const std::vector<float>& values) { return line("q", 0, values); };
  EXPECT_EQ(compare(log(garbage), log(ref_)).verdict, Verdict::kWrong);
  EXPECT_EQ(compare(log(garbage), log(garbage)).verdict, Verdict::kWrong);
}

TEST_F(OwnGarbageTest, DoesNotChangeWhatTheReferenceChooses) {
  const Comparison hidden = with_first({1e30F, pointer_, -1e20F, pointer_});
  EXPECT_EQ(hidden.results[0].metrics.argmax_ref, 2);
  EXPECT_FALSE(hidden.results[0].metrics.argmax_got);
  EXPECT_EQ(hidden.argmax_total, 0);
  EXPECT_EQ(hidden.evidence.argmax_known, 0);
  EXPECT_EQ(hidden.evidence.argmax_total, 1);
  options_.strict_argmax = true;
  EXPECT_EQ(with_first({1e30F, pointer_, -1e20F, pointer_}).verdict, Verdict::kIncomplete);
}

TEST_F(OwnGarbageTest, InTheReferenceDoesNotFailTheChoiceItHides) {
  std::vector<float> garbage = ref_;
  std::copy_n(std::vector<float>{1e30F, pointer_, -1e20F, pointer_}.begin(), 4, garbage.begin());
  const Comparison hidden = compare(line("logits", 0, garbage), line("logits", 0, ref_));
  EXPECT_TRUE(hidden.pass);
  EXPECT_EQ(hidden.argmax_total, 0);
}

TEST_F(OwnGarbageTest, BeyondTheElementsInCommonIsNone) {
  std::vector<float> padded = waves(1000);
  const std::string ref =
      line("logits", 0, waves(10),
           ",\"n\":1000,\"summary\":{\"l2\":" + fmt::format("{}", summarize(padded).l2) + "}");
  padded.insert(padded.end(), 24, -1e9F);
  EXPECT_TRUE(compare(ref, line("logits", 0, padded)).pass);
}

TEST_F(OwnGarbageTest, DoesNotHideTheRestOfATensor) {
  const auto head = [&](const std::vector<float>& first, double l2) {
    std::vector<float> values = waves(10);
    std::copy(first.begin(), first.end(), values.begin());
    return line("q", 0, values, fmt::format(R"(,"n":1000,"summary":{{"l2":{}}})", l2));
  };
  EXPECT_EQ(compare(head({}, 30), head({1e30F, pointer_}, 9999)).verdict, Verdict::kWrong);
  EXPECT_EQ(compare(head({1e30F, pointer_}, 9999), head({}, 30)).verdict, Verdict::kWrong);
  EXPECT_TRUE(compare(head({}, 30), head({1e30F, pointer_}, 30)).pass)
      << "garbage in the log alone";
  EXPECT_TRUE(compare(head({1e30F, pointer_}, 30), head({}, 30)).pass);
}

// Breaks if one activation that is most of a tensor were held against the norm of a head.
TEST_F(OwnGarbageTest, LeavesAMassiveActivationInScale) {
  const auto log = [&](float massive) {
    std::vector<float> values = waves(896);
    values[500] = massive;
    const Summary summary = summarize(values);
    std::vector<float> head(values.begin(), values.begin() + 20);
    std::copy_n(std::vector<float>{1e30F, pointer_, -1e20F, pointer_}.begin(), 4, head.begin());
    return line("layer_0_output", 0, head,
                fmt::format(R"(,"n":896,"summary":{{"l2":{},"argmax":500,"top":[[500,{}]]}})",
                            summary.l2, massive));
  };
  EXPECT_TRUE(compare(log(9000), log(9001)).pass);
}

}  // namespace
}  // namespace assay
