#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd.h"

// The scales of 256-element blocks, taken out of the bits that they are packed in.
namespace assay::ASSAY_ISA {

// Of Q3_K: 16 scales, each 32 too large. Four stand in a word: their low four bits in halves of
// bytes, their high two in quarters.
ASSAY_ALWAYS_INLINE void unpack_q3_k_scales(const uint8_t* block, uint8_t (&scales)[16]) {
  uint32_t low[2];
  uint32_t high;
  std::memcpy(low, block + 96, sizeof(low));
  std::memcpy(&high, block + 104, sizeof(high));
  uint32_t words[4];
  for (unsigned i = 0; i < 4; ++i) {
    words[i] = ((low[i % 2] >> (i / 2 * 4)) & 0x0F0F0F0FU) | ((high >> (2 * i)) & 0x03030303U)
                                                                 << 4U;
  }
  std::memcpy(scales, words, sizeof(scales));
}

// Of Q4_K and Q5_K: eight scales of six bits, then eight minima. The first four of each stand in
// their word alone; of the others, the low bits share a word, and the high two stand above the
// first four.
ASSAY_ALWAYS_INLINE void unpack_six_bit_scales(const uint8_t* block, uint8_t (&scales)[16]) {
#if !defined(ASSAY_FORCE_PORTABLE) && defined(__AVX2__)
  constexpr int kSix = 0x3F3F3F3F;
  constexpr int kLow = 0x0F0F0F0F;
  constexpr int kHigh = 0x30303030;
  const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block));
  const __m128i low =
      _mm_srlv_epi32(_mm_shuffle_epi32(words, _MM_SHUFFLE(3, 2, 3, 1)), _mm_setr_epi32(0, 0, 0, 4));
  const __m128i high = _mm_srli_epi32(_mm_shuffle_epi32(words, _MM_SHUFFLE(2, 0, 1, 0)), 2);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(scales),
                   _mm_or_si128(_mm_and_si128(low, _mm_setr_epi32(kSix, kLow, kSix, kLow)),
                                _mm_and_si128(high, _mm_setr_epi32(0, kHigh, 0, kHigh))));
#else
  uint32_t packed[3];
  std::memcpy(packed, block + 4, sizeof(packed));
  const uint32_t words[4] = {
      packed[0] & 0x3F3F3F3FU,
      (packed[2] & 0x0F0F0F0FU) | ((packed[0] >> 2U) & 0x30303030U),
      packed[1] & 0x3F3F3F3FU,
      ((packed[2] >> 4U) & 0x0F0F0F0FU) | ((packed[1] >> 2U) & 0x30303030U),
  };
  std::memcpy(scales, words, sizeof(scales));
#endif
}

// -x, of zeros too.
ASSAY_ALWAYS_INLINE F32x16 negated(F32x16 x) {
  return sub(splat(-0.0F), x);
}

// The scale and the shift of each 16 elements.
struct SixteenScalesAndShifts {
  float scale[16];
  float shift[16];
};

// Of Q4_K and Q5_K: eight scales and eight minima, multiplied out; of `scale` the first eight are
// used, of `shift` the last eight.
ASSAY_ALWAYS_INLINE void six_bit_scales(const uint8_t* block, SixteenScalesAndShifts& s) {
  uint8_t bytes[16];
  unpack_six_bit_scales(block, bytes);
  const F32x16 numbers = to_float(load_u8(bytes));
  store(s.scale, mul(splat_f16(block), numbers));
  store(s.shift, mul(negated(splat_f16(block + 2)), numbers));
}

}  // namespace assay::ASSAY_ISA
