#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/weights.h"

// The types of 256-element blocks, as in weights.h. Part p is elements 32p to 32p + 31.
namespace assay::ASSAY_ISA {

// -x, of zeros too.
ASSAY_ALWAYS_INLINE F32x16 negated(F32x16 x) {
  return sub(splat(-0.0F), x);
}

// The scale of each 16 elements.
struct SixteenScales {
  float scale[16];
};

// The scale and the shift of each 16 elements.
struct SixteenScalesAndShifts {
  float scale[16];
  float shift[16];
};

struct Q2_K {
  static constexpr int64_t kBytes = 84;
  static constexpr int kParts = 8;
  using Scales = SixteenScalesAndShifts;
  static ASSAY_ALWAYS_INLINE Scales scales(const uint8_t* block) {
    const I32x16 both = load_u8(block);
    Scales s;
    store(s.scale, mul(splat_f16(block + 80), to_float(bit_and(both, 0xF))));
    store(s.shift, mul(negated(splat_f16(block + 82)), to_float(shift_right<4>(both))));
    return s;
  }
  template <int kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    return {half<2 * kPart>(block + 16, s), half<2 * kPart + 1>(block + 16, s)};
  }

 private:
  template <int kHalf>  // 16 elements
  static ASSAY_ALWAYS_INLINE F32x16 half(const uint8_t* bytes, const Scales& s) {
    const I32x16 fours = load_u8(bytes + kHalf / 8 * 32 + kHalf % 2 * 16);
    const I32x16 codes = bit_and(shift_right<kHalf / 2 % 4 * 2>(fours), 3);
    return add(mul(splat(s.scale[kHalf]), to_float(codes)), splat(s.shift[kHalf]));
  }
};

struct Q3_K {
  static constexpr int64_t kBytes = 110;
  static constexpr int kParts = 8;
  using Scales = SixteenScales;
  static ASSAY_ALWAYS_INLINE Scales scales(const uint8_t* block) {
    // Four scales a word: their low four bits in halves of bytes, their high two in quarters.
    uint32_t low[2];
    uint32_t high;
    std::memcpy(low, block + 96, sizeof(low));
    std::memcpy(&high, block + 104, sizeof(high));
    uint32_t codes[4];
    for (unsigned i = 0; i < 4; ++i) {
      codes[i] = ((low[i % 2] >> (i / 2 * 4)) & 0x0F0F0F0FU) | ((high >> (2 * i)) & 0x03030303U)
                                                                   << 4U;
    }
    uint8_t bytes[16];
    std::memcpy(bytes, codes, sizeof(bytes));
    const F32x16 numbers = to_float(sub(load_u8(bytes), splat_int(32)));
    Scales s;
    store(s.scale, mul(splat_f16(block + 108), numbers));
    return s;
  }
  template <int kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    return {half<2 * kPart>(block, s), half<2 * kPart + 1>(block, s)};
  }

 private:
  template <int kHalf>
  static ASSAY_ALWAYS_INLINE F32x16 half(const uint8_t* block, const Scales& s) {
    const I32x16 fours = load_u8(block + 32 + kHalf / 8 * 32 + kHalf % 2 * 16);
    const I32x16 low = bit_and(shift_right<kHalf / 2 % 4 * 2>(fours), 3);
    const I32x16 eights = load_u8(block + kHalf % 2 * 16);
    const I32x16 third = shift_left<2>(bit_and(shift_right<kHalf / 2>(eights), 1));
    const I32x16 codes = sub(add(low, third), splat_int(4));
    return mul(splat(s.scale[kHalf]), to_float(codes));
  }
};

// Of Q4_K and Q5_K: eight scales and eight minima, multiplied out; of `scale` the first eight are
// used, of `shift` the last eight.
ASSAY_ALWAYS_INLINE SixteenScalesAndShifts six_bit_scales(const uint8_t* block) {
  uint32_t packed[3];
  std::memcpy(packed, block + 4, sizeof(packed));
  const uint32_t codes[4] = {
      packed[0] & 0x3F3F3F3FU,
      (packed[2] & 0x0F0F0F0FU) | ((packed[0] >> 2U) & 0x30303030U),
      packed[1] & 0x3F3F3F3FU,
      ((packed[2] >> 4U) & 0x0F0F0F0FU) | ((packed[1] >> 2U) & 0x30303030U),
  };
  uint8_t bytes[16];
  std::memcpy(bytes, codes, sizeof(bytes));
  const F32x16 numbers = to_float(load_u8(bytes));
  SixteenScalesAndShifts s;
  store(s.scale, mul(splat_f16(block), numbers));
  store(s.shift, mul(negated(splat_f16(block + 2)), numbers));
  return s;
}

struct Q4_K {
  static constexpr int64_t kBytes = 144;
  static constexpr int kParts = 8;
  using Scales = SixteenScalesAndShifts;
  static ASSAY_ALWAYS_INLINE Scales scales(const uint8_t* block) { return six_bit_scales(block); }
  template <int kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    const auto codes = FourBitCodes::affine(splat(s.scale[kPart]), splat(s.shift[8 + kPart]));
    const uint8_t* bytes = block + 16 + kPart / 2 * 32;
    return {codes.values(shift_right<kPart % 2 * 4>(load_u8(bytes))),
            codes.values(shift_right<kPart % 2 * 4>(load_u8(bytes + 16)))};
  }
};

struct Q5_K {
  static constexpr int64_t kBytes = 176;
  static constexpr int kParts = 8;
  using Scales = SixteenScalesAndShifts;
  static ASSAY_ALWAYS_INLINE Scales scales(const uint8_t* block) { return six_bit_scales(block); }
  template <int kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    const F32x16 scale = splat(s.scale[kPart]);
    const F32x16 shift = splat(s.shift[8 + kPart]);
    return {add(mul(scale, to_float(codes<2 * kPart>(block))), shift),
            add(mul(scale, to_float(codes<2 * kPart + 1>(block))), shift)};
  }

 private:
  template <int kHalf>
  static ASSAY_ALWAYS_INLINE I32x16 codes(const uint8_t* block) {
    const I32x16 twos = load_u8(block + 48 + kHalf / 4 * 32 + kHalf % 2 * 16);
    const I32x16 low = bit_and(shift_right<kHalf / 2 % 2 * 4>(twos), 0xF);
    const I32x16 eights = load_u8(block + 16 + kHalf % 2 * 16);
    const I32x16 fifth = bit_and(shift_right<kHalf / 2>(eights), 1);
    return bit_or(low, shift_left<4>(fifth));
  }
};

struct Q6_K {
  static constexpr int64_t kBytes = 210;
  static constexpr int kParts = 8;
  using Scales = SixteenScales;
  static ASSAY_ALWAYS_INLINE Scales scales(const uint8_t* block) {
    Scales s;
    store(s.scale, mul(splat_f16(block + 208), to_float(load_s8(block + 192))));
    return s;
  }
  template <int kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    return {half<2 * kPart>(block, s), half<2 * kPart + 1>(block, s)};
  }

 private:
  template <int kHalf>
  static ASSAY_ALWAYS_INLINE F32x16 half(const uint8_t* block, const Scales& s) {
    const I32x16 twos = load_u8(block + kHalf / 8 * 64 + kHalf % 4 * 16);
    const I32x16 low = bit_and(shift_right<kHalf / 4 % 2 * 4>(twos), 0xF);
    const I32x16 fours = load_u8(block + 128 + kHalf / 8 * 32 + kHalf % 2 * 16);
    const I32x16 high = bit_and(shift_right<kHalf / 2 % 4 * 2>(fours), 3);
    const I32x16 codes = sub(bit_or(low, shift_left<4>(high)), splat_int(32));
    return mul(splat(s.scale[kHalf]), to_float(codes));
  }
};

}  // namespace assay::ASSAY_ISA
