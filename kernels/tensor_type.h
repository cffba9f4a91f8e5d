#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace assay {

// How the elements of a weight tensor are stored. Names and numbers are those of the GGUF format.
enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
};

inline constexpr TensorType kAllTensorTypes[] = {
    TensorType::kF32,    TensorType::kF16,    TensorType::kBF16,    TensorType::kQ4_0,
    TensorType::kQ4_1,   TensorType::kQ5_0,   TensorType::kQ5_1,    TensorType::kQ8_0,
    TensorType::kQ2_K,   TensorType::kQ3_K,   TensorType::kQ4_K,    TensorType::kQ5_K,
    TensorType::kQ6_K,   TensorType::kIQ1_S,  TensorType::kIQ1_M,   TensorType::kIQ2_XXS,
    TensorType::kIQ2_XS, TensorType::kIQ2_S,  TensorType::kIQ3_XXS, TensorType::kIQ3_S,
    TensorType::kIQ4_NL, TensorType::kIQ4_XS, TensorType::kTQ1_0,   TensorType::kTQ2_0,
    TensorType::kMXFP4,  TensorType::kNVFP4};

// How `fast` math rounds the activations that weights are multiplied with: to whole numbers of 8
// bits, of 14, or not at all.
enum class Rounding : uint8_t { kNone, kInt8, kInt16 };
inline constexpr size_t kRoundings = 3;

constexpr Rounding rounding_of(TensorType weights) {
  switch (weights) {
    case TensorType::kF32:
      return Rounding::kNone;
    case TensorType::kF16:
    case TensorType::kBF16:
      return Rounding::kInt16;
    default:
      return Rounding::kInt8;
  }
}

struct TensorTypeInfo {
  std::string_view name;   // as the field writes it: "Q4_K"
  int64_t block_elements;  // consecutive elements of a row that are stored together
  size_t block_bytes;
};

// The type with this GGUF number, or nothing if Assay does not read it.
std::optional<TensorType> tensor_type_from_gguf(uint32_t number);

const TensorTypeInfo& tensor_type_info(TensorType type);

// Bytes of one row of `columns` elements; `columns` is a multiple of the type's block_elements.
size_t row_bytes(TensorType type, int64_t columns);

}  // namespace assay
