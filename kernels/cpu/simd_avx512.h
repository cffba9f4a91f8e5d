#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd_bytes.h"
#include "kernels/half.h"

// simd.h says what these operations promise.
namespace assay::ASSAY_ISA {

struct F32x16 {
  __m512 v;
};

struct F64x16 {
  __m512d lo;
  __m512d hi;
};

struct I32x16 {
  __m512i v;
};

// Register tiles: as many sums as the 32 registers hold beside their inputs. Rows of a
// matrix-vector product; rows and tokens of a matrix product, and of one in double; queries of
// attention.
constexpr int64_t kDotRows = 4;
constexpr int64_t kTileRows = 4;
constexpr int64_t kTileTokens = 6;
constexpr int64_t kTileRowsF64 = 2;
constexpr int64_t kTileTokensF64 = 6;
constexpr int64_t kTileQueries = 4;
constexpr bool kAlignTokens = false;  // see aligned() in matmul.h

// The three-operand forms below carry an all-ones mask where GCC 12 takes the plain form's
// undefined source register for an uninitialised variable; the compiler drops the mask.
constexpr __mmask16 kAllLanes = 0xFFFF;

ASSAY_ALWAYS_INLINE __mmask16 first_lanes(int64_t n) {
  return static_cast<__mmask16>((1U << static_cast<unsigned>(n)) - 1U);
}

ASSAY_ALWAYS_INLINE F32x16 zero() {
  return {_mm512_setzero_ps()};
}

ASSAY_ALWAYS_INLINE F32x16 splat(float value) {
  return {_mm512_set1_ps(value)};
}

ASSAY_ALWAYS_INLINE F32x16 load(const void* floats) {
  return {_mm512_loadu_ps(floats)};
}

ASSAY_ALWAYS_INLINE F32x16 load_partial(const void* floats, int64_t n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n), floats)};
}

ASSAY_ALWAYS_INLINE void store(float* out, F32x16 a) {
  _mm512_storeu_ps(out, a.v);
}

ASSAY_ALWAYS_INLINE void store_partial(float* out, int64_t n, F32x16 a) {
  _mm512_mask_storeu_ps(out, first_lanes(n), a.v);
}

ASSAY_ALWAYS_INLINE F32x16 add(F32x16 a, F32x16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}

ASSAY_ALWAYS_INLINE F32x16 sub(F32x16 a, F32x16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}

ASSAY_ALWAYS_INLINE F32x16 mul(F32x16 a, F32x16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}

ASSAY_ALWAYS_INLINE F32x16 div(F32x16 a, F32x16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}

// a * b + c, rounded once.
ASSAY_ALWAYS_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}

ASSAY_ALWAYS_INLINE F32x16 add_exact_product(F32x16 a, F32x16 b, F32x16 c) {
  return fma(a, b, c);
}

// The compiler would broadcast a number that is used twice by an instruction of its own, on the
// units that widen codes; within the product it is free.
ASSAY_ALWAYS_INLINE F32x16 mul_stored(F32x16 a, const float& stored) {
  F32x16 product;
  __asm__("vmulps %2%{1to16%}, %1, %0" : "=v"(product.v) : "v"(a.v), "m"(stored));
  return product;
}

// a > b ? a : b, so b where one is NaN.
ASSAY_ALWAYS_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return {_mm512_maskz_max_ps(kAllLanes, a.v, b.v)};
}

// a < b ? a : b, so b where one is NaN.
ASSAY_ALWAYS_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return {_mm512_maskz_min_ps(kAllLanes, a.v, b.v)};
}

// Sums over the lanes of a, b, c, d: lane l + lane l+8, then l + l+4, l + l+2, l + l+1.
ASSAY_ALWAYS_INLINE void store_sums(float* out, F32x16 a, F32x16 b, F32x16 c, F32x16 d) {
  const auto low = [](__m512 p, __m512 q) {
    return _mm512_maskz_shuffle_f32x4(kAllLanes, p, q, 0x44);
  };
  const auto high = [](__m512 p, __m512 q) {
    return _mm512_maskz_shuffle_f32x4(kAllLanes, p, q, 0xEE);
  };
  const __m512 ab = _mm512_add_ps(low(a.v, b.v), high(a.v, b.v));
  const __m512 cd = _mm512_add_ps(low(c.v, d.v), high(c.v, d.v));
  const __m512 even = _mm512_maskz_shuffle_f32x4(kAllLanes, ab, cd, 0x88);
  const __m512 odd = _mm512_maskz_shuffle_f32x4(kAllLanes, ab, cd, 0xDD);
  const __m512 fours = _mm512_add_ps(even, odd);  // four lanes left of each of a, b, c, d
  const __m512 twos = _mm512_add_ps(fours, _mm512_maskz_permute_ps(kAllLanes, fours, 0x4E));
  const __m512 ones = _mm512_add_ps(twos, _mm512_maskz_permute_ps(kAllLanes, twos, 0xB1));
  const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  const __m512 sums = _mm512_maskz_permutexvar_ps(kAllLanes, firsts, ones);
  _mm_storeu_ps(out, _mm512_maskz_extractf32x4_ps(0xF, sums, 0));
}

// The sum over all lanes, by the tree of store_sums.
ASSAY_ALWAYS_INLINE float sum(F32x16 a) {
  const __m256 upper = _mm512_maskz_extractf32x8_ps(0xFF, a.v, 1);
  const __m256 eights = _mm256_add_ps(_mm512_maskz_extractf32x8_ps(0xFF, a.v, 0), upper);
  const __m128 fours = _mm_add_ps(_mm256_castps256_ps128(eights), _mm256_extractf128_ps(eights, 1));
  const __m128 twos = _mm_add_ps(fours, _mm_movehl_ps(fours, fours));
  return _mm_cvtss_f32(_mm_add_ss(twos, _mm_movehdup_ps(twos)));
}

// The greatest lane, by the tree of sum.
ASSAY_ALWAYS_INLINE float max_lane(F32x16 a) {
  const __m256 upper = _mm512_maskz_extractf32x8_ps(0xFF, a.v, 1);
  const __m256 eights = _mm256_max_ps(_mm512_maskz_extractf32x8_ps(0xFF, a.v, 0), upper);
  const __m128 fours = _mm_max_ps(_mm256_castps256_ps128(eights), _mm256_extractf128_ps(eights, 1));
  const __m128 twos = _mm_max_ps(fours, _mm_movehl_ps(fours, fours));
  return _mm_cvtss_f32(_mm_max_ss(twos, _mm_movehdup_ps(twos)));
}

ASSAY_ALWAYS_INLINE F32x16 splat_f16(const uint8_t* half) {
  int16_t bits;
  std::memcpy(&bits, half, sizeof(bits));
  return {_mm512_maskz_cvtph_ps(kAllLanes, _mm256_set1_epi16(bits))};
}

// The floats of the two halves at the start of each of kRows rows: out[2 * kRows].
template <int64_t kRows>
ASSAY_ALWAYS_INLINE void load_f16_pairs(const uint8_t* rows, size_t stride, float* out) {
  const auto pair = [&](size_t row) {
    int32_t bits;
    std::memcpy(&bits, rows + row * stride, sizeof(bits));
    return bits;
  };
  if constexpr (kRows == 4) {
    const __m128i pairs = _mm_setr_epi32(pair(0), pair(1), pair(2), pair(3));
    _mm256_storeu_ps(out, _mm256_cvtph_ps(pairs));
  } else {
    static_assert(kRows == 1);
    _mm_storel_pi(reinterpret_cast<__m64*>(out), _mm_cvtph_ps(_mm_cvtsi32_si128(pair(0))));
  }
}

ASSAY_ALWAYS_INLINE F32x16 load_f16(const void* halves) {
  const __m256i bits = _mm256_loadu_si256(static_cast<const __m256i*>(halves));
  return {_mm512_maskz_cvtph_ps(kAllLanes, bits)};
}

ASSAY_ALWAYS_INLINE F32x16 load_f16_partial(const void* halves, int64_t n) {
  return {_mm512_maskz_cvtph_ps(kAllLanes, _mm256_maskz_loadu_epi16(first_lanes(n), halves))};
}

constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

ASSAY_ALWAYS_INLINE void store_f16(uint16_t* out, F32x16 a) {
  const __m256i bits = _mm512_maskz_cvtps_ph(kAllLanes, a.v, kToNearest);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), bits);
}

ASSAY_ALWAYS_INLINE void store_f16_partial(uint16_t* out, int64_t n, F32x16 a) {
  const __m256i bits = _mm512_maskz_cvtps_ph(kAllLanes, a.v, kToNearest);
  _mm256_mask_storeu_epi16(out, first_lanes(n), bits);
}

ASSAY_ALWAYS_INLINE __m512 widen_bf16(__m256i bits) {
  const __m512i wide = _mm512_maskz_cvtepu16_epi32(kAllLanes, bits);
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAllLanes, wide, 16));
}

ASSAY_ALWAYS_INLINE F32x16 load_bf16(const void* halves) {
  return {widen_bf16(_mm256_loadu_si256(static_cast<const __m256i*>(halves)))};
}

ASSAY_ALWAYS_INLINE F32x16 load_bf16_partial(const void* halves, int64_t n) {
  return {widen_bf16(_mm256_maskz_loadu_epi16(first_lanes(n), halves))};
}

ASSAY_ALWAYS_INLINE I32x16 splat_int(int32_t value) {
  return {_mm512_set1_epi32(value)};
}

ASSAY_ALWAYS_INLINE I32x16 load_u8(const uint8_t* bytes) {
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  return {_mm512_maskz_cvtepu8_epi32(kAllLanes, codes)};
}

ASSAY_ALWAYS_INLINE I32x16 load_s8(const uint8_t* bytes) {
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  return {_mm512_maskz_cvtepi8_epi32(kAllLanes, codes)};
}

// Bytes 0 to 15 or 16 to 31 of a, as signed numbers.
template <int64_t kHalf>
ASSAY_ALWAYS_INLINE I32x16 widen(U8x32 a) {
  return {_mm512_maskz_cvtepi8_epi32(kAllLanes, _mm256_extracti128_si256(a.v, kHalf))};
}

ASSAY_ALWAYS_INLINE I32x16 bit_and(I32x16 a, I32x16 b) {
  return {_mm512_and_si512(a.v, b.v)};
}

ASSAY_ALWAYS_INLINE I32x16 bit_and(I32x16 a, int32_t b) {
  return bit_and(a, I32x16{_mm512_set1_epi32(b)});
}

ASSAY_ALWAYS_INLINE I32x16 bit_or(I32x16 a, I32x16 b) {
  return {_mm512_or_si512(a.v, b.v)};
}

ASSAY_ALWAYS_INLINE I32x16 add(I32x16 a, I32x16 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}

ASSAY_ALWAYS_INLINE I32x16 sub(I32x16 a, I32x16 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}

template <int kBits>
ASSAY_ALWAYS_INLINE I32x16 shift_left(I32x16 a) {
  return {_mm512_maskz_slli_epi32(kAllLanes, a.v, kBits)};
}

// Copies of the sign come in from the left.
template <int kBits>
ASSAY_ALWAYS_INLINE I32x16 shift_right(I32x16 a) {
  return {_mm512_maskz_srai_epi32(kAllLanes, a.v, kBits)};
}

// a + value in each lane l whose bit l of `lanes` is set, a in the others.
ASSAY_ALWAYS_INLINE I32x16 add_where(I32x16 a, uint32_t lanes, int32_t value) {
  const auto mask = static_cast<__mmask16>(lanes);
  return {_mm512_mask_add_epi32(a.v, mask, a.v, _mm512_set1_epi32(value))};
}

ASSAY_ALWAYS_INLINE F32x16 to_float(I32x16 a) {
  return {_mm512_maskz_cvtepi32_ps(kAllLanes, a.v)};
}

ASSAY_ALWAYS_INLINE I32x16 as_int(F32x16 a) {
  return {_mm512_castps_si512(a.v)};
}

ASSAY_ALWAYS_INLINE F32x16 as_float(I32x16 a) {
  return {_mm512_castsi512_ps(a.v)};
}

ASSAY_ALWAYS_INLINE F64x16 splat(double value) {
  return {_mm512_set1_pd(value), _mm512_set1_pd(value)};
}

ASSAY_ALWAYS_INLINE F64x16 load(const double* doubles) {
  return {_mm512_loadu_pd(doubles), _mm512_loadu_pd(doubles + 8)};
}

ASSAY_ALWAYS_INLINE void store(double* out, F64x16 a) {
  _mm512_storeu_pd(out, a.lo);
  _mm512_storeu_pd(out + 8, a.hi);
}

ASSAY_ALWAYS_INLINE F64x16 to_double(F32x16 a) {
  return {_mm512_maskz_cvtps_pd(0xFF, _mm512_maskz_extractf32x8_ps(0xFF, a.v, 0)),
          _mm512_maskz_cvtps_pd(0xFF, _mm512_maskz_extractf32x8_ps(0xFF, a.v, 1))};
}

ASSAY_ALWAYS_INLINE F64x16 load_as_double(const float* floats) {
  return {_mm512_maskz_cvtps_pd(0xFF, _mm256_loadu_ps(floats)),
          _mm512_maskz_cvtps_pd(0xFF, _mm256_loadu_ps(floats + 8))};
}

// To nearest, ties to even.
ASSAY_ALWAYS_INLINE F32x16 to_float(F64x16 a) {
  const __m256 hi = _mm512_maskz_cvtpd_ps(0xFF, a.hi);
  const __m256 lo = _mm512_maskz_cvtpd_ps(0xFF, a.lo);
  const __m512 lower = _mm512_maskz_insertf32x8(kAllLanes, _mm512_setzero_ps(), lo, 0);
  return {_mm512_maskz_insertf32x8(kAllLanes, lower, hi, 1)};
}

ASSAY_ALWAYS_INLINE F64x16 add(F64x16 a, F64x16 b) {
  return {_mm512_add_pd(a.lo, b.lo), _mm512_add_pd(a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE F64x16 sub(F64x16 a, F64x16 b) {
  return {_mm512_sub_pd(a.lo, b.lo), _mm512_sub_pd(a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE F64x16 mul(F64x16 a, F64x16 b) {
  return {_mm512_mul_pd(a.lo, b.lo), _mm512_mul_pd(a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE F64x16 div(F64x16 a, F64x16 b) {
  return {_mm512_div_pd(a.lo, b.lo), _mm512_div_pd(a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE F64x16 add_exact_product(F64x16 a, F64x16 b, F64x16 c) {
  return {_mm512_fmadd_pd(a.lo, b.lo, c.lo), _mm512_fmadd_pd(a.hi, b.hi, c.hi)};
}

ASSAY_ALWAYS_INLINE F64x16 max(F64x16 a, F64x16 b) {
  return {_mm512_maskz_max_pd(0xFF, a.lo, b.lo), _mm512_maskz_max_pd(0xFF, a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE double sum(F64x16 a) {
  const __m512d eights = _mm512_add_pd(a.lo, a.hi);
  const __m256d fours = _mm256_add_pd(_mm512_maskz_extractf64x4_pd(0xF, eights, 0),
                                      _mm512_maskz_extractf64x4_pd(0xF, eights, 1));
  const __m128d twos = _mm_add_pd(_mm256_castpd256_pd128(fours), _mm256_extractf128_pd(fours, 1));
  return _mm_cvtsd_f64(_mm_add_sd(twos, _mm_unpackhi_pd(twos, twos)));
}

ASSAY_ALWAYS_INLINE double max_lane(F64x16 a) {
  const __m512d eights = _mm512_maskz_max_pd(0xFF, a.lo, a.hi);
  const __m256d fours = _mm256_max_pd(_mm512_maskz_extractf64x4_pd(0xF, eights, 0),
                                      _mm512_maskz_extractf64x4_pd(0xF, eights, 1));
  const __m128d twos = _mm_max_pd(_mm256_castpd256_pd128(fours), _mm256_extractf128_pd(fours, 1));
  return _mm_cvtsd_f64(_mm_max_sd(twos, _mm_unpackhi_pd(twos, twos)));
}

// Codes of four bits, of which only the low four bits of each lane count, to the values they stand
// for. Each of the 16 values is computed once, and then one shuffle takes the place of mask,
// conversion, product and sum.
class FourBitCodes {
 public:
  // scale * (code - offset)
  static ASSAY_ALWAYS_INLINE FourBitCodes scaled(F32x16 scale, float offset) {
    return FourBitCodes(mul(scale, sub(all_codes(), splat(offset))));
  }
  // scale * code + shift, rounded after each step
  static ASSAY_ALWAYS_INLINE FourBitCodes affine(F32x16 scale, F32x16 shift) {
    return FourBitCodes(add(mul(scale, all_codes()), shift));
  }
  // numbers * factor - shift, of the number of each code, rounded once
  static ASSAY_ALWAYS_INLINE FourBitCodes difference(F32x16 numbers, F32x16 factor, F32x16 shift) {
    return FourBitCodes({_mm512_fmsub_ps(numbers.v, factor.v, shift.v)});
  }
  ASSAY_ALWAYS_INLINE F32x16 values(I32x16 codes) const {
    return {_mm512_maskz_permutexvar_ps(kAllLanes, codes.v, values_.v)};
  }

 private:
  explicit ASSAY_ALWAYS_INLINE FourBitCodes(F32x16 values) : values_(values) {}
  static ASSAY_ALWAYS_INLINE F32x16 all_codes() {
    return {_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
  }
  F32x16 values_;
};

}  // namespace assay::ASSAY_ISA
