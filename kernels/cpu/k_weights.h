#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/k_scales.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/weights.h"

// The types of 256-element blocks, as in weights.h. Part p is elements 32p to 32p + 31.
namespace assay::ASSAY_ISA {

// -x, of zeros too.
ASSAY_ALWAYS_INLINE F32x16 negated(F32x16 x) {
  return sub(splat(-0.0F), x);
}

// What the types of 256-element blocks have in common: Derived::scales of one block.
template <class Derived, int64_t kBlockBytes, class BlockScales>
struct LargeBlock {
  static constexpr int64_t kBytes = kBlockBytes;
  static constexpr int64_t kParts = 8;
  using Scales = BlockScales;
  template <int64_t kRows>
  static ASSAY_ALWAYS_INLINE void read_scales(const uint8_t* blocks, size_t stride,
                                              Scales (&scales)[kRows]) {
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
      Derived::scales(blocks + static_cast<size_t>(r) * stride, scales[r]);
      pass_through_memory(scales[r]);
    }
  }
};

// The scale of each 16 elements.
struct SixteenScales {
  float scale[16];
};

// The scale and the shift of each 16 elements.
struct SixteenScalesAndShifts {
  float scale[16];
  float shift[16];
};

// scale * code of 32 signed codes, each 16 with a scale of their own.
ASSAY_ALWAYS_INLINE F32x32 scaled(U8x32 codes, const float* scale) {
  return {mul(splat(scale[0]), to_float(widen<0>(codes))),
          mul(splat(scale[1]), to_float(widen<1>(codes)))};
}

// NOLINTBEGIN(readability-identifier-naming): the format's own names
struct Q2_K : LargeBlock<Q2_K, 84, SixteenScalesAndShifts> {
  static ASSAY_ALWAYS_INLINE void scales(const uint8_t* block, Scales& s) {
    const I32x16 both = load_u8(block);
    store(s.scale, mul(splat_f16(block + 80), to_float(bit_and(both, 0xF))));
    store(s.shift, mul(negated(splat_f16(block + 82)), to_float(shift_right<4>(both))));
  }
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    const U8x32 codes = bit_field<kPart % 4 * 2, 3>(load_bytes(block + 16 + kPart / 4 * 32));
    const F32x32 products = scaled(codes, s.scale + 2 * kPart);
    return {add(products.first, splat(s.shift[2 * kPart])),
            add(products.second, splat(s.shift[2 * kPart + 1]))};
  }
};

struct Q3_K : LargeBlock<Q3_K, 110, SixteenScales> {
  static ASSAY_ALWAYS_INLINE void scales(const uint8_t* block, Scales& s) {
    uint8_t bytes[16];
    unpack_q3_k_scales(block, bytes);
    const F32x16 numbers = to_float(sub(load_u8(bytes), splat_int(32)));
    store(s.scale, mul(splat_f16(block + 108), numbers));
  }
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    const U8x32 low = bit_field<kPart % 4 * 2, 3>(load_bytes(block + 32 + kPart / 4 * 32));
    const U8x32 third = shift_bytes_left<2>(bit_field<kPart, 1>(load_bytes(block)));
    return scaled(sub(bit_or(low, third), splat_byte(4)), s.scale + 2 * kPart);
  }
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

struct Q4_K : LargeBlock<Q4_K, 144, SixteenScalesAndShifts> {
  static ASSAY_ALWAYS_INLINE void scales(const uint8_t* block, Scales& s) {
    six_bit_scales(block, s);
  }
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    const auto codes = FourBitCodes::affine(splat(s.scale[kPart]), splat(s.shift[8 + kPart]));
    const uint8_t* bytes = block + 16 + kPart / 2 * 32;
    return {codes.values(shift_right<kPart % 2 * 4>(load_u8(bytes))),
            codes.values(shift_right<kPart % 2 * 4>(load_u8(bytes + 16)))};
  }
};

struct Q5_K : LargeBlock<Q5_K, 176, SixteenScalesAndShifts> {
  static ASSAY_ALWAYS_INLINE void scales(const uint8_t* block, Scales& s) {
    six_bit_scales(block, s);
  }
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    const U8x32 low = bit_field<kPart % 2 * 4, 0xF>(load_bytes(block + 48 + kPart / 2 * 32));
    const U8x32 fifth = shift_bytes_left<4>(bit_field<kPart, 1>(load_bytes(block + 16)));
    const U8x32 codes = bit_or(low, fifth);
    const F32x16 scale = splat(s.scale[kPart]);
    const F32x16 shift = splat(s.shift[8 + kPart]);
    return {add_exact_product(scale, to_float(widen<0>(codes)), shift),
            add_exact_product(scale, to_float(widen<1>(codes)), shift)};
  }
};

struct Q6_K : LargeBlock<Q6_K, 210, SixteenScales> {
  static ASSAY_ALWAYS_INLINE void scales(const uint8_t* block, Scales& s) {
    store(s.scale, mul(splat_f16(block + 208), to_float(load_s8(block + 192))));
  }
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    const uint8_t* low_bits = block + kPart / 4 * 64 + kPart % 2 * 32;
    const U8x32 high = load_bytes(block + 128 + kPart / 4 * 32);
    const U8x32 codes = six_bit_codes<kPart / 2 % 2 * 4, kPart % 4 * 2>(load_bytes(low_bits), high);
    return scaled(sub(codes, splat_byte(32)), s.scale + 2 * kPart);
  }
};
// NOLINTEND(readability-identifier-naming)

}  // namespace assay::ASSAY_ISA
