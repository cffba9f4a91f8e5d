#pragma once

#include <cstdint>

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/simd.h"

namespace assay::ASSAY_ISA {

// Sums over x[n] in 16 float lanes: lanes = accumulate(lanes, next 16 elements, how many of them
// there are; the rest is zero). Runs of 512 elements are summed so and the runs in double, so that
// the error does not grow with n.
template <class Function>
ASSAY_ALWAYS_INLINE double sum_of(const float* x, int64_t n, Function accumulate) {
  constexpr int64_t kRun = 512;
  double total = 0.0;
  for (int64_t first = 0; first < n; first += kRun) {
    const int64_t last = n - first < kRun ? n : first + kRun;
    F32x16 lanes = zero();
    int64_t i = first;
    for (; i + 16 <= last; i += 16) lanes = accumulate(lanes, load(x + i), 16);
    if (i < last) lanes = accumulate(lanes, load_partial(x + i, last - i), last - i);
    total += static_cast<double>(sum(lanes));
  }
  return total;
}

// The first n lanes of a, zero in the others.
ASSAY_ALWAYS_INLINE F32x16 first_lanes_of(F32x16 a, int64_t n) {
  const auto lanes = static_cast<uint32_t>((uint64_t{1} << static_cast<unsigned>(n)) - 1U);
  return as_float(bit_and(as_int(a), add_where(splat_int(0), lanes, -1)));
}

inline double inverse_root(double mean_square, float eps) {
  return 1.0 / __builtin_sqrt(mean_square + static_cast<double>(eps));
}

inline void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens,
                     int64_t width, float* out) {
  for (int64_t t = 0; t < n_tokens; ++t, x += width, out += width) {
    const double squares =
        sum_of(x, width, [](F32x16 lanes, F32x16 v, int64_t) { return fma(v, v, lanes); });
    const double scale = inverse_root(squares / static_cast<double>(width), eps);
    const F32x16 factor = splat(static_cast<float>(scale));
    map(x, weight, width, out, [&](F32x16 v, F32x16 w) { return mul(mul(v, factor), w); });
  }
}

inline void layer_norm(const float* x, const float* weight, const float* bias, float eps,
                       int64_t n_tokens, int64_t width, float* out) {
  for (int64_t t = 0; t < n_tokens; ++t, x += width, out += width) {
    const double total =
        sum_of(x, width, [](F32x16 lanes, F32x16 v, int64_t) { return add(lanes, v); });
    const F32x16 mean = splat(static_cast<float>(total / static_cast<double>(width)));
    const double squares = sum_of(x, width, [&](F32x16 lanes, F32x16 v, int64_t n) {
      const F32x16 centred = n == 16 ? sub(v, mean) : first_lanes_of(sub(v, mean), n);
      return fma(centred, centred, lanes);
    });
    const double scale = inverse_root(squares / static_cast<double>(width), eps);
    const F32x16 factor = splat(static_cast<float>(scale));
    map(x, weight, width, out,
        [&](F32x16 v, F32x16 w) { return mul(mul(sub(v, mean), factor), w); });
    if (bias != nullptr) add(out, bias, width, out);
  }
}

}  // namespace assay::ASSAY_ISA
