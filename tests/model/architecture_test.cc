#include "model/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace assay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<const Architecture*> all_architectures() {
  std::vector<const Architecture*> all;
  std::istringstream names(architecture_names());
  for (std::string name; std::getline(names >> std::ws, name, ',');) {
    all.push_back(find_architecture(name));
  }
  return all;
}

// Each architecture's layer and its variants.
std::vector<std::pair<const Architecture*, std::span<const OpSpec>>> all_layers() {
  std::vector<std::pair<const Architecture*, std::span<const OpSpec>>> layers;
  for (const Architecture* architecture : all_architectures()) {
    layers.emplace_back(architecture, architecture->layer);
    for (const LayerVariant& variant : architecture->variants) {
      layers.emplace_back(architecture, variant.ops);
    }
  }
  return layers;
}

std::vector<std::string> names_of(const std::vector<OpPlace>& places) {
  std::vector<std::string> names;
  for (const OpPlace& place : places) names.push_back(place.name());
  return names;
}

// Breaks if a declaration read what comes later, computed a tensor twice, or stood in another order
// than its checkpoints.
TEST(Architectures, ComputeEachTensorOnceFromThoseBefore) {
  ASSERT_GE(all_architectures().size(), 4U);
  for (const auto& [architecture, layer] : all_layers()) {
    // Of the layer before, or before all layers.
    std::set<Checkpoint> known = {Checkpoint::kOutput, Checkpoint::kEmbedding};
    std::set<Checkpoint> made;
    Checkpoint before = Checkpoint::kEmbedding;
    for (const OpSpec& op : layer) {
      const std::string where = std::string(architecture->name) + " " + OpPlace{op.out, 0}.name();
      for (const Checkpoint input : op.inputs()) {
        const bool of_earlier_layer = op.kind == OpKind::kAttention &&
                                      find_spec(layer, Checkpoint::kK) == nullptr &&
                                      (input == Checkpoint::kKRope || input == Checkpoint::kVNorm);
        EXPECT_TRUE(known.contains(input) || input == Checkpoint::kIndexed || of_earlier_layer)
            << where;
      }
      EXPECT_TRUE(made.insert(op.out).second) << where;
      EXPECT_LT(before, op.out) << where;
      const bool of_experts = op.kind == OpKind::kExpertLinear || op.kind == OpKind::kMix ||
                              (op.kind == OpKind::kAdd && op.out == Checkpoint::kFfnOut);
      const bool of_latent = op.kind == OpKind::kHeads;
      const bool of_streams = op.kind == OpKind::kStreams && op.out == Checkpoint::kOutput;
      EXPECT_TRUE(of_experts || of_latent || of_streams || kind_of(op.out) == op.kind) << where;
      const bool needs_weights = op.kind == OpKind::kLinear || op.kind == OpKind::kNorm ||
                                 op.kind == OpKind::kExpertLinear || op.kind == OpKind::kConv ||
                                 op.kind == OpKind::kStreamLinear || has_state(op.kind);
      const bool is_plain_norm = op.kind == OpKind::kNorm && architecture->plain_output_norm;
      const bool may_have = is_plain_norm || op.kind == OpKind::kAttention ||
                            op.kind == OpKind::kSelect || op.kind == OpKind::kWeigh ||
                            op.kind == OpKind::kEmbedding || op.out == Checkpoint::kVNorm ||
                            op.out == Checkpoint::kQRopeNorm || op.out == Checkpoint::kKRopeNorm ||
                            op.out == Checkpoint::kOutput || is_ssm_norm(op.out) ||
                            op.out == Checkpoint::kCorrectedFirst;
      EXPECT_TRUE(may_have || needs_weights == !op.tensor.empty()) << where;
      known.insert(op.out);
      before = op.out;
    }
    EXPECT_EQ(layer.back().out, Checkpoint::kOutput) << architecture->name;
    EXPECT_TRUE(made.contains(Checkpoint::kOutput)) << architecture->name;
  }
}

TEST(Architectures, RotationFollowsFromThePositions) {
  const std::set<std::string_view> unrotated = {"nemotron_h", "nemotron_h_moe", "mamba2", "mamba",
                                                "jamba"};
  for (const Architecture* architecture : all_architectures()) {
    const bool rotary =
        architecture->position == PositionKind::kRotary && !unrotated.contains(architecture->name);
    EXPECT_EQ(has_checkpoint(*architecture, Checkpoint::kQRope), rotary) << architecture->name;
    EXPECT_EQ(has_checkpoint(*architecture, Checkpoint::kKRope), rotary) << architecture->name;
  }
}

TEST(Inputs, AreThoseOfTheLayerAndOfTheOneBefore) {
  const auto inputs = [](const char* name, Checkpoint checkpoint, int layer) {
    return names_of(inputs_of(find_architecture(name)->layer, 3, {checkpoint, layer}));
  };
  EXPECT_THAT(inputs("llama", Checkpoint::kAttnNorm, 0), ElementsAre("embedding"));
  EXPECT_THAT(inputs("llama", Checkpoint::kAttnNorm, 2), ElementsAre("layer_1_output"));
  EXPECT_THAT(inputs("llama", Checkpoint::kAttn, 1),
              ElementsAre("layer_1_q_rope", "layer_1_k_rope", "layer_1_v"));
  EXPECT_THAT(inputs("gpt2", Checkpoint::kAttn, 1),
              ElementsAre("layer_1_q", "layer_1_k", "layer_1_v"));
  EXPECT_THAT(inputs("llama", Checkpoint::kFfnAct, 1),
              ElementsAre("layer_1_ffn_up", "layer_1_ffn_gate"));
  EXPECT_THAT(inputs("gpt2", Checkpoint::kFfnAct, 1), ElementsAre("layer_1_ffn_up"));
  EXPECT_THAT(inputs("llama", Checkpoint::kAttnResidual, 0),
              ElementsAre("embedding", "layer_0_attn_out"));
  EXPECT_THAT(inputs("llama", Checkpoint::kFinalNorm, -1), ElementsAre("layer_2_output"));
  EXPECT_THAT(inputs("llama", Checkpoint::kLogits, -1), ElementsAre("final_norm"));
  EXPECT_THAT(inputs("llama", Checkpoint::kEmbedding, -1), IsEmpty());
  EXPECT_THAT(inputs("gpt2", Checkpoint::kQRope, 0), IsEmpty()) << "it has none";
}

// Breaks if a variant were taken where it does not apply, or an op kept whose tensor is missing.
TEST(LayerOps, FollowWhatTheFileHas) {
  using Names = std::set<std::string, std::less<>>;
  const auto ops = [](const char* name, const Names& tensors, const Names& keys) {
    return layer_ops(
        *find_architecture(name), [&](std::string_view stem) { return tensors.contains(stem); },
        [&](std::string_view key) { return keys.contains(key); });
  };
  const auto reads = [](const std::vector<OpSpec>& layer, Checkpoint checkpoint) {
    const OpSpec* op = find_spec(layer, checkpoint);
    return op == nullptr ? std::nullopt : std::optional(op->in.front());
  };
  using C = Checkpoint;
  EXPECT_EQ(reads(ops("gptneox", {}, {}), C::kFfnNorm), C::kAttnResidual);
  EXPECT_EQ(reads(ops("gptneox", {}, {"use_parallel_residual"}), C::kFfnNorm), C::kOutput);
  EXPECT_EQ(reads(ops("stablelm", {}, {}), C::kFfnUp), C::kAttnNorm);
  EXPECT_EQ(reads(ops("stablelm", {"ffn_norm"}, {}), C::kFfnUp), C::kFfnNorm);
  EXPECT_EQ(reads(ops("stablelm", {}, {}), C::kQRope), C::kQ);
  EXPECT_EQ(reads(ops("stablelm", {"attn_q_norm"}, {}), C::kQRope), C::kQNorm);
  EXPECT_EQ(reads(ops("stablelm", {"attn_q_norm"}, {}), C::kKRope), C::kK);
  EXPECT_EQ(reads(ops("falcon", {"attn_norm_2"}, {}), C::kFfnUp), C::kFfnNorm);
  EXPECT_EQ(reads(without_rotation(ops("exaone4", {}, {})), C::kAttn), C::kQNorm);
  EXPECT_EQ(reads(ops("mamba", {}, {}), C::kSsmStep), C::kSsmDtNorm);
  EXPECT_EQ(reads(without_plain_ssm_norms(ops("mamba", {}, {})), C::kSsmStep), C::kSsmDtIn);
  EXPECT_EQ(reads(without_plain_ssm_norms(ops("jamba", {}, {})), C::kSsmStep), C::kSsmDtNorm);
  EXPECT_EQ(reads(ops("jamba", {"attn_q"}, {}), C::kAttn), C::kQ);
  EXPECT_EQ(reads(ops("gemma3n", {"attn_k"}, {}), C::kFfnAct), C::kFfnUp);
  EXPECT_EQ(find_spec(ops("gemma3n", {"attn_k"}, {}), C::kFfnAct)->in[1], C::kFfnCutoff);
  EXPECT_EQ(find_spec(without_cutoff(ops("gemma3n", {"attn_k"}, {})), C::kFfnAct)->in[1],
            C::kFfnGate);
}

// Breaks if the layers that make streams and merge them were others than the first and the last.
TEST(LayerOps, FollowTheirPlace) {
  using C = Checkpoint;
  const auto outs = [](LayerPlace place, bool own_keys) {
    std::set<C> made;
    for (const OpSpec& op : layer_ops(
             *find_architecture("gemma3n"),
             [&](std::string_view stem) { return stem == "attn_k" && own_keys; },
             [](std::string_view) { return false; }, place)) {
      made.insert(op.out);
    }
    return made;
  };
  for (const LayerPlace place :
       {LayerPlace::kAny, LayerPlace::kFirst, LayerPlace::kLast, LayerPlace::kOnly}) {
    const bool is_first = place == LayerPlace::kFirst || place == LayerPlace::kOnly;
    const bool is_last = place == LayerPlace::kLast || place == LayerPlace::kOnly;
    EXPECT_EQ(outs(place, true).contains(C::kStreams), is_first);
    EXPECT_EQ(outs(place, true).contains(C::kUnembedded), is_last);
    EXPECT_TRUE(outs(place, true).contains(C::kK));
  }
  EXPECT_FALSE(outs(LayerPlace::kLast, false).contains(C::kK));
  EXPECT_TRUE(outs(LayerPlace::kLast, false).contains(C::kUnembedded));
  EXPECT_EQ(place_of(0, 1), LayerPlace::kOnly);
  EXPECT_EQ(place_of(0, 2), LayerPlace::kFirst);
  EXPECT_EQ(place_of(1, 2), LayerPlace::kLast);
  EXPECT_EQ(place_of(1, 3), LayerPlace::kAny);
}

// Breaks if what reads an op that is left out read nothing, or a product's input.
TEST(WithoutOp, ReadersTakeItsInputOrDoWithoutIt) {
  const std::vector<OpSpec> plain =
      without_op(without_op(common_layer(), Checkpoint::kQRope), Checkpoint::kFfnGate);
  EXPECT_EQ(plain.size(), common_layer().size() - 2);
  const auto inputs = [&](Checkpoint out) { return names_of(inputs_of(plain, 1, {out, 0})); };
  EXPECT_THAT(inputs(Checkpoint::kAttn), ElementsAre("layer_0_q", "layer_0_k_rope", "layer_0_v"));
  EXPECT_THAT(inputs(Checkpoint::kFfnAct), ElementsAre("layer_0_ffn_up"));
  EXPECT_EQ(without_op(plain, Checkpoint::kQRope).size(), plain.size());
}

TEST(CheckpointNames, AreReadAsTheyAreWritten) {
  for (int i = 0; i < kCheckpoints; ++i) {
    const auto checkpoint = static_cast<Checkpoint>(i);
    const bool in_layer = is_in_layer(checkpoint);
    EXPECT_EQ(find_checkpoint(checkpoint_op(checkpoint), in_layer), checkpoint);
    EXPECT_EQ(find_checkpoint(checkpoint_op(checkpoint), !in_layer), std::nullopt);
  }
  EXPECT_EQ(checkpoint_name(Checkpoint::kQRope, 7), "layer_7_q_rope");
  EXPECT_EQ(checkpoint_name(Checkpoint::kLogits, 7), "logits");
  EXPECT_EQ(find_checkpoint("", true), std::nullopt);
}

// Breaks if equal tokens were accused of a buffer that was not written again, or such a buffer
// excused.
TEST(DependsOnTokensAlone, IsWhatComesBeforePositionsAndAttention) {
  const auto depends = [](const char* name, Checkpoint checkpoint) {
    return depends_on_tokens_alone(*find_architecture(name), checkpoint);
  };
  using C = Checkpoint;
  for (const C of_token : {C::kEmbedding, C::kAttnNorm, C::kQ, C::kV, C::kQNorm, C::kKNorm}) {
    EXPECT_TRUE(depends("qwen3", of_token)) << checkpoint_name(of_token, 0);
  }
  for (const C other : {C::kQRope, C::kKRope, C::kAttn, C::kAttnOut, C::kAttnResidual, C::kFfnNorm,
                        C::kFfnUp, C::kOutput, C::kFinalNorm, C::kLogits, C::kExperts}) {
    EXPECT_FALSE(depends("qwen3", other)) << checkpoint_name(other, 0);
  }
  EXPECT_FALSE(depends("gpt2", C::kEmbedding)) << "a position is added to it";
  EXPECT_FALSE(depends("gpt2", C::kQ));
  EXPECT_TRUE(depends("falcon", C::kFfnOut)) << "its feed-forward stands beside the attention";
  EXPECT_FALSE(depends("falcon", C::kOutput));
  EXPECT_TRUE(depends("deepseek2", C::kKvB));
  EXPECT_TRUE(depends("lfm2", C::kConvX));
  EXPECT_TRUE(depends("lfm2", C::kConv));
  EXPECT_TRUE(depends("qwen35", C::kLinearQkv));
  EXPECT_TRUE(depends("qwen35", C::kLinearConv));
  EXPECT_TRUE(depends("qwen35", C::kDelta));
  EXPECT_TRUE(depends("granitehybrid", C::kSsm));
  const Architecture& gemma4 = *find_architecture("gemma4");
  for (const C of_token : {C::kPleEmbedding, C::kPleProj, C::kPleProjNorm, C::kPleInput}) {
    EXPECT_TRUE(depends_on_tokens_alone(gemma4, of_token, false)) << checkpoint_name(of_token, 1);
  }
  for (const C other : {C::kAttnNorm, C::kQ, C::kPleGate, C::kPleAct, C::kOutput}) {
    EXPECT_FALSE(depends_on_tokens_alone(gemma4, other, false)) << checkpoint_name(other, 1);
  }
  EXPECT_FALSE(depends_on_tokens_alone(*find_architecture("mamba2"), C::kOutput, false));
}

TEST(ModelWidth, IsThatOfTheResidualStreamAndWhatIsAddedToIt) {
  for (const Checkpoint has : {Checkpoint::kEmbedding, Checkpoint::kAttnNorm, Checkpoint::kAttnOut,
                               Checkpoint::kOutput, Checkpoint::kFinalNorm}) {
    EXPECT_TRUE(has_model_width(has)) << checkpoint_name(has, 0);
  }
  for (const Checkpoint has_not :
       {Checkpoint::kQ, Checkpoint::kAttn, Checkpoint::kFfnUp, Checkpoint::kLogits}) {
    EXPECT_FALSE(has_model_width(has_not)) << checkpoint_name(has_not, 0);
  }
}

}  // namespace
}  // namespace assay
