#include "assay/compare/value_metrics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace assay {
namespace {

constexpr size_t kLanes = 8;
using Lanes = std::array<double, kLanes>;

double total(const Lanes& lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

// Floats as integers in the same order, with 0 and -0 both at 0.
int32_t ordered(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits >= 0 ? bits : std::numeric_limits<int32_t>::min() - bits;
}

bool all_finite(std::span<const float> values) {
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

  void add(size_t lane, float a_value, float b_value) {
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

ValueSums sum_finite(std::span<const float> a, std::span<const float> b) {
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

}  // namespace

ValueSums sum_values(std::span<const float> a, std::span<const float> b) {
  if (all_finite(a) && all_finite(b)) return sum_finite(a, b);
  std::vector<float> finite_a;
  std::vector<float> finite_b;
  int64_t nonfinite = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i])) {
      finite_a.push_back(a[i]);
      finite_b.push_back(b[i]);
    } else if (!(a[i] == b[i])) {  // true for NaN, false for equal infinities
      ++nonfinite;
    }
  }
  ValueSums result = sum_finite(finite_a, finite_b);
  result.count = static_cast<int64_t>(a.size());
  result.nonfinite = nonfinite;
  return result;
}

double kl_divergence(std::span<const float> a, std::span<const float> b) {
  if (a.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto largest = [](std::span<const float> values) {
    return static_cast<double>(*std::max_element(values.begin(), values.end()));
  };
  const double a_max = largest(a);
  const double b_max = largest(b);
  double a_sum = 0;
  double b_sum = 0;
  double moved = 0;  // sum of exp(a - a_max) * (a - b)
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    const auto y = static_cast<double>(b[i]);
    if (std::isinf(x) && x == y && x < 0) continue;
    const double weight = std::exp(x - a_max);
    a_sum += weight;
    b_sum += std::exp(y - b_max);
    moved += weight == 0 ? 0 : weight * (x - y);
  }
  const double kl = moved / a_sum + (b_max + std::log(b_sum)) - (a_max + std::log(a_sum));
  return kl < 0 ? 0 : kl;  // it is never negative but for rounding; NaN stays
}

int64_t argmax(std::span<const float> values) {
  int64_t best = -1;
  float largest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (best < 0 ? !std::isnan(values[i]) : values[i] > largest) {
      best = static_cast<int64_t>(i);
      largest = values[i];
    }
  }
  return best;
}

}  // namespace assay
