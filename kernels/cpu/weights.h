#pragma once

#include <cstddef>
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

// 32 consecutive elements. A block is kParts of them; what its parts share is read first, for
// several rows at once, as Scales.
struct F32x32 {
  F32x16 first;
  F32x16 second;
};

// Has the compiler store `values` and load each from there, where a broadcast is part of the load.
// It would otherwise take them out of the register they were computed in, with shuffles that cost
// a fifth of the speed of Q4_1.
template <class Values>
ASSAY_ALWAYS_INLINE void pass_through_memory(Values& values) {
  __asm__("" : "+m"(values));
}

// The two float16 at the start of a block; in types that have only `d`, `m` is without meaning.
struct ScaleAndShift {
  float d;
  float m;
};

// What the types of 32-element blocks have in common.
template <int64_t kBlockBytes>
struct SmallBlock {
  static constexpr int64_t kBytes = kBlockBytes;
  static constexpr int64_t kParts = 1;
  using Scales = ScaleAndShift;
  template <int64_t kRows>
  static ASSAY_ALWAYS_INLINE void read_scales(const uint8_t* blocks, size_t stride,
                                              Scales (&scales)[kRows]) {
    float pairs[2 * kRows];
    load_f16_pairs<kRows>(blocks, stride, pairs);
    pass_through_memory(pairs);
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) scales[r] = {pairs[2 * r], pairs[2 * r + 1]};
  }
};

// Codes of 4 bits: 16 low halves, then 16 high halves.
ASSAY_ALWAYS_INLINE F32x32 four_bit_values(const uint8_t* bytes, const FourBitCodes& codes) {
  const I32x16 both = load_u8(bytes);
  return {codes.values(both), codes.values(shift_right<4>(both))};
}

// NOLINTBEGIN(readability-identifier-naming): the format's own names
struct Q4_0 : SmallBlock<18> {
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    return four_bit_values(block + 2, FourBitCodes::scaled(splat(s.d), 8.0F));
  }
};

struct Q4_1 : SmallBlock<20> {
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    return four_bit_values(block + 4, FourBitCodes::affine(splat(s.d), splat(s.m)));
  }
};

// Codes of 5 bits: the fifth bits of all 32, then 16 bytes as for 4 bits.
ASSAY_ALWAYS_INLINE uint32_t fifth_bits(const uint8_t* bytes) {
  uint32_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

struct Q5_0 : SmallBlock<22> {
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    const uint32_t missing = ~fifth_bits(block + 2);  // code - 16 is the low bits, less 16 if so
    const I32x16 both = load_u8(block + 6);
    const I32x16 first = add_where(bit_and(both, 0xF), missing & 0xFFFFU, -16);
    const I32x16 second = add_where(shift_right<4>(both), missing >> 16U, -16);
    return {mul_stored(to_float(first), s.d), mul_stored(to_float(second), s.d)};
  }
};

struct Q5_1 : SmallBlock<24> {
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    const uint32_t fifth = fifth_bits(block + 4);
    const I32x16 both = load_u8(block + 8);
    const I32x16 first = add_where(bit_and(both, 0xF), fifth & 0xFFFFU, 16);
    const I32x16 second = add_where(shift_right<4>(both), fifth >> 16U, 16);
    const F32x16 d = splat(s.d);
    const F32x16 m = splat(s.m);
    return {add_exact_product(d, to_float(first), m), add_exact_product(d, to_float(second), m)};
  }
};

struct Q8_0 : SmallBlock<34> {
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE F32x32 read(const uint8_t* block, const Scales& s) {
    return {mul_stored(to_float(load_s8(block + 2)), s.d),
            mul_stored(to_float(load_s8(block + 18)), s.d)};
  }
};
// NOLINTEND(readability-identifier-naming)

}  // namespace assay::ASSAY_ISA
