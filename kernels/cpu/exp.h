#pragma once

#include "kernels/cpu/simd.h"

namespace assay::ASSAY_ISA {

// e^x in each lane, within 1 ulp (tests/kernels/elementwise_test.cc); 0 for -infinity, infinity
// above 88.73, NaN for NaN.
//
// x = n ln 2 + r with |r| <= ln 2 / 2, and e^x = 2^n e^r, where e^r is its Taylor polynomial of
// degree 7: the rest is below r^8 / 8! = 6e-9.
ASSAY_ALWAYS_INLINE F32x16 exp(F32x16 x) {
  // Beyond these bounds the result is 0 or infinity whatever x is. x comes second: NaN stays.
  x = min(splat(89.0F), max(splat(-105.0F), x));
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  const F32x16 magic = splat(0x1.8p23F);
  const F32x16 shifted = fma(x, splat(0x1.715476p0F), magic);  // 1 / ln 2
  const F32x16 n = sub(shifted, magic);
  F32x16 r = fma(n, splat(-0x1.62e400p-1F), x);  // ln 2 in two parts; the first product is exact
  r = fma(n, splat(-0x1.7f7d1cp-20F), r);
  F32x16 p = splat(1.0F / 5040.0F);
  p = fma(p, r, splat(1.0F / 720.0F));
  p = fma(p, r, splat(1.0F / 120.0F));
  p = fma(p, r, splat(1.0F / 24.0F));
  p = fma(p, r, splat(1.0F / 6.0F));
  p = fma(p, r, splat(0.5F));
  p = fma(p, r, splat(1.0F));
  p = fma(p, r, splat(1.0F));
  // 2^n in two factors: each is a normal number, and only the last product rounds.
  const I32x16 whole = sub(as_int(shifted), as_int(magic));
  const I32x16 half = shift_right<1>(whole);
  const I32x16 bias = splat_int(127);
  const F32x16 factor1 = as_float(shift_left<23>(add(half, bias)));
  const F32x16 factor2 = as_float(shift_left<23>(add(sub(whole, half), bias)));
  return mul(mul(p, factor1), factor2);
}

// tanh x, within 3e-7 of it relatively: x P(x²) / Q(x²), fitted for the least relative error where
// |x| <= 9; beyond that it is 1. NaN for NaN.
ASSAY_ALWAYS_INLINE F32x16 tanh(F32x16 x) {
  x = min(splat(9.0F), max(splat(-9.0F), x));
  const F32x16 square = mul(x, x);
  F32x16 p = splat(-8.488718e-14F);
  p = fma(p, square, splat(5.277954e-11F));
  p = fma(p, square, splat(-2.0225245e-08F));
  p = fma(p, square, splat(1.1154315e-05F));
  p = fma(p, square, splat(0.003103957F));
  p = fma(p, square, splat(0.13084011F));
  p = fma(p, square, splat(1.0F));
  F32x16 q = splat(0.00025461463F);
  q = fma(q, square, splat(0.02449518F));
  q = fma(q, square, splat(0.46417338F));
  q = fma(q, square, splat(1.0F));
  return div(mul(x, p), q);
}

}  // namespace assay::ASSAY_ISA
