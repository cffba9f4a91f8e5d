#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/coded_weights.h"
#include "kernels/cpu/integers/quantize.h"
#include "kernels/cpu/integers/simd.h"
#include "kernels/cpu/k_scales.h"
#include "kernels/half.h"

// How each weight type is read as unsigned codes with scales; kernels/reference describes the
// layouts. A weight is scale * (code - kOffset), with kShifted that plus shift.
namespace assay::ASSAY_ISA {

// 256 weights of a row, or what is left of it: eight blocks of 32. Beyond the row, codes may be
// anything, and scales and shifts are zero. There is one scale and shift a block; with kTwoScales
// one for each half of a block, in the order of half_sums.
struct Chunk {
  U8x32 codes[8];
  F32x8 scale[2];  // the second: kTwoScales
  F32x8 shift[2];  // kShifted
};

// `factor` times the 16 signed bytes of the halves of eight blocks, one after the other.
ASSAY_ALWAYS_INLINE void set_halves(float factor, const int8_t* sixteen, F32x8 (&halves)[2]) {
  I32x8 bytes[2];
  sort_halves(sixteen, bytes);
  halves[0] = mul(splat8(factor), to_float(bytes[0]));
  halves[1] = mul(splat8(factor), to_float(bytes[1]));
}

template <bool kIsShifted, int32_t kCodeOffset, bool kHasTwoScales = false,
          bool kHasWideCodes = false>
struct CodeTraits {
  using Traits = CodeTraits;
  static constexpr bool kShifted = kIsShifted;
  static constexpr int32_t kOffset = kCodeOffset;
  static constexpr bool kTwoScales = kHasTwoScales;  // a block
  static constexpr bool kWide = kHasWideCodes;
  static constexpr int64_t kWords = 8;  // of a block, each of four codes
  static constexpr int64_t kLanesTogether = 2;
  static ASSAY_ALWAYS_INLINE I32x16 add_products(I32x16 sums, const uint8_t* rows,
                                                 const uint8_t* x) {
    return add_row_products<kWide>(sums, rows, x);
  }
};

// Types whose codes are halves of bytes.
template <class Type>
concept Nibbles = requires {
  Type::kNibblesAt;
};

// Types of 32-element blocks: eight of them are a chunk, kBlocks of which are in the row.
template <class Type, int64_t kBlocks, bool kForDot>
ASSAY_ALWAYS_INLINE void read_small_blocks(const uint8_t* blocks, Chunk& chunk) {
  uint32_t pairs[8] = {};
#pragma GCC unroll 8
  for (int64_t p = 0; p < kBlocks; ++p) {
    const uint8_t* const block = blocks + p * Type::kBytes;
    std::memcpy(&pairs[p], block, sizeof(pairs[p]));
    if constexpr (kForDot && Nibbles<Type>) {
      chunk.codes[p] = product_nibbles(block + Type::kNibblesAt);
    } else {
      chunk.codes[p] = Type::codes(block);
    }
  }
  split_f16_pairs(pairs, chunk.scale[0], chunk.shift[0]);
}

// NOLINTBEGIN(readability-identifier-naming): the format's own names
struct Int8Q4_0 : CodeTraits<false, 8> {
  static constexpr int64_t kBytes = 18;
  static constexpr int64_t kNibblesAt = 2;
  static ASSAY_ALWAYS_INLINE U8x32 codes(const uint8_t* block) {
    return nibbles(block + kNibblesAt);
  }
};

struct Int8Q4_1 : CodeTraits<true, 0> {
  static constexpr int64_t kBytes = 20;
  static constexpr int64_t kNibblesAt = 4;
  static ASSAY_ALWAYS_INLINE U8x32 codes(const uint8_t* block) {
    return nibbles(block + kNibblesAt);
  }
};

ASSAY_ALWAYS_INLINE U8x32 five_bit_codes(const uint8_t* fifth_bits, const uint8_t* low_bits) {
  uint32_t bits;
  std::memcpy(&bits, fifth_bits, sizeof(bits));
  return add_sixteen_where(bits, nibbles(low_bits));
}

struct Int8Q5_0 : CodeTraits<false, 16> {
  static constexpr int64_t kBytes = 22;
  static ASSAY_ALWAYS_INLINE U8x32 codes(const uint8_t* block) {
    return five_bit_codes(block + 2, block + 6);
  }
};

struct Int8Q5_1 : CodeTraits<true, 0> {
  static constexpr int64_t kBytes = 24;
  static ASSAY_ALWAYS_INLINE U8x32 codes(const uint8_t* block) {
    return five_bit_codes(block + 4, block + 8);
  }
};

struct Int8Q8_0 : CodeTraits<false, 128, false, true> {
  static constexpr int64_t kBytes = 34;
  static ASSAY_ALWAYS_INLINE U8x32 codes(const uint8_t* block) {
    return bit_xor(load_bytes(block + 2), splat_byte(-128));
  }
};

// The types of 256-element blocks: one is a chunk.
struct Int8Q2_K : CodeTraits<true, 0, true> {
  static constexpr int64_t kBytes = 84;
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE U8x32 codes(const uint8_t* block) {
    return bit_field<kPart % 4 * 2, 3>(load_bytes(block + 16 + kPart / 4 * 32));
  }
  static ASSAY_ALWAYS_INLINE void scales(const uint8_t* block, Chunk& chunk) {
    int8_t scale[16];
    int8_t shift[16];
    for (int i = 0; i < 16; ++i) {
      scale[i] = static_cast<int8_t>(block[i] & 0xFU);
      shift[i] = static_cast<int8_t>(block[i] >> 4U);
    }
    set_halves(f16_at(block + 80), scale, chunk.scale);
    set_halves(-f16_at(block + 82), shift, chunk.shift);
  }
};

struct Int8Q3_K : CodeTraits<false, 4, true> {
  static constexpr int64_t kBytes = 110;
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE U8x32 codes(const uint8_t* block) {
    const U8x32 low = bit_field<kPart % 4 * 2, 3>(load_bytes(block + 32 + kPart / 4 * 32));
    return bit_or(low, shift_bytes_left<2>(bit_field<kPart, 1>(load_bytes(block))));
  }
  static ASSAY_ALWAYS_INLINE void scales(const uint8_t* block, Chunk& chunk) {
    uint8_t bytes[16];
    unpack_q3_k_scales(block, bytes);
    int8_t scale[16];
    for (int i = 0; i < 16; ++i) scale[i] = static_cast<int8_t>(bytes[i] - 32);
    set_halves(f16_at(block + 108), scale, chunk.scale);
  }
};

// Of Q4_K and Q5_K: eight scales and eight minima of six bits.
ASSAY_ALWAYS_INLINE void six_bit_scales(const uint8_t* block, Chunk& chunk) {
  uint8_t bytes[16];
  unpack_six_bit_scales(block, bytes);
  chunk.scale[0] = mul(splat8(f16_at(block)), to_float(widen8(bytes)));
  chunk.shift[0] = mul(splat8(-f16_at(block + 2)), to_float(widen8(bytes + 8)));
}

struct Int8Q4_K : CodeTraits<true, 0> {
  static constexpr int64_t kBytes = 144;
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE U8x32 codes(const uint8_t* block) {
    return bit_field<kPart % 2 * 4, 0xF>(load_bytes(block + 16 + kPart / 2 * 32));
  }
  static ASSAY_ALWAYS_INLINE void scales(const uint8_t* block, Chunk& chunk) {
    six_bit_scales(block, chunk);
  }
};

struct Int8Q5_K : CodeTraits<true, 0> {
  static constexpr int64_t kBytes = 176;
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE U8x32 codes(const uint8_t* block) {
    return joined_codes<kPart % 2 * 4, kPart, 1>(load_bytes(block + 48 + kPart / 2 * 32),
                                                 load_bytes(block + 16));
  }
  static ASSAY_ALWAYS_INLINE void scales(const uint8_t* block, Chunk& chunk) {
    six_bit_scales(block, chunk);
  }
};

struct Int8Q6_K : CodeTraits<false, 32, true> {
  static constexpr int64_t kBytes = 210;
  template <int64_t kPart>
  static ASSAY_ALWAYS_INLINE U8x32 codes(const uint8_t* block) {
    const uint8_t* low_bits = block + kPart / 4 * 64 + kPart % 2 * 32;
    return joined_codes<kPart / 2 % 2 * 4, kPart % 4 * 2, 2>(
        load_bytes(low_bits), load_bytes(block + 128 + kPart / 4 * 32));
  }
  static ASSAY_ALWAYS_INLINE void scales(const uint8_t* block, Chunk& chunk) {
    int8_t scale[16];
    std::memcpy(scale, block + 192, sizeof(scale));
    set_halves(f16_at(block + 208), scale, chunk.scale);
  }
};
// NOLINTEND(readability-identifier-naming)

// The types of coded_types.h.
template <class Type>
struct Int8Coded : CodeTraits<false, 128, (Type::kGroup % 32 != 0), true> {
  static constexpr int64_t kBytes = Type::kBytes;
  static constexpr int64_t kElements = Type::kElements;

  // n_blocks times 32 elements.
  __attribute__((noinline)) static void read(const uint8_t* data, int64_t n_blocks, Chunk& chunk) {
    float scale[16] = {};
#pragma GCC unroll 1
    for (int p = 0; p < n_blocks; ++p) {
      const uint8_t* block = data + 32 * p / kElements * kBytes;
      const int first = static_cast<int>(32 * p % kElements);
      chunk.codes[p] = bit_xor(signed_codes<Type>(block, first), splat_byte(-128));
      const int64_t place = Int8Coded::kTwoScales ? half_place(p) : p;
      scale[place] = Type::scale(block, first / Type::kGroup);
      if constexpr (Int8Coded::kTwoScales) {
        scale[place + 4] = Type::scale(block, (first + 16) / Type::kGroup);
      }
    }
    for (int i = 0; i < 2; ++i) chunk.scale[i] = load8(scale + 8 * i);
  }
};

template <class Type>
concept SmallBlocks = requires {
  Type::codes(static_cast<const uint8_t*>(nullptr));
};

template <class Type>
concept CodedBlocks = requires {
  Type::kElements;
};

template <class Type, int64_t kPart = 0>
ASSAY_ALWAYS_INLINE void read_large_codes(const uint8_t* block, Chunk& chunk) {
  chunk.codes[kPart] = Type::template codes<kPart>(block);
  if constexpr (kPart < 7) read_large_codes<Type, kPart + 1>(block, chunk);
}

// kBlocks: blocks of 32 that are read, up to 8; codes beyond them are left as they are. n_blocks:
// how many of these are in the row; a type whose blocks take long to read leaves out the others.
// kForDot: codes are product_nibbles() where the type has those.
template <class Type, int64_t kBlocks, bool kForDot = false>
ASSAY_ALWAYS_INLINE void read_chunk(const uint8_t* data, int64_t n_blocks, Chunk& chunk) {
  if constexpr (SmallBlocks<Type>) {
    read_small_blocks<Type, kBlocks, kForDot>(data, chunk);
  } else if constexpr (CodedBlocks<Type>) {
    Type::read(data, n_blocks, chunk);
  } else {
    read_large_codes<Type>(data, chunk);
    Type::scales(data, chunk);
  }
}

// How many blocks make up a chunk.
template <class Type>
constexpr int64_t blocks_of_chunk() {
  if constexpr (CodedBlocks<Type>) return 256 / Type::kElements;
  return SmallBlocks<Type> ? 8 : 1;
}

template <class Type>
constexpr int64_t kChunkBytes = blocks_of_chunk<Type>() * Type::kBytes;

// A chunk of which only the first `n_blocks` blocks of 32 are in the row, with zeros behind them.
template <class Type>
struct LastChunk {
  uint8_t bytes[kChunkBytes<Type>] = {};
  LastChunk(const uint8_t* row, int64_t n_blocks) {
    constexpr int64_t kStep = 8 / blocks_of_chunk<Type>();
    std::memcpy(bytes, row, static_cast<size_t>(n_blocks / kStep * Type::kBytes));
  }
};

// Whether the last chunk of a row is read as a LastChunk, rather than by code for its length. Zeros
// change no sum: there, the activations and their scales are zero.
template <class Type>
constexpr bool kFillsLastChunk = blocks_of_chunk<Type>() > 1 && !kHasCodeForEachLength;

// Calls use(std::integral_constant<int64_t, n>()) for the n times 32 elements of a row that stand
// after its last whole chunk; 0 if kFillsLastChunk.
template <class Type, int64_t kMost = 7, class Use>
ASSAY_ALWAYS_INLINE void with_rest(int64_t columns, const Use& use) {
  constexpr int64_t kStep = 8 / blocks_of_chunk<Type>();
  if constexpr (!kFillsLastChunk<Type> && kStep < 8 && kMost > 0) {
    if (columns / 32 % 8 != kMost) return with_rest<Type, kMost - 1>(columns, use);
    if constexpr (kMost % kStep == 0) use(std::integral_constant<int64_t, kMost>());
  } else {
    use(std::integral_constant<int64_t, 0>());
  }
}

}  // namespace assay::ASSAY_ISA
