#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/reference/dequantize.h"
#include "tests/kernels/support.h"
#include "tests/support/named_case.h"

namespace assay {
namespace {

using kernel_testing::name_of;
using kernel_testing::Random;
using kernel_testing::same_bits;
using kernel_testing::set_name;
using kernel_testing::TestKernels;
using kernel_testing::TestMatrix;
using testing_support::of_named_case;

std::vector<TensorType> rounding_types() {
  std::vector<TensorType> types;
  for (const TensorType type : kAllTensorTypes) {
    if (rounding_of(type) != Rounding::kNone) types.push_back(type);
  }
  return types;
}

struct Shape {
  int64_t rows;
  int64_t columns;
  int64_t n_tokens;
};

// Rows around a panel of sixteen, blocks around a group of eight, tokens around every tile.
std::vector<Shape> shapes_of(TensorType type) {
  const int64_t block = tensor_type_info(type).block_elements;
  std::vector<Shape> shapes = {{1, 256, 1},   {15, 256, 3},  {16, 512, 4},
                               {17, 768, 5},  {33, 256, 8},  {40, 512, 12},
                               {18, 768, 13}, {16, 256, 26}, {35, 1280, 31}};
  if (block == 1) {
    shapes.insert(shapes.end(), {{1, 1, 1}, {3, 5, 2}, {5, 31, 5}, {17, 33, 12}, {20, 577, 13}});
  }
  if (block <= 32) {
    shapes.insert(
        shapes.end(),
        {{3, 32, 1}, {16, 32, 4}, {19, 288, 7}, {20, 576, 12}, {18, 1312, 16}, {5, 480, 1}});
  }
  return shapes;
}

std::vector<float> multiply(const TestKernels& kernels, const TestMatrix& w,
                            const std::vector<float>& bias, const std::vector<float>& x) {
  const auto n_tokens = static_cast<int64_t>(x.size()) / w.columns;
  std::vector<float> out(static_cast<size_t>(n_tokens * w.rows), NAN);
  kernels->run(
      MatmulCall{w.matrix(), bias.empty() ? nullptr : bias.data(), x.data(), n_tokens, out.data()});
  return out;
}

// A row of x rounded to whole numbers from -most to most, times the scale of each `block` of them.
void round_row(const float* x, int64_t columns, int64_t block, float most, double* result) {
  for (int64_t first = 0; first < columns; first += block) {
    const int64_t last = std::min(columns, first + block);
    float largest = 0;
    for (int64_t i = first; i < last; ++i) largest = std::max(largest, std::fabs(x[i]));
    for (int64_t i = first; i < last && largest >= 1e-30F; ++i) {
      result[i] = static_cast<double>(largest / most) * std::nearbyint(x[i] * (most / largest));
    }
  }
}

std::vector<double> rounded(const std::vector<float>& x, int64_t columns, TensorType weights) {
  std::vector<double> result(x.size());
  const bool in_8_bits = rounding_of(weights) == Rounding::kInt8;
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(columns)) {
    round_row(x.data() + row, columns, 32, in_8_bits ? 127.0F : 8191.0F, result.data() + row);
  }
  return result;
}

// Weights of 16 bits as they are multiplied: as multiples of a power of two, of which the block's
// largest is 4096 or more.
void round_weights(TensorType type, std::vector<float>& row) {
  if (rounding_of(type) != Rounding::kInt16) return;
  for (size_t first = 0; first < row.size(); first += 32) {
    const size_t last = std::min(row.size(), first + 32);
    float largest = 0;
    for (size_t i = first; i < last; ++i) largest = std::max(largest, std::fabs(row[i]));
    if (type == TensorType::kF16) largest = std::max(largest, 0x1p-14F);
    const double unit = std::ldexp(1.0, std::ilogb(largest) - 12);
    for (size_t i = first; i < last; ++i) {
      row[i] = static_cast<float>(std::nearbyint(row[i] / unit) * unit);
    }
  }
}

class FastMatmulTest : public testing::TestWithParam<std::tuple<TensorType, InstructionSet>> {
 protected:
  void SetUp() override {
    const std::string reason = kernel_testing::reason_to_skip(set());
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  TensorType type() const { return std::get<0>(GetParam()); }
  InstructionSet set() const { return std::get<1>(GetParam()); }
  TestKernels kernels(int n_threads = 1) const {
    return TestKernels(set(), n_threads, Math::kFast);
  }
};

// A wrong code, scale, row or token; sums that lose digits or overflow.
TEST_P(FastMatmulTest, IsTheProductOfWhatIsRounded) {
  const TestKernels fast = kernels(2);
  for (const Shape& shape : shapes_of(type())) {
    const TestMatrix w(type(), shape.rows, shape.columns);
    const std::vector<float> x = Random(2).floats(shape.n_tokens * shape.columns, 3.0F);
    const std::vector<float> bias =
        shape.rows % 2 == 1 ? Random(3).floats(shape.rows) : std::vector<float>();
    const std::vector<float> got = multiply(fast, w, bias, x);
    const std::vector<double> inputs = rounded(x, shape.columns, type());
    std::vector<float> row(static_cast<size_t>(w.columns));
    double difference = 0;
    double size = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const auto r = static_cast<int64_t>(i) % w.rows;
      const double* input = inputs.data() + static_cast<int64_t>(i) / w.rows * w.columns;
      dequantize_row(type(), w.matrix().slice(r, 1).data, w.columns, row.data());
      round_weights(type(), row);
      double want = bias.empty() ? 0 : bias[static_cast<size_t>(r)];
      for (size_t c = 0; c < row.size(); ++c) {
        want += row[c] * input[c];
        size += std::pow(row[c] * input[c], 2);
      }
      difference += std::pow(got[i] - want, 2);
    }
    const double error = std::sqrt(difference / size);
    EXPECT_TRUE(error <= 5e-7) << shape.rows << " x " << shape.columns << ", " << shape.n_tokens
                               << " tokens: " << error;
  }
}

// A fast golden recorded on one machine would not hold on another.
TEST_P(FastMatmulTest, HasTheBitsOfThePortablePath) {
  const TestKernels fast = kernels();
  const TestKernels portable(InstructionSet::kPortable, 1, Math::kFast);
  for (const Shape& shape : shapes_of(type())) {
    const TestMatrix w(type(), shape.rows, shape.columns);
    const std::vector<float> x = Random(2).floats(shape.n_tokens * shape.columns);
    EXPECT_TRUE(same_bits(multiply(fast, w, {}, x), multiply(portable, w, {}, x)))
        << shape.rows << " x " << shape.columns << ", " << shape.n_tokens << " tokens";
  }
}

// Results would depend on --threads, --batch, and on whether a token was prefilled or decoded.
TEST_P(FastMatmulTest, HasTheSameBitsForAllThreadsAndBatches) {
  const TestMatrix w(type(), 67, 768);
  const int64_t n_tokens = 29;
  const std::vector<float> x = Random(2).floats(n_tokens * w.columns);
  const std::vector<float> expected = multiply(kernels(), w, {}, x);
  for (const int n_threads : {1, 2, 4}) {
    const TestKernels many = kernels(n_threads);
    for (const int64_t batch : {1, 2, 3, 4, 5, 7, 11, 12, 13, 29}) {
      std::vector<float> out(expected.size());
      for (int64_t first = 0; first < n_tokens; first += batch) {
        many->run(MatmulCall{w.matrix(), nullptr, x.data() + first * w.columns,
                             std::min(batch, n_tokens - first), out.data() + first * w.rows});
      }
      EXPECT_TRUE(same_bits(out, expected)) << n_threads << " threads, batches of " << batch;
    }
  }
}

// A NaN that vanishes hides the fault that made it; one that spreads accuses the wrong token.
TEST_P(FastMatmulTest, NonfiniteStaysWithItsToken) {
  const TestMatrix w(type(), 18, 512);
  for (const float value : {NAN, INFINITY, -INFINITY}) {
    for (const int64_t n_tokens : {3, 14}) {
      std::vector<float> x = Random(2).floats(n_tokens * 512);
      x[512 + 300] = value;
      const std::vector<float> out = multiply(kernels(), w, {}, x);
      for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i / 18 == 1) << i;
    }
  }
}

// Divisions by zero, or products of infinity and zero, where a block has no size.
TEST_P(FastMatmulTest, ZerosAndTinyValuesGiveZeros) {
  const TestMatrix w(type(), 18, 512);
  for (const float value : {0.0F, -0.0F, 1e-40F, -1e-31F}) {
    const std::vector<float> out = multiply(kernels(), w, {}, std::vector<float>(6 * 512, value));
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float v) { return v == 0; })) << value;
  }
}

// The largest codes, scales and activations there are.
TEST_P(FastMatmulTest, ExtremeCodesDoNotOverflow) {
  TestMatrix w(type(), 16, 256);
  const std::map<TensorType, uint16_t> largest = {{TensorType::kF16, 0x7BFF},
                                                  {TensorType::kBF16, 0x477F}};
  if (const auto found = largest.find(type()); found != largest.end()) {
    for (size_t i = 0; i < w.bytes.size(); i += 2) std::memcpy(&w.bytes[i], &found->second, 2);
  }
  for (size_t i = 0; i < w.bytes.size() && !largest.contains(type()); ++i) {
    const size_t place = i % tensor_type_info(type()).block_bytes;
    w.bytes[i] =
        static_cast<uint8_t>(w.bytes[i] | (0xFF & ~kernel_testing::scale_bits(type(), place)));
  }
  std::vector<float> x(5 * 256);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i < 256 ? 3e37F : i < 512 ? -1.0F : 1.0F;
  const TestKernels portable(InstructionSet::kPortable, 1, Math::kFast);
  const std::vector<float> got = multiply(kernels(), w, {}, x);
  EXPECT_TRUE(same_bits(got, multiply(portable, w, {}, x)));
  std::vector<float> row(256);
  dequantize_row(type(), w.bytes.data(), 256, row.data());
  double want = 0;
  for (const float value : row) want += value;
  EXPECT_NEAR(got[2 * 16], want, 1e-5 * std::fabs(want));
  EXPECT_NEAR(got[16], -want, 1e-5 * std::fabs(want));
}

std::string fast_test_name(const testing::TestParamInfo<FastMatmulTest::ParamType>& tested) {
  const auto [type, set] = tested.param;
  return std::string(name_of(type)) + "_" + set_name(set);
}

INSTANTIATE_TEST_SUITE_P(Types, FastMatmulTest,
                         testing::Combine(testing::ValuesIn(of_named_case(rounding_types(),
                                                                          name_of)),
                                          testing::ValuesIn(kernel_testing::kAllSets)),
                         fast_test_name);

}  // namespace
}  // namespace assay
