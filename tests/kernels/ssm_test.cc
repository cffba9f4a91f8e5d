#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/support.h"

namespace assay {
namespace {

using kernel_testing::kExactSets;
using kernel_testing::Random;
using kernel_testing::same_bits;
using kernel_testing::TestKernels;

class SsmTest : public kernel_testing::EachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Sets, SsmTest, testing::ValuesIn(kExactSets),
                         kernel_testing::instruction_set_name);

// What a call reads, of some shape.
struct SsmLayer {
  DeltaShape shape;
  int64_t n_tokens;
  std::vector<float> xbc = Random(1).floats(n_tokens * shape.qkv_width());
  std::vector<float> dt = Random(2).floats(n_tokens * shape.n_value_heads, 3.0F);
  std::vector<float> a = Random(3).floats(shape.n_decays());
  std::vector<float> dt_bias = Random(4).floats(shape.n_value_heads);
  std::vector<float> d = Random(5).floats(shape.n_value_heads);

  SsmLayer(DeltaShape s, int64_t n) : shape(s), n_tokens(n) {
    for (float& value : a) value = -std::abs(value) / 4.0F;
  }

  // The state follows the results. `step`: tokens of a call.
  std::vector<float> run(const auto& kernels, int64_t step, bool softplus = true) const {
    const auto count = static_cast<size_t>(n_tokens * shape.value_width());
    // What the state holds before position 0 is not read.
    std::vector<float> out(count + static_cast<size_t>(shape.state_size()), NAN);
    for (int64_t first = 0; first < n_tokens; first += step) {
      kernels->run(SsmCall{SsmInputs::of_rows(xbc.data(), shape).from(first),
                           dt.data() + first * shape.n_value_heads,
                           a.data(),
                           dt_bias.data(),
                           d.data(),
                           shape,
                           out.data() + count,
                           first,
                           std::min(step, n_tokens - first),
                           out.data() + first * shape.value_width(),
                           {},
                           softplus});
    }
    return out;
  }
};

// One head of one element: breaks if the step, the decay, D, B or C had another place.
TEST_P(SsmTest, FollowsTheRecurrenceByHand) {
  const std::vector<float> xbc{3, 5, 2, 4, 7, 10};  // x, B, C
  const std::vector<float> dt{1, 0};
  const float a = -std::log(2.0F);
  const float dt_bias = std::log(std::exp(1.0F) - 1.0F);  // softplus(0 + dt_bias) is 1
  const float d = 100;
  const auto expect = [&](const auto& kernels) {
    std::vector<float> out(2);
    float state = NAN;
    constexpr DeltaShape kShape = {1, 1, 1, 1, true};
    kernels->run(SsmCall{SsmInputs::of_rows(xbc.data(), kShape), dt.data(), &a, &dt_bias, &d,
                         kShape, &state, 0, 2, out.data()});
    const double step = std::log1p(std::exp(1.0 + dt_bias));
    EXPECT_NEAR(out[0], 300 + step * 15 * 2, 1e-3);
    EXPECT_NEAR(state, step * 15 / 2 + 28, 1e-4);
    EXPECT_NEAR(out[1], 400 + (step * 15 / 2 + 28) * 10, 1e-3);
  };
  expect(TestKernels(GetParam()));
  expect(make_reference_kernels());
}

// Two channels that read one key of two elements: breaks if an element of the state had the decay
// of another, or if values, B or C were taken from elsewhere.
TEST_P(SsmTest, EachElementOfAStateHasItsOwnDecay) {
  constexpr DeltaShape kShape = {1, 2, 2, 1, false, true};
  const std::vector<float> values{3, 5, 7, 11};
  const std::vector<float> b{1, 2, 3, 4};
  const std::vector<float> c{5, 6, 7, 8};
  const std::vector<float> dt(4);
  std::vector<float> a{2, 4, 5, 10};  // what a state is divided by in a step of 1
  for (float& each : a) each = -std::log(each);
  const std::vector<float> dt_bias(2, std::log(std::exp(1.0F) - 1.0F));
  const std::vector<float> d{100, 1000};
  const auto expect = [&](const auto& kernels) {
    std::vector<float> state(4, NAN);
    std::vector<float> out(4);
    kernels->run(SsmCall{SsmInputs::of_arrays(values.data(), b.data(), c.data(), kShape), dt.data(),
                         a.data(), dt_bias.data(), d.data(), kShape, state.data(), 0, 2,
                         out.data()});
    EXPECT_NEAR(out[0], 300 + 3 * 5 + 6 * 6, 1e-3);
    EXPECT_NEAR(out[1], 5000 + 5 * 5 + 10 * 6, 1e-3);
    const std::vector<double> want{1.5 + 21, 1.5 + 28, 1 + 33, 1 + 44};
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(state[i], want[i], 1e-4);
    EXPECT_NEAR(out[2], 700 + 22.5 * 7 + 29.5 * 8, 1e-3);
    EXPECT_NEAR(out[3], 11000 + 34 * 7 + 45 * 8, 1e-3);
  };
  expect(TestKernels(GetParam()));
  expect(make_reference_kernels());
}

// Breaks if a result depended on how tokens are split over calls, or heads over threads.
TEST_P(SsmTest, GivesTheSameBitsForAnySplit) {
  for (const DeltaShape shape :
       {DeltaShape{1, 1, 1, 1, true}, DeltaShape{2, 6, 5, 7, true}, DeltaShape{1, 4, 16, 33},
        DeltaShape{4, 8, 128, 64, true}, DeltaShape{1, 37, 16, 1, false, true}}) {
    const SsmLayer layer(shape, 50);
    const auto reference = make_reference_kernels();
    for (const bool softplus : {true, false}) {
      const bool is_tame = softplus || shape.key_dim > 5;  // steps below 0 let the state grow
      const TestKernels first(InstructionSet::kPortable, 1);
      const std::vector<float> want = layer.run(first, 50, is_tame);
      const std::vector<float> near = layer.run(reference, 50, is_tame);
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(want[i], near[i], 2e-6 * (1.0 + std::abs(near[i]))) << i;
      }
      for (const int n_threads : {1, 3}) {
        const TestKernels kernels(GetParam(), n_threads);
        for (const int64_t step : {1, 7, 50}) {
          EXPECT_TRUE(same_bits(layer.run(kernels, step, is_tame), want))
              << shape.key_dim << " " << step;
        }
      }
    }
  }
}

}  // namespace
}  // namespace assay
