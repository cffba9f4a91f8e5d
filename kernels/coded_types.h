#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/codebooks.h"
#include "kernels/half.h"

// The block types that every backend reads by one description: a weight is a scale times a whole
// number from -127 to 127, its code, which a table has, or which few bits stand for. The layouts
// are those of the GGUF format; a block's fields, in their order in memory, are named in the
// comment of its type, and `d` is binary16.
//
// - code(block, i) to code(block, i + 3), i a multiple of 4, are the bytes of four_codes(block, i);
// - scale(block, g) is that of the elements [g * kGroup, (g + 1) * kGroup).
//
// The product, rounded once, is bit for bit what the `gguf` Python package gives. Blocks need no
// alignment.

// Calls X(name) for each of them.
// clang-format off
#define ASSAY_CODED_TYPES(X)                           \
  X(IQ1_S) X(IQ1_M) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S)      \
  X(IQ3_XXS) X(IQ3_S) X(IQ4_NL) X(IQ4_XS)              \
  X(TQ1_0) X(TQ2_0) X(MXFP4) X(NVFP4)
// clang-format on

namespace assay::coded {

ASSAY_ALWAYS_INLINE uint32_t load16(const uint8_t* bytes) {
  return bytes[0] | static_cast<uint32_t>(bytes[1]) << 8U;
}

ASSAY_ALWAYS_INLINE uint32_t load32(const uint8_t* bytes) {
  return load16(bytes) | load16(bytes + 2) << 16U;
}

ASSAY_ALWAYS_INLINE float load_f16(const uint8_t* bytes) {
  return float_from_f16(static_cast<uint16_t>(load16(bytes)));
}

// Half i of a run of bytes: low, high, low, ...
ASSAY_ALWAYS_INLINE uint32_t nibble(const uint8_t* bytes, int i) {
  return static_cast<uint32_t>(bytes[i / 2]) >> (i % 2 * 4) & 0xFU;
}

constexpr uint32_t kEach = 0x01010101U;  // times a byte: four of it

// Four numbers of two bits as bytes.
ASSAY_ALWAYS_INLINE uint32_t spread_pairs(uint32_t four) {
  const uint32_t nibbles = (four | four << 12U) & 0x000F000FU;
  return (nibbles | nibbles << 6U) & 0x03030303U;
}

// Four numbers of four bits as bytes.
ASSAY_ALWAYS_INLINE uint32_t spread_nibbles(uint32_t four) {
  const uint32_t bytes = (four | four << 8U) & 0x00FF00FFU;
  return (bytes | bytes << 4U) & 0x0F0F0F0FU;
}

// Bytes from 1 to 127, those negated whose bit of the lowest four is set.
ASSAY_ALWAYS_INLINE uint32_t with_signs(uint32_t bytes, uint32_t signs) {
  const uint32_t negative = (signs & 0xFU) * 0x00204081U & kEach;
  return (bytes ^ negative * 0xFFU) + negative;
}

// Eight signs of which seven are stored: an even number of them are negative.
ASSAY_ALWAYS_INLINE uint32_t eight_signs(uint32_t seven) {
  uint32_t parity = seven ^ seven >> 4U;
  parity ^= parity >> 2U;
  return seven | ((parity ^ parity >> 1U) & 1U) << 7U;
}

template <int kBlockElements, int kBlockBytes, int kScaleElements>
struct Block {
  static constexpr int kElements = kBlockElements;
  static constexpr int kBytes = kBlockBytes;
  static constexpr int kGroup = kScaleElements;
};

// NOLINTBEGIN(readability-identifier-naming): the format's own names

// Of the IQ1 types: codes of -1, 0 and 1, all shifted by an eighth up or down; here times eight.
ASSAY_ALWAYS_INLINE uint32_t iq1_codes(uint32_t entry, int i, bool down) {
  const uint32_t numbers = spread_pairs(entry >> (i % 8 * 2) & 0xFFU);
  return (numbers * 8U + (down ? 0x77U : 0x79U) * kEach) ^ 0x80U * kEach;
}

// d, entries[32], groups[8] of 16 bits: three more bits for four entries, scale, shift
struct IQ1_S : Block<256, 50, 32> {
  static ASSAY_ALWAYS_INLINE uint32_t group(const uint8_t* block, int g) {
    return load16(block + 34 + 2 * g);
  }
  static ASSAY_ALWAYS_INLINE float scale(const uint8_t* block, int g) {
    const uint32_t odd = 2U * (group(block, g) >> 12U & 7U) + 1U;
    return load_f16(block) * static_cast<float>(odd) * 0.125F;
  }
  static ASSAY_ALWAYS_INLINE uint32_t four_codes(const uint8_t* block, int i) {
    const uint32_t of_group = group(block, i / 32);
    const uint32_t high = of_group >> (i % 32 / 8 * 3) & 7U;
    return iq1_codes(iq1_entry(block[2 + i / 8] | high << 8U), i, of_group >> 15U != 0);
  }
};

// entries[32], high[16] (for each entry three more bits and the shift), scales[4] of 16 bits, each
// of four scales and a part of d
struct IQ1_M : Block<256, 56, 16> {
  static ASSAY_ALWAYS_INLINE float scale(const uint8_t* block, int g) {
    uint32_t d = 0;
    for (int i = 0; i < 4; ++i) d |= load16(block + 48 + 2 * i) >> 12U << (4 * i);
    const uint32_t odd = 2U * (load16(block + 48 + g / 4 * 2) >> (g % 4 * 3) & 7U) + 1U;
    return float_from_f16(static_cast<uint16_t>(d)) * static_cast<float>(odd) * 0.125F;
  }
  static ASSAY_ALWAYS_INLINE uint32_t four_codes(const uint8_t* block, int i) {
    const uint32_t high = nibble(block + 32, i / 8);
    return iq1_codes(iq1_entry(block[i / 8] | (high & 7U) << 8U), i, (high & 8U) != 0);
  }
};

// Of the IQ2 types: magnitudes of 8, 25 and 43.
ASSAY_ALWAYS_INLINE uint32_t iq2_codes(uint32_t entry, int i, uint32_t signs) {
  const uint32_t numbers = spread_pairs(entry >> (i % 8 * 2) & 0xFFU);
  return with_signs(numbers * 17U + (numbers >> 1U & kEach) + 8U * kEach, signs >> (i % 8));
}

ASSAY_ALWAYS_INLINE float iq2_scale(const uint8_t* block, uint32_t scale) {
  return load_f16(block) * (0.5F + static_cast<float>(scale)) * 0.25F;
}

// d, groups[8] of 64 bits: four entries, four times seven signs, scale
struct IQ2_XXS : Block<256, 66, 32> {
  static ASSAY_ALWAYS_INLINE float scale(const uint8_t* block, int g) {
    return iq2_scale(block, load32(block + 6 + 8 * g) >> 28U);
  }
  static ASSAY_ALWAYS_INLINE uint32_t four_codes(const uint8_t* block, int i) {
    const uint8_t* group = block + 2 + i / 32 * 8;
    const uint32_t signs = load32(group + 4) >> (i % 32 / 8 * 7) & 0x7FU;
    return iq2_codes(iq2_xxs_entry(group[i % 32 / 8]), i, eight_signs(signs));
  }
};

// d, entries[32] of 16 bits: nine, and seven signs; scales[8]
struct IQ2_XS : Block<256, 74, 16> {
  static ASSAY_ALWAYS_INLINE float scale(const uint8_t* block, int g) {
    return iq2_scale(block, nibble(block + 66, g));
  }
  static ASSAY_ALWAYS_INLINE uint32_t four_codes(const uint8_t* block, int i) {
    const uint32_t stored = load16(block + 2 + i / 8 * 2);
    return iq2_codes(iq2_xs_entry(stored & 0x1FFU), i, eight_signs(stored >> 9U));
  }
};

// d, entries[32], signs[32], high[8] (two more bits for each entry), scales[8]
struct IQ2_S : Block<256, 82, 16> {
  static ASSAY_ALWAYS_INLINE float scale(const uint8_t* block, int g) {
    return iq2_scale(block, nibble(block + 74, g));
  }
  static ASSAY_ALWAYS_INLINE uint32_t four_codes(const uint8_t* block, int i) {
    const uint32_t high = static_cast<uint32_t>(block[66 + i / 32]) >> (i % 32 / 8 * 2) & 3U;
    return iq2_codes(iq2_s_entry(block[2 + i / 8] | high << 8U), i, block[34 + i / 8]);
  }
};

// d, entries[64], groups[8] of 32 bits: four times seven signs, scale
struct IQ3_XXS : Block<256, 98, 32> {
  static ASSAY_ALWAYS_INLINE float scale(const uint8_t* block, int g) {
    const auto scale = static_cast<float>(load32(block + 66 + 4 * g) >> 28U);
    return load_f16(block) * (0.5F + scale) * 0.5F;
  }
  // Magnitudes of 4, 12, ... 52 and 62.
  static ASSAY_ALWAYS_INLINE uint32_t four_codes(const uint8_t* block, int i) {
    const uint32_t numbers = spread_nibbles(iq3_xxs_entry(block[2 + i / 4]));
    const uint32_t sevens = (numbers + kEach) >> 3U & kEach;
    const uint32_t signs = load32(block + 66 + i / 32 * 4) >> (i % 32 / 8 * 7) & 0x7FU;
    return with_signs(numbers * 8U + 4U * kEach + 2U * sevens, eight_signs(signs) >> (i % 8));
  }
};

// d, entries[64], ninth_bits[8], signs[32], scales[4]
struct IQ3_S : Block<256, 110, 32> {
  static ASSAY_ALWAYS_INLINE float scale(const uint8_t* block, int g) {
    return load_f16(block) * static_cast<float>(2U * nibble(block + 106, g) + 1U);
  }
  // Magnitudes of 1, 3, ... 15.
  static ASSAY_ALWAYS_INLINE uint32_t four_codes(const uint8_t* block, int i) {
    const uint32_t ninth = static_cast<uint32_t>(block[66 + i / 32]) >> (i % 32 / 4) & 1U;
    const uint32_t numbers = spread_nibbles(iq3_s_entry(block[2 + i / 4] | ninth << 8U));
    const uint32_t signs = static_cast<uint32_t>(block[74 + i / 8]) >> (i % 8);
    return with_signs(numbers * 2U + kEach, signs);
  }
};

// Sixteen codes for what four bits stand for, the first in the low byte.
struct Sixteen {
  uint64_t low;
  uint64_t high;
};

// Those of four bytes' low halves.
template <uint64_t kLow, uint64_t kHigh>
ASSAY_ALWAYS_INLINE uint32_t four_of(uint32_t four) {
  uint32_t codes = 0;
  for (int k = 0; k < 4; ++k) {
    const uint32_t n = four >> (8 * k) & 0xFU;
    codes |= static_cast<uint32_t>((n < 8 ? kLow : kHigh) >> (n % 8 * 8) & 0xFFU) << (8 * k);
  }
  return codes;
}

// What the types have in common of which 32 elements are 16 bytes, the low halves, then the high
// halves; kTable has the codes. Those of element i, a multiple of 32, are at nibbles(block, i).
template <class Type, int kBlockElements, int kBlockBytes>
struct FourBits : Block<kBlockElements, kBlockBytes, 32> {
  static ASSAY_ALWAYS_INLINE uint32_t four_codes(const uint8_t* block, int i) {
    const uint8_t* bytes = Type::nibbles(block, i) + i % 16;
    return four_of<Type::kTable.low, Type::kTable.high>(load32(bytes) >> (i % 32 / 16 * 4));
  }
};

// -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113
constexpr Sixteen kUneven = {0xF6EADDCFBFAD9881U, 0x7159453526190D01U};

// d, codes[16]
struct IQ4_NL : FourBits<IQ4_NL, 32, 18> {
  static constexpr Sixteen kTable = kUneven;
  static ASSAY_ALWAYS_INLINE const uint8_t* nibbles(const uint8_t* block, int) { return block + 2; }
  static ASSAY_ALWAYS_INLINE float scale(const uint8_t* block, int) { return load_f16(block); }
};

// d, high_bits[2] (of the scales, two each), low_bits[4], codes[128]
struct IQ4_XS : FourBits<IQ4_XS, 256, 136> {
  static constexpr Sixteen kTable = kUneven;
  static ASSAY_ALWAYS_INLINE const uint8_t* nibbles(const uint8_t* block, int i) {
    return block + 8 + i / 32 * 16;
  }
  static ASSAY_ALWAYS_INLINE float scale(const uint8_t* block, int g) {
    const uint32_t high = load16(block + 2) >> (2 * g) & 3U;
    const auto scale = static_cast<int>(nibble(block + 4, g) | high << 4U) - 32;
    return load_f16(block) * static_cast<float>(scale);
  }
};

// Element i of `width` bytes that hold five numbers of three values each: digit n of byte b is
// element n * width + b. A byte is the fraction of 256 whose digits to the base 3 these are.
ASSAY_ALWAYS_INLINE uint32_t four_digits(const uint8_t* bytes, int width, int i) {
  const uint32_t power = static_cast<uint32_t>(0x511B090301U >> (i / width * 8)) & 0xFFU;
  uint32_t digits = 0;
  for (int k = 0; k < 4; ++k) {
    const uint32_t rest = bytes[i % width + k] * power & 0xFFU;
    digits |= (rest * 3U >> 8U) << (8 * k);
  }
  return digits;
}

// Four numbers from 0 to 3, each less 1.
ASSAY_ALWAYS_INLINE uint32_t less_one(uint32_t bytes) {
  return (bytes + 0x7FU * kEach) ^ 0x80U * kEach;
}

// digits[32], digits[16], digits[4] (the last with four each), d
struct TQ1_0 : Block<256, 54, 256> {
  static ASSAY_ALWAYS_INLINE float scale(const uint8_t* block, int) { return load_f16(block + 52); }
  static ASSAY_ALWAYS_INLINE uint32_t four_codes(const uint8_t* block, int i) {
    if (i < 160) return less_one(four_digits(block, 32, i));
    if (i < 240) return less_one(four_digits(block + 32, 16, i - 160));
    return less_one(four_digits(block + 48, 4, i - 240));
  }
};

// codes[64], d
struct TQ2_0 : Block<256, 66, 256> {
  static ASSAY_ALWAYS_INLINE float scale(const uint8_t* block, int) { return load_f16(block + 64); }
  static ASSAY_ALWAYS_INLINE uint32_t four_codes(const uint8_t* block, int i) {
    return less_one(load32(block + i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 0x03030303U);
  }
};

// Twice what the four bits of a float with two of exponent and one of mantissa are:
// 0 1 2 3 4 6 8 12 0 -1 -2 -3 -4 -6 -8 -12
constexpr Sixteen kFloat4 = {0x0C08060403020100U, 0xF4F8FAFCFDFEFF00U};

// exponent (of half the scale, biased by 127), codes[16]; OCP Microscaling Formats 1.0
struct MXFP4 : FourBits<MXFP4, 32, 17> {
  static constexpr Sixteen kTable = kFloat4;
  static ASSAY_ALWAYS_INLINE const uint8_t* nibbles(const uint8_t* block, int) { return block + 1; }
  static ASSAY_ALWAYS_INLINE float scale(const uint8_t* block, int) {
    const uint32_t exponent = block[0];
    return float_from_bits(exponent < 2 ? 0x00200000U << exponent : (exponent - 1U) << 23U);
  }
};

// scales[4] (floats with four bits of exponent and three of mantissa), codes[32]: of each 16
// elements 8 bytes, the low halves, then the high halves
struct NVFP4 : Block<64, 36, 16> {
  static ASSAY_ALWAYS_INLINE float scale(const uint8_t* block, int g) {
    const uint32_t bits = block[g];
    if (bits == 0x7FU) return 0.0F;
    const uint32_t exponent = bits >> 3U & 0xFU;
    const auto mantissa = static_cast<float>(bits & 7U);
    if (exponent == 0) return mantissa * 0x1p-10F;
    return (8.0F + mantissa) * float_from_bits((exponent + 127U - 11U) << 23U);
  }
  static ASSAY_ALWAYS_INLINE uint32_t four_codes(const uint8_t* block, int i) {
    const uint8_t* bytes = block + 4 + i / 16 * 8 + i % 8;
    return four_of<kFloat4.low, kFloat4.high>(load32(bytes) >> (i % 16 / 8 * 4));
  }
};
// NOLINTEND(readability-identifier-naming)

}  // namespace assay::coded
