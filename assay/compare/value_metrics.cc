#include "assay/compare/value_metrics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace assay {
namespace {

// The same code for every processor, compiled once more with wider vectors: no sum changes its
// order and no product is fused, so the bits are the same.
#define ASSAY_INLINE [[gnu::always_inline]] inline
#if defined(__x86_64__)
#define ASSAY_AVX2 __attribute__((target("avx2")))
#endif

constexpr size_t kLanes = 8;
using Lanes = std::array<double, kLanes>;

double total(const Lanes& lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

// Floats as integers in the same order, with 0 and -0 both at 0.
ASSAY_INLINE int32_t ordered(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits >= 0 ? bits : std::numeric_limits<int32_t>::min() - bits;
}

ASSAY_INLINE bool all_finite(std::span<const float> values) {
  uint32_t seen = 0;
  for (const float value : values) {
    const uint32_t exponent = std::bit_cast<uint32_t>(value) & 0x7F800000U;
    seen |= static_cast<uint32_t>(exponent == 0x7F800000U);
  }
  return seen == 0;
}

// Independent lanes let the compiler use vectors without changing the order of any sum.
struct LaneSums {
  Lanes abs_difference{};
  Lanes difference_2{};
  Lanes a_2{};
  Lanes b_2{};
  Lanes a_b{};
  Lanes max_difference{};
  std::array<uint32_t, kLanes> max_ulp{};
  std::array<int32_t, kLanes> sign_flips{};

  ASSAY_INLINE void add(size_t lane, float a_value, float b_value) {
    const auto a = static_cast<double>(a_value);
    const auto b = static_cast<double>(b_value);
    const double difference = a - b;
    const double magnitude = std::abs(difference);
    abs_difference[lane] += magnitude;
    difference_2[lane] += difference * difference;
    a_2[lane] += a * a;
    b_2[lane] += b * b;
    a_b[lane] += a * b;
    max_difference[lane] = magnitude > max_difference[lane] ? magnitude : max_difference[lane];
    const int32_t i = ordered(a_value);
    const int32_t j = ordered(b_value);
    const uint32_t ulp = i > j ? static_cast<uint32_t>(i) - static_cast<uint32_t>(j)
                               : static_cast<uint32_t>(j) - static_cast<uint32_t>(i);
    max_ulp[lane] = ulp > max_ulp[lane] ? ulp : max_ulp[lane];
    sign_flips[lane] += static_cast<int32_t>((i > 0 && j < 0) || (i < 0 && j > 0));
  }
};

ASSAY_INLINE ValueSums sum_finite(std::span<const float> a, std::span<const float> b) {
  LaneSums sums;
  size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums.add(lane, a[i + lane], b[i + lane]);
  }
  for (size_t lane = 0; i + lane < a.size(); ++lane) sums.add(lane, a[i + lane], b[i + lane]);
  ValueSums result;
  result.count = static_cast<int64_t>(a.size());
  result.abs_difference = total(sums.abs_difference);
  result.difference_2 = total(sums.difference_2);
  result.a_2 = total(sums.a_2);
  result.b_2 = total(sums.b_2);
  result.a_b = total(sums.a_b);
  result.max_difference = *std::max_element(sums.max_difference.begin(), sums.max_difference.end());
  result.max_ulp = *std::max_element(sums.max_ulp.begin(), sums.max_ulp.end());
  for (const int32_t flips : sums.sign_flips) result.sign_flips += flips;
  return result;
}

// exp_of_negative() leaves the normal numbers below -708. A 32-bit float that is this much below
// the largest logit is rounded by half as much again at most, or to the largest logit itself.
constexpr float kLeastExponent = -350;

// exp(x) for kLeastExponent <= x <= 0 within 1e-15 of its value, in a form that compilers turn into
// vectors. x = n ln 2 + r with |r| <= ln 2 / 2 (Cody and Waite, "Software Manual for the Elementary
// Functions", 1980), and exp(r) by its Taylor series, whose 13th term is below 1e-16.
ASSAY_INLINE double exp_of_negative(double x) {
  constexpr double kShift = 0x1.8p52;  // adding it rounds to an integer in the low bits
  constexpr double kLn2High = 0x1.62e42fefa0000p-1;
  constexpr double kLn2Low = 0x1.cf79abc9e3b39p-40;
  const double shifted = x * 0x1.71547652b82fep0 + kShift;
  const double n = shifted - kShift;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double sum = 1.0 / 479001600;
  constexpr double kInverseFactorials[] = {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                                           1.0 / 5040,     1.0 / 720,     1.0 / 120,    1.0 / 24,
                                           1.0 / 6,        1.0 / 2,       1.0,          1.0};
#pragma GCC unroll 12
  for (const double term : kInverseFactorials) sum = sum * r + term;
  const uint64_t exponent = (std::bit_cast<uint64_t>(shifted) + 1023) << 52;
  return sum * std::bit_cast<double>(exponent);
}

// What kl_divergence() sums over the elements.
struct SoftmaxSums {
  double a = 0;      // sum of exp(a - max a)
  double b = 0;      // sum of exp(b - max b)
  double moved = 0;  // sum of exp(a - max a) * (a - b)
};

// weights[i] = exp(values[i] - max) for finite values.
ASSAY_INLINE void softmax_weights(std::span<const float> values, double max, double* weights) {
  for (size_t i = 0; i < values.size(); ++i) {
    weights[i] = exp_of_negative(static_cast<double>(values[i]) - max);
  }
}

ASSAY_INLINE SoftmaxSums sum_softmax(std::span<const float> a, std::span<const float> b,
                                     double a_max, double b_max) {
  constexpr size_t kBlock = 32 * kLanes;
  double a_weights[kBlock];
  double b_weights[kBlock];
  Lanes a_sum{};
  Lanes b_sum{};
  Lanes moved{};
  for (size_t begin = 0; begin < a.size(); begin += kBlock) {
    const std::span<const float> a_part = a.subspan(begin, std::min(kBlock, a.size() - begin));
    const std::span<const float> b_part = b.subspan(begin, a_part.size());
    softmax_weights(a_part, a_max, a_weights);
    softmax_weights(b_part, b_max, b_weights);
    for (size_t i = 0; i < a_part.size(); ++i) {
      const double difference = static_cast<double>(a_part[i]) - static_cast<double>(b_part[i]);
      a_sum[i % kLanes] += a_weights[i];
      b_sum[i % kLanes] += b_weights[i];
      moved[i % kLanes] += a_weights[i] * difference;
    }
  }
  return {total(a_sum), total(b_sum), total(moved)};
}

ASSAY_INLINE bool all_at_least(std::span<const float> values, float least) {
  uint32_t less = 0;
  for (const float value : values) less |= static_cast<uint32_t>(!(value >= least));
  return less == 0;
}

// The same for any values: -Infinity on both sides takes no part.
SoftmaxSums sum_softmax_carefully(std::span<const float> a, std::span<const float> b, double a_max,
                                  double b_max) {
  SoftmaxSums sums;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    const auto y = static_cast<double>(b[i]);
    if (std::isinf(x) && x == y && x < 0) continue;
    const double weight = std::exp(x - a_max);
    sums.a += weight;
    sums.b += std::exp(y - b_max);
    sums.moved += weight == 0 ? 0 : weight * (x - y);
  }
  return sums;
}

ASSAY_INLINE ValueSums sum_any(std::span<const float> a, std::span<const float> b) {
  if (all_finite(a) && all_finite(b)) return sum_finite(a, b);
  std::vector<float> finite_a;
  std::vector<float> finite_b;
  int64_t infinite = 0;
  int64_t nonfinite = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i])) {
      finite_a.push_back(a[i]);
      finite_b.push_back(b[i]);
    } else if (a[i] == b[i]) {
      ++infinite;
    } else {
      ++nonfinite;
    }
  }
  ValueSums result = sum_finite(finite_a, finite_b);
  result.count = static_cast<int64_t>(a.size());
  result.infinite = infinite;
  result.nonfinite = nonfinite;
  return result;
}

// -Infinity where there is none; NaN is not looked at.
ASSAY_INLINE double largest(std::span<const float> values) {
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    }
  }
  for (; i < values.size(); ++i) lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
  return static_cast<double>(*std::max_element(lanes.begin(), lanes.end()));
}

ASSAY_INLINE double divergence(std::span<const float> a, std::span<const float> b) {
  if (a.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double a_max = largest(a);
  const double b_max = largest(b);
  const bool usual = std::isfinite(a_max) && std::isfinite(b_max) &&
                     all_at_least(a, static_cast<float>(a_max) + kLeastExponent) &&
                     all_at_least(b, static_cast<float>(b_max) + kLeastExponent);
  const SoftmaxSums sums =
      usual ? sum_softmax(a, b, a_max, b_max) : sum_softmax_carefully(a, b, a_max, b_max);
  const double kl = sums.moved / sums.a + (b_max + std::log(sums.b)) - (a_max + std::log(sums.a));
  return kl < 0 ? 0 : kl;  // it is never negative but for rounding; NaN stays
}

ASSAY_INLINE std::optional<ValueExtents> extents(std::span<const float> values) {
  if (values.empty()) return std::nullopt;
  Lanes sum{};
  Lanes squares{};
  std::array<float, kLanes> least;
  std::array<float, kLanes> most;
  least.fill(values.front());
  most.fill(values.front());
  const auto add = [&](size_t lane, float value) {
    const auto wide = static_cast<double>(value);
    sum[lane] += wide;
    squares[lane] += wide * wide;
    least[lane] = value < least[lane] ? value : least[lane];
    most[lane] = value > most[lane] ? value : most[lane];
  };
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, values[i + lane]);
  }
  for (size_t lane = 0; i + lane < values.size(); ++lane) add(lane, values[i + lane]);
  // No sum of squares of floats is too large for a double.
  if (!std::isfinite(total(squares))) return std::nullopt;
  return ValueExtents{total(sum), total(squares),
                      static_cast<double>(*std::min_element(least.begin(), least.end())),
                      static_cast<double>(*std::max_element(most.begin(), most.end()))};
}

#if defined(ASSAY_AVX2)
ASSAY_AVX2 std::optional<ValueExtents> extents_avx2(std::span<const float> values) {
  return extents(values);
}
ASSAY_AVX2 ValueSums sum_values_avx2(std::span<const float> a, std::span<const float> b) {
  return sum_any(a, b);
}
ASSAY_AVX2 double kl_divergence_avx2(std::span<const float> a, std::span<const float> b) {
  return divergence(a, b);
}
#endif

}  // namespace

std::optional<ValueExtents> finite_extents(std::span<const float> values) {
#if defined(ASSAY_AVX2)
  if (__builtin_cpu_supports("avx2")) return extents_avx2(values);
#endif
  return extents(values);
}

double relative(double x, double y) {
  return x == 0 && y == 0 ? 0 : x / y;
}

double norm_of_finite(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) {
    if (std::isfinite(value)) squares += static_cast<double>(value) * static_cast<double>(value);
  }
  return std::sqrt(squares);
}

ValueSums sum_values(std::span<const float> a, std::span<const float> b) {
#if defined(ASSAY_AVX2)
  if (__builtin_cpu_supports("avx2")) return sum_values_avx2(a, b);
#endif
  return sum_any(a, b);
}

double kl_divergence(std::span<const float> a, std::span<const float> b) {
#if defined(ASSAY_AVX2)
  if (__builtin_cpu_supports("avx2")) return kl_divergence_avx2(a, b);
#endif
  return divergence(a, b);
}

}  // namespace assay
