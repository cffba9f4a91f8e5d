#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/reference/dequantize.h"
#include "tests/kernels/support.h"
#include "tests/support/named_case.h"

namespace assay {
namespace {

using kernel_testing::kExactSets;
using kernel_testing::name_of;
using kernel_testing::Random;
using kernel_testing::same_bits;
using kernel_testing::set_name;
using kernel_testing::TestKernels;
using kernel_testing::TestMatrix;
using testing_support::of_named_case;

struct Shape {
  int64_t rows;
  int64_t columns;
  int64_t n_tokens;
};

// Columns of the types without blocks need not be a multiple of anything.
std::vector<Shape> shapes_of(TensorType type) {
  const int64_t block = tensor_type_info(type).block_elements;
  if (block == 1) {
    return {{1, 1, 1}, {3, 5, 1}, {5, 17, 2}, {4, 33, 7}, {131, 300, 1}, {71, 1000, 13}};
  }
  return {{1, block, 1},     {3, 3 * block, 1},   {4, block, 2},
          {5, 2 * block, 5}, {131, 2 * block, 1}, {71, 4 * block, 13}};
}

class MatmulTest : public testing::TestWithParam<std::tuple<TensorType, InstructionSet>> {
 protected:
  void SetUp() override {
    const std::string reason = kernel_testing::reason_to_skip(set());
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  TensorType type() const { return std::get<0>(GetParam()); }
  InstructionSet set() const { return std::get<1>(GetParam()); }
};

std::vector<float> multiply(Kernels& kernels, const TestMatrix& w, const std::vector<float>& bias,
                            const std::vector<float>& x) {
  const auto n_tokens = static_cast<int64_t>(x.size()) / w.columns;
  std::vector<float> out(static_cast<size_t>(n_tokens * w.rows), NAN);
  kernels.run(
      MatmulCall{w.matrix(), bias.empty() ? nullptr : bias.data(), x.data(), n_tokens, out.data()});
  return out;
}

// ‖got - want‖ over the size that the products have where no terms cancel. A sum that happens to
// be near zero has no digits of its own to be judged by.
double product_error(const TestMatrix& w, const std::vector<float>& x,
                     const std::vector<float>& want, const std::vector<float>& got) {
  std::vector<float> row(static_cast<size_t>(w.columns));
  double difference = 0.0;
  double size = 0.0;
  for (size_t i = 0; i < want.size(); ++i) {
    const auto r = static_cast<int64_t>(i) % w.rows;
    dequantize_row(w.type, w.matrix().slice(r, 1).data, w.columns, row.data());
    const float* input = x.data() + static_cast<int64_t>(i) / w.rows * w.columns;
    for (size_t c = 0; c < row.size(); ++c) {
      size += std::pow(static_cast<double>(row[c]) * input[c], 2);
    }
    difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
  }
  return std::sqrt(difference / size);
}

// What is rounded in fast math has kernels of its own (fast_matmul_test.cc).
std::vector<Math> maths_of(TensorType type) {
  if (rounding_of(type) != Rounding::kNone) return {Math::kExact};
  return {Math::kExact, Math::kFast};
}

// A wrong element, a row or token left out, or a sum that loses digits: what is summed in double
// loses nothing but its one rounding.
TEST_P(MatmulTest, IsTheReferenceProduct) {
  const auto reference = make_reference_kernels();
  for (const Math math : maths_of(type())) {
    const TestKernels kernels(set(), 2, math);
    const bool in_double = math == Math::kExact && tensor_type_info(type()).block_elements == 1;
    for (const Shape& shape : shapes_of(type())) {
      const TestMatrix w(type(), shape.rows, shape.columns);
      const std::vector<float> x = Random(2).floats(shape.n_tokens * shape.columns);
      const std::vector<float> bias =
          shape.rows % 2 == 1 ? Random(3).floats(shape.rows) : std::vector<float>();
      const double error = product_error(w, x, multiply(*reference, w, bias, x),
                                         multiply(*kernels.operator->(), w, bias, x));
      EXPECT_TRUE(error <= (in_double ? 1e-9 : 5e-7))
          << shape.rows << " x " << shape.columns << ", " << shape.n_tokens << " tokens: " << error;
    }
  }
}

// Goldens recorded on one machine would not hold on another.
TEST_P(MatmulTest, HasTheBitsOfThePortablePath) {
  for (const Math math : maths_of(type())) {
    const TestKernels kernels(set(), 1, math);
    const TestKernels portable(InstructionSet::kPortable, 1, math);
    for (const Shape& shape : shapes_of(type())) {
      const TestMatrix w(type(), shape.rows, shape.columns);
      const std::vector<float> x = Random(2).floats(shape.n_tokens * shape.columns);
      const std::vector<float> bias = Random(3).floats(shape.rows);
      EXPECT_TRUE(same_bits(multiply(*kernels.operator->(), w, bias, x),
                            multiply(*portable.operator->(), w, bias, x)))
          << shape.rows << " x " << shape.columns << ", " << shape.n_tokens << " tokens";
    }
  }
}

// Results would depend on --threads, --batch, and on whether a token was prefilled or decoded.
TEST_P(MatmulTest, HasTheSameBitsForAllThreadsAndBatches) {
  const int64_t block = tensor_type_info(type()).block_elements;
  const TestMatrix w(type(), 67, block == 1 ? 77 : 2 * block);
  const int64_t n_tokens = 19;
  const std::vector<float> x = Random(2).floats(n_tokens * w.columns);
  const TestKernels one(set());
  const std::vector<float> expected = multiply(*one.operator->(), w, {}, x);
  for (const int n_threads : {2, 4}) {
    const TestKernels many(set(), n_threads);
    EXPECT_TRUE(same_bits(multiply(*many.operator->(), w, {}, x), expected)) << n_threads;
    for (const int64_t batch : {1, 2, 7}) {
      std::vector<float> out(expected.size());
      for (int64_t first = 0; first < n_tokens; first += batch) {
        many->run(MatmulCall{w.matrix(), nullptr, x.data() + first * w.columns,
                             std::min(batch, n_tokens - first), out.data() + first * w.rows});
      }
      EXPECT_TRUE(same_bits(out, expected)) << n_threads << " threads, batches of " << batch;
    }
  }
}

// Embeddings would be another token's, or not the file's.
TEST_P(MatmulTest, GetRowsGivesTheStoredRows) {
  const TestKernels kernels(set(), 2);
  const int64_t block = tensor_type_info(type()).block_elements;
  const TestMatrix table(type(), 9, block == 1 ? 5003 : 20 * block);
  const std::vector<int32_t> ids = {8, 0, 3, 3};
  std::vector<float> out(ids.size() * static_cast<size_t>(table.columns));
  kernels->run(GetRowsCall{table.matrix(), ids.data(), 4, out.data()});
  std::vector<float> row(static_cast<size_t>(table.columns));
  for (size_t i = 0; i < ids.size(); ++i) {
    dequantize_row(type(), table.matrix().slice(ids[i], 1).data, table.columns, row.data());
    EXPECT_EQ(std::memcmp(out.data() + i * row.size(), row.data(), row.size() * sizeof(float)), 0);
  }
}

std::string matmul_test_name(const testing::TestParamInfo<MatmulTest::ParamType>& tested) {
  const auto [type, set] = tested.param;
  return std::string(name_of(type)) + "_" + set_name(set);
}

INSTANTIATE_TEST_SUITE_P(Types, MatmulTest,
                         testing::Combine(testing::ValuesIn(of_named_case(kAllTensorTypes,
                                                                          name_of)),
                                          testing::ValuesIn(kExactSets)),
                         matmul_test_name);

class LargeMatmulTest : public kernel_testing::EachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Sets, LargeMatmulTest, testing::ValuesIn(kExactSets),
                         kernel_testing::instruction_set_name);

// Several panels of rows, and columns beyond one panel's.
TEST_P(LargeMatmulTest, ManyPanels) {
  const TestKernels kernels(GetParam(), 2);
  const auto reference = make_reference_kernels();
  for (const Shape& shape : {Shape{301, 1056, 8}, Shape{6, 20000, 3}}) {
    const TestMatrix w(TensorType::kQ4_1, shape.rows, shape.columns);
    const std::vector<float> x = Random(2).floats(shape.n_tokens * shape.columns);
    const double error = product_error(w, x, multiply(*reference, w, {}, x),
                                       multiply(*kernels.operator->(), w, {}, x));
    EXPECT_TRUE(error <= 1e-6) << error;
  }
}

// A file may state an alignment of one byte.
TEST_P(LargeMatmulTest, FloatsAtAnyAddressHaveTheSameProducts) {
  const TestKernels kernels(GetParam());
  const TestMatrix w(TensorType::kF32, 71, 300);
  const size_t bytes = row_bytes(w.type, w.columns) * static_cast<size_t>(w.rows);
  std::vector<uint8_t> moved(bytes + alignof(float));
  const std::vector<float> x = Random(2).floats(7 * w.columns);
  const std::vector<float> expected = multiply(*kernels.operator->(), w, {}, x);
  for (size_t by = 0; by < alignof(float); ++by) {
    std::memcpy(moved.data() + by, w.matrix().data, bytes);
    WeightMatrix there = w.matrix();
    there.data = moved.data() + by;
    std::vector<float> out(expected.size(), NAN);
    kernels->run(MatmulCall{there, nullptr, x.data(), 7, out.data()});
    EXPECT_TRUE(same_bits(out, expected)) << by;
  }
}

// Q, K and V of a layer may have three types, and are computed together.
TEST_P(LargeMatmulTest, SeveralProductsOfOneInputAreThoseOfEach) {
  const TestMatrix ws[] = {TestMatrix(TensorType::kQ4_K, 67, 256),
                           TestMatrix(TensorType::kF16, 5, 256),
                           TestMatrix(TensorType::kQ8_0, 33, 256)};
  const std::vector<float> bias = Random(3).floats(67);
  for (const Math math : {Math::kExact, Math::kFast}) {
    const TestKernels kernels(GetParam(), 2, math);
    for (const int64_t n_tokens : {1, 9}) {
      const std::vector<float> x = Random(2).floats(n_tokens * 256);
      std::vector<std::vector<float>> outs;
      std::vector<MatmulCall> products;
      for (const TestMatrix& w : ws) {
        outs.emplace_back(static_cast<size_t>(n_tokens * w.rows), NAN);
        const float* own_bias = w.rows == 67 ? bias.data() : nullptr;
        products.push_back({w.matrix(), own_bias, x.data(), n_tokens, outs.back().data()});
      }
      kernels->run(products);
      for (size_t i = 0; i < outs.size(); ++i) {
        EXPECT_TRUE(same_bits(outs[i], multiply(*kernels.operator->(), ws[i],
                                                i == 0 ? bias : std::vector<float>(), x)))
            << i << ", " << n_tokens << " tokens";
      }
    }
  }
}

// A NaN that vanishes hides the fault that made it; one that spreads accuses the wrong token.
TEST_P(LargeMatmulTest, NanStaysWithItsToken) {
  const TestKernels kernels(GetParam());
  const TestMatrix w(TensorType::kQ8_0, 5, 64);
  std::vector<float> x = Random(2).floats(int64_t{3} * 64);
  x[64 + 40] = NAN;
  const std::vector<float> out = multiply(*kernels.operator->(), w, {}, x);
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i / 5 == 1) << i;
}

}  // namespace
}  // namespace assay
