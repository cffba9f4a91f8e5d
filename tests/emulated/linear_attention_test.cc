// The ops of linear attention, as ops_test.cc has all others.

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/session.h"
#include "tests/emulated/op_test.h"
#include "tests/support/mamba_model.h"

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
        kernels.run(SsmCall{SsmInputs::of_rows(arena.place(xbc), kGrouped),
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

TEST_P(LinearOpTest, SsmWithDecaysOfKeys) {
  constexpr DeltaShape kShape = {1, 130, 16, 1, false, true};
  const auto values = Random(1).floats(9 * kShape.value_width());
  const auto keys = Random(6).floats(9 * kShape.key_width());
  const auto queries = Random(7).floats(9 * kShape.key_width());
  const auto dt = Random(2).floats(9 * kShape.n_value_heads);
  auto a = Random(8).floats(kShape.n_decays());
  for (float& each : a) each = -std::abs(each);
  const auto dt_bias = Random(3).floats(kShape.n_value_heads);
  const auto d = Random(4).floats(kShape.n_value_heads);
  const auto state = Random(5).floats(kShape.state_size());
  for (const int64_t first : {0, 3}) {
    const int64_t count = 9 * kShape.value_width() + kShape.state_size();
    expect_the_bits_of_the_cpu(count, [&](Kernels& kernels, Arena& arena) {
      std::vector<float> place = nothing(9 * kShape.value_width());
      place.insert(place.end(), state.begin(), state.end());
      float* out = arena.place(place);
      const SsmInputs in = SsmInputs::of_arrays(arena.place(values), arena.place(keys),
                                                arena.place(queries), kShape);
      kernels.run(SsmCall{in, arena.place(dt), arena.place(a), arena.place(dt_bias), arena.place(d),
                          kShape, out + 9 * kShape.value_width(), first, 9, out});
      return out;
    });
  }
}

// Breaks if a device kept another state than the CPU, in a prompt or behind it.
TEST_P(LinearOpTest, ANetworkOfMambaHasTheBitsOfTheCpu) {
  testing_support::TinyModel tiny;
  become_mamba(tiny);
  tiny.booleans["mamba.ssm.dt_b_c_rms"] = true;
  const std::string path = testing::TempDir() + "mamba.gguf";
  const Model model(std::make_shared<Gguf>(tiny.write(path)));
  const std::vector<int32_t> tokens = {1, 4, 2, 0, 3, 3, 1, 2, 4};
  const auto logits = [&](Kernels& kernels) {
    Session session(model, kernels, {.batch = 5});
    session.eval(std::span(tokens).first(8));
    const auto last = session.eval(std::span(tokens).last(1));
    return std::vector<float>(last.begin(), last.end());
  };
  EXPECT_EQ(logits(*tested_), logits(*cpu_));
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
