#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/k_scales.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/weights.h"

// What four-bit codes stand for in a block of Q4_K: its eight parts of 32 elements have a scale and
// a minimum each, numbers of six bits times a factor of the block's.
namespace assay::ASSAY_ISA {

#if !defined(ASSAY_FORCE_PORTABLE) && defined(__AVX512BW__) && defined(__AVX512VL__) && \
    defined(__AVX512DQ__)

// number * code, of each scale and each code.
struct NumbersTimesCodes {
  alignas(64) float values[64][16] = {};
  constexpr NumbersTimesCodes() {
    for (int number = 0; number < 64; ++number) {
      for (int code = 0; code < 16; ++code) {
        values[number][code] = static_cast<float>(number * code);
      }
    }
  }
};

inline constexpr NumbersTimesCodes kNumbersTimesCodes;

// The 16 values of a part are the factor times number * code, read from a table, less the minimum.
// That product is exact, as scale * code is, so one fused operation gives the bits that rounding
// after each step gives. All that precedes it is work of the integer units and of loads. Aligned,
// because a load waits longer for what was just stored across two cache lines.
class alignas(64) FourBitScales {
 public:
  template <int64_t kRows>
  static ASSAY_ALWAYS_INLINE void read(const uint8_t* blocks, size_t stride,
                                       FourBitScales (&scales)[kRows]) {
    float factors[2 * kRows];  // of each row's scales, then of its minima
    load_f16_pairs<kRows>(blocks, stride, factors);
    pass_through_memory(factors);
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
      const uint64_t minima = scales[r].read_numbers(blocks + static_cast<size_t>(r) * stride);
      const __m256i wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(minima)));
      const __m256 factor = _mm256_set1_ps(factors[2 * r + 1]);
      _mm256_storeu_ps(scales[r].minima_, _mm256_mul_ps(_mm256_cvtepi32_ps(wide), factor));
      scales[r].factor_ = factors[2 * r];
      pass_through_memory(scales[r]);
    }
  }

  template <int64_t kPart>
  ASSAY_ALWAYS_INLINE FourBitCodes codes() const {
    constexpr int64_t kPlace = kPart < 4 ? kPart : kPart + 4;
    const F32x16 numbers = load(kNumbersTimesCodes.values[numbers_[kPlace]]);
    return FourBitCodes::difference(numbers, splat(factor_), splat(minima_[kPart]));
  }

 private:
  // Returns the numbers of the minima, a byte each.
  ASSAY_ALWAYS_INLINE uint64_t read_numbers(const uint8_t* block) {
    uint64_t first;  // the first four scales, then the first four minima, below high bits of others
    uint32_t last;   // the low bits of the other scales, and above each those of a minimum
    std::memcpy(&first, block + 4, sizeof(first));
    std::memcpy(&last, block + 12, sizeof(last));
    const uint64_t halves = last | uint64_t{last} << 28U;
    const uint64_t low = first & 0x3F3F3F3F3F3F3F3FU;
    const uint64_t high = ((first >> 2U) & 0x3030303030303030U) | (halves & 0x0F0F0F0F0F0F0F0FU);
    std::memcpy(numbers_, &low, sizeof(low));
    std::memcpy(numbers_ + 8, &high, sizeof(high));
    return low >> 32U | (high >> 32U << 32U);
  }

  float minima_[8];
  uint8_t numbers_[16];  // of scales 0 to 3, minima 0 to 3, scales 4 to 7, minima 4 to 7
  float factor_;
};

#else

class FourBitScales {
 public:
  template <int64_t kRows>
  static ASSAY_ALWAYS_INLINE void read(const uint8_t* blocks, size_t stride,
                                       FourBitScales (&scales)[kRows]) {
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
      six_bit_scales(blocks + static_cast<size_t>(r) * stride, scales[r].both_);
      pass_through_memory(scales[r]);
    }
  }

  template <int64_t kPart>
  ASSAY_ALWAYS_INLINE FourBitCodes codes() const {
    return FourBitCodes::affine(splat(both_.scale[kPart]), splat(both_.shift[8 + kPart]));
  }

 private:
  SixteenScalesAndShifts both_;
};

#endif

}  // namespace assay::ASSAY_ISA
