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

ASSAY_ALWAYS_INLINE U8x32 sub(U8x32 a, U8x32 b) {
  return {_mm256_sub_epi8(a.v, b.v)};
}

ASSAY_ALWAYS_INLINE U8x32 splat_byte(int8_t value) {
  return {_mm256_set1_epi8(value)};
}

}  // namespace assay::ASSAY_ISA
