#pragma once

#include <cstdint>

#include "kernels/calls.h"
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

ASSAY_ALWAYS_INLINE F32x16 silu(F32x16 x) {
  return logistic_product(x, sub(splat(-0.0F), x));
}

ASSAY_ALWAYS_INLINE F32x16 sigmoid(F32x16 x) {
  return logistic_product(splat(1.0F), sub(splat(-0.0F), x));
}

// 0.5 x (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x³) is x / (1 + e^-2u), which loses no
// digits where tanh is near -1.
ASSAY_ALWAYS_INLINE F32x16 gelu_tanh(F32x16 x) {
  constexpr double kMinusTwoRoot = -1.5957691216057308;  // -2 sqrt(2 / pi)
  const F32x16 linear = splat(static_cast<float>(kMinusTwoRoot));
  const F32x16 cubic = splat(static_cast<float>(kMinusTwoRoot * 0.044715));
  return logistic_product(x, mul(x, fma(mul(x, x), cubic, linear)));
}

// x Phi(x) is max(x, 0) - |x| erfc(u) / 2 with u = |x| / sqrt(2). erfc(u) is e^-u² times a
// polynomial of 1 / (1 + u / 2), fitted for the least error of the product, 2e-9.
ASSAY_ALWAYS_INLINE F32x16 gelu(F32x16 x) {
  const F32x16 magnitude = as_float(bit_and(as_int(x), splat_int(0x7FFFFFFF)));
  const F32x16 size = min(splat(30.0F), magnitude);  // beyond it erfc is 0
  const F32x16 u = mul(size, splat(0.70710678F));
  const F32x16 r = div(splat(1.0F), fma(u, splat(0.5F), splat(1.0F)));
  F32x16 p = splat(-0.046942055F);
  p = fma(p, r, splat(0.31793973F));
  p = fma(p, r, splat(-0.8270216F));
  p = fma(p, r, splat(0.9109117F));
  p = fma(p, r, splat(-0.3007652F));
  p = fma(p, r, splat(0.41022715F));
  p = fma(p, r, splat(0.25101754F));
  p = fma(p, r, splat(0.2846328F));
  p = mul(p, r);
  const F32x16 tail = mul(splat(0.5F), mul(exp(sub(splat(-0.0F), mul(u, u))), p));
  return sub(max(splat(0.0F), x), mul(size, tail));
}

ASSAY_ALWAYS_INLINE F32x16 relu_squared(F32x16 x) {
  const F32x16 positive = max(splat(0.0F), x);
  return mul(positive, positive);
}

ASSAY_ALWAYS_INLINE F32x16 clamped_silu(F32x16 x) {
  const F32x16 gate = min(splat(7.0F), x);
  return logistic_product(gate, mul(splat(-1.702F), gate));
}

ASSAY_ALWAYS_INLINE F32x16 clamped_up(F32x16 up) {
  return add(min(splat(7.0F), max(splat(-7.0F), up)), splat(1.0F));
}

// The branches of kXielu. e^m - 1 - x with m = min(x, eps) is q - (x - s), where s is m, but at
// least -1, and q = (e^s - 1 - s) e^(m - s): nothing is lost where x is small, and for s from -1 to
// 0 q's first factor is s² times a Taylor polynomial, whose rest is below s^12 / 14!.
ASSAY_ALWAYS_INLINE F32x16 xielu(const Xielu& of, F32x16 x) {
  const F32x16 beta = splat(of.beta);
  const F32x16 above = mul(x, fma(splat(of.alpha_p), x, beta));
  const F32x16 m = min(splat(of.eps), x);
  const F32x16 s = max(splat(-1.0F), m);
  F32x16 p = splat(1.0F / 6227020800.0F);
  p = fma(p, s, splat(1.0F / 479001600.0F));
  p = fma(p, s, splat(1.0F / 39916800.0F));
  p = fma(p, s, splat(1.0F / 3628800.0F));
  p = fma(p, s, splat(1.0F / 362880.0F));
  p = fma(p, s, splat(1.0F / 40320.0F));
  p = fma(p, s, splat(1.0F / 5040.0F));
  p = fma(p, s, splat(1.0F / 720.0F));
  p = fma(p, s, splat(1.0F / 120.0F));
  p = fma(p, s, splat(1.0F / 24.0F));
  p = fma(p, s, splat(1.0F / 6.0F));
  p = fma(p, s, splat(0.5F));
  const F32x16 q = mul(mul(mul(s, s), p), exp(sub(m, s)));
  const F32x16 below = fma(splat(of.alpha_n), sub(q, sub(x, s)), mul(beta, x));
  // All bits where x is above 0.
  const I32x16 chosen = shift_right<31>(as_int(sub(splat(0.0F), x)));
  const I32x16 other = sub(splat_int(-1), chosen);
  return as_float(bit_or(bit_and(as_int(above), chosen), bit_and(as_int(below), other)));
}

// out = f(x), or f(x) * up.
template <class Function>
ASSAY_ALWAYS_INLINE void activate_with(const ActivateCall& a, int64_t first, int64_t count,
                                       Function f) {
  const float* x = a.x + first;
  float* out = a.out + first;
  if (a.up == nullptr) {
    map(x, count, out, f);
  } else {
    map(x, a.up + first, count, out, [&](F32x16 v, F32x16 up) { return mul(f(v), up); });
  }
}

// Elements [first, last) of the call.
inline void activate(const ActivateCall& a, int64_t first, int64_t last) {
  const int64_t count = last - first;
  switch (a.kind) {
    case ActivationKind::kSilu:
      return activate_with(a, first, count, [](F32x16 x) { return silu(x); });
    case ActivationKind::kGeluTanh:
      return activate_with(a, first, count, [](F32x16 x) { return gelu_tanh(x); });
    case ActivationKind::kGelu:
      return activate_with(a, first, count, [](F32x16 x) { return gelu(x); });
    case ActivationKind::kRelu:
      return activate_with(a, first, count, [](F32x16 x) { return max(splat(0.0F), x); });
    case ActivationKind::kReluSquared:
      return activate_with(a, first, count, [](F32x16 x) { return relu_squared(x); });
    case ActivationKind::kClampedSwiglu:
      if (a.up == nullptr) {
        return activate_with(a, first, count, [](F32x16 x) { return clamped_silu(x); });
      }
      return map(a.x + first, a.up + first, count, a.out + first,
                 [](F32x16 x, F32x16 up) { return mul(clamped_silu(x), clamped_up(up)); });
    case ActivationKind::kXielu:
      return activate_with(a, first, count, [&](F32x16 x) { return xielu(a.xielu, x); });
    case ActivationKind::kSigmoid:
      return activate_with(a, first, count, [](F32x16 x) { return sigmoid(x); });
    case ActivationKind::kTanh:
      return activate_with(a, first, count, [](F32x16 x) { return tanh(x); });
    case ActivationKind::kClip:
      return activate_with(a, first, count, [cap = splat(a.cap), least = splat(-a.cap)](F32x16 x) {
        return min(cap, max(least, x));
      });
    case ActivationKind::kSoftCap:
      return activate_with(a, first, count,
                           [cap = splat(a.cap)](F32x16 x) { return mul(cap, tanh(div(x, cap))); });
  }
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

// One token's.
inline void mix(const float* x, const float* weights, int64_t n_used, int64_t width, float* out) {
  const auto weight_of = [&](int64_t j) { return splat(weights == nullptr ? 1.0F : weights[j]); };
  const F32x16 first = weight_of(0);
  map(x, width, out, [&](F32x16 v) { return mul(first, v); });
  for (int64_t j = 1; j < n_used; ++j) {
    const F32x16 weight = weight_of(j);
    map(x + j * width, out, width, out, [&](F32x16 v, F32x16 sum) { return fma(weight, v, sum); });
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
