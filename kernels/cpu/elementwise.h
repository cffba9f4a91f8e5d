#pragma once

#include <cstdint>

#include "kernels/cpu/exp.h"
#include "kernels/cpu/simd.h"

namespace assay::ASSAY_ISA {

// out[i] = f(a[i]), the last lanes padded with zeros.
template <class Function>
ASSAY_ALWAYS_INLINE void map(const float* a, int64_t count, float* out, Function f) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) store(out + i, f(load(a + i)));
  if (i < count) store_partial(out + i, count - i, f(load_partial(a + i, count - i)));
}

// out[i] = f(a[i], b[i])
template <class Function>
ASSAY_ALWAYS_INLINE void map(const float* a, const float* b, int64_t count, float* out,
                             Function f) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) store(out + i, f(load(a + i), load(b + i)));
  if (i < count) {
    const int64_t n = count - i;
    store_partial(out + i, n, f(load_partial(a + i, n), load_partial(b + i, n)));
  }
}

ASSAY_ALWAYS_INLINE F32x16 logistic_product(F32x16 x, F32x16 minus_argument) {
  return div(x, add(splat(1.0F), exp(minus_argument)));
}

inline void silu_mul(const float* gate, const float* up, int64_t count, float* out) {
  map(gate, up, count, out,
      [](F32x16 g, F32x16 u) { return mul(logistic_product(g, sub(splat(-0.0F), g)), u); });
}

// 0.5 x (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x³) is x / (1 + e^-2u), which loses no
// digits where tanh is near -1.
inline void gelu_tanh(const float* x, int64_t count, float* out) {
  constexpr double kMinusTwoRoot = -1.5957691216057308;  // -2 sqrt(2 / pi)
  const F32x16 linear = splat(static_cast<float>(kMinusTwoRoot));
  const F32x16 cubic = splat(static_cast<float>(kMinusTwoRoot * 0.044715));
  map(x, count, out, [&](F32x16 v) {
    const F32x16 minus_two_u = mul(v, fma(mul(v, v), cubic, linear));
    return logistic_product(v, minus_two_u);
  });
}

inline void add(const float* a, const float* b, int64_t count, float* out) {
  map(a, b, count, out, [](F32x16 p, F32x16 q) { return add(p, q); });
}

inline void add_scaled(const float* a, const float* b, float scale, int64_t count, float* out) {
  const F32x16 factor = splat(scale);
  if (a == nullptr) {
    map(b, count, out, [&](F32x16 q) { return mul(factor, q); });
  } else {
    map(a, b, count, out, [&](F32x16 p, F32x16 q) { return add(p, mul(factor, q)); });
  }
}

inline void exp(const float* x, int64_t count, float* out) {
  map(x, count, out, [](F32x16 v) { return exp(v); });
}

inline void store_f16(const float* x, int64_t count, uint16_t* out) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) store_f16(out + i, load(x + i));
  if (i < count) store_f16_partial(out + i, count - i, load_partial(x + i, count - i));
}

}  // namespace assay::ASSAY_ISA
