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
  __m256 lo;
  __m256 hi;
};

struct F64x16 {
  __m256d v[4];
};

struct I32x16 {
  __m256i lo;
  __m256i hi;
};

// Register tiles: as many sums as the 16 registers hold beside their inputs, two each. Rows of a
// matrix-vector product; rows and tokens of a matrix product, and of one in double; queries of
// attention.
constexpr int64_t kDotRows = 4;
constexpr int64_t kTileRows = 2;
constexpr int64_t kTileTokens = 3;
constexpr int64_t kTileRowsF64 = 1;
constexpr int64_t kTileTokensF64 = 2;
constexpr int64_t kTileQueries = 1;
constexpr bool kAlignTokens = true;  // see aligned() in matmul.h

ASSAY_ALWAYS_INLINE __m256i lanes_below(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

ASSAY_ALWAYS_INLINE F32x16 zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}

ASSAY_ALWAYS_INLINE F32x16 splat(float value) {
  return {_mm256_set1_ps(value), _mm256_set1_ps(value)};
}

ASSAY_ALWAYS_INLINE F32x16 load(const void* floats) {
  const auto* first = static_cast<const float*>(floats);
  return {_mm256_loadu_ps(first), _mm256_loadu_ps(first + 8)};
}

ASSAY_ALWAYS_INLINE F32x16 load_partial(const void* floats, int64_t n) {
  const auto* first = static_cast<const float*>(floats);
  return {_mm256_maskload_ps(first, lanes_below(n)),
          n > 8 ? _mm256_maskload_ps(first + 8, lanes_below(n - 8)) : _mm256_setzero_ps()};
}

ASSAY_ALWAYS_INLINE void store(float* out, F32x16 a) {
  _mm256_storeu_ps(out, a.lo);
  _mm256_storeu_ps(out + 8, a.hi);
}

ASSAY_ALWAYS_INLINE void store_partial(float* out, int64_t n, F32x16 a) {
  _mm256_maskstore_ps(out, lanes_below(n), a.lo);
  if (n > 8) _mm256_maskstore_ps(out + 8, lanes_below(n - 8), a.hi);
}

ASSAY_ALWAYS_INLINE F32x16 add(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE F32x16 sub(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE F32x16 mul(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE F32x16 div(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

// a * b + c where a * b is exact, so that it does not matter how often is rounded.
ASSAY_ALWAYS_INLINE F32x16 add_exact_product(F32x16 a, F32x16 b, F32x16 c) {
  return fma(a, b, c);
}

// a * stored, in each lane.
ASSAY_ALWAYS_INLINE F32x16 mul_stored(F32x16 a, const float& stored) {
  return mul(a, splat(stored));
}

ASSAY_ALWAYS_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE __m128 sum_to_four(F32x16 a) {
  const __m256 eights = _mm256_add_ps(a.lo, a.hi);
  return _mm_add_ps(_mm256_castps256_ps128(eights), _mm256_extractf128_ps(eights, 1));
}

ASSAY_ALWAYS_INLINE float sum(F32x16 a) {
  const __m128 fours = sum_to_four(a);
  const __m128 twos = _mm_add_ps(fours, _mm_movehl_ps(fours, fours));
  return _mm_cvtss_f32(_mm_add_ss(twos, _mm_movehdup_ps(twos)));
}

ASSAY_ALWAYS_INLINE void store_sums(float* out, F32x16 a, F32x16 b, F32x16 c, F32x16 d) {
  const __m128 fours[] = {sum_to_four(a), sum_to_four(b), sum_to_four(c), sum_to_four(d)};
  const __m128 ab =
      _mm_add_ps(_mm_movelh_ps(fours[0], fours[1]), _mm_movehl_ps(fours[1], fours[0]));
  const __m128 cd =
      _mm_add_ps(_mm_movelh_ps(fours[2], fours[3]), _mm_movehl_ps(fours[3], fours[2]));
  _mm_storeu_ps(out, _mm_add_ps(_mm_shuffle_ps(ab, cd, 0x88), _mm_shuffle_ps(ab, cd, 0xDD)));
}

ASSAY_ALWAYS_INLINE float max_lane(F32x16 a) {
  const __m256 eights = _mm256_max_ps(a.lo, a.hi);
  const __m128 fours = _mm_max_ps(_mm256_castps256_ps128(eights), _mm256_extractf128_ps(eights, 1));
  const __m128 twos = _mm_max_ps(fours, _mm_movehl_ps(fours, fours));
  return _mm_cvtss_f32(_mm_max_ss(twos, _mm_movehdup_ps(twos)));
}

ASSAY_ALWAYS_INLINE F32x16 splat_f16(const uint8_t* half) {
  int16_t bits;
  std::memcpy(&bits, half, sizeof(bits));
  const __m256 value = _mm256_cvtph_ps(_mm_set1_epi16(bits));
  return {value, value};
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
  const auto* first = static_cast<const __m128i*>(halves);
  return {_mm256_cvtph_ps(_mm_loadu_si128(first)), _mm256_cvtph_ps(_mm_loadu_si128(first + 1))};
}

ASSAY_ALWAYS_INLINE F32x16 load_f16_partial(const void* halves, int64_t n) {
  uint16_t copy[16] = {};
  std::memcpy(copy, halves, static_cast<size_t>(n) * sizeof(copy[0]));
  return load_f16(copy);
}

ASSAY_ALWAYS_INLINE void store_f16(uint16_t* out, F32x16 a) {
  constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  auto* first = reinterpret_cast<__m128i*>(out);
  _mm_storeu_si128(first, _mm256_cvtps_ph(a.lo, kToNearest));
  _mm_storeu_si128(first + 1, _mm256_cvtps_ph(a.hi, kToNearest));
}

ASSAY_ALWAYS_INLINE void store_f16_partial(uint16_t* out, int64_t n, F32x16 a) {
  uint16_t copy[16];
  store_f16(copy, a);
  std::memcpy(out, copy, static_cast<size_t>(n) * sizeof(copy[0]));
}

ASSAY_ALWAYS_INLINE F32x16 load_bf16(const void* halves) {
  const auto* first = static_cast<const __m128i*>(halves);
  const __m256i lo = _mm256_cvtepu16_epi32(_mm_loadu_si128(first));
  const __m256i hi = _mm256_cvtepu16_epi32(_mm_loadu_si128(first + 1));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
}

ASSAY_ALWAYS_INLINE F32x16 load_bf16_partial(const void* halves, int64_t n) {
  uint16_t copy[16] = {};
  std::memcpy(copy, halves, static_cast<size_t>(n) * sizeof(copy[0]));
  return load_bf16(copy);
}

ASSAY_ALWAYS_INLINE I32x16 splat_int(int32_t value) {
  return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)};
}

ASSAY_ALWAYS_INLINE I32x16 load_u8(const uint8_t* bytes) {
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  return {_mm256_cvtepu8_epi32(codes), _mm256_cvtepu8_epi32(_mm_srli_si128(codes, 8))};
}

ASSAY_ALWAYS_INLINE I32x16 load_s8(const uint8_t* bytes) {
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  return {_mm256_cvtepi8_epi32(codes), _mm256_cvtepi8_epi32(_mm_srli_si128(codes, 8))};
}

ASSAY_ALWAYS_INLINE I32x16 bit_and(I32x16 a, int32_t b) {
  return {_mm256_and_si256(a.lo, _mm256_set1_epi32(b)),
          _mm256_and_si256(a.hi, _mm256_set1_epi32(b))};
}

// Bytes 0 to 15 or 16 to 31 of a, as signed numbers.
template <int64_t kHalf>
ASSAY_ALWAYS_INLINE I32x16 widen(U8x32 a) {
  const __m128i half = _mm256_extracti128_si256(a.v, kHalf);
  return {_mm256_cvtepi8_epi32(half), _mm256_cvtepi8_epi32(_mm_srli_si128(half, 8))};
}

ASSAY_ALWAYS_INLINE I32x16 bit_and(I32x16 a, I32x16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE I32x16 bit_or(I32x16 a, I32x16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE I32x16 add(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}

ASSAY_ALWAYS_INLINE I32x16 sub(I32x16 a, I32x16 b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}

template <int kBits>
ASSAY_ALWAYS_INLINE I32x16 shift_left(I32x16 a) {
  return {_mm256_slli_epi32(a.lo, kBits), _mm256_slli_epi32(a.hi, kBits)};
}

template <int kBits>
ASSAY_ALWAYS_INLINE I32x16 shift_right(I32x16 a) {
  return {_mm256_srai_epi32(a.lo, kBits), _mm256_srai_epi32(a.hi, kBits)};
}

ASSAY_ALWAYS_INLINE I32x16 add_where(I32x16 a, uint32_t lanes, int32_t value) {
  const __m256i bits = _mm256_set1_epi32(static_cast<int32_t>(lanes));
  const __m256i of_lo = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i of_hi = _mm256_slli_epi32(of_lo, 8);
  const __m256i values = _mm256_set1_epi32(value);
  const auto where_set = [&](__m256i lane_bit) {
    const __m256i set = _mm256_cmpeq_epi32(_mm256_and_si256(bits, lane_bit), lane_bit);
    return _mm256_and_si256(set, values);
  };
  return {_mm256_add_epi32(a.lo, where_set(of_lo)), _mm256_add_epi32(a.hi, where_set(of_hi))};
}

ASSAY_ALWAYS_INLINE F32x16 to_float(I32x16 a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}

ASSAY_ALWAYS_INLINE I32x16 as_int(F32x16 a) {
  return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}

ASSAY_ALWAYS_INLINE F32x16 as_float(I32x16 a) {
  return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}

ASSAY_ALWAYS_INLINE F64x16 splat(double value) {
  const __m256d four = _mm256_set1_pd(value);
  return {{four, four, four, four}};
}

ASSAY_ALWAYS_INLINE F64x16 load(const double* doubles) {
  return {{_mm256_loadu_pd(doubles), _mm256_loadu_pd(doubles + 4), _mm256_loadu_pd(doubles + 8),
           _mm256_loadu_pd(doubles + 12)}};
}

ASSAY_ALWAYS_INLINE void store(double* out, const F64x16& a) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) _mm256_storeu_pd(out + 4 * i, a.v[i]);
}

ASSAY_ALWAYS_INLINE F64x16 to_double(F32x16 a) {
  return {{_mm256_cvtps_pd(_mm256_castps256_ps128(a.lo)),
           _mm256_cvtps_pd(_mm256_extractf128_ps(a.lo, 1)),
           _mm256_cvtps_pd(_mm256_castps256_ps128(a.hi)),
           _mm256_cvtps_pd(_mm256_extractf128_ps(a.hi, 1))}};
}

ASSAY_ALWAYS_INLINE F64x16 load_as_double(const float* floats) {
  return {{_mm256_cvtps_pd(_mm_loadu_ps(floats)), _mm256_cvtps_pd(_mm_loadu_ps(floats + 4)),
           _mm256_cvtps_pd(_mm_loadu_ps(floats + 8)), _mm256_cvtps_pd(_mm_loadu_ps(floats + 12))}};
}

ASSAY_ALWAYS_INLINE F32x16 to_float(const F64x16& a) {
  return {_mm256_set_m128(_mm256_cvtpd_ps(a.v[1]), _mm256_cvtpd_ps(a.v[0])),
          _mm256_set_m128(_mm256_cvtpd_ps(a.v[3]), _mm256_cvtpd_ps(a.v[2]))};
}

template <class Function>
ASSAY_ALWAYS_INLINE F64x16 each_four(Function f) {
  return {{f(0), f(1), f(2), f(3)}};
}

ASSAY_ALWAYS_INLINE F64x16 add(const F64x16& a, const F64x16& b) {
  return each_four([&](int i) { return _mm256_add_pd(a.v[i], b.v[i]); });
}

ASSAY_ALWAYS_INLINE F64x16 sub(const F64x16& a, const F64x16& b) {
  return each_four([&](int i) { return _mm256_sub_pd(a.v[i], b.v[i]); });
}

ASSAY_ALWAYS_INLINE F64x16 mul(const F64x16& a, const F64x16& b) {
  return each_four([&](int i) { return _mm256_mul_pd(a.v[i], b.v[i]); });
}

ASSAY_ALWAYS_INLINE F64x16 div(const F64x16& a, const F64x16& b) {
  return each_four([&](int i) { return _mm256_div_pd(a.v[i], b.v[i]); });
}

ASSAY_ALWAYS_INLINE F64x16 add_exact_product(const F64x16& a, const F64x16& b, const F64x16& c) {
  return each_four([&](int i) { return _mm256_fmadd_pd(a.v[i], b.v[i], c.v[i]); });
}

ASSAY_ALWAYS_INLINE F64x16 max(const F64x16& a, const F64x16& b) {
  return each_four([&](int i) { return _mm256_max_pd(a.v[i], b.v[i]); });
}

ASSAY_ALWAYS_INLINE double sum(const F64x16& a) {
  const __m256d fours = _mm256_add_pd(_mm256_add_pd(a.v[0], a.v[2]), _mm256_add_pd(a.v[1], a.v[3]));
  const __m128d twos = _mm_add_pd(_mm256_castpd256_pd128(fours), _mm256_extractf128_pd(fours, 1));
  return _mm_cvtsd_f64(_mm_add_sd(twos, _mm_unpackhi_pd(twos, twos)));
}

ASSAY_ALWAYS_INLINE double max_lane(const F64x16& a) {
  const __m256d fours = _mm256_max_pd(_mm256_max_pd(a.v[0], a.v[2]), _mm256_max_pd(a.v[1], a.v[3]));
  const __m128d twos = _mm_max_pd(_mm256_castpd256_pd128(fours), _mm256_extractf128_pd(fours, 1));
  return _mm_cvtsd_f64(_mm_max_sd(twos, _mm_unpackhi_pd(twos, twos)));
}

}  // namespace assay::ASSAY_ISA
