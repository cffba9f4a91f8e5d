// The mistakes of attention to chosen positions, on what an engine logged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "assay/mistakes/mistake.h"
#include "base/thread_pool.h"
#include "engine/session.h"
#include "tests/support/glm_dsa_model.h"
#include "tests/support/temporary_folder.h"

namespace assay::mistakes {
namespace {

struct Kept final : Probe {
  bool wants(Checkpoint /*checkpoint*/, int /*layer*/) override { return true; }
  void observe(Checkpoint checkpoint, int layer, int64_t /*first*/, int64_t n_tokens, int64_t width,
               const float* values) override {
    auto rows = std::make_shared<Matrix>(n_tokens, width);
    std::copy_n(values, n_tokens * width, rows->values.begin());
    all[{checkpoint, is_in_layer(checkpoint) ? layer : -1}] = std::move(rows);
  }
  std::map<Op, std::shared_ptr<const Matrix>> all;
};

class IndexMistakes : public TemporaryFolder {
 protected:
  IndexMistakes() {
    testing_support::TinyModel tiny;
    testing_support::become_glm_dsa(tiny);
    model_ = std::make_unique<Model>(std::make_shared<Gguf>(tiny.write(path("model.gguf"))));
    network_ = Network::of_model(*model_, 9);
    ThreadPool pool(1);
    const auto kernels = make_cpu_kernels(pool);
    const std::vector<int32_t> tokens = {1, 4, 2, 0, 3, 3, 1, 2, 4};
    Session(*model_, *kernels, {}).eval(tokens, &kept_);
  }

  Matrix computed(Op op, const KernelHooks& hooks = {}) {
    Inputs inputs;
    for (const Op input : network_.inputs(op)) inputs.rows.push_back(kept_.all.at(input).get());
    for (int64_t t = 0; t < 9; ++t) inputs.positions.push_back(t);
    return network_.compute(op, inputs, hooks, 0);
  }

  std::unique_ptr<Model> model_;
  Network network_;
  Kept kept_;
};

// Breaks if positions were another layer's, or an op were computed otherwise than the engine does.
TEST_F(IndexMistakes, WithoutOneEachOpIsTheEngines) {
  for (const int layer : {0, 1, 2}) {
    for (const OpSpec& op : network_.layer(layer)) {
      const Matrix& expected = *kept_.all.at({op.out, layer});
      const Matrix got = computed({op.out, layer});
      ASSERT_EQ(got.values.size(), expected.values.size());
      for (size_t i = 0; i < got.values.size(); ++i) {
        ASSERT_NEAR(got.values[i], expected.values[i], 1e-6) << OpPlace{op.out, layer}.name();
      }
    }
  }
  EXPECT_EQ(network_.inputs({Checkpoint::kAttn, 1}).back(), (Op{Checkpoint::kIndexed, 0}));
}

// Breaks if a mistake were none, or one that no op can have.
TEST_F(IndexMistakes, EachChangesWhatIsSeen) {
  const std::vector<Mistake> mistakes = index_mistakes();
  ASSERT_EQ(mistakes.size(), 4U);
  for (const Mistake& mistake : mistakes) {
    const Checkpoint at = mistake.edit.attention ? Checkpoint::kAttn : Checkpoint::kIndexed;
    const std::vector<Op> ops = possible_ops(mistake, network_, at);
    EXPECT_EQ(ops.size(), at == Checkpoint::kAttn ? 3U : 2U);
    for (const Op op : ops) {
      EXPECT_NE(computed(op, hooks_of(mistake)).values, computed(op).values)
          << mistake.text(network_, 0);
    }
  }
}

}  // namespace
}  // namespace assay::mistakes
