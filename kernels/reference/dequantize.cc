#include "kernels/reference/dequantize.h"

#include <cstring>

#include "kernels/coded_types.h"
#include "kernels/half.h"

// The layouts are those of the GGUF format; more of them are in coded_types.h. A block's fields, in
// their order in memory, are named in the comment of its function; `d` and `m` are binary16.

namespace assay {
namespace {

uint16_t load16(const uint8_t* bytes) {
  uint16_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

float load_f16(const uint8_t* bytes) {
  return float_from_f16(load16(bytes));
}

// Element i of 32 codes of 4 bits: the low halves of 16 bytes, then the high halves.
int nibble(const uint8_t* codes, int i) {
  return i < 16 ? codes[i] & 0xF : codes[i - 16] >> 4;
}

// Bit i of the 32 that stand at `bytes`.
int bit(const uint8_t* bytes, int i) {
  return (bytes[i / 8] >> (i % 8)) & 1;
}

void f16_element(const uint8_t* element, float* out) {
  *out = load_f16(element);
}

void bf16_element(const uint8_t* element, float* out) {
  *out = float_from_bf16(load16(element));
}

// d, codes[16]
void q4_0_block(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(block + 2, i) - 8);
}

// d, m, codes[16]
void q4_1_block(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const float m = load_f16(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(block + 4, i)) + m;
}

// d, fifth_bits[4], codes[16]
void q5_0_block(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < 32; ++i) {
    const int code = nibble(block + 6, i) | bit(block + 2, i) << 4;
    out[i] = d * static_cast<float>(code - 16);
  }
}

// d, m, fifth_bits[4], codes[16]
void q5_1_block(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const float m = load_f16(block + 2);
  for (int i = 0; i < 32; ++i) {
    const int code = nibble(block + 8, i) | bit(block + 4, i) << 4;
    out[i] = d * static_cast<float>(code) + m;
  }
}

// d, codes[32] signed
void q8_0_block(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

// scales[16] (low half: scale, high half: minimum; for 16 elements each), codes[64], d, m
void q2_k_block(const uint8_t* block, float* out) {
  const uint8_t* codes = block + 16;
  const float d = load_f16(block + 80);
  const float m = load_f16(block + 82);
  for (int i = 0; i < 256; ++i) {
    const uint8_t scale = block[i / 16];
    const int code = (codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    const float scaled = d * static_cast<float>(scale & 0xF);
    out[i] = scaled * static_cast<float>(code) - m * static_cast<float>(scale >> 4);
  }
}

// The 16 six-bit scales of Q3_K in 12 bytes: four low bits each in the first 8, two high bits
// each in the last 4.
int q3_k_scale(const uint8_t* packed, int i) {
  const int low = (packed[i % 8] >> (i / 8 * 4)) & 0xF;
  const int high = (packed[8 + i % 4] >> (i / 4 * 2)) & 3;
  return (low | high << 4) - 32;
}

// third_bits[32] (a set bit means: subtract nothing), codes[64], scales[12], d
void q3_k_block(const uint8_t* block, float* out) {
  const uint8_t* codes = block + 32;
  const float d = load_f16(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int low = (codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    const int third = (block[i % 32] >> (i / 32)) & 1;
    const float scaled = d * static_cast<float>(q3_k_scale(block + 96, i / 16));
    out[i] = scaled * static_cast<float>(low - (third != 0 ? 0 : 4));
  }
}

struct ScaleAndMin {
  int scale;
  int min;
};

// The 8 pairs of six-bit numbers of Q4_K and Q5_K in 12 bytes: pairs 0 to 3 in the low six bits of
// bytes 0 to 3 and 4 to 7, whose top two bits belong to pairs 4 to 7 with the halves of 8 to 11.
ScaleAndMin k_scale(const uint8_t* packed, int i) {
  if (i < 4) return {packed[i] & 0x3F, packed[i + 4] & 0x3F};
  return {(packed[i + 4] & 0xF) | (packed[i - 4] >> 6) << 4, (packed[i + 4] >> 4) | (packed[i] >> 6)
                                                                                        << 4};
}

// d, m, scales[12], codes[128]
void q4_k_block(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const float m = load_f16(block + 2);
  const uint8_t* codes = block + 16;
  for (int i = 0; i < 256; ++i) {
    const auto [scale, min] = k_scale(block + 4, i / 32);
    const int code = (codes[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 0xF;
    const float scaled = d * static_cast<float>(scale);
    out[i] = scaled * static_cast<float>(code) - m * static_cast<float>(min);
  }
}

// d, m, scales[12], fifth_bits[32], codes[128]
void q5_k_block(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const float m = load_f16(block + 2);
  const uint8_t* fifth_bits = block + 16;
  const uint8_t* codes = block + 48;
  for (int i = 0; i < 256; ++i) {
    const auto [scale, min] = k_scale(block + 4, i / 32);
    const int low = (codes[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 0xF;
    const int fifth = (fifth_bits[i % 32] >> (i / 32)) & 1;
    const float scaled = d * static_cast<float>(scale);
    out[i] = scaled * static_cast<float>(low | fifth << 4) - m * static_cast<float>(min);
  }
}

// low_bits[128], high_bits[64], scales[16] signed, d
void q6_k_block(const uint8_t* block, float* out) {
  const uint8_t* high_bits = block + 128;
  const uint8_t* scales = block + 192;
  const float d = load_f16(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int low = (block[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 0xF;
    const int high = (high_bits[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    const float scaled = d * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
    out[i] = scaled * static_cast<float>((low | high << 4) - 32);
  }
}

// Of the types that stand in coded_types.h.
template <class Type>
void coded_block(const uint8_t* block, float* out) {
  for (int i = 0; i < Type::kElements; ++i) {
    const uint32_t four = Type::four_codes(block, i / 4 * 4);
    const auto code = static_cast<int8_t>(four >> (i % 4 * 8));
    out[i] = Type::scale(block, i / Type::kGroup) * static_cast<float>(code);
  }
}

using BlockFunction = void (*)(const uint8_t* block, float* out);

BlockFunction block_function(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      break;  // copied
    case TensorType::kF16:
      return f16_element;
    case TensorType::kBF16:
      return bf16_element;
    case TensorType::kQ4_0:
      return q4_0_block;
    case TensorType::kQ4_1:
      return q4_1_block;
    case TensorType::kQ5_0:
      return q5_0_block;
    case TensorType::kQ5_1:
      return q5_1_block;
    case TensorType::kQ8_0:
      return q8_0_block;
    case TensorType::kQ2_K:
      return q2_k_block;
    case TensorType::kQ3_K:
      return q3_k_block;
    case TensorType::kQ4_K:
      return q4_k_block;
    case TensorType::kQ5_K:
      return q5_k_block;
    case TensorType::kQ6_K:
      return q6_k_block;
#define ASSAY_CASE(name)    \
  case TensorType::k##name: \
    return coded_block<coded::name>;
      ASSAY_CODED_TYPES(ASSAY_CASE)
#undef ASSAY_CASE
  }
  return nullptr;
}

}  // namespace

void dequantize_row(TensorType type, const void* data, int64_t n, float* out) {
  if (type == TensorType::kF32) {  // a call for each would take most of the time
    std::memcpy(out, data, static_cast<size_t>(n) * sizeof(*out));
    return;
  }
  const TensorTypeInfo& info = tensor_type_info(type);
  const BlockFunction block_to_float = block_function(type);
  const auto* block = static_cast<const uint8_t*>(data);
  for (int64_t i = 0; i < n; i += info.block_elements) {
    block_to_float(block, out + i);
    block += info.block_bytes;
  }
}

}  // namespace assay
