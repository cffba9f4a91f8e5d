#include "kernels/quantize/quantize.h"

#include <cstring>

#include "kernels/half.h"
#include "kernels/quantize/blocks.h"

namespace assay {
namespace {

void f32_element(const float* in, uint8_t* out) {
  std::memcpy(out, in, sizeof(*in));
}

void f16_element(const float* in, uint8_t* out) {
  const uint16_t half = f16_from_float(*in);
  std::memcpy(out, &half, sizeof(half));
}

void bf16_element(const float* in, uint8_t* out) {
  const uint16_t half = bf16_from_float(*in);
  std::memcpy(out, &half, sizeof(half));
}

using BlockFunction = void (*)(const float* in, uint8_t* out);

BlockFunction block_function(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return f32_element;
    case TensorType::kF16:
      return f16_element;
    case TensorType::kBF16:
      return bf16_element;
    case TensorType::kQ4_0:
      return quantize_q4_0_block;
    case TensorType::kQ4_1:
      return quantize_q4_1_block;
    case TensorType::kQ5_0:
      return quantize_q5_0_block;
    case TensorType::kQ5_1:
      return quantize_q5_1_block;
    case TensorType::kQ8_0:
      return quantize_q8_0_block;
    case TensorType::kQ2_K:
      return quantize_q2_k_block;
    case TensorType::kQ3_K:
      return quantize_q3_k_block;
    case TensorType::kQ4_K:
      return quantize_q4_k_block;
    case TensorType::kQ5_K:
      return quantize_q5_k_block;
    case TensorType::kQ6_K:
      return quantize_q6_k_block;
    case TensorType::kMXFP4:
      return quantize_mxfp4_block;
    case TensorType::kNVFP4:
      return quantize_nvfp4_block;
    case TensorType::kIQ4_NL:
      return quantize_iq4_nl_block;
    case TensorType::kIQ4_XS:
      return quantize_iq4_xs_block;
    case TensorType::kTQ1_0:
      return quantize_tq1_0_block;
    case TensorType::kTQ2_0:
      return quantize_tq2_0_block;
    default:
      return nullptr;
  }
}

}  // namespace

bool can_quantize(TensorType type) {
  return block_function(type) != nullptr;
}

void quantize_row(TensorType type, const float* in, int64_t n, void* out) {
  const TensorTypeInfo& info = tensor_type_info(type);
  const BlockFunction block_from_float = block_function(type);
  auto* block = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; i += info.block_elements) {
    block_from_float(in + i, block);
    block += info.block_bytes;
  }
}

}  // namespace assay
