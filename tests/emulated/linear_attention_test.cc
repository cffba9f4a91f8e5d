// The ops of linear attention, as ops_test.cc has all others.

#include "tests/emulated/op_test.h"

namespace assay {
namespace {

using kernel_testing::Random;
using Arena = testing_support::DeviceArrays;
using testing_support::nothing;

class LinearOpTest : public testing_support::OpTest {};
INSTANTIATE_TEST_SUITE_P(Emulated, LinearOpTest,
                         testing::ValuesIn(testing_support::emulated_setups()),
                         testing_support::tested_name);
INSTANTIATE_TEST_SUITE_P(Gpu, LinearOpTest, testing::ValuesIn(testing_support::cuda_setups()),
                         testing_support::tested_name);

TEST_P(LinearOpTest, ConvOfOneInput) {
  const auto k = Random(2).floats(9 * 12);
  const auto weight = Random(4).floats(12 * 3);
  expect_the_bits_of_the_cpu(5 * 12, [&](Kernels& kernels, Arena& arena) {
    float* out = arena.place(nothing(5 * 12));
    kernels.run(ConvCall{
        nullptr, {KvType::kF32, arena.place(k), nullptr}, arena.place(weight), 3, 1, 5, 12, out});
    return out;
  });
}

TEST_P(LinearOpTest, ConvWithABias) {
  const auto k = Random(2).floats(9 * 12);
  const auto weight = Random(4).floats(12 * 3);
  const auto bias = Random(5).floats(12);
  expect_the_bits_of_the_cpu(5 * 12, [&](Kernels& kernels, Arena& arena) {
    float* out = arena.place(nothing(5 * 12));
    kernels.run(ConvCall{nullptr,
                         {KvType::kF32, arena.place(k), nullptr},
                         arena.place(weight),
                         3,
                         1,
                         5,
                         12,
                         out,
                         {},
                         arena.place(bias)});
    return out;
  });
}

TEST_P(LinearOpTest, Ssm) {
  constexpr DeltaShape kGrouped = {2, 6, 20, 130, true};
  constexpr DeltaShape kInTurn = {2, 6, 20, 130};
  const auto xbc = Random(1).floats(9 * kGrouped.qkv_width());
  const auto dt = Random(2).floats(9 * kGrouped.n_value_heads);
  const std::vector<float> a(6, -0.25F);
  const auto dt_bias = Random(3).floats(kGrouped.n_value_heads);
  const auto d = Random(4).floats(kGrouped.n_value_heads);
  const auto state = Random(5).floats(kGrouped.state_size());
  for (const int64_t first : {0, 3}) {
    for (const bool plain : {false, true}) {
      const int64_t count = 9 * kGrouped.value_width() + kGrouped.state_size();
      expect_the_bits_of_the_cpu(count, [&](Kernels& kernels, Arena& arena) {
        std::vector<float> place = nothing(9 * kGrouped.value_width());
        place.insert(place.end(), state.begin(), state.end());
        float* out = arena.place(place);
        kernels.run(SsmCall{arena.place(xbc),
                            arena.place(dt),
                            arena.place(a),
                            arena.place(dt_bias),
                            arena.place(d),
                            plain ? kInTurn : kGrouped,
                            out + 9 * kGrouped.value_width(),
                            first,
                            9,
                            out,
                            {},
                            !plain});
        return out;
      });
    }
  }
}

TEST_P(LinearOpTest, Delta) {
  constexpr DeltaShape kShape = {2, 6, 20, 130};
  constexpr DeltaShape kGrouped = {2, 6, 20, 130, true};
  const auto qkv = Random(1).floats(9 * kShape.qkv_width());
  const auto alpha = Random(2).floats(9 * kShape.n_value_heads);
  const auto beta = Random(3).floats(9 * kShape.n_value_heads);
  const std::vector<float> a(6, -0.25F);
  const auto dt = Random(4).floats(kShape.n_value_heads);
  const auto state = Random(5).floats(kShape.state_size());
  for (const int64_t first : {0, 3}) {
    for (const bool plain : {false, true}) {
      const int64_t count = 9 * kShape.value_width() + kShape.state_size();
      expect_the_bits_of_the_cpu(count, [&](Kernels& kernels, Arena& arena) {
        std::vector<float> place = nothing(9 * kShape.value_width());
        place.insert(place.end(), state.begin(), state.end());
        float* out = arena.place(place);
        kernels.run(DeltaCall{arena.place(qkv),
                              arena.place(alpha),
                              arena.place(beta),
                              arena.place(a),
                              arena.place(dt),
                              plain ? kGrouped : kShape,
                              out + 9 * kShape.value_width(),
                              first,
                              9,
                              out,
                              {},
                              !plain,
                              !plain});
        return out;
      });
    }
  }
}

}  // namespace
}  // namespace assay
