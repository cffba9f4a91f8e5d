#include "assay/causes/infer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "assay/causes/tensor_store.h"
#include "tests/causes/faulty_logs.h"

namespace assay::causes {
namespace {

using namespace mistakes;

// What a log of the reference shows is held against what the model's file says.
class InferTest : public FaultyLogs {
 protected:
  Network inferred(const std::string& name, Checkpoint checkpoint, int layer) {
    WrongKernels right;
    comparison_ = FaultyLogs::compare(name, right, "ops", false);
    store_ = std::make_unique<TensorStore>(comparison_);
    Network network;
    network.n_layers = 2;
    infer(*store_, {checkpoint, layer}, network);
    return network;
  }
  static Network stated(const std::string& name) {
    static std::shared_ptr<Model> model;
    model = load(name);
    return Network::of_model(*model, 12);
  }

  Comparison comparison_;
  std::unique_ptr<TensorStore> store_;
};

TEST_F(InferTest, RotationMatchesTheModel) {
  for (const char* name : {"tinyllama", "llama3", "qwen2.5", "phi3"}) {
    const Network want = stated(name);
    const Network got = inferred(name, Checkpoint::kQRope, 1);
    ASSERT_TRUE(got.rope) << name;
    EXPECT_EQ(got.rope->pairing, want.rope->pairing) << name;
    EXPECT_EQ(got.rope->head_dim, want.rope->head_dim) << name;
    ASSERT_EQ(got.rope->frequencies.size(), want.rope->frequencies.size()) << name;
    for (size_t i = 0; i < want.rope->frequencies.size(); ++i) {
      EXPECT_NEAR(got.rope->frequencies[i], want.rope->frequencies[i], 1e-6) << name << i;
    }
    // llama3 and phi3 divide their frequencies by factors, so that no base gives them.
    const bool plain = rope_base(want.rope->frequencies).has_value();
    EXPECT_EQ(got.rope->base, plain ? want.rope->base : 0) << name;
    EXPECT_EQ(got.n_heads, want.n_heads) << name;
    EXPECT_EQ(got.n_kv_heads, want.n_kv_heads) << name;
  }
}

TEST_F(InferTest, FindsHeadsWithoutARotation) {
  const Network got = inferred("gpt2", Checkpoint::kAttn, 1);
  EXPECT_FALSE(got.rotary());
  EXPECT_EQ(got.head_dim, stated("gpt2").head_dim);
  EXPECT_EQ(got.n_heads, stated("gpt2").n_heads);
}

TEST_F(InferTest, IdentifiesActivations) {
  EXPECT_EQ(inferred("qwen2.5", Checkpoint::kFfnAct, 0).activation, Activation::kSilu);
  const Network gelu = inferred("gpt2", Checkpoint::kFfnAct, 0);
  EXPECT_EQ(gelu.activation, Activation::kGeluTanh);
  EXPECT_FALSE(gelu.gated());
}

TEST_F(InferTest, IdentifiesNorms) {
  const Network rms = inferred("tinyllama", Checkpoint::kFfnNorm, 1);
  EXPECT_EQ(rms.norm, NormKind::kRms);
  const Model& model = *stated("tinyllama").model;
  const NormWeights& found = rms.norms.at({Checkpoint::kFfnNorm, 1});
  for (size_t i = 0; i < found.weight.size(); ++i) {
    EXPECT_NEAR(found.weight[i], model.layers[1].norm(Checkpoint::kFfnNorm).weight[i], 1e-4) << i;
  }
  EXPECT_TRUE(found.bias.empty());
  const Network layer = inferred("gpt2", Checkpoint::kFfnNorm, 1);
  EXPECT_EQ(layer.norm, NormKind::kLayer);
  EXPECT_FALSE(layer.norms.at({Checkpoint::kFfnNorm, 1}).bias.empty());
}

// Heads and windows are many: breaks if each were tried on all rows.
TEST_F(InferTest, BoundsTheWorkOfWideAttention) {
  constexpr int kRows = 64;
  constexpr size_t kWidth = 3840;  // which 12 head sizes divide
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  // Of rows that no heads give, and of rows that all heads and windows give but for the first.
  const auto multiplications = [&](const std::function<float(const std::string&, int)>& value) {
    std::string text;
    for (int token = 0; token < kRows; ++token) {
      for (const std::string name : {"q", "k", "v", "attn"}) {
        std::vector<float> values(kWidth);
        for (float& x : values) x = value(name, token);
        text += line("layer_0_" + name, token, values);
      }
    }
    comparison_ = FaultyLogs::compare(nullptr, put("ref.jsonl", text), put("got.jsonl", text));
    TensorStore store(comparison_);
    Network network;
    const double made = infer(store, {Checkpoint::kAttn, 0}, network);
    EXPECT_EQ(network.n_heads, 0);
    return made;
  };
  const double whole = 2.0 * kRows * (kRows + 1) / 2 * kWidth;
  EXPECT_LE(multiplications([&](const std::string&, int) { return normal(random); }), 15 * whole);
  const double most = multiplications([](const std::string& name, int token) -> float {
    if (name == "attn") return token == 0 ? 2 : 1;
    return name == "v" ? 1 : 0;
  });
  EXPECT_GE(most, 2e9);
  EXPECT_LE(most, 2.1e9);
}

// Breaks if something were inferred that the log does not show.
TEST_F(InferTest, OtherOpsAddNothing) {
  const Network network = inferred("tinyllama", Checkpoint::kFfnOut, 0);
  EXPECT_FALSE(network.rope || network.activation || network.norm);
  EXPECT_EQ(network.n_heads, 0);
}

}  // namespace
}  // namespace assay::causes
