#pragma once

#include <cstdint>

#include "kernels/cpu/simd.h"

// In which numbers a kernel sums products of floats: in float, each product and sum fused, or in
// double, where the product is exact. In exact math the products of weights that are not stored in
// blocks, and attention, are summed in double and rounded to float once.
namespace assay::ASSAY_ISA {

struct FloatSums {
  static constexpr bool kInDouble = false;
  using Real = float;
  using Lanes = F32x16;
  // Of a matrix product; see simd_*.h.
  static constexpr int64_t kRows = kTileRows;
  static constexpr int64_t kTokens = kTileTokens;
  // Of attention: keys whose scores, and sixteens of a value's elements whose sums, are in
  // registers at once.
  static constexpr int64_t kKeys = 4;
  static constexpr int64_t kVectors = 4;

  static ASSAY_ALWAYS_INLINE Lanes zero() { return splat(0.0F); }
  static ASSAY_ALWAYS_INLINE Lanes lanes(F32x16 a) { return a; }
  static ASSAY_ALWAYS_INLINE Lanes load_numbers(const float* x) { return load(x); }
  static ASSAY_ALWAYS_INLINE F32x16 floats(Lanes a) { return a; }
  // a * b + c
  static ASSAY_ALWAYS_INLINE Lanes add_product(Lanes a, Lanes b, Lanes c) { return fma(a, b, c); }
};

struct DoubleSums {
  static constexpr bool kInDouble = true;
  using Real = double;
  using Lanes = F64x16;
  static constexpr int64_t kRows = kTileRowsF64;
  static constexpr int64_t kTokens = kTileTokensF64;
  static constexpr int64_t kKeys = 2;
  static constexpr int64_t kVectors = 2;

  static ASSAY_ALWAYS_INLINE Lanes zero() { return splat(0.0); }
  static ASSAY_ALWAYS_INLINE Lanes lanes(const F32x16& a) { return to_double(a); }
  static ASSAY_ALWAYS_INLINE Lanes load_numbers(const float* x) { return load_as_double(x); }
  static ASSAY_ALWAYS_INLINE Lanes load_numbers(const double* x) { return load(x); }
  static ASSAY_ALWAYS_INLINE F32x16 floats(const Lanes& a) { return to_float(a); }
  static ASSAY_ALWAYS_INLINE Lanes add_product(const Lanes& a, const Lanes& b, const Lanes& c) {
    return add_exact_product(a, b, c);
  }
};

// A number that is a template's.
template <int64_t kValue>
struct Count {};

ASSAY_ALWAYS_INLINE int64_t round_up_to_16(int64_t n) {
  return (n + 15) / 16 * 16;
}

inline float rounded_with_bias(double sum, const float* bias, int64_t row) {
  return static_cast<float>(bias == nullptr ? sum : sum + static_cast<double>(bias[row]));
}

}  // namespace assay::ASSAY_ISA
