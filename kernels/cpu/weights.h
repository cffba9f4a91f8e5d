#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd.h"

// How each weight type is read into lanes: the same values, bit for bit, as dequantize_row of
// kernels/reference, where the layouts are described.
namespace assay::ASSAY_ISA {

// Types without blocks: any 16 elements, or fewer at the end of a row.
struct F32 {
  static constexpr int64_t kBytes = 4;
  static ASSAY_ALWAYS_INLINE F32x16 read(const uint8_t* p) { return load(p); }
  static ASSAY_ALWAYS_INLINE F32x16 read_partial(const uint8_t* p, int64_t n) {
    return load_partial(p, n);
  }
};

struct F16 {
  static constexpr int64_t kBytes = 2;
  static ASSAY_ALWAYS_INLINE F32x16 read(const uint8_t* p) { return load_f16(p); }
  static ASSAY_ALWAYS_INLINE F32x16 read_partial(const uint8_t* p, int64_t n) {
    return load_f16_partial(p, n);
  }
};

struct BF16 {
  static constexpr int64_t kBytes = 2;
  static ASSAY_ALWAYS_INLINE F32x16 read(const uint8_t* p) { return load_bf16(p); }
  static ASSAY_ALWAYS_INLINE F32x16 read_partial(const uint8_t* p, int64_t n) {
    return load_bf16_partial(p, n);
  }
};

// 32 consecutive elements. A block is kParts of them; what its parts share is read once, as
// Scales.
struct F32x32 {
  F32x16 first;
  F32x16 second;
};

// Codes of 4 bits: 16 low halves, then 16 high halves.
ASSAY_ALWAYS_INLINE F32x32 four_bit_values(const uint8_t* bytes, const FourBitCodes& codes) {
  const I32x16 both = load_u8(bytes);
  return {codes.values(both), codes.values(shift_right<4>(both))};
}

struct Q4_0 {
  static constexpr int64_t kBytes = 18;
  static constexpr int kParts = 1;
  using Scales = FourBitCodes;
  static ASSAY_ALWAYS_INLINE Scales scales(const uint8_t* block) {
    return FourBitCodes::scaled(splat_f16(block), 8.0F);
  }
  template <int kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& scales) {
    return four_bit_values(block + 2, scales);
  }
};

struct Q4_1 {
  static constexpr int64_t kBytes = 20;
  static constexpr int kParts = 1;
  using Scales = FourBitCodes;
  static ASSAY_ALWAYS_INLINE Scales scales(const uint8_t* block) {
    return FourBitCodes::affine(splat_f16(block), splat_f16(block + 2));
  }
  template <int kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& scales) {
    return four_bit_values(block + 4, scales);
  }
};

struct I32x32 {
  I32x16 first;
  I32x16 second;
};

// Codes of 5 bits: the fifth bits of all 32, then 16 bytes as for 4 bits.
ASSAY_ALWAYS_INLINE I32x32 five_bit_codes(const uint8_t* bytes) {
  uint32_t fifth;
  std::memcpy(&fifth, bytes, sizeof(fifth));
  const I32x16 both = load_u8(bytes + 4);
  return {bit_or(bit_and(both, 0xF), value_where(fifth & 0xFFFFU, 16)),
          bit_or(shift_right<4>(both), value_where(fifth >> 16U, 16))};
}

struct Q5_0 {
  static constexpr int64_t kBytes = 22;
  static constexpr int kParts = 1;
  using Scales = F32x16;
  static ASSAY_ALWAYS_INLINE Scales scales(const uint8_t* block) { return splat_f16(block); }
  template <int kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& d) {
    const I32x32 codes = five_bit_codes(block + 2);
    const I32x16 offset = splat_int(16);
    return {mul(d, to_float(sub(codes.first, offset))),
            mul(d, to_float(sub(codes.second, offset)))};
  }
};

struct ScaleAndShift {
  F32x16 scale;
  F32x16 shift;
};

struct Q5_1 {
  static constexpr int64_t kBytes = 24;
  static constexpr int kParts = 1;
  using Scales = ScaleAndShift;
  static ASSAY_ALWAYS_INLINE Scales scales(const uint8_t* block) {
    return {splat_f16(block), splat_f16(block + 2)};
  }
  template <int kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    const I32x32 codes = five_bit_codes(block + 4);
    return {add(mul(s.scale, to_float(codes.first)), s.shift),
            add(mul(s.scale, to_float(codes.second)), s.shift)};
  }
};

struct Q8_0 {
  static constexpr int64_t kBytes = 34;
  static constexpr int kParts = 1;
  using Scales = F32x16;
  static ASSAY_ALWAYS_INLINE Scales scales(const uint8_t* block) { return splat_f16(block); }
  template <int kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& d) {
    return {mul(d, to_float(load_s8(block + 2))), mul(d, to_float(load_s8(block + 18)))};
  }
};

}  // namespace assay::ASSAY_ISA
