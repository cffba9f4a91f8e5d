// Logits of which only a head, a sketch and a summary are logged: what these say of the rest.
#include <fmt/format.h>
#include <fmt/ranges.h>
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
using testing::HasSubstr;
using testing::IsEmpty;

class PartialLogitsTest : public ComparisonTest {
 protected:
  static std::vector<float> random_logits(unsigned seed, size_t n = 64) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 3);
    std::vector<float> logits(n);
    std::generate(logits.begin(), logits.end(), [&] { return normal(random); });
    return logits;
  }

  static std::vector<float> padded(std::vector<float> logits, float with) {
    logits.insert(logits.end(), 4, with);
    return logits;
  }

  // The first ten values, and a sketch and a summary of all.
  static std::string part(const std::vector<float>& logits, int64_t token_idx = 0,
                          bool with_summary = true) {
    std::string more = fmt::format(",\"n\":{}", logits.size());
    if (with_summary) {
      const Summary summary = summarize(logits);
      std::vector<std::string> top;
      for (const TopValue& value : summary.top) {
        top.push_back(fmt::format("[{},{}]", value.index, value.value));
      }
      more += fmt::format(
          R"(,"sketch":[{}],"summary":{{"min":{},"max":{},"mean":{},"l2":{},"argmax":{},"top":[{}]}})",
          fmt::join(compute_sketch(logits), ","), summary.min, summary.max, summary.mean,
          summary.l2, summary.argmax, fmt::join(top, ","));
    }
    return line("logits", token_idx, {logits.begin(), logits.begin() + 10}, more);
  }
};

// Breaks if the logits of one rank, or of some, passed as those of a vocabulary without its
// padding.
TEST_F(PartialLogitsTest, APartOfTheVocabularyIsNoPaddedOne) {
  std::vector<float> whole = random_logits(1, 2048);
  whole[1] = 40;  // chosen, and in each part
  const auto first = [&](size_t n) {
    return std::vector<float>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
  };
  for (const size_t n : {1024, 1536, 1900}) {
    for (const auto& record : {line("logits", 0, first(n)), part(first(n))}) {
      for (const auto& ref : {line("logits", 0, whole), part(whole)}) {
        const Comparison comparison = compare(ref, record);
        ASSERT_TRUE(comparison.first_divergence) << n;
        EXPECT_EQ(comparison.first_divergence->metric, Metric::kSize) << n;
      }
    }
  }
  for (const size_t n : {1928, 2046}) {
    EXPECT_TRUE(compare(line("logits", 0, whole), line("logits", 0, first(n))).pass) << n;
  }
}

// Breaks if the norm of the padding, beside which every error is small, stood for that of the
// logits.
TEST_F(PartialLogitsTest, PaddingDoesNotExcuseWrongLogits) {
  const std::vector<float> right = random_logits(1);
  std::vector<float> one = right;
  one[2] += 20;
  std::vector<float> all = right;
  for (float& logit : all) logit = 1.8F * logit + 0.5F;
  for (const float fill : {-1e4F, -1e9F, -1e30F}) {
    const std::string whole = line("logits", 0, padded(right, fill));
    for (const std::string& ref : {part(padded(right, fill)), whole}) {
      EXPECT_TRUE(compare(ref, part(padded(right, fill))).pass) << fill;
      EXPECT_FALSE(compare(ref, part(padded(one, fill))).pass) << fill;
      EXPECT_FALSE(compare(ref, part(padded(all, fill))).pass) << fill;
      EXPECT_FALSE(compare(ref, part(padded(right, 1))).pass) << "only one of the two pads";
    }
  }
}

// Breaks if a few logits that are far below the others hid what a sketch tells of the rest, or if
// what it cannot tell beside padding were not told.
TEST_F(PartialLogitsTest, WhatIsFarBelowTheOthersHidesNoneOfThem) {
  std::vector<float> logits = random_logits(1, 5000);
  logits[2500] = -2500;
  std::vector<float> scrambled = logits;
  std::reverse(scrambled.begin() + 10, scrambled.end());
  EXPECT_TRUE(compare(part(logits), part(logits)).pass);
  EXPECT_FALSE(compare(part(logits), part(scrambled)).pass);
  EXPECT_THAT(compare(part(logits), part(logits)).warnings, IsEmpty());
  const std::string with_padding = part(padded(logits, -1e9F));
  EXPECT_EQ(compare(with_padding, with_padding).evidence.partial, 1)
      << "sketch and norm are the padding's: the values logged and the largest were compared";
  // One that is small, of which alone it is known how large logits are.
  const auto sketch_only = [](const std::vector<float>& all) {
    return line("logits", 0, {0.01F},
                fmt::format(R"(,"n":5000,"sketch":[{}])", fmt::join(compute_sketch(all), ",")));
  };
  EXPECT_TRUE(compare(sketch_only(logits), sketch_only(logits)).pass);
  EXPECT_FALSE(compare(sketch_only(logits), sketch_only(scrambled)).pass);
}

// Breaks if logits without values, or with zeros for values, could not be compared for their
// padding.
TEST_F(PartialLogitsTest, PaddedLogitsNeedNoValues) {
  std::vector<float> logits = padded(random_logits(1), -1e9F);
  std::fill_n(logits.begin(), 10, 0.0F);
  EXPECT_TRUE(compare(part(logits), part(logits)).pass);
  std::vector<float> other = logits;
  other[30] = 20;
  EXPECT_FALSE(compare(part(logits), part(other)).pass);
}

// Breaks if the largest of a few known errors were all that a flip may hide in: one of several
// honest engines failed.
TEST_F(PartialLogitsTest, AnHonestErrorFlipsAsItMayWhereAllValuesAreLogged) {
  std::string ref;
  std::string got;
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  for (int token = 0; token < 400; ++token) {
    std::vector<float> logits = random_logits(static_cast<unsigned>(token), 300);
    const float noise = 3e-3F;  // of 1e-3 of the root mean square
    logits[100] = 12;
    logits[200] = 12 - 2 * noise * std::abs(normal(random));
    ref += part(logits, token);
    for (float& logit : logits) logit += noise * normal(random);
    got += part(logits, token);
  }
  const Comparison comparison = compare(ref, got);
  EXPECT_GT(comparison.argmax_total - comparison.argmax_agree, 20);
  EXPECT_EQ(comparison.failed, 0);
}

// Breaks if a choice that one log does not state were counted as known, or proved anything where
// it is asked for.
TEST_F(PartialLogitsTest, UnstatedChoiceIsUnknown) {
  const std::vector<float> logits = random_logits(1);
  const std::string silent = part(logits, 0, false);
  for (const auto& [ref, got] : {std::pair(silent, part(logits)), std::pair(part(logits), silent),
                                 std::pair(silent, silent)}) {
    const Comparison comparison = compare(ref, got);
    EXPECT_TRUE(comparison.pass);
    EXPECT_EQ(comparison.evidence.argmax_known, 0);
    EXPECT_EQ(comparison.evidence.argmax_total, 1);
  }
  options_.whole_required = true;
  EXPECT_FALSE(compare(silent, part(logits)).pass);
  EXPECT_TRUE(compare(part(logits), part(logits)).pass);
  options_.whole_required = false;
  options_.strict_argmax = true;
  EXPECT_EQ(compare(part(logits), part(logits)).verdict, Verdict::kMatch);
  EXPECT_EQ(compare(silent, part(logits)).verdict, Verdict::kIncomplete);
  EXPECT_EQ(compare(silent, silent).verdict, Verdict::kIncomplete);
}

}  // namespace
}  // namespace assay
