// Masks, garbage and infinities that both logs have: they hide nothing of the rest, and prove
// nothing by themselves.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "assay/log/sketch.h"
#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

using testing::HasSubstr;

class SharedByBothTest : public ComparisonTest {
 protected:
  static std::vector<float> with(std::vector<float> values, std::vector<size_t> places,
                                 float value) {
    for (const size_t place : places) values[place] = value;
    return values;
  }

  static std::vector<float> wrong(const std::vector<float>& values) {
    std::vector<float> made(values.rbegin(), values.rend());
    return made;
  }

  // The first `count` values, a sketch and a summary of all.
  static std::string head(const std::string& checkpoint, const std::vector<float>& values,
                          size_t count) {
    const Summary s = summarize(values);
    return line(
        checkpoint, 0, {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count)},
        fmt::format(R"(,"n":{},"sketch":[{}],"summary":{{"min":{},"max":{},"mean":{},"l2":{}}})",
                    values.size(), fmt::join(compute_sketch(values), ","), s.min, s.max, s.mean,
                    s.l2));
  }

  const std::vector<float> right_ = waves(64, 3);
};

// Breaks if a mask in the middle of the vocabulary, or one element of padding, were the norm that
// errors are taken against.
TEST_F(SharedByBothTest, MasksDoNotHideOtherLogits) {
  for (const float mask : {-1e4F, -65504.0F, -1e9F, -1e30F}) {
    for (const std::vector<size_t>& places :
         {std::vector<size_t>{30}, {0}, {63}, {0, 1, 2}, {20, 31, 40, 41, 60}}) {
      const std::string ref = line("logits", 0, with(right_, places, mask));
      const Comparison same = compare(ref, ref);
      EXPECT_TRUE(same.pass) << mask;
      EXPECT_EQ(same.evidence.whole, 1) << mask;
      const std::string off = line("logits", 0, with(wrong(right_), places, mask));
      EXPECT_EQ(compare(ref, off).failed, 1) << mask << " at " << places.front();
      EXPECT_EQ(compare(line("logits", 0, right_), ref).failed, 1) << "the reference has none";
      // A single value out of any scale in the reference is garbage of its log.
      if (places.size() == 1 && mask < -1e6F) continue;
      EXPECT_EQ(compare(ref, line("logits", 0, right_)).failed, 1) << "the other has none";
    }
  }
}

// Breaks if a value that no engine computes, and that both logs have, hid all others.
TEST_F(SharedByBothTest, GarbageDoesNotHideOtherValues) {
  for (const float garbage : {1e11F, -1e20F, 3e38F}) {
    for (const size_t place : {size_t{0}, size_t{5}, size_t{63}}) {
      const std::vector<float> ref = with(right_, {place}, garbage);
      const Comparison same = compare(line("q", 0, ref), line("q", 0, ref));
      EXPECT_TRUE(same.pass);
      EXPECT_EQ(same.quarantined, 2) << "listed, of both";
      const std::vector<float> got = with(wrong(right_), {place}, garbage);
      EXPECT_EQ(compare(line("q", 0, ref), line("q", 0, got)).failed, 1) << garbage;
      const std::vector<float> zeros = with(std::vector<float>(64, 0.0F), {place}, garbage);
      EXPECT_EQ(compare(line("q", 0, ref), line("q", 0, zeros)).failed, 1) << garbage;
      if (place > 5) continue;  // it is in the head, and the sums are its own
      EXPECT_EQ(compare(head("q", ref, 12), head("q", got, 12)).failed, 1) << garbage;
      const Comparison part = compare(head("q", ref, 12), head("q", ref, 12));
      EXPECT_EQ(part.evidence.partial, 1) << "the sums tell nothing of the rest";
    }
  }
  options_.quarantine = QuarantineMode::kFail;
  const std::string ref = line("q", 0, with(right_, {5}, 1e30F));
  EXPECT_EQ(compare(ref, ref).failed, 1);
}

// Breaks if equal infinities counted as evidence.
TEST_F(SharedByBothTest, InfinitiesAloneProveNothing) {
  for (const float infinity : {INFINITY, -INFINITY}) {
    const std::vector<float> all(12, infinity);
    for (const std::string& log :
         {line("logits", 0, all), line("logits", 0, all, ",\"n\":64"),
          line("logits", 0, {}, R"(,"n":12,"summary":{"l2":0,"nonfinite":12,"nan":0})")}) {
      const Comparison comparison = compare(log, log);
      EXPECT_EQ(comparison.failed, 0) << log;
      EXPECT_FALSE(comparison.pass) << log;
      EXPECT_EQ(comparison.evidence.unproven, 1) << log;
    }
  }
  const std::string head = line("logits", 0, std::vector<float>(12, -INFINITY), ",\"n\":64");
  EXPECT_THAT(compare(head, head).evidence.first_unproven->reason, HasSubstr("infinite"));
}

// Breaks if a log with masked logits failed against itself.
TEST_F(SharedByBothTest, CountedInfinitiesAreNoNaN) {
  const std::vector<float> masked = with(right_, {0, 1}, -INFINITY);
  const auto log = [&](size_t from, const char* nan) {
    const std::vector<float> shown(masked.begin() + static_cast<std::ptrdiff_t>(from),
                                   masked.begin() + 10);
    return line(
        "logits", 0, from == 0 ? shown : std::vector<float>(),
        fmt::format(R"(,"n":64,"summary":{{"l2":{},"nonfinite":2{}}})", summarize(masked).l2, nan));
  };
  const std::string listed = log(0, "");
  EXPECT_TRUE(compare(listed, listed).pass) << "the head shows both";
  const std::string told = log(1, R"(,"nan":0)");
  EXPECT_TRUE(compare(told, told).pass);
  const std::string unknown = log(1, "");
  const Comparison comparison = compare(unknown, unknown);
  EXPECT_EQ(comparison.failed, 0);
  EXPECT_EQ(comparison.evidence.unproven, 1);
  EXPECT_THAT(comparison.evidence.first_unproven->reason, HasSubstr("not finite"));
}

// Breaks if the rounding of a mask to 16 bits were taken for an error of the logits beside it.
TEST_F(SharedByBothTest, RoundedMasksFailNoHonestLog) {
  for (const float mask : {-1e4F, -65504.0F, -1e9F}) {
    const std::vector<float> ref = with(right_, {20, 31, 40, 41, 60}, mask);
    const std::vector<float> got = with(right_, {20, 31, 40, 41, 60}, mask * 0.9984F);
    for (const bool swapped : {false, true}) {
      const std::vector<float>& a = swapped ? got : ref;
      const std::vector<float>& b = swapped ? ref : got;
      EXPECT_TRUE(compare(line("logits", 0, a), line("logits", 0, b)).pass);
      EXPECT_EQ(compare(head("logits", a, 12), head("logits", b, 12)).failed, 0) << mask;
      EXPECT_EQ(compare(line("logits", 0, a), head("logits", b, 12)).failed, 0) << mask;
      EXPECT_EQ(compare(head("logits", a, 12), line("logits", 0, b)).failed, 0) << mask;
      EXPECT_EQ(compare(head("logits", a, 0), head("logits", b, 0)).failed, 0) << mask;
      EXPECT_FALSE(compare(head("logits", a, 0), head("logits", wrong(b), 0)).pass) << mask;
    }
  }
}

// Breaks if the excuse of rounding hid wrong logits beyond a head that is right.
TEST_F(SharedByBothTest, MasksHideNothingBeyondAHead) {
  for (const float mask : {-1e4F, -65504.0F}) {
    const std::vector<float> ref = with(right_, {20, 31, 40, 41, 60}, mask);
    std::vector<float> got = right_;
    std::reverse(got.begin() + 12, got.end());
    const std::vector<float> same_mask = with(got, {20, 31, 40, 41, 60}, mask);
    EXPECT_EQ(compare(head("logits", ref, 12), head("logits", same_mask, 12)).failed, 1) << mask;
    const std::vector<float> rounded = with(got, {20, 31, 40, 41, 60}, mask * 0.9984F);
    EXPECT_FALSE(compare(head("logits", ref, 12), head("logits", rounded, 12)).pass) << mask;
  }
}

// Breaks if a mask in a head were the norm that errors of the rest of the head are taken against.
TEST_F(SharedByBothTest, MasksInAHeadDoNotHideTheRestOfIt) {
  const std::vector<size_t> places = {0, 2, 5, 20, 31};
  for (const float mask : {-1e4F, -65504.0F, -1e9F, -1e30F}) {
    std::vector<float> off = right_;
    off[3] *= 1.5F;
    off[4] += 1;
    const auto log = [&](const std::vector<float>& values, size_t count) {
      const std::vector<float> made = with(values, places, mask);
      return line("logits", 0, {made.begin(), made.begin() + static_cast<std::ptrdiff_t>(count)},
                  ",\"n\":64");
    };
    for (const size_t ref_count : {size_t{10}, size_t{63}, size_t{64}}) {
      for (const size_t got_count : {size_t{10}, size_t{63}}) {
        const std::string ref = log(right_, ref_count);
        EXPECT_TRUE(compare(ref, log(right_, got_count)).pass) << mask << " " << ref_count;
        EXPECT_EQ(compare(ref, log(off, got_count)).failed, 1) << mask << " " << ref_count;
        EXPECT_EQ(compare(log(right_, got_count), log(off, ref_count)).failed, 1) << mask;
      }
    }
  }
}

// Breaks if masks that differ were left out of heads without a word.
TEST_F(SharedByBothTest, MasksInAHeadAreListedWhereTheyDiffer) {
  const auto log = [&](float mask, size_t count) {
    const std::vector<float> made = with(right_, {0, 2}, mask);
    return line("logits", 0, {made.begin(), made.begin() + static_cast<std::ptrdiff_t>(count)},
                ",\"n\":64");
  };
  for (const size_t count : {size_t{10}, size_t{64}}) {
    for (const QuarantineMode mode : {QuarantineMode::kExclude, QuarantineMode::kFail}) {
      options_.quarantine = mode;
      const Comparison differ = compare(log(-1e4F, count), log(-3e4F, count));
      EXPECT_EQ(differ.quarantined, 4) << count;
      EXPECT_EQ(differ.failed, mode == QuarantineMode::kFail ? 1 : 0) << count;
      ASSERT_EQ(differ.quarantine.size(), 4U) << count;
      for (const auto& entry : differ.quarantine) {
        EXPECT_EQ(entry.garbage.reason, GarbageReason::kPadding) << count;
      }
      const Comparison same = compare(log(-1e4F, count), log(-1e4F, count));
      EXPECT_EQ(same.quarantined, 0) << "as padding that both have, " << count;
      EXPECT_TRUE(same.pass) << count;
    }
  }
}

// Breaks if a mask of which the reference tells nothing were an error, or were accepted.
TEST_F(SharedByBothTest, MasksOfWhichTheReferenceTellsNothingAreUnproven) {
  const std::string part = line("logits", 0, {right_.begin(), right_.begin() + 10}, ",\"n\":64");
  const Comparison comparison = compare(part, line("logits", 0, with(right_, {30}, -INFINITY)));
  EXPECT_EQ(comparison.failed, 0);
  EXPECT_EQ(comparison.evidence.unproven, 1);
  EXPECT_TRUE(compare(part, line("logits", 0, with(right_, {62, 63}, -INFINITY))).pass) << "padded";
}

}  // namespace
}  // namespace assay
