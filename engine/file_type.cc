#include "engine/file_type.h"

#include <algorithm>
#include <map>

namespace assay {
namespace {

constexpr FileType kFileTypes[] = {
    {0, "F32", TensorType::kF32},          {1, "F16", TensorType::kF16},
    {32, "BF16", TensorType::kBF16},       {7, "Q8_0", TensorType::kQ8_0},
    {2, "Q4_0", TensorType::kQ4_0},        {3, "Q4_1", TensorType::kQ4_1},
    {8, "Q5_0", TensorType::kQ5_0},        {9, "Q5_1", TensorType::kQ5_1},
    {10, "Q2_K", TensorType::kQ2_K},       {21, "Q2_K_S", TensorType::kQ2_K},
    {11, "Q3_K_S", TensorType::kQ3_K},     {12, "Q3_K_M", TensorType::kQ3_K},
    {13, "Q3_K_L", TensorType::kQ3_K},     {14, "Q4_K_S", TensorType::kQ4_K},
    {15, "Q4_K_M", TensorType::kQ4_K},     {16, "Q5_K_S", TensorType::kQ5_K},
    {17, "Q5_K_M", TensorType::kQ5_K},     {18, "Q6_K", TensorType::kQ6_K},
    {24, "IQ1_S", TensorType::kIQ1_S},     {31, "IQ1_M", TensorType::kIQ1_M},
    {19, "IQ2_XXS", TensorType::kIQ2_XXS}, {20, "IQ2_XS", TensorType::kIQ2_XS},
    {28, "IQ2_S", TensorType::kIQ2_XS},    {29, "IQ2_M", TensorType::kIQ2_S},
    {23, "IQ3_XXS", TensorType::kIQ3_XXS}, {22, "IQ3_XS", TensorType::kIQ3_S},
    {26, "IQ3_S", TensorType::kIQ3_S},     {27, "IQ3_M", TensorType::kIQ3_S},
    {25, "IQ4_NL", TensorType::kIQ4_NL},   {30, "IQ4_XS", TensorType::kIQ4_XS},
    {36, "TQ1_0", TensorType::kTQ1_0},     {37, "TQ2_0", TensorType::kTQ2_0},
    {38, "MXFP4_MOE", TensorType::kMXFP4}, {39, "NVFP4", TensorType::kNVFP4}};

}  // namespace

std::span<const FileType> file_types() {
  return kFileTypes;
}

const FileType* find_file_type(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFileTypes), std::end(kFileTypes),
                                   [&](const FileType& type) { return type.name == name; });
  return found == std::end(kFileTypes) ? nullptr : found;
}

std::string file_type_name(const Gguf& gguf) {
  const int64_t number = gguf.get_int("general.file_type", -1);
  for (const FileType& type : kFileTypes) {
    if (type.number == number) return std::string(type.name);
  }

  std::map<TensorType, int64_t> elements;
  for (const GgufTensor& tensor : gguf.tensors()) {
    elements[tensor.type] += tensor.rows() * tensor.columns();
  }
  const auto most =
      std::max_element(elements.begin(), elements.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? "" : std::string(tensor_type_info(most->first).name);
}

}  // namespace assay
