#include "assay/compare/value_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace assay {
namespace {

std::vector<float> random_values(size_t n, unsigned seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.3F, scale);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// Counts the floats between two by walking over them.
int64_t ulps_by_walking(float a, float b) {
  int64_t steps = 0;
  const float high = std::max(a, b);
  float at = std::min(a, b);
  while (at < high) {
    at = std::nextafter(at, INFINITY);
    ++steps;
  }
  return steps;
}

// The comparator against a naive one in long double: breaks if any metric were computed wrongly, at
// lengths around the width of its vectors above all.
TEST(ValueMetrics, MatchANaiveComparator) {
  for (const size_t n : std::vector<size_t>{0, 1, 2, 7, 8, 9, 15, 16, 17, 1000, 4099}) {
    const std::vector<float> a = random_values(n, 1, 2);
    std::vector<float> b = a;
    const std::vector<float> noise = random_values(n, 2, 1e-3F);
    for (size_t i = 0; i < n; ++i) b[i] += noise[i];
    long double abs_difference = 0, difference_2 = 0, a_2 = 0, b_2 = 0, a_b = 0, max_difference = 0;
    int64_t flips = 0;
    for (size_t i = 0; i < n; ++i) {
      const long double x = a[i], y = b[i];
      const long double difference = std::fabs(x - y);
      abs_difference += difference;
      difference_2 += difference * difference;
      a_2 += x * x;
      b_2 += y * y;
      a_b += x * y;
      max_difference = std::max(max_difference, difference);
      flips += x * y < 0 ? 1 : 0;
    }
    const ValueSums sums = sum_values(a, b);
    EXPECT_EQ(sums.count, static_cast<int64_t>(n));
    const auto near = [&](double got, long double expected) {
      const auto value = static_cast<double>(expected);
      EXPECT_NEAR(got, value, 1e-12 * (1 + std::abs(value))) << n;
    };
    near(sums.abs_difference, abs_difference);
    near(sums.difference_2, difference_2);
    near(sums.a_2, a_2);
    near(sums.b_2, b_2);
    near(sums.a_b, a_b);
    EXPECT_EQ(sums.max_difference, static_cast<double>(max_difference));
    EXPECT_EQ(sums.sign_flips, flips);
    EXPECT_EQ(sums.nonfinite, 0);
  }
}

TEST(ValueMetrics, UlpsCountTheFloatsBetween) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const struct {
    float a, b;
  } cases[] = {{1, 1},        {1, 1.0001F},  {0.9999F, 1.0001F}, {-1, -1.00001F},
               {0.0F, -0.0F}, {tiny, -tiny}, {0, 3 * tiny},      {-2 * tiny, 1 * tiny}};
  for (const auto& test : cases) {
    EXPECT_EQ(sum_values({{test.a}}, {{test.b}}).max_ulp, ulps_by_walking(test.a, test.b))
        << test.a << " " << test.b;
  }
  EXPECT_EQ(
      sum_values({{-std::numeric_limits<float>::max()}}, {{std::numeric_limits<float>::max()}})
          .max_ulp,
      2LL * 0x7F7FFFFF);
}

// Breaks if a NaN passed, on either side, on both, or at any place of a vector.
TEST(ValueMetrics, NaNIsNeverEqual) {
  const float nan = std::nanf("");
  for (size_t place = 0; place < 19; ++place) {
    std::vector<float> clean(19, 1.0F);
    std::vector<float> damaged = clean;
    damaged[place] = nan;
    EXPECT_EQ(sum_values(clean, damaged).nonfinite, 1);
    EXPECT_EQ(sum_values(damaged, clean).nonfinite, 1);
    EXPECT_EQ(sum_values(damaged, damaged).nonfinite, 1);
  }
}

TEST(ValueMetrics, OnlyEqualInfinitiesAreEqual) {
  const std::vector<float> a = {1, INFINITY, -INFINITY, -INFINITY, 2, INFINITY};
  const std::vector<float> b = {1, INFINITY, -INFINITY, INFINITY, 2, 5};
  const ValueSums sums = sum_values(a, b);
  EXPECT_EQ(sums.nonfinite, 2);
  EXPECT_EQ(sums.a_2, 5);
  EXPECT_EQ(sums.max_difference, 0);
}

TEST(ValueMetrics, KlMatchesItsDefinition) {
  const std::vector<float> a = random_values(500, 3, 3);
  const std::vector<float> b = random_values(500, 4, 3);
  long double a_sum = 0, b_sum = 0, kl = 0;
  for (const float x : a) a_sum += std::exp(static_cast<long double>(x));
  for (const float x : b) b_sum += std::exp(static_cast<long double>(x));
  for (size_t i = 0; i < a.size(); ++i) {
    const long double p = std::exp(static_cast<long double>(a[i])) / a_sum;
    const long double q = std::exp(static_cast<long double>(b[i])) / b_sum;
    kl += p * std::log(p / q);
  }
  EXPECT_NEAR(kl_divergence(a, b), static_cast<double>(kl), 1e-10);
  EXPECT_EQ(kl_divergence(a, a), 0);
}

TEST(ValueMetrics, KlOfLargeAndMaskedLogits) {
  EXPECT_EQ(kl_divergence({{1e30F, 0}}, {{1e30F, 0}}), 0);
  EXPECT_NEAR(kl_divergence({{1, 2, -INFINITY}}, {{1, 2, -INFINITY}}), 0, 1e-15);
  EXPECT_EQ(kl_divergence({{1, 2}}, {{1, -INFINITY}}), INFINITY);
  EXPECT_TRUE(std::isnan(kl_divergence({{1, std::nanf("")}}, {{1, 2}})));
  EXPECT_TRUE(std::isnan(kl_divergence({}, {})));
  // A 32-bit float of this size is 256 from the next.
  const std::vector<float> a = {3e9F, 3e9F - 768, 3e9F - 768, 3e9F - 768};
  const std::vector<float> b = {3e9F - 768, 3e9F, 3e9F - 768, 3e9F - 768};
  EXPECT_EQ(kl_divergence(a, b), 768);
}

// Breaks if the fast path for finite logits were another function than the careful one.
TEST(ValueMetrics, KlIsTheSameOnBothPaths) {
  std::vector<float> a = random_values(3001, 6, 4);
  std::vector<float> b = random_values(3001, 7, 4);
  a[5] = b[6] = -800;  // their weights vanish
  const double fast = kl_divergence(a, b);
  a.push_back(-INFINITY);
  b.push_back(-INFINITY);
  EXPECT_NEAR(kl_divergence(a, b), fast, 1e-11 * fast);
}

}  // namespace
}  // namespace assay
