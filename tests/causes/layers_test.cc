// Models whose weights are in another place than they should be: edited here, and run by the right
// kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/reference/dequantize.h"
#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::HasSubstr;

class CausesOfPlaces : public FaultyLogs {
 protected:
  // What is named where `edit` is made to the model.
  Comparison found(const std::string& name, const char* checkpoints,
                   const std::function<void(Model&)>& edit) {
    const auto model = load(name);
    const auto edited = load(name);
    edit(*edited);
    const auto kernels = make_reference_kernels();
    const std::string ref = log(*model, *kernels, "ref", checkpoints);
    const std::string got = log(*edited, *kernels, "got", checkpoints);
    return compare(model.get(), ref, got);
  }

  static void expect(const Comparison& comparison, const std::string& cause,
                     const std::string& words) {
    ASSERT_FALSE(comparison.causes.empty()) << comparison.cause_hint;
    EXPECT_EQ(comparison.causes[0].name, cause);
    EXPECT_THAT(comparison.causes[0].sentence, HasSubstr(words));
  }

  // Rows [first, first + count) of the fused matrix of some products, and their biases.
  struct Rows {
    std::vector<float> weights;
    std::vector<float> biases;

    void add(const Linear& linear, int64_t first, int64_t count) {
      const WeightMatrix& w = linear.weight;
      for (int64_t row = first; row < first + count; ++row) {
        weights.resize(weights.size() + static_cast<size_t>(w.columns));
        dequantize_row(w.type, w.slice(row, 1).data, w.columns,
                       weights.data() + std::ssize(weights) - w.columns);
        biases.push_back(linear.bias == nullptr ? 0 : linear.bias[row]);
      }
    }
    // Gives the product the rows from `first` on.
    void give(Linear& linear, int64_t first) const {
      WeightMatrix& w = linear.weight;
      w = {TensorType::kF32, w.rows, w.columns, weights.data() + first * w.columns};
      if (linear.bias != nullptr) linear.bias = biases.data() + first;
    }
  };
};

TEST_F(CausesOfPlaces, NamesLayersThatAreExchanged) {
  const auto swap = [](Model& model) { std::swap(model.layers[0], model.layers[1]); };
  expect(found("tinyllama", "logits", swap), "layer_order",
         "each layer has the weights of another layer: 0 and 1 are exchanged");
  expect(found("tinyllama", "layers", swap), "layer_order",
         "layer_0 has the weights of the layer after it");
  expect(found("qwen3", "ops", swap), "layer_order",
         "layer_0_attn_norm has the weights of the layer after it");
}

TEST_F(CausesOfPlaces, NamesStagesThatCountFrom0) {
  const auto stages = [](Model& model) {
    for (size_t i = 3; i < 6; ++i) model.layers[i] = model.layers[i - 3];
  };
  expect(found("gemma3", "logits", stages), "layer_order",
         "they are counted from 0 in each of 2 stages");
}

TEST_F(CausesOfPlaces, NamesALayerThatRunsTwice) {
  const auto twice = [](Model& model) {
    model.layers.insert(model.layers.begin(), model.layers[0]);
    ModelConfig& config = model.config();
    config.layers.insert(config.layers.begin(), config.layers[0]);
    ++config.n_layers;
  };
  for (const char* model : {"tinyllama", "olmo2"}) {
    expect(found(model, "logits", twice), "layer_order", "layer_0 runs twice");
  }
}

TEST_F(CausesOfPlaces, NamesAnOutputThatIsTied) {
  const auto tie = [](Model& model) { model.output.weight = model.token_embedding; };
  expect(found("tinyllama", "logits", tie), "output_tied",
         "logits multiplies by the embeddings in place of the output matrix");
}

TEST_F(CausesOfPlaces, NamesFusedMatricesThatAreCutOtherwise) {
  std::vector<Rows> all;  // of each layer
  const auto by_head = [&](Model& model) {
    const ModelConfig& config = model.config();
    const int64_t dim = config.head_dim;
    const int64_t group = config.n_heads / config.n_kv_heads;
    all = std::vector<Rows>(model.layers.size());
    for (size_t i = 0; i < all.size(); ++i) {
      Linear& q = model.layers[i].linear(Checkpoint::kQ);
      Linear& k = model.layers[i].linear(Checkpoint::kK);
      Linear& v = model.layers[i].linear(Checkpoint::kV);
      for (int64_t head = 0; head < config.n_kv_heads; ++head) {
        all[i].add(q, head * group * dim, group * dim);
        all[i].add(k, head * dim, dim);
        all[i].add(v, head * dim, dim);
      }
      all[i].give(q, 0);
      all[i].give(k, q.weight.rows);
      all[i].give(v, q.weight.rows + k.weight.rows);
    }
  };
  for (const char* set : {"ops", "layers"}) {
    expect(found("qwen2.5", set, by_head), "fused_order",
           "reads a fused matrix that holds Q, K and V head by head as if it held each whole");
  }
  const auto by_row = [&](Model& model) {
    all = std::vector<Rows>(model.layers.size());
    for (size_t i = 0; i < all.size(); ++i) {
      Linear& gate = model.layers[i].linear(Checkpoint::kFfnGate);
      Linear& up = model.layers[i].linear(Checkpoint::kFfnUp);
      for (int64_t row = 0; row < gate.weight.rows; ++row) {
        all[i].add(gate, row, 1);
        all[i].add(up, row, 1);
      }
      all[i].give(gate, 0);
      all[i].give(up, gate.weight.rows);
    }
  };
  for (const char* set : {"ops", "layers"}) {
    expect(found("tinyllama", set, by_row), "fused_order",
           "reads a fused matrix that holds gate and up row by row as if it held each whole");
  }
}

}  // namespace
}  // namespace assay
