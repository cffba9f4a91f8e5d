#pragma once

#include "kernels/cuda/language.h"

namespace assay::ASSAY_DEVICE {

// e^x with the operations of kernels/cpu/exp.h in their order, so that both give the same bits.
__device__ inline float exp_of(float x) {
  x = -105.0F > x ? -105.0F : x;  // NaN stays
  x = 89.0F < x ? 89.0F : x;
  constexpr float kMagic = 0x1.8p23F;  // leaves the nearest integer in the low bits
  const float shifted = fmaf(x, 0x1.715476p0F, kMagic);
  const float n = shifted - kMagic;
  float r = fmaf(n, -0x1.62e400p-1F, x);
  r = fmaf(n, -0x1.7f7d1cp-20F, r);
  float p = 1.0F / 5040.0F;
  p = fmaf(p, r, 1.0F / 720.0F);
  p = fmaf(p, r, 1.0F / 120.0F);
  p = fmaf(p, r, 1.0F / 24.0F);
  p = fmaf(p, r, 1.0F / 6.0F);
  p = fmaf(p, r, 0.5F);
  p = fmaf(p, r, 1.0F);
  p = fmaf(p, r, 1.0F);
  // 2^n in two factors. NaN makes the integers overflow: they are unsigned.
  const uint32_t whole = float_bits(shifted) - float_bits(kMagic);
  const auto half = static_cast<uint32_t>(static_cast<int32_t>(whole) >> 1);
  const float factor1 = float_from_bits((half + 127U) << 23U);
  const float factor2 = float_from_bits((whole - half + 127U) << 23U);
  return p * factor1 * factor2;
}

// tanh x with the operations of kernels/cpu/exp.h.
__device__ inline float tanh_of(float x) {
  x = -9.0F > x ? -9.0F : x;  // NaN stays
  x = 9.0F < x ? 9.0F : x;
  const float square = x * x;
  float p = -8.488718e-14F;
  p = fmaf(p, square, 5.277954e-11F);
  p = fmaf(p, square, -2.0225245e-08F);
  p = fmaf(p, square, 1.1154315e-05F);
  p = fmaf(p, square, 0.003103957F);
  p = fmaf(p, square, 0.13084011F);
  p = fmaf(p, square, 1.0F);
  float q = 0.00025461463F;
  q = fmaf(q, square, 0.02449518F);
  q = fmaf(q, square, 0.46417338F);
  q = fmaf(q, square, 1.0F);
  return x * p / q;
}

// Of a float or a double, with the tangent of a float.
template <class Number>
__device__ Number soft_capped(Number x, float cap) {
  const auto wide_cap = static_cast<Number>(cap);
  return wide_cap * static_cast<Number>(tanh_of(static_cast<float>(x / wide_cap)));
}

}  // namespace assay::ASSAY_DEVICE
