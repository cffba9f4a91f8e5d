#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "assay/mistakes/mistake.h"
#include "base/thread_pool.h"
#include "engine/session.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_model.h"

// Ops of a tiny model, of what an engine computed of nine tokens.
namespace assay::mistakes {

class LoggedOps : public TemporaryFolder {
 protected:
  explicit LoggedOps(testing_support::TinyModel tiny) : tiny_(std::move(tiny)) {}

  void SetUp() override {
    TemporaryFolder::SetUp();
    model_ = std::make_unique<Model>(std::make_shared<Gguf>(tiny_.write(path("model.gguf"))));
    network_ = Network::of_model(*model_, 9);
    ThreadPool pool(1);
    const auto kernels = make_cpu_kernels(pool);
    Session(*model_, *kernels, {}).eval(tokens_, &kept_);
  }

  Matrix computed(Op op, const KernelHooks& hooks = {}) const {
    Inputs inputs;
    for (const Op input : network_.inputs(op)) inputs.rows.push_back(kept_.all.at(input).get());
    for (int64_t t = 0; t < 9; ++t) inputs.positions.push_back(t);
    inputs.tokens = tokens_;
    return network_.compute(op, inputs, hooks, 0);
  }

  // Breaks if an input were another, or an op were computed otherwise than the engine does.
  void expect_the_engines_ops() const {
    for (int layer = 0; layer < network_.n_layers; ++layer) {
      for (const OpSpec& op : network_.layer(layer)) {
        const Matrix& expected = *kept_.all.at({op.out, layer});
        const Matrix got = computed({op.out, layer});
        ASSERT_EQ(got.values.size(), expected.values.size());
        for (size_t i = 0; i < got.values.size(); ++i) {
          ASSERT_NEAR(got.values[i], expected.values[i], 1e-6) << OpPlace{op.out, layer}.name();
        }
      }
    }
  }

  const Network& network() const { return network_; }

 private:
  struct Kept final : Probe {
    bool wants(Checkpoint /*checkpoint*/, int /*layer*/) override { return true; }
    void observe(Checkpoint checkpoint, int layer, int64_t /*first*/, int64_t n_tokens,
                 int64_t width, const float* values) override {
      auto rows = std::make_shared<Matrix>(n_tokens, width);
      std::copy_n(values, n_tokens * width, rows->values.begin());
      all[{checkpoint, is_in_layer(checkpoint) ? layer : -1}] = std::move(rows);
    }
    std::map<Op, std::shared_ptr<const Matrix>> all;
  };

  const std::vector<int32_t> tokens_ = {1, 4, 2, 0, 3, 3, 1, 2, 4};
  testing_support::TinyModel tiny_;
  std::unique_ptr<Model> model_;
  Network network_;
  Kept kept_;
};

}  // namespace assay::mistakes
