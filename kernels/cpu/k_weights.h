#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/four_bit_scales.h"
#include "kernels/cpu/k_scales.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/weights.h"

// The types of 256-element blocks, as in weights.h. Part p is elements 32p to 32p + 31.
namespace assay::ASSAY_ISA {

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

struct Q4_K {
  static constexpr int64_t kBytes = 144;
  static constexpr int64_t kParts = 8;
  using Scales = FourBitScales;
  template <int64_t kRows>
  static ASSAY_ALWAYS_INLINE void read_scales(const uint8_t* blocks, size_t stride,
                                              Scales (&scales)[kRows]) {
    Scales::read(blocks, stride, scales);
  }
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    const FourBitCodes codes = s.template codes<kPart>();
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

// The codes of a whole block are put together first and widened where they are read again: a load
// widens as fast as a register's lower half, and the upper half would need one more shuffle.
struct Q6_K {
  static constexpr int64_t kBytes = 210;
  static constexpr int64_t kParts = 8;
  struct Scales {
    float scale[16];
    uint8_t codes[256];  // signed
  };
  template <int64_t kRows>
  static ASSAY_ALWAYS_INLINE void read_scales(const uint8_t* blocks, size_t stride,
                                              Scales (&scales)[kRows]) {
    float pairs[2 * kRows];  // the factor of the scales stands last, as the second of a pair
    load_f16_pairs<kRows>(blocks + 206, stride, pairs);
    pass_through_memory(pairs);
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
      const uint8_t* block = blocks + static_cast<size_t>(r) * stride;
      store(scales[r].scale, mul_stored(to_float(load_s8(block + 192)), pairs[2 * r + 1]));
      unpack_codes<0>(block, scales[r].codes);
      pass_through_memory(scales[r]);
    }
  }
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t*, const Scales& s) {
    const uint8_t* codes = s.codes + 32 * kPart;
    return {mul_stored(to_float(load_s8(codes)), s.scale[2 * kPart]),
            mul_stored(to_float(load_s8(codes + 16)), s.scale[2 * kPart + 1])};
  }

 private:
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE void unpack_codes(const uint8_t* block, uint8_t* codes) {
    const U8x32 low = load_bytes(block + kPart / 4 * 64 + kPart % 2 * 32);
    const U8x32 high = load_bytes(block + 128 + kPart / 4 * 32);
    const U8x32 six = joined_codes<kPart / 2 % 2 * 4, kPart % 4 * 2, 2>(low, high);
    store_bytes(codes + 32 * kPart, sub(six, splat_byte(32)));
    if constexpr (kPart + 1 < kParts) unpack_codes<kPart + 1>(block, codes);
  }
};
// NOLINTEND(readability-identifier-naming)

}  // namespace assay::ASSAY_ISA
