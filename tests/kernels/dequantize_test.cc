#include "kernels/reference/dequantize.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/half.h"

namespace assay {
namespace {

std::vector<char> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DequantizeTest : public testing::TestWithParam<TensorType> {};

// The weights would not be those of the model file: every checkpoint would be off.
TEST_P(DequantizeTest, IsBitForBitTheGgufPackage) {
  const TensorTypeInfo& info = tensor_type_info(GetParam());
  const std::string stem =
      std::string(ASSAY_SOURCE_DIR "/tests/data/dequant/") + std::string(info.name);
  const std::vector<char> blocks = read(stem + ".bin");
  const std::vector<char> expected = read(stem + ".f32");
  ASSERT_FALSE(blocks.empty()) << "missing: " << stem << ".bin";
  const auto n = static_cast<int64_t>(blocks.size() / info.block_bytes) * info.block_elements;
  ASSERT_EQ(expected.size(), static_cast<size_t>(n) * sizeof(float));

  std::vector<float> values(static_cast<size_t>(n));
  dequantize_row(GetParam(), blocks.data(), n, values.data());
  for (size_t i = 0; i < values.size(); ++i) {
    float want;
    std::memcpy(&want, expected.data() + i * sizeof(want), sizeof(want));
    ASSERT_EQ(float_bits(values[i]), float_bits(want))
        << "element " << i << ": " << values[i] << " instead of " << want;
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, DequantizeTest, testing::ValuesIn(kAllTensorTypes),
                         [](const auto& tested) {
                           return std::string(tensor_type_info(tested.param).name);
                         });

}  // namespace
}  // namespace assay
