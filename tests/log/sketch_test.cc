#include "assay/log/sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/thread_pool.h"

namespace assay {
namespace {

std::vector<float> random_values(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(-3.0F, 2.0F);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// Goldens hold sketches: if the signs changed, every one of them would be wrong. The first value is
// SplitMix64's published first output for the state 1.
TEST(Sketch, SignsAreSplitMix64OfTheIndexPlusOne) {
  EXPECT_EQ(sketch_signs(0), 0x910A2DEC89025CC1U);
  EXPECT_EQ(sketch_signs(1), 0x975835DE1C9756CEU);
}

// Breaks if the fast path drops or misplaces a bit.
TEST(Sketch, IsTheSignedSumOfTheContract) {
  const std::vector<float> values = random_values(1000, 1);
  const Sketch sketch = compute_sketch(values);
  for (size_t k = 0; k < sketch.size(); ++k) {
    long double expected = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const long double value = values[i];
      expected += ((sketch_signs(i) >> k) & 1) != 0 ? value : -value;
    }
    // 2e-12 for a sum of magnitudes of about 3,300.
    EXPECT_NEAR(sketch[k], static_cast<double>(expected), 2e-12) << k;
  }
}

// Normal numbers of many sizes, denormals, zeros of both signs, and what is not finite.
std::vector<float> values_of_all_kinds(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values = random_values(n, seed);
  for (float& value : values) {
    switch (random() % 12) {
      case 0:
        value = std::bit_cast<float>(static_cast<uint32_t>(random()));  // any bits
        break;
      case 1:
        value = std::bit_cast<float>(static_cast<uint32_t>(random()) & 0x807FFFFFU);  // denormal
        break;
      case 2:
        value = random() % 2 == 0 ? 0.0F : -0.0F;
        break;
      case 3:
        value = std::ldexp(value, static_cast<int>(random() % 200) - 100);
        break;
      case 4:
        if (random() % 8 == 0) value = std::numeric_limits<float>::infinity();
        break;
      default:
        break;
    }
  }
  return values;
}

bool same_bits(const Sketch& a, const Sketch& b) {
  return std::memcmp(a.data(), b.data(), sizeof(a)) == 0;
}

// Breaks if a log depended on the processor that wrote it.
TEST(Sketch, HasTheSameBitsOnEveryPath) {
  ThreadPool pool(3);
  std::vector<size_t> widths = {576, 1000, 1536, 2047, 2048, 4099, 151936};
  for (size_t n = 0; n < 300; ++n) widths.push_back(n);
  for (const size_t n : widths) {
    for (const bool all_kinds : {false, true}) {
      const auto seed = static_cast<unsigned>(n);
      const auto values = all_kinds ? values_of_all_kinds(n, seed) : random_values(n, seed);
      const std::vector<Sketch> paths = sketch_internal::compute_by_each_path(values);
      for (const Sketch& path : paths) EXPECT_TRUE(same_bits(path, paths[0])) << n;
      EXPECT_TRUE(same_bits(compute_sketch(values), paths[0])) << n;
      EXPECT_TRUE(same_bits(compute_sketch(values, pool), paths[0])) << n;
    }
  }
}

// Breaks if the estimate were scaled wrongly: 64 projections give it to about 18 %.
TEST(Sketch, EstimatesTheDistance) {
  const std::vector<float> a = random_values(50000, 2);
  std::vector<float> b = a;
  for (size_t i = 0; i < b.size(); i += 10) b[i] += 0.01F;
  const double exact = std::sqrt(5000.0) * 0.01;
  EXPECT_NEAR(sketch_distance(compute_sketch(a), compute_sketch(b)) / exact, 1.0, 0.3);
}

TEST(Sketch, IgnoresNonfiniteValues) {
  std::vector<float> values = {1, 2, 3};
  std::vector<float> damaged = {1, 2, 3, std::numeric_limits<float>::infinity(), std::nanf("")};
  EXPECT_EQ(compute_sketch(values), compute_sketch(damaged));
}

TEST(Summary, CountsNonfiniteAndDescribesTheRest) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {3, -4, std::nanf(""), infinity, 12, 12, -infinity, 0, 1, 2};
  const Summary summary = summarize(values);
  EXPECT_EQ(summary.nonfinite, 3);
  EXPECT_EQ(summary.min, -4);
  EXPECT_EQ(summary.max, 12);
  EXPECT_EQ(summary.argmax, 4);  // of equal values the first
  EXPECT_DOUBLE_EQ(summary.mean, 26.0 / 7);
  EXPECT_DOUBLE_EQ(summary.l2, std::sqrt(9.0 + 16 + 144 + 144 + 1 + 4));
  ASSERT_EQ(summary.top.size(), 5U);
  const int64_t indices[] = {4, 5, 0, 9, 8};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(summary.top[i].index, indices[i]);
}

// Breaks if whole vectors and what is left over are counted twice, left out or put in disorder.
TEST(Summary, IsThatOfTheElementsOneByOne) {
  for (const size_t n : std::vector<size_t>{15, 16, 17, 39, 1000}) {
    std::vector<float> values = random_values(n, static_cast<unsigned>(n));
    values[3] = -std::numeric_limits<float>::infinity();
    values[14] = std::nanf("");
    std::vector<TopValue> sorted;
    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < n; ++i) {
      if (!std::isfinite(values[i])) continue;
      sorted.push_back({static_cast<int64_t>(i), values[i]});
      sum += values[i];
      squares += static_cast<double>(values[i]) * values[i];
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const TopValue& a, const TopValue& b) { return a.value > b.value; });
    const Summary summary = summarize(values);
    EXPECT_EQ(summary.nonfinite, 2);
    EXPECT_EQ(summary.nan, 1);
    EXPECT_NEAR(summary.mean * static_cast<double>(n - 2) / sum, 1, 1e-13);
    EXPECT_NEAR(summary.l2 / std::sqrt(squares), 1, 1e-13);
    EXPECT_EQ(summary.min, static_cast<double>(sorted.back().value));
    EXPECT_EQ(summary.max, static_cast<double>(sorted.front().value));
    ASSERT_EQ(summary.top.size(), 5U);
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(summary.top[i].index, sorted[i].index) << n;
  }
}

// Breaks if the bound below which values are not looked at were too high: with few values, many
// equal ones, values that rise or fall, and what is not finite.
TEST(Summary, TopHasTheFirstOfTheLargest) {
  for (size_t n = 0; n < 200; ++n) {
    const auto seed = static_cast<unsigned>(n);
    std::vector<float> few_kinds = random_values(n, seed);
    for (float& value : few_kinds) value = std::round(value);
    std::vector<float> rising = random_values(n, seed);
    std::ranges::sort(rising);
    std::vector<float> falling(rising.rbegin(), rising.rend());
    for (const auto& values : {values_of_all_kinds(n, seed), few_kinds, rising, falling}) {
      std::vector<int64_t> expected;
      for (size_t i = 0; i < n; ++i) {
        if (std::isfinite(values[i])) expected.push_back(static_cast<int64_t>(i));
      }
      std::ranges::stable_sort(expected, [&values](int64_t a, int64_t b) {
        return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
      });
      expected.resize(std::min<size_t>(expected.size(), kSummaryTop));
      std::vector<int64_t> top;
      for (const TopValue& value : summarize(values).top) top.push_back(value.index);
      EXPECT_EQ(top, expected) << n;
    }
  }
}

TEST(Summary, OfNothingFiniteIsNaN) {
  const std::vector<float> values = {std::nanf(""), std::nanf("")};
  const Summary summary = summarize(values);
  EXPECT_TRUE(std::isnan(summary.min));
  EXPECT_TRUE(std::isnan(summary.mean));
  EXPECT_EQ(summary.argmax, -1);
  EXPECT_TRUE(summary.top.empty());
}

TEST(Summary, KeepsTheLargestOfManyTies) {
  std::vector<float> values(100, 1.0F);
  values[50] = 2.0F;
  const Summary summary = summarize(values);
  const int64_t indices[] = {50, 0, 1, 2, 3};
  ASSERT_EQ(summary.top.size(), 5U);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(summary.top[i].index, indices[i]);
}

}  // namespace
}  // namespace assay
