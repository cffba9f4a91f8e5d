#include "assay/conform/random_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "assay/synth/random_weights.h"
#include "kernels/half.h"
#include "kernels/quantize/quantize.h"
#include "kernels/reference/dequantize.h"

namespace assay {
namespace {

constexpr int64_t kMeasured = 64;  // blocks, of which the scale is computed
constexpr int kUnitExponent = 8;   // of NVFP4's scales, while they are measured
constexpr int kMostExponent = 14;  // 15 with a mantissa of 7 is no number

// Where a block's `d` is, in bytes (kernels/coded_types.h).
size_t place_of_scale(TensorType type) {
  if (type == TensorType::kTQ1_0) return 52;
  if (type == TensorType::kTQ2_0) return 64;
  return 0;
}

// IQ1_M has its `d` in the upper four bits of four words.
void set_iq1_m_scale(uint16_t d, char* block) {
  for (int i = 0; i < 4; ++i) {
    char& high = block[48 + 2 * i + 1];
    high = static_cast<char>((static_cast<uint8_t>(high) & 0x0FU) | (d >> (4 * i) & 0xFU) << 4U);
  }
}

// NVFP4 has four scales with an exponent each; their mantissas stay random.
void set_nvfp4_exponent(int exponent, char* block) {
  for (int i = 0; i < 4; ++i) {
    block[i] = static_cast<char>((static_cast<uint8_t>(block[i]) & 7U) |
                                 static_cast<uint32_t>(exponent) << 3U);
  }
}

// Two bits of TQ2_0 may stand for 2, which is no ternary number: 0 in its place.
void make_ternary(char* block) {
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t byte = static_cast<uint8_t>(block[i]);
    block[i] = static_cast<char>(byte & ~((byte & byte << 1U) & 0xAAU));
  }
}

void set_scale(TensorType type, double scale, std::string& blocks) {
  const size_t size = tensor_type_info(type).block_bytes;
  const int exponent = kUnitExponent + static_cast<int>(std::lround(std::log2(scale)));
  const uint16_t d = f16_from_float(static_cast<float>(scale));
  for (size_t at = 0; at < blocks.size(); at += size) {
    char* block = blocks.data() + at;
    if (type == TensorType::kNVFP4) {
      set_nvfp4_exponent(std::clamp(exponent, 1, kMostExponent), block);
    } else if (type == TensorType::kIQ1_M) {
      set_iq1_m_scale(d, block);
    } else {
      std::memcpy(block + place_of_scale(type), &d, sizeof(d));
    }
  }
}

double deviation_of(TensorType type, const std::string& blocks) {
  const TensorTypeInfo& info = tensor_type_info(type);
  const auto count = std::min(kMeasured, static_cast<int64_t>(blocks.size() / info.block_bytes)) *
                     info.block_elements;
  std::vector<float> values(static_cast<size_t>(count));
  dequantize_row(type, blocks.data(), count, values.data());
  double squares = 0.0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares / static_cast<double>(count));
}

}  // namespace

bool has_random_blocks(TensorType type) {
  switch (type) {
    case TensorType::kIQ4_NL:
    case TensorType::kIQ4_XS:
    case TensorType::kTQ1_0:
    case TensorType::kTQ2_0:
    case TensorType::kNVFP4:
      return true;  // the suite's blocks stay as they are
    default:
      return !can_quantize(type);
  }
}

std::string random_blocks(TensorType type, const RandomWeights& numbers, int64_t count,
                          float deviation) {
  std::string blocks(row_bytes(type, count), '\0');
  for (size_t at = 0; at < blocks.size(); at += sizeof(uint64_t)) {
    const uint64_t bits = numbers.bits(static_cast<int64_t>(at / sizeof(uint64_t)));
    std::memcpy(blocks.data() + at, &bits, std::min(sizeof(bits), blocks.size() - at));
  }
  if (type == TensorType::kTQ2_0) {
    const size_t size = tensor_type_info(type).block_bytes;
    for (size_t at = 0; at < blocks.size(); at += size) make_ternary(blocks.data() + at);
  }
  set_scale(type, 1.0, blocks);
  set_scale(type, deviation / deviation_of(type, blocks), blocks);
  return blocks;
}

}  // namespace assay
