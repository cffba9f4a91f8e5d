#include "kernels/reference/dequantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/kernels/support.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

std::vector<char> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_same_bits(const std::vector<float>& values, const std::vector<float>& want,
                      const std::string& path) {
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(float_bits(values[i]), float_bits(want[i]))
        << path << ", element " << i << ": " << values[i] << " instead of " << want[i];
  }
}

class DequantizeTest : public testing::TestWithParam<TensorType> {};

// The weights would not be those of the model file: every checkpoint would be off.
TEST_P(DequantizeTest, IsBitForBitTheGgufPackage) {
  const TensorTypeInfo& info = tensor_type_info(GetParam());
  const std::string stem = source_path("tests/data/dequant/") + std::string(info.name);
  const std::vector<char> blocks = read(stem + ".bin");
  const std::vector<char> expected = read(stem + ".f32");
  ASSERT_FALSE(blocks.empty()) << "missing: " << stem << ".bin";
  const auto n = static_cast<int64_t>(blocks.size() / info.block_bytes) * info.block_elements;
  ASSERT_EQ(expected.size(), static_cast<size_t>(n) * sizeof(float));

  std::vector<float> want(static_cast<size_t>(n));
  std::memcpy(want.data(), expected.data(), expected.size());

  std::vector<float> values(static_cast<size_t>(n));
  dequantize_row(GetParam(), blocks.data(), n, values.data());
  expect_same_bits(values, want, "reference");
  for (const InstructionSet set : kernel_testing::kExactSets) {
    if (!kernel_testing::can_run(set)) continue;  // matmul_test tells which
    const kernel_testing::TestKernels kernels(set);
    const int32_t first_row = 0;
    std::fill(values.begin(), values.end(), 0.0F);
    kernels->run(GetRowsCall{{GetParam(), 1, n, blocks.data()}, &first_row, 1, values.data()});
    expect_same_bits(values, want, kernel_testing::set_name(set));
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, DequantizeTest, testing::ValuesIn(kAllTensorTypes),
                         [](const auto& tested) {
                           return std::string(kernel_testing::name_of(tested.param));
                         });

}  // namespace
}  // namespace assay
