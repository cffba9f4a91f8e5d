#include "engine/file_type.h"

#include <algorithm>
#include <map>

namespace assay {

std::string file_type_name(const Gguf& gguf) {
  // The numbers of general.file_type, from the GGUF specification.
  static const std::map<int64_t, std::string> names = {
      {0, "F32"},     {1, "F16"},     {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
      {8, "Q5_0"},    {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
      {13, "Q3_K_L"}, {14, "Q4_K_S"}, {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
      {18, "Q6_K"},   {21, "Q2_K_S"}, {32, "BF16"}};
  const auto known = names.find(gguf.get_int("general.file_type", -1));
  if (known != names.end()) return known->second;

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
