#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/kernels/support.h"

namespace assay {
namespace {

using kernel_testing::kExactSets;
using kernel_testing::Random;
using kernel_testing::same_bits;
using kernel_testing::TestKernels;

class ConvTest : public kernel_testing::EachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Sets, ConvTest, testing::ValuesIn(kExactSets),
                         kernel_testing::instruction_set_name);

// Two channels, three weights each, four tokens: by hand.
TEST_P(ConvTest, GivesTheSumOfTheLastProductsTimesTheGate) {
  const std::vector<float> x{1, 1, 2, 1, 1, 3, 1, 1};
  const std::vector<float> k{1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> v{1, 1, 2, 1, 1, 1, 1, 2};
  const std::vector<float> weight{1, 10, 100, 2, 20, 200};
  const std::vector<float> want{100, 400, 1220, 840, 561, 3852, 756, 3328};
  const auto expect = [&](const auto& kernels) {
    std::vector<float> got(8, -1.0F);
    kernels->run(ConvCall{
        x.data(), {KvType::kF32, k.data(), v.data()}, weight.data(), 3, 0, 4, 2, got.data()});
    EXPECT_EQ(got, want);
  };
  expect(TestKernels(GetParam()));
  expect(make_reference_kernels());
}

// A convolution of one input, without a gate.
TEST_P(ConvTest, TakesAMissingFactorForOne) {
  const std::vector<float> k = Random(2).floats(9 * 12);
  const std::vector<float> ones(9 * 12, 1.0F);
  const std::vector<float> weight = Random(4).floats(12 * 3);
  const auto run = [&](const auto& kernels, const float* one) {
    std::vector<float> out(9 * 12, -1.0F);
    kernels->run(
        ConvCall{one, {KvType::kF32, k.data(), one}, weight.data(), 3, 0, 9, 12, out.data()});
    return out;
  };
  const TestKernels kernels(GetParam());
  const std::vector<float> want = run(make_reference_kernels(), ones.data());
  EXPECT_TRUE(same_bits(run(make_reference_kernels(), nullptr), want));
  EXPECT_TRUE(same_bits(run(kernels, nullptr), want));
}

// Breaks if a result depended on how tokens are split over calls or threads.
TEST_P(ConvTest, GivesTheBitsOfTheReferenceForAnySplit) {
  constexpr int64_t kWidth = 77;
  constexpr int64_t kTokens = 150;
  const std::vector<float> x = Random(1).floats(kTokens * kWidth);
  const std::vector<float> k = Random(2).floats(kTokens * kWidth);
  const std::vector<float> v = Random(3).floats(kTokens * kWidth);
  for (const int64_t taps : {1, 2, 4}) {
    const std::vector<float> weight = Random(4).floats(kWidth * taps);
    const auto run = [&](const auto& kernels, int64_t step) {
      std::vector<float> out(static_cast<size_t>(kTokens * kWidth), -1.0F);
      for (int64_t first = 0; first < kTokens; first += step) {
        kernels->run(ConvCall{x.data() + first * kWidth,
                              {KvType::kF32, k.data(), v.data()},
                              weight.data(),
                              taps,
                              first,
                              std::min(step, kTokens - first),
                              kWidth,
                              out.data() + first * kWidth});
      }
      return out;
    };
    const std::vector<float> want = run(make_reference_kernels(), kTokens);
    for (const int n_threads : {1, 3}) {
      const TestKernels kernels(GetParam(), n_threads);
      for (const int64_t step : {int64_t{1}, int64_t{7}, kTokens}) {
        EXPECT_TRUE(same_bits(run(kernels, step), want)) << taps << " " << step;
      }
    }
  }
}

}  // namespace
}  // namespace assay
