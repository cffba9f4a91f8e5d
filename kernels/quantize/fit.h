#pragma once

#include <algorithm>
#include <array>
#include <cmath>

// Least-squares fits of a few codes to the elements of a sub-block, for the k-quants.

namespace assay {

// The nearest whole number, ties to even, for |x| < 2^22: the sum has no bits left for a fraction.
inline float nearest(float x) {
  return (x + 12582912.0F) - 12582912.0F;
}

// The whole number nearest to `x` from `low` to `high`, which are whole.
inline float nearest_code(float x, float low, float high) {
  return nearest(std::min(high, std::max(low, x)));
}

// Sums over a sub-block of N elements, in eight lanes added by one tree: one order everywhere.
template <int N, typename Term>
float lane_sum(const Term& term) {
  static_assert(N % 8 == 0);
  std::array<float, 8> lanes{};
  for (int i = 0; i < N; i += 8) {
    for (int lane = 0; lane < 8; ++lane) lanes[static_cast<size_t>(lane)] += term(i + lane);
  }
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// How far from the plain range the trial scales go, in codes: a range that is too small cuts the
// extremes off, one that is too large wastes codes, and either can have the smaller error.
inline constexpr float kTrialSpread = 0.9F;
inline constexpr int kTrials = 10;

struct AffineFit {
  float scale = 0.0F;
  float offset = 0.0F;  // >= 0
};

// x ≈ scale * code - offset with codes from 0 to `most`.
template <int N>
AffineFit fit_affine(const float* x, float most) {
  float low = std::min(0.0F, x[0]);
  float high = x[0];
  for (int i = 1; i < N; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  if (!(high > low)) return {0.0F, -low};
  const double sum_x = static_cast<double>(lane_sum<N>([&](int i) { return x[i]; }));
  AffineFit best;
  double best_error = INFINITY;  // without the sum of x squared, which all share
  for (int trial = 0; trial < kTrials; ++trial) {
    const float delta =
        kTrialSpread * (2.0F * static_cast<float>(trial) / static_cast<float>(kTrials - 1) - 1.0F);
    const float inverse_scale = (most + delta) / (high - low);
    std::array<float, N> code;
    for (int i = 0; i < N; ++i) {
      code[static_cast<size_t>(i)] = nearest_code(inverse_scale * (x[i] - low), 0.0F, most);
    }
    const auto at = [&](int i) { return code[static_cast<size_t>(i)]; };
    const double sum_q = static_cast<double>(lane_sum<N>(at));
    const double sum_qq = static_cast<double>(lane_sum<N>([&](int i) { return at(i) * at(i); }));
    const double sum_qx = static_cast<double>(lane_sum<N>([&](int i) { return at(i) * x[i]; }));
    const double determinant = N * sum_qq - sum_q * sum_q;
    if (!(determinant > 0.0)) continue;
    double scale = (N * sum_qx - sum_q * sum_x) / determinant;
    double offset = (scale * sum_q - sum_x) / N;
    if (offset < 0.0) {
      offset = 0.0;
      scale = sum_qx / sum_qq;
    }
    const double error = scale * scale * sum_qq - 2.0 * scale * (sum_qx + offset * sum_q) +
                         2.0 * offset * sum_x + N * offset * offset;
    if (scale > 0.0 && error < best_error) {
      best_error = error;
      best = {static_cast<float>(scale), static_cast<float>(offset)};
    }
  }
  return best;
}

// x ≈ scale * code with codes from -half to half - 1; the scale may be negative, since there is one
// code more below zero than above.
template <int N>
float fit_symmetric(const float* x, float half) {
  float peak = x[0];
  for (int i = 1; i < N; ++i) {
    if (std::fabs(x[i]) > std::fabs(peak)) peak = x[i];
  }
  if (peak == 0.0F) return 0.0F;
  float best = 0.0F;
  double best_gain = 0.0;  // how much of the sum of x squared the fit explains
  for (int trial = 0; trial < kTrials; ++trial) {
    const float delta =
        kTrialSpread * (2.0F * static_cast<float>(trial) / static_cast<float>(kTrials - 1) - 1.0F);
    const float inverse_scale = -(half + delta) / peak;
    std::array<float, N> code;
    for (int i = 0; i < N; ++i) {
      code[static_cast<size_t>(i)] = nearest_code(inverse_scale * x[i], -half, half - 1.0F);
    }
    const auto at = [&](int i) { return code[static_cast<size_t>(i)]; };
    const double sum_qq = static_cast<double>(lane_sum<N>([&](int i) { return at(i) * at(i); }));
    const double sum_qx = static_cast<double>(lane_sum<N>([&](int i) { return at(i) * x[i]; }));
    if (!(sum_qq > 0.0)) continue;
    const double gain = sum_qx * sum_qx / sum_qq;
    if (gain > best_gain) {
      best_gain = gain;
      best = static_cast<float>(sum_qx / sum_qq);
    }
  }
  return best;
}

}  // namespace assay
