#include "kernels/tensor_type.h"

#include <array>

#include "kernels/coded_types.h"

namespace assay {
namespace {

// By the number of the type.
constexpr auto kInfos = [] {
  std::array<TensorTypeInfo, 41> infos{};
  const auto set = [&](TensorType type, const TensorTypeInfo& info) {
    infos[static_cast<uint32_t>(type)] = info;
  };
  using enum TensorType;
  set(kF32, {"F32", 1, 4});
  set(kF16, {"F16", 1, 2});
  set(kBF16, {"BF16", 1, 2});
  set(kQ4_0, {"Q4_0", 32, 18});
  set(kQ4_1, {"Q4_1", 32, 20});
  set(kQ5_0, {"Q5_0", 32, 22});
  set(kQ5_1, {"Q5_1", 32, 24});
  set(kQ8_0, {"Q8_0", 32, 34});
  set(kQ2_K, {"Q2_K", 256, 84});
  set(kQ3_K, {"Q3_K", 256, 110});
  set(kQ4_K, {"Q4_K", 256, 144});
  set(kQ5_K, {"Q5_K", 256, 176});
  set(kQ6_K, {"Q6_K", 256, 210});
#define ASSAY_SET(name) set(k##name, {#name, coded::name::kElements, coded::name::kBytes});
  ASSAY_CODED_TYPES(ASSAY_SET)
#undef ASSAY_SET
  return infos;
}();

}  // namespace

std::optional<TensorType> tensor_type_from_gguf(uint32_t number) {
  for (const TensorType type : kAllTensorTypes) {
    if (static_cast<uint32_t>(type) == number) return type;
  }
  return std::nullopt;
}

const TensorTypeInfo& tensor_type_info(TensorType type) {
  return kInfos[static_cast<uint32_t>(type)];
}

size_t row_bytes(TensorType type, int64_t columns) {
  const TensorTypeInfo& info = tensor_type_info(type);
  return static_cast<size_t>(columns / info.block_elements) * info.block_bytes;
}

}  // namespace assay
