#pragma once

#include "kernels/cuda/language.h"
#include "kernels/tensor_type.h"

// How each weight type is read: value(block, i) is element i of the block at `block`, bit for bit
// as dequantize_row of kernels/reference gives it, where the layouts are described. Blocks stand
// at any byte.
namespace assay::ASSAY_DEVICE {

__device__ inline uint16_t load16(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] | bytes[1] << 8);
}

__device__ inline float load_half(const uint8_t* bytes) {
  return half_to_float(load16(bytes));
}

struct F32 {
  static constexpr int kElements = 1;
  static constexpr int kBytes = 4;
  __device__ static float value(const uint8_t* block, int /*i*/) {
    const auto low = static_cast<uint32_t>(load16(block));
    return float_from_bits(low | static_cast<uint32_t>(load16(block + 2)) << 16U);
  }
};

struct F16 {
  static constexpr int kElements = 1;
  static constexpr int kBytes = 2;
  __device__ static float value(const uint8_t* block, int /*i*/) { return load_half(block); }
};

struct BF16 {
  static constexpr int kElements = 1;
  static constexpr int kBytes = 2;
  __device__ static float value(const uint8_t* block, int /*i*/) {
    return float_from_bf16(load16(block));
  }
};

// Code i of 32 with 4 bits each: the low halves of 16 bytes, then the high halves.
__device__ inline int four_bits(const uint8_t* codes, int i) {
  return codes[i % 16] >> (i / 16 * 4) & 0xF;
}

// Bit i of 32.
__device__ inline int one_bit(const uint8_t* bits, int i) {
  return bits[i / 8] >> (i % 8) & 1;
}

struct Q4_0 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 18;
  __device__ static float value(const uint8_t* block, int i) {
    return load_half(block) * static_cast<float>(four_bits(block + 2, i) - 8);
  }
};

struct Q4_1 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 20;
  __device__ static float value(const uint8_t* block, int i) {
    return load_half(block) * static_cast<float>(four_bits(block + 4, i)) + load_half(block + 2);
  }
};

struct Q5_0 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 22;
  __device__ static float value(const uint8_t* block, int i) {
    const int code = four_bits(block + 6, i) | one_bit(block + 2, i) << 4;
    return load_half(block) * static_cast<float>(code - 16);
  }
};

struct Q5_1 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 24;
  __device__ static float value(const uint8_t* block, int i) {
    const int code = four_bits(block + 8, i) | one_bit(block + 4, i) << 4;
    return load_half(block) * static_cast<float>(code) + load_half(block + 2);
  }
};

struct Q8_0 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 34;
  __device__ static float value(const uint8_t* block, int i) {
    return load_half(block) * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
};

// Code i of 256 with 2 bits each: four runs of 32 in 32 bytes, twice.
__device__ inline int two_bits(const uint8_t* codes, int i) {
  return codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

// Code i of 256 with 4 bits each: two runs of 32 in 32 bytes, four times.
__device__ inline int four_bits_of_256(const uint8_t* codes, int i) {
  return codes[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 0xF;
}

struct Q2_K {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 84;
  __device__ static float value(const uint8_t* block, int i) {
    const int scale = block[i / 16];
    const float scaled = load_half(block + 80) * static_cast<float>(scale & 0xF);
    const float shift = load_half(block + 82) * static_cast<float>(scale >> 4);
    return scaled * static_cast<float>(two_bits(block + 16, i)) - shift;
  }
};

struct Q3_K {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 110;
  __device__ static int scale(const uint8_t* packed, int i) {
    const int low = packed[i % 8] >> (i / 8 * 4) & 0xF;
    const int high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
    return (low | high << 4) - 32;
  }
  __device__ static float value(const uint8_t* block, int i) {
    const int third = block[i % 32] >> (i / 32) & 1;
    const int code = two_bits(block + 32, i) - (third != 0 ? 0 : 4);
    const float scaled = load_half(block + 108) * static_cast<float>(scale(block + 96, i / 16));
    return scaled * static_cast<float>(code);
  }
};

// The 8 pairs of six-bit numbers of Q4_K and Q5_K in 12 bytes.
__device__ inline int k_scale(const uint8_t* packed, int i) {
  return i < 4 ? packed[i] & 0x3F : (packed[i + 4] & 0xF) | packed[i - 4] >> 6 << 4;
}

__device__ inline int k_min(const uint8_t* packed, int i) {
  return i < 4 ? packed[i + 4] & 0x3F : packed[i + 4] >> 4 | packed[i] >> 6 << 4;
}

// code * d * scale - m * min, as both K types with minima have it.
__device__ inline float k_value(const uint8_t* block, int i, int code) {
  const float scaled = load_half(block) * static_cast<float>(k_scale(block + 4, i / 32));
  const float shift = load_half(block + 2) * static_cast<float>(k_min(block + 4, i / 32));
  return scaled * static_cast<float>(code) - shift;
}

struct Q4_K {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 144;
  __device__ static float value(const uint8_t* block, int i) {
    return k_value(block, i, four_bits_of_256(block + 16, i));
  }
};

struct Q5_K {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 176;
  __device__ static float value(const uint8_t* block, int i) {
    const int fifth = block[16 + i % 32] >> (i / 32) & 1;
    return k_value(block, i, four_bits_of_256(block + 48, i) | fifth << 4);
  }
};

struct Q6_K {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 210;
  __device__ static float value(const uint8_t* block, int i) {
    const int low = block[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 0xF;
    const int high = block[128 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    const auto scale = static_cast<int8_t>(block[192 + i / 16]);
    const float scaled = load_half(block + 208) * static_cast<float>(scale);
    return scaled * static_cast<float>((low | high << 4) - 32);
  }
};

// Calls visit(Type{}) with the type of that name.
template <class Visit>
void with_type(TensorType type, Visit visit) {
  switch (type) {
    case TensorType::kF32:
      return visit(F32{});
    case TensorType::kF16:
      return visit(F16{});
    case TensorType::kBF16:
      return visit(BF16{});
    case TensorType::kQ4_0:
      return visit(Q4_0{});
    case TensorType::kQ4_1:
      return visit(Q4_1{});
    case TensorType::kQ5_0:
      return visit(Q5_0{});
    case TensorType::kQ5_1:
      return visit(Q5_1{});
    case TensorType::kQ8_0:
      return visit(Q8_0{});
    case TensorType::kQ2_K:
      return visit(Q2_K{});
    case TensorType::kQ3_K:
      return visit(Q3_K{});
    case TensorType::kQ4_K:
      return visit(Q4_K{});
    case TensorType::kQ5_K:
      return visit(Q5_K{});
    case TensorType::kQ6_K:
      return visit(Q6_K{});
  }
}

}  // namespace assay::ASSAY_DEVICE
