#pragma once

#include <cstdint>

#include "kernels/cpu/simd.h"

namespace assay::ASSAY_ISA {

// Sums over n elements in 16 double lanes: lanes = accumulate(lanes, read(i, count)), where
// read(i, count) gives the elements from i on, of which there are `count`, and zeros for the rest
// of 16. Runs of 512 elements are summed so, and then the runs, so that a device can share them
// out.
template <class Read, class Accumulate>
ASSAY_ALWAYS_INLINE double sum_of(int64_t n, Read read, Accumulate accumulate) {
  constexpr int64_t kRun = 512;
  double total = 0.0;
  for (int64_t first = 0; first < n; first += kRun) {
    const int64_t last = n - first < kRun ? n : first + kRun;
    F64x16 lanes = splat(0.0);
    int64_t i = first;
    for (; i + 16 <= last; i += 16) lanes = accumulate(lanes, read(i, 16));
    if (i < last) lanes = accumulate(lanes, read(i, last - i));
    total += sum(lanes);
  }
  return total;
}

// Elements [i, i + n) of x, and zeros for the rest of 16.
ASSAY_ALWAYS_INLINE F64x16 read_as_double(const float* x, int64_t i, int64_t n) {
  return n == 16 ? load_as_double(x + i) : to_double(load_partial(x + i, n));
}

ASSAY_ALWAYS_INLINE F64x16 add_square(const F64x16& lanes, const F64x16& v) {
  return add(lanes, mul(v, v));
}

inline double inverse_root(double mean_square, float eps) {
  return 1.0 / __builtin_sqrt(mean_square + static_cast<double>(eps));
}

// out = (x - mean) * scale * weight + bias, a row, rounded once; `bias` may be null.
inline void scale_row(const float* x, double mean, double scale, const float* weight,
                      const float* bias, int64_t width, float* out) {
  for (int64_t i = 0; i < width; i += 16) {
    const int64_t n = width - i < 16 ? width - i : 16;
    const F64x16 centred = sub(read_as_double(x, i, n), splat(mean));
    F64x16 v = mul(mul(centred, splat(scale)), read_as_double(weight, i, n));
    if (bias != nullptr) v = add(v, read_as_double(bias, i, n));
    if (n == 16) {
      store(out + i, to_float(v));
    } else {
      store_partial(out + i, n, to_float(v));
    }
  }
}

inline void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens,
                     int64_t width, float* out) {
  for (int64_t t = 0; t < n_tokens; ++t, x += width, out += width) {
    const auto read = [&](int64_t i, int64_t n) { return read_as_double(x, i, n); };
    const double squares = sum_of(width, read, add_square);
    const double scale = inverse_root(squares / static_cast<double>(width), eps);
    scale_row(x, 0.0, scale, weight, nullptr, width, out);
  }
}

// The mean of a row, and the mean square of what is left of it.
struct Spread {
  double mean;
  double variance;
};
inline Spread spread_of(const float* x, int64_t width) {
  const auto read = [&](int64_t i, int64_t n) { return read_as_double(x, i, n); };
  const double total =
      sum_of(width, read, [](const F64x16& lanes, const F64x16& v) { return add(lanes, v); });
  const double mean = total / static_cast<double>(width);
  double means_of_last[16] = {};
  for (int64_t i = 0; i < width % 16; ++i) means_of_last[i] = mean;
  const auto read_centred = [&](int64_t i, int64_t n) {
    return sub(read(i, n), n == 16 ? splat(mean) : load(means_of_last));
  };
  return {mean, sum_of(width, read_centred, add_square) / static_cast<double>(width)};
}

inline void layer_norm(const float* x, const float* weight, const float* bias, float eps,
                       int64_t n_tokens, int64_t width, float* out) {
  for (int64_t t = 0; t < n_tokens; ++t, x += width, out += width) {
    const Spread spread = spread_of(x, width);
    scale_row(x, spread.mean, inverse_root(spread.variance, eps), weight, bias, width, out);
  }
}

// CutoffCall.
inline void cut_off(const float* x, float factor, int64_t n_tokens, int64_t width, float* out) {
  for (int64_t t = 0; t < n_tokens; ++t, x += width, out += width) {
    const Spread spread = spread_of(x, width);
    const F64x16 cutoff = splat(spread.mean + factor * __builtin_sqrt(spread.variance));
    for (int64_t i = 0; i < width; i += 16) {
      const int64_t n = width - i < 16 ? width - i : 16;
      const F32x16 above = to_float(max(splat(0.0), sub(read_as_double(x, i, n), cutoff)));
      if (n == 16) {
        store(out + i, above);
      } else {
        store_partial(out + i, n, above);
      }
    }
  }
}

}  // namespace assay::ASSAY_ISA
