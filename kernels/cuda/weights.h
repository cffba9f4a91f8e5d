#pragma once

#include "kernels/coded_types.h"
#include "kernels/cuda/language.h"
#include "kernels/tensor_type.h"

// How each weight type is read, bit for bit as dequantize_row of kernels/reference gives it, where
// the layouts are described. Of the types that are stored in blocks of kElements in kBytes:
//
// - code(block, i) is element i as a whole number, factor(block, g) the scale and shift of the
//   elements [g * kGroup, (g + 1) * kGroup), and weight(factor, code) what both stand for;
// - four_codes(block, i) has codes i to i + 3 in its bytes, each kOffset too large.
//
// Blocks stand at multiples of 2 bytes if their size is one, and of 4 if it is one of 4.
namespace assay::ASSAY_DEVICE {

__device__ inline uint16_t load16(Bytes bytes) {
  return load_as<uint16_t>(bytes);
}

__device__ inline float load_half(Bytes bytes) {
  return half_to_float(load16(bytes));
}

struct F32 {
  static constexpr int kElements = 1;
  static constexpr int kBytes = 4;
  __device__ static uint32_t bits(Bytes at) { return load_as<uint32_t>(at); }
  __device__ static float from_bits(uint32_t bits) { return float_from_bits(bits); }
  using Two = float2;  // adjacent elements
  __device__ static float2 floats(float2 two) { return two; }
  __device__ static float value(Bytes at) { return load_as<float>(at); }
};

struct F16 {
  static constexpr int kElements = 1;
  static constexpr int kBytes = 2;
  static constexpr uint32_t kMantissaBits = 10;
  static constexpr uint32_t kBias = 15;          // of the exponent
  static constexpr uint32_t kLeastExponent = 1;  // of a unit in fast math
  static constexpr uint32_t kMostExponent = 31;  // of infinities and NaN
  __device__ static uint32_t bits(Bytes at) { return load16(at); }
  __device__ static float from_bits(uint32_t bits) {
    return half_to_float(static_cast<uint16_t>(bits));
  }
  using Two = uint32_t;
  __device__ static float2 floats(uint32_t two) { return {from_bits(two), from_bits(two >> 16U)}; }
  __device__ static float value(Bytes at) { return load_half(at); }
};

struct BF16 {
  static constexpr int kElements = 1;
  static constexpr int kBytes = 2;
  static constexpr uint32_t kMantissaBits = 7;
  static constexpr uint32_t kBias = 127;
  static constexpr uint32_t kLeastExponent = 16;
  static constexpr uint32_t kMostExponent = 255;
  using Two = uint32_t;
  __device__ static float2 floats(uint32_t two) {
    return {float_from_bits(two << 16U), float_from_bits(two & 0xFFFF0000U)};
  }
  __device__ static float value(Bytes at) { return float_from_bf16(load16(at)); }
};

struct Factor {
  float scale;
  float shift;
};

// The bits of kZero + n, for a whole number n of under 23 bits, are kZeroBits + n: a sum that
// begins there is a float once kZero is taken away, and a float that is added to kZero is rounded
// to the nearest whole number, whose bits are the low ones.
constexpr float kZero = 12582912.0F;  // 1.5 * 2^23
constexpr int32_t kZeroBits = 0x4B400000;

enum class Shift : uint8_t { kNone, kAdded, kSubtracted };

// What the types of blocks have in common.
template <int kBlockElements, int kBlockBytes, int kFactorElements, int kCodeOffset, Shift kShiftOf>
struct Blocks {
  static constexpr int kElements = kBlockElements;
  static constexpr int kBytes = kBlockBytes;
  static constexpr int kGroup = kFactorElements;
  static constexpr int kOffset = kCodeOffset;
  static constexpr Shift kShift = kShiftOf;
  static constexpr bool kTwoScales = kGroup < 32;  // 32 elements have two, each half its own

  __device__ static float weight(Factor factor, int code) {
    const float scaled = factor.scale * static_cast<float>(code);
    if constexpr (kShift == Shift::kAdded) return scaled + factor.shift;
    if constexpr (kShift == Shift::kSubtracted) return scaled - factor.shift;
    return scaled;
  }

  // Four bytes at a multiple of as many as blocks have.
  __device__ static uint32_t load32(Bytes bytes) {
    if constexpr (kBytes % 4 == 0) return load_as<uint32_t>(bytes);
    return load16(bytes) | static_cast<uint32_t>(load16(bytes + 2)) << 16U;
  }
};

// Code i of 32 with 4 bits each: the low halves of 16 bytes, then the high halves.
__device__ inline int four_bits(Bytes codes, uint32_t i) {
  return codes[i % 16] >> (i / 16 * 4) & 0xF;
}

// Bit i of 32.
__device__ inline int one_bit(Bytes bits, uint32_t i) {
  return bits[i / 8] >> (i % 8) & 1;
}

// The low four bits of `bits`, each as the fifth bit of a byte.
__device__ inline uint32_t fifth_bits(uint32_t bits) {
  return ((bits & 0xFU) * 0x00204081U & 0x01010101U) << 4U;
}

struct Q4_0 : Blocks<32, 18, 32, 8, Shift::kNone> {
  __device__ static int code(Bytes block, uint32_t i) { return four_bits(block + 2, i) - 8; }
  __device__ static uint32_t four_codes(Bytes block, uint32_t i) {
    return load32(block + 2 + i % 16) >> (i / 16 * 4) & 0x0F0F0F0FU;
  }
  __device__ static Factor factor(Bytes block, uint32_t) { return {load_half(block), 0.0F}; }
};

struct Q4_1 : Blocks<32, 20, 32, 0, Shift::kAdded> {
  __device__ static int code(Bytes block, uint32_t i) { return four_bits(block + 4, i); }
  __device__ static uint32_t four_codes(Bytes block, uint32_t i) {
    return load32(block + 4 + i % 16) >> (i / 16 * 4) & 0x0F0F0F0FU;
  }
  __device__ static Factor factor(Bytes block, uint32_t) {
    return {load_half(block), load_half(block + 2)};
  }
};

struct Q5_0 : Blocks<32, 22, 32, 16, Shift::kNone> {
  __device__ static int code(Bytes block, uint32_t i) {
    return (four_bits(block + 6, i) | one_bit(block + 2, i) << 4) - 16;
  }
  __device__ static uint32_t four_codes(Bytes block, uint32_t i) {
    const uint32_t low = load32(block + 6 + i % 16) >> (i / 16 * 4) & 0x0F0F0F0FU;
    return low | fifth_bits(load32(block + 2) >> i);
  }
  __device__ static Factor factor(Bytes block, uint32_t) { return {load_half(block), 0.0F}; }
};

struct Q5_1 : Blocks<32, 24, 32, 0, Shift::kAdded> {
  __device__ static int code(Bytes block, uint32_t i) {
    return four_bits(block + 8, i) | one_bit(block + 4, i) << 4;
  }
  __device__ static uint32_t four_codes(Bytes block, uint32_t i) {
    const uint32_t low = load32(block + 8 + i % 16) >> (i / 16 * 4) & 0x0F0F0F0FU;
    return low | fifth_bits(load32(block + 4) >> i);
  }
  __device__ static Factor factor(Bytes block, uint32_t) {
    return {load_half(block), load_half(block + 2)};
  }
};

struct Q8_0 : Blocks<32, 34, 32, 0, Shift::kNone> {
  __device__ static int code(Bytes block, uint32_t i) { return static_cast<int8_t>(block[2 + i]); }
  __device__ static uint32_t four_codes(Bytes block, uint32_t i) { return load32(block + 2 + i); }
  __device__ static Factor factor(Bytes block, uint32_t) { return {load_half(block), 0.0F}; }
};

// Code i of 256 with 2 bits each: four runs of 32 in 32 bytes, twice.
__device__ inline uint32_t two_bits_byte(uint32_t i) {
  return i / 128 * 32 + i % 32;
}
__device__ inline uint32_t two_bits_shift(uint32_t i) {
  return i % 128 / 32 * 2;
}

// Code i of 256 with 4 bits each: two runs of 32 in 32 bytes, four times.
__device__ inline uint32_t four_bits_byte(uint32_t i) {
  return i / 64 * 32 + i % 32;
}
__device__ inline uint32_t four_bits_shift(uint32_t i) {
  return i % 64 / 32 * 4;
}

struct Q2_K : Blocks<256, 84, 16, 0, Shift::kSubtracted> {
  __device__ static int code(Bytes block, uint32_t i) {
    return block[16 + two_bits_byte(i)] >> two_bits_shift(i) & 3;
  }
  __device__ static uint32_t four_codes(Bytes block, uint32_t i) {
    return load32(block + 16 + two_bits_byte(i)) >> two_bits_shift(i) & 0x03030303U;
  }
  __device__ static Factor factor(Bytes block, uint32_t group) {
    const int scale = block[group];
    return {load_half(block + 80) * static_cast<float>(scale & 0xF),
            load_half(block + 82) * static_cast<float>(scale >> 4)};
  }
};

struct Q3_K : Blocks<256, 110, 16, 4, Shift::kNone> {
  __device__ static int code(Bytes block, uint32_t i) {
    const int low = block[32 + two_bits_byte(i)] >> two_bits_shift(i) & 3;
    return (low | (block[i % 32] >> (i / 32) & 1) << 2) - 4;
  }
  __device__ static uint32_t four_codes(Bytes block, uint32_t i) {
    const uint32_t low = load32(block + 32 + two_bits_byte(i)) >> two_bits_shift(i) & 0x03030303U;
    return low | (load32(block + i % 32) >> (i / 32) & 0x01010101U) << 2U;
  }
  __device__ static Factor factor(Bytes block, uint32_t group) {
    const Bytes packed = block + 96;
    const int low = packed[group % 8] >> (group / 8 * 4) & 0xF;
    const int high = packed[8 + group % 4] >> (group / 4 * 2) & 3;
    return {load_half(block + 108) * static_cast<float>((low | high << 4) - 32), 0.0F};
  }
};

// The 8 pairs of six-bit numbers of Q4_K and Q5_K in 12 bytes.
__device__ inline int k_scale(Bytes packed, uint32_t i) {
  return i < 4 ? packed[i] & 0x3F : (packed[i + 4] & 0xF) | packed[i - 4] >> 6 << 4;
}

__device__ inline int k_min(Bytes packed, uint32_t i) {
  return i < 4 ? packed[i + 4] & 0x3F : packed[i + 4] >> 4 | packed[i] >> 6 << 4;
}

__device__ inline Factor k_factor(Bytes block, uint32_t group) {
  return {load_half(block) * static_cast<float>(k_scale(block + 4, group)),
          load_half(block + 2) * static_cast<float>(k_min(block + 4, group))};
}

struct Q4_K : Blocks<256, 144, 32, 0, Shift::kSubtracted> {
  __device__ static int code(Bytes block, uint32_t i) {
    return block[16 + four_bits_byte(i)] >> four_bits_shift(i) & 0xF;
  }
  __device__ static uint32_t four_codes(Bytes block, uint32_t i) {
    return load32(block + 16 + four_bits_byte(i)) >> four_bits_shift(i) & 0x0F0F0F0FU;
  }
  __device__ static Factor factor(Bytes block, uint32_t group) { return k_factor(block, group); }
};

struct Q5_K : Blocks<256, 176, 32, 0, Shift::kSubtracted> {
  __device__ static int code(Bytes block, uint32_t i) {
    const int low = block[48 + four_bits_byte(i)] >> four_bits_shift(i) & 0xF;
    return low | (block[16 + i % 32] >> (i / 32) & 1) << 4;
  }
  __device__ static uint32_t four_codes(Bytes block, uint32_t i) {
    const uint32_t low = load32(block + 48 + four_bits_byte(i)) >> four_bits_shift(i) & 0x0F0F0F0FU;
    return low | (load32(block + 16 + i % 32) >> (i / 32) & 0x01010101U) << 4U;
  }
  __device__ static Factor factor(Bytes block, uint32_t group) { return k_factor(block, group); }
};

struct Q6_K : Blocks<256, 210, 16, 32, Shift::kNone> {
  __device__ static int code(Bytes block, uint32_t i) {
    const int low = block[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 0xF;
    const int high = block[128 + two_bits_byte(i)] >> two_bits_shift(i) & 3;
    return (low | high << 4) - 32;
  }
  __device__ static uint32_t four_codes(Bytes block, uint32_t i) {
    const uint32_t low =
        load32(block + (i / 128 * 64 + i % 64)) >> (i % 128 / 64 * 4) & 0x0F0F0F0FU;
    const uint32_t high = load32(block + 128 + two_bits_byte(i)) >> two_bits_shift(i) & 0x03030303U;
    return low | high << 4U;
  }
  __device__ static Factor factor(Bytes block, uint32_t group) {
    return {load_half(block + 208) * static_cast<float>(static_cast<int8_t>(block[192 + group])),
            0.0F};
  }
};

// Calls X(name) for each of these.
// clang-format off
#define ASSAY_BLOCK_TYPES(X)             \
  X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) \
  X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K)
// clang-format on

// The types of coded_types.h.
template <class Type>
struct Coded : Blocks<Type::kElements, Type::kBytes, Type::kGroup, 0, Shift::kNone> {
  __device__ static int code(Bytes block, uint32_t i) {
    return static_cast<int8_t>(Type::four_codes(plain_bytes(block), static_cast<int>(i / 4 * 4)) >>
                               (i % 4 * 8));
  }
  __device__ static uint32_t four_codes(Bytes block, uint32_t i) {
    return Type::four_codes(plain_bytes(block), static_cast<int>(i));
  }
  __device__ static Factor factor(Bytes block, uint32_t group) {
    return {Type::scale(plain_bytes(block), static_cast<int>(group)), 0.0F};
  }
};

constexpr bool is_coded(TensorType type) {
  switch (type) {
#define ASSAY_CASE(name) case TensorType::k##name:
    ASSAY_CODED_TYPES(ASSAY_CASE)
#undef ASSAY_CASE
    return true;
    default:
      return false;
  }
}

// Which types a kernel has code for, one or more of them. None has the code for all: its registers
// are those that the worst of them needs.
enum Types : uint8_t {
  kFloats = 1,                     // F32
  kBlocks = 2,                     // stored in blocks, and not one of
  kCoded = 4,                      // coded_types.h
  kHalfFloats = 8,                 // F16 and BF16
  kPlain = kFloats | kHalfFloats,  // not stored in blocks
};

__host__ __device__ constexpr bool is_plain(TensorType type) {
  return type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16;
}

// Calls visit(Type{}) with the type of that name, if it is among kTypes.
template <int kTypes, class Visit>
__device__ void with_type(TensorType type, Visit visit) {
#define ASSAY_CASE(name, Type) \
  case TensorType::k##name:    \
    return visit(Type{});
#define ASSAY_BLOCK_CASE(name) ASSAY_CASE(name, name)
#define ASSAY_CODED_CASE(name) ASSAY_CASE(name, Coded<coded::name>)
  if constexpr ((kTypes & kFloats) != 0) {
    switch (type) {
      ASSAY_CASE(F32, F32)
      default:
        break;
    }
  }
  if constexpr ((kTypes & kHalfFloats) != 0) {
    switch (type) {
      ASSAY_CASE(F16, F16)
      ASSAY_CASE(BF16, BF16)
      default:
        break;
    }
  }
  if constexpr ((kTypes & kBlocks) != 0) {
    switch (type) {
      ASSAY_BLOCK_TYPES(ASSAY_BLOCK_CASE)
      default:
        break;
    }
  }
  if constexpr ((kTypes & kCoded) != 0) {
    switch (type) {
      ASSAY_CODED_TYPES(ASSAY_CODED_CASE)
      default:
        break;
    }
  }
#undef ASSAY_CODED_CASE
#undef ASSAY_BLOCK_CASE
#undef ASSAY_CASE
}

}  // namespace assay::ASSAY_DEVICE
