#include "kernels/quantize/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "kernels/reference/dequantize.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

constexpr int64_t kCount = 1024;  // values of each distribution in input.f32
constexpr const char* kDistributions[] = {"normal", "student", "offset", "uniform"};
const std::string kFolder = source_path("tests/data/quantize/");

std::vector<char> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << "missing: " << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> input() {
  const std::vector<char> bytes = read(kFolder + "input.f32");
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::vector<char> quantised(TensorType type, const std::vector<float>& values) {
  std::vector<char> out(row_bytes(type, static_cast<int64_t>(values.size())), '\x55');
  quantize_row(type, values.data(), static_cast<int64_t>(values.size()), out.data());
  return out;
}

std::vector<float> read_back(TensorType type, const std::vector<float>& values) {
  std::vector<float> result(values.size());
  dequantize_row(type, quantised(type, values).data(), static_cast<int64_t>(values.size()),
                 result.data());
  return result;
}

double relative_error(TensorType type, const std::vector<float>& values) {
  const std::vector<float> got = read_back(type, values);
  double difference = 0.0;
  double square = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(values[i]);
    difference += (static_cast<double>(got[i]) - x) * (static_cast<double>(got[i]) - x);
    square += x * x;
  }
  return std::sqrt(difference / square);
}

std::string name_of(const testing::TestParamInfo<TensorType>& tested) {
  return std::string(tensor_type_info(tested.param).name);
}

class FormulaTypeTest : public testing::TestWithParam<TensorType> {};

// A synthesised file would differ from what everybody else's tools make of the same weights.
TEST_P(FormulaTypeTest, GivesTheBitsOfTheGgufPackage) {
  const std::vector<char> got = quantised(GetParam(), input());
  const std::vector<char> want =
      read(kFolder + std::string(tensor_type_info(GetParam()).name) + ".bin");
  ASSERT_EQ(got.size(), want.size());
  const auto differs = std::mismatch(got.begin(), got.end(), want.begin());
  EXPECT_EQ(differs.first, got.end()) << "byte " << differs.first - got.begin();
}

INSTANTIATE_TEST_SUITE_P(AllTypes, FormulaTypeTest,
                         testing::Values(TensorType::kF16, TensorType::kBF16, TensorType::kQ8_0,
                                         TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ5_0,
                                         TensorType::kQ5_1, TensorType::kMXFP4, TensorType::kNVFP4,
                                         TensorType::kTQ1_0, TensorType::kTQ2_0),
                         name_of);

class SearchedTypeTest : public testing::TestWithParam<TensorType> {
 protected:
  // Steps between the least and the greatest code of a sub-block; of uneven ones, so many of the
  // widest.
  int steps() const {
    const std::map<TensorType, int> steps = {{TensorType::kQ2_K, 3},   {TensorType::kQ3_K, 7},
                                             {TensorType::kQ4_K, 15},  {TensorType::kQ5_K, 31},
                                             {TensorType::kQ6_K, 63},  {TensorType::kIQ4_NL, 10},
                                             {TensorType::kIQ4_XS, 10}};
    return steps.at(GetParam());
  }
};

// The quantiser would throw away precision that the format has: its error is to be that of
// llama.cpp's own quantiser over the same values, or less.
TEST_P(SearchedTypeTest, ErrorIsAtMostTwoPercentAboveLlamaCpps) {
  const std::vector<float> values = input();
  std::ifstream errors(kFolder + "errors.txt");
  std::string type;
  std::string distribution;
  double error = 0.0;
  int compared = 0;
  while (errors >> type >> distribution >> error) {
    if (type != tensor_type_info(GetParam()).name) continue;
    const auto* found =
        std::find(std::begin(kDistributions), std::end(kDistributions), distribution);
    ASSERT_NE(found, std::end(kDistributions)) << distribution;
    const auto first = values.begin() + (found - std::begin(kDistributions)) * kCount;
    const double ours = relative_error(GetParam(), {first, first + kCount});
    EXPECT_TRUE(ours <= 1.02 * error) << distribution << ": " << ours << ", llama.cpp " << error;
    ++compared;
  }
  EXPECT_EQ(compared, 4);
}

// A block at the edge (all zero, one peak, values of 1e-7 beside such of 1000) would come back as
// NaN, infinity or something else.
TEST_P(SearchedTypeTest, EveryValueComesBackWithinAStepOfItsBlock) {
  const std::vector<float> values = input();
  const std::vector<float> got = read_back(GetParam(), values);
  for (size_t block = 0; block < values.size(); block += 256) {
    float peak = 0.0F;
    for (size_t i = block; i < block + 256; ++i) peak = std::max(peak, std::fabs(values[i]));
    // The range of codes spans at most twice the peak; sub-block scales round by 1 % to 3 % of it.
    const float allowed = 2.0F * peak / static_cast<float>(steps()) * 1.1F + 0.05F * peak;
    for (size_t i = block; i < block + 256; ++i) {
      ASSERT_TRUE(std::fabs(got[i] - values[i]) <= allowed)
          << "element " << i << ": " << values[i] << " comes back as " << got[i];
    }
  }
}

TEST_P(SearchedTypeTest, ZerosComeBackAsZeros) {
  for (const float value : read_back(GetParam(), std::vector<float>(512, 0.0F))) {
    ASSERT_EQ(value, 0.0F);
  }
}

// What a block already holds exactly is not to be changed much: the codes of quantised weights
// would drift each time they are stored again.
TEST_P(SearchedTypeTest, StoringAgainLosesLittle) {
  const std::vector<float> values = input();
  const std::vector<float> normal(values.begin(), values.begin() + kCount);
  const double first = relative_error(GetParam(), normal);
  const double again = relative_error(GetParam(), read_back(GetParam(), normal));
  EXPECT_TRUE(again <= 0.5 * first) << again << " after " << first;
}

INSTANTIATE_TEST_SUITE_P(AllTypes, SearchedTypeTest,
                         testing::Values(TensorType::kQ2_K, TensorType::kQ3_K, TensorType::kQ4_K,
                                         TensorType::kQ5_K, TensorType::kQ6_K, TensorType::kIQ4_NL,
                                         TensorType::kIQ4_XS),
                         name_of);

}  // namespace
}  // namespace assay
