#pragma once

// Included by simd_avx2.h and simd_avx512.h, in the namespace of each: 32 bytes are one AVX2
// register in both.

#include <immintrin.h>

#include <cstdint>

#include "kernels/half.h"

namespace assay::ASSAY_ISA {

struct U8x32 {
  __m256i v;
};

ASSAY_ALWAYS_INLINE U8x32 load_bytes(const uint8_t* bytes) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes))};
}

ASSAY_ALWAYS_INLINE void store_bytes(uint8_t* out, U8x32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), a.v);
}

// (each byte >> kShift) & kMask, where kMask leaves nothing of the bits from the neighbour.
template <int kShift, int kMask>
ASSAY_ALWAYS_INLINE U8x32 bit_field(U8x32 a) {
  static_assert((kMask << kShift) <= 0xFF);
  return {_mm256_and_si256(_mm256_srli_epi16(a.v, kShift), _mm256_set1_epi8(kMask))};
}

// Each byte << kShift; no bit may leave its byte.
template <int kShift>
ASSAY_ALWAYS_INLINE U8x32 shift_bytes_left(U8x32 a) {
  return {_mm256_slli_epi16(a.v, kShift)};
}

ASSAY_ALWAYS_INLINE U8x32 bit_or(U8x32 a, U8x32 b) {
  return {_mm256_or_si256(a.v, b.v)};
}

// Of each byte, four bits of `low` from bit kLow on, below kTopBits of `high` from bit kHigh on.
template <int kLow, int kHigh, int kTopBits>
ASSAY_ALWAYS_INLINE U8x32 joined_codes(U8x32 low, U8x32 high) {
  constexpr int kAll = (1 << (4 + kTopBits)) - 1;
  const __m256i rest = _mm256_srli_epi16(low.v, kLow);
  const __m256i top = kHigh > 4 ? _mm256_srli_epi16(high.v, kHigh > 4 ? kHigh - 4 : 0)
                                : _mm256_slli_epi16(high.v, kHigh > 4 ? 0 : 4 - kHigh);
  const __m256i low_bits = _mm256_set1_epi8(0xF);
#if defined(__AVX512VL__)
  constexpr int kThirdChooses = 0xE4;  // the first operand where it has ones, else the second
  const __m256i both = _mm256_ternarylogic_epi32(rest, top, low_bits, kThirdChooses);
  return {_mm256_and_si256(both, _mm256_set1_epi8(kAll))};
#else
  return {_mm256_or_si256(_mm256_and_si256(rest, low_bits),
                          _mm256_and_si256(top, _mm256_set1_epi8(kAll - 0xF)))};
#endif
}

ASSAY_ALWAYS_INLINE U8x32 sub(U8x32 a, U8x32 b) {
  return {_mm256_sub_epi8(a.v, b.v)};
}

ASSAY_ALWAYS_INLINE U8x32 splat_byte(int8_t value) {
  return {_mm256_set1_epi8(value)};
}

ASSAY_ALWAYS_INLINE U8x32 sixteen_twice(const uint8_t* sixteen) {
  return {_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(sixteen)))};
}

// The low halves of 16 bytes, then their high halves.
ASSAY_ALWAYS_INLINE U8x32 nibbles(const uint8_t* sixteen) {
  const __m256i shifted =
      _mm256_srlv_epi64(sixteen_twice(sixteen).v, _mm256_setr_epi64x(0, 0, 4, 4));
  return {_mm256_and_si256(shifted, _mm256_set1_epi8(0xF))};
}

// Each byte, which is below 16, to one of sixteen: those of `low`, then those of `high`.
ASSAY_ALWAYS_INLINE U8x32 look_up(uint64_t low, uint64_t high, U8x32 places) {
  const __m128i table = _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
  return {_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), places.v)};
}

}  // namespace assay::ASSAY_ISA
