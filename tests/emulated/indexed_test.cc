// Attention to chosen positions on a device: as ops_test.cc has all other ops, and a whole network.

#include <memory>
#include <vector>

#include "engine/session.h"
#include "tests/emulated/op_test.h"
#include "tests/support/glm_dsa_model.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using kernel_testing::Random;
using Arena = testing_support::DeviceArrays;
using testing_support::nothing;

class IndexedOpTest : public testing_support::OpTest {};
INSTANTIATE_TEST_SUITE_P(Emulated, IndexedOpTest,
                         testing::ValuesIn(testing_support::emulated_setups()),
                         testing_support::tested_name);
INSTANTIATE_TEST_SUITE_P(Gpu, IndexedOpTest, testing::ValuesIn(testing_support::cuda_setups()),
                         testing_support::tested_name);

// Breaks if a device gathered another position's keys or values, or saw what is not chosen.
TEST_P(IndexedOpTest, AttentionToChosenPositions) {
  const AttentionShape shape{
      .n_heads = 2, .n_kv_heads = 2, .head_dim = 17, .scale = 0.7F, .own_value_dim = 9};
  const std::vector<int32_t> indexed = {0, 1, 2, -1, 0, 1, 2, 3, 0, 2, 3, 4, 1, 3, 4, 5};
  for (const KvType type : {KvType::kF32, KvType::kF16}) {
    const auto q = Random(1).floats(4 * 2 * 17);
    const auto k = Random(2).floats(6 * 2 * 17, 3.0F);
    const auto v = Random(3).floats(6 * 2 * 9);
    expect_the_bits_of_the_cpu(4 * 2 * 9, [&](Kernels& kernels, Arena& arena) {
      void* stored_k = arena.place(nothing(std::ssize(k)));
      void* stored_v = arena.place(nothing(std::ssize(v)));
      kernels.run(StoreKvCall{arena.place(k), type, std::ssize(k), stored_k});
      kernels.run(StoreKvCall{arena.place(v), type, std::ssize(v), stored_v});
      float* out = arena.place(nothing(4 * 2 * 9));
      AttentionCall call{arena.place(q), {type, stored_k, stored_v}, shape, 2, 4, out};
      call.indexed = indexed.data();
      call.n_indexed = 4;
      kernels.run(call);
      return out;
    });
  }
}

// Breaks if the host chose by other queries or keys than the device has, in a prompt or behind it.
TEST_P(IndexedOpTest, ANetworkHasTheBitsOfTheCpu) {
  testing_support::TinyModel tiny;
  become_glm_dsa(tiny);
  const std::string path = testing::TempDir() + "indexed.gguf";
  const Model model(std::make_shared<Gguf>(tiny.write(path)));
  const std::vector<int32_t> tokens = {1, 4, 2, 0, 3, 3, 1, 2, 4};
  const auto logits = [&](Kernels& kernels) {
    Session session(model, kernels, {.batch = 5, .kv_type = KvType::kF16});
    session.eval(std::span(tokens).first(8));
    const auto last = session.eval(std::span(tokens).last(1));
    return std::vector<float>(last.begin(), last.end());
  };
  EXPECT_EQ(logits(*tested_), logits(*cpu_));
}

}  // namespace
}  // namespace assay
