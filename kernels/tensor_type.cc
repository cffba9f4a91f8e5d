#include "kernels/tensor_type.h"

namespace assay {

std::optional<TensorType> tensor_type_from_gguf(uint32_t number) {
  for (const TensorType type : kAllTensorTypes) {
    if (static_cast<uint32_t>(type) == number) return type;
  }
  return std::nullopt;
}

const TensorTypeInfo& tensor_type_info(TensorType type) {
  // NOLINTBEGIN(readability-identifier-naming): the format's own names
  static constexpr TensorTypeInfo kF32{"F32", 1, 4};
  static constexpr TensorTypeInfo kF16{"F16", 1, 2};
  static constexpr TensorTypeInfo kBF16{"BF16", 1, 2};
  static constexpr TensorTypeInfo kQ4_0{"Q4_0", 32, 18};
  static constexpr TensorTypeInfo kQ4_1{"Q4_1", 32, 20};
  static constexpr TensorTypeInfo kQ5_0{"Q5_0", 32, 22};
  static constexpr TensorTypeInfo kQ5_1{"Q5_1", 32, 24};
  static constexpr TensorTypeInfo kQ8_0{"Q8_0", 32, 34};
  static constexpr TensorTypeInfo kQ2_K{"Q2_K", 256, 84};
  static constexpr TensorTypeInfo kQ3_K{"Q3_K", 256, 110};
  static constexpr TensorTypeInfo kQ4_K{"Q4_K", 256, 144};
  static constexpr TensorTypeInfo kQ5_K{"Q5_K", 256, 176};
  static constexpr TensorTypeInfo kQ6_K{"Q6_K", 256, 210};
  // NOLINTEND(readability-identifier-naming)
  switch (type) {
    case TensorType::kF32:
      return kF32;
    case TensorType::kF16:
      return kF16;
    case TensorType::kBF16:
      return kBF16;
    case TensorType::kQ4_0:
      return kQ4_0;
    case TensorType::kQ4_1:
      return kQ4_1;
    case TensorType::kQ5_0:
      return kQ5_0;
    case TensorType::kQ5_1:
      return kQ5_1;
    case TensorType::kQ8_0:
      return kQ8_0;
    case TensorType::kQ2_K:
      return kQ2_K;
    case TensorType::kQ3_K:
      return kQ3_K;
    case TensorType::kQ4_K:
      return kQ4_K;
    case TensorType::kQ5_K:
      return kQ5_K;
    case TensorType::kQ6_K:
      return kQ6_K;
  }
  return kF32;  // not reached: the enumeration is covered
}

size_t row_bytes(TensorType type, int64_t columns) {
  const TensorTypeInfo& info = tensor_type_info(type);
  return static_cast<size_t>(columns / info.block_elements) * info.block_bytes;
}

}  // namespace assay
