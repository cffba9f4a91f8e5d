#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/gates.h"
#include "tests/kernels/support.h"

namespace assay {
namespace {

using kernel_testing::kExactSets;
using kernel_testing::Random;
using kernel_testing::same_bits;
using kernel_testing::TestKernels;

class DeltaTest : public kernel_testing::EachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Sets, DeltaTest, testing::ValuesIn(kExactSets),
                         kernel_testing::instruction_set_name);

// What a call reads, of some shape.
struct Layer {
  DeltaShape shape;
  int64_t n_tokens;
  std::vector<float> qkv = Random(1).floats(n_tokens * shape.qkv_width());
  std::vector<float> alpha = Random(2).floats(n_tokens * shape.n_value_heads, 3.0F);
  std::vector<float> beta = Random(3).floats(n_tokens * shape.n_value_heads, 3.0F);
  std::vector<float> a = Random(4).floats(shape.n_value_heads);
  std::vector<float> dt = Random(5).floats(shape.n_value_heads);

  Layer(DeltaShape s, int64_t n) : shape(s), n_tokens(n) {
    for (float& value : a) value = -std::abs(value) / 4.0F;
  }

  // The state follows the results. `step`: tokens of a call.
  std::vector<float> run(const auto& kernels, int64_t step, bool l2_norm = true,
                         bool sigmoid_beta = true) const {
    const auto count = static_cast<size_t>(n_tokens * shape.value_width());
    // What the state holds before position 0 is not read.
    std::vector<float> out(count + static_cast<size_t>(shape.state_size()), NAN);
    for (int64_t first = 0; first < n_tokens; first += step) {
      kernels->run(DeltaCall{qkv.data() + first * shape.qkv_width(),
                             alpha.data() + first * shape.n_value_heads,
                             beta.data() + first * shape.n_value_heads,
                             a.data(),
                             dt.data(),
                             shape,
                             out.data() + count,
                             first,
                             std::min(step, n_tokens - first),
                             out.data() + first * shape.value_width(),
                             {},
                             l2_norm,
                             sigmoid_beta});
    }
    return out;
  }
};

// One key of one element: its direction is its sign, whatever its length.
TEST_P(DeltaTest, FollowsTheRuleByHand) {
  const std::vector<float> qkv{3, 1000, 4, -5, -1000, 2};
  const std::vector<float> alpha{7, 0};
  const std::vector<float> beta{0, 100};
  const float a = -std::log(2.0F);
  const float dt = std::log(std::exp(1.0F) - 1.0F);  // softplus(0 + dt) is 1
  const auto expect = [&](const auto& kernels) {
    std::vector<float> out(2);
    float state = NAN;
    kernels->run(DeltaCall{
        qkv.data(), alpha.data(), beta.data(), &a, &dt, {1, 1, 1, 1}, &state, 0, 2, out.data()});
    // 0 + 1 (4 - 0) / 2 = 2; then it is halved, and all of it replaced: k is -1, -2 gives v = 2.
    EXPECT_NEAR(out[0], 2.0, 1e-6);
    EXPECT_NEAR(out[1], 2.0, 1e-6);
    EXPECT_NEAR(state, -2.0, 1e-6);
  };
  expect(TestKernels(GetParam()));
  expect(make_reference_kernels());
}

// Breaks if a value head read another's key head.
TEST(DeltaShapeTest, ValueHeadsReadKeyHeadsInTurnOrInGroups) {
  std::vector<int64_t> in_turn;
  std::vector<int64_t> grouped;
  for (int64_t head = 0; head < 6; ++head) {
    in_turn.push_back(DeltaShape{2, 6, 5, 7}.key_head(head));
    grouped.push_back(DeltaShape{2, 6, 5, 7, true}.key_head(head));
  }
  EXPECT_EQ(in_turn, (std::vector<int64_t>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(grouped, (std::vector<int64_t>{0, 0, 0, 1, 1, 1}));
}

// Breaks if a result depended on how tokens are split over calls, or heads over threads.
TEST_P(DeltaTest, GivesTheSameBitsForAnySplit) {
  for (const DeltaShape shape :
       {DeltaShape{1, 1, 1, 1}, DeltaShape{2, 6, 5, 7, true}, DeltaShape{4, 8, 32, 64}}) {
    const Layer layer(shape, 50);
    const auto reference = make_reference_kernels();
    for (const bool flag : {true, false}) {
      const TestKernels first(InstructionSet::kPortable, 1);
      const std::vector<float> want = layer.run(first, 50, flag || shape.key_dim > 5, flag);
      const std::vector<float> near = layer.run(reference, 50, flag || shape.key_dim > 5, flag);
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(want[i], near[i], 2e-6 * (1.0 + std::abs(near[i]))) << i;
      }
      for (const int n_threads : {1, 3}) {
        const TestKernels kernels(GetParam(), n_threads);
        for (const int64_t step : {1, 7, 50}) {
          EXPECT_TRUE(same_bits(layer.run(kernels, step, flag || shape.key_dim > 5, flag), want))
              << shape.key_dim << " " << step;
        }
      }
    }
  }
}

TEST(Gates, AreThoseOfTheMathLibrary) {
  for (double x = -750.0; x <= 750.0; x += 0.37) {
    const double held = std::clamp(x, -700.0, 700.0);
    EXPECT_NEAR(gates::exponential(x) / std::exp(held), 1.0, 4e-16) << x;
    EXPECT_NEAR(gates::sigmoid(x), 1.0 / (1.0 + std::exp(-held)), 3e-16) << x;
    const double softplus = std::max(x, 0.0) + std::log1p(std::exp(-std::abs(held)));
    EXPECT_NEAR(gates::softplus(x), softplus, 4e-16 * (1.0 + softplus)) << x;
  }
  EXPECT_TRUE(std::isnan(gates::exponential(NAN)));
  EXPECT_TRUE(std::isnan(gates::sigmoid(NAN)));
  EXPECT_TRUE(std::isnan(gates::softplus(NAN)));
}

}  // namespace
}  // namespace assay
