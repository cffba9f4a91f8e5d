#include "engine/layer_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/fused_layer.h"

namespace assay {
namespace {

using testing::ElementsAre;

constexpr const char* kFused[] = {"llama", "qwen2", "phi3", "granite", "gpt2"};
constexpr const char* kByOps[] = {"qwen3", "olmo2"};  // no fused kernel computes their norms

ModelConfig config_of(const char* architecture) {
  ModelConfig config;
  config.architecture = find_architecture(architecture);
  config.embedding_length = 64;
  config.feed_forward_length = 160;
  config.n_heads = 8;
  config.n_kv_heads = 2;
  config.head_dim = 8;
  return config;
}

LayerConfig layer_of(std::span<const OpSpec> ops) {
  LayerConfig layer;
  layer.ops.assign(ops.begin(), ops.end());
  return layer;
}

// By the architectures' names; an architecture may have several.
std::vector<std::pair<std::string, std::span<const OpSpec>>> all_layers() {
  std::vector<std::pair<std::string, std::span<const OpSpec>>> layers;
  std::istringstream names(architecture_names());
  for (std::string name; std::getline(names >> std::ws, name, ',');) {
    const Architecture& architecture = *find_architecture(name);
    layers.emplace_back(name, architecture.layer);
    for (const LayerVariant& variant : architecture.variants) {
      layers.emplace_back(name, variant.ops);
    }
  }
  return layers;
}

// Breaks if a result were overwritten while an op has yet to read it.
TEST(LayerPlan, KeepsEachResultUntilItsLastReader) {
  for (const auto& [name, ops] : all_layers()) {
    const ModelConfig config = config_of(name.c_str());
    const LayerConfig layer = layer_of(ops);
    const LayerPlan plan(layer, config);
    std::map<size_t, Checkpoint> holds = {{0, Checkpoint::kOutput}};
    for (const std::span<const OpSpec> step : plan.steps()) {
      for (const OpSpec& op : step) {
        for (const Checkpoint input : op.inputs()) {
          if (find_spec(ops, input) == nullptr) continue;  // another layer's, or in front of all
          EXPECT_EQ(holds.at(plan.buffer(input)), input) << name << " " << checkpoint_op(op.out);
        }
      }
      for (const OpSpec& op : step) {
        EXPECT_EQ(plan.buffers()[plan.buffer(op.out)], config.width(op.width)) << name;
        holds[plan.buffer(op.out)] = op.out;
      }
    }
    EXPECT_EQ(plan.buffer(Checkpoint::kOutput), 0U) << name;
    EXPECT_EQ(holds.at(0), Checkpoint::kOutput) << name;
  }
}

TEST(LayerPlan, ProductsOfOneInputAreOneStep) {
  const ModelConfig config = config_of("llama");
  const LayerConfig layer = layer_of(config.architecture->layer);
  const LayerPlan plan(layer, config);
  std::vector<size_t> sizes;
  for (const std::span<const OpSpec> step : plan.steps()) sizes.push_back(step.size());
  EXPECT_THAT(sizes, ElementsAre(1, 3, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1));
  EXPECT_EQ(plan.buffer(Checkpoint::kQRope), plan.buffer(Checkpoint::kQ)) << "turned in place";
  EXPECT_NE(plan.buffer(Checkpoint::kAttnNorm), 0U) << "x is yet to be added";
}

// Breaks if a prompt left out keys or values in the last layer, or computed there what nothing
// reads.
TEST(LayerPlan, KnowsWhatLaterPositionsRead) {
  using C = Checkpoint;
  const auto read_later = [](const char* name) {
    const ModelConfig config = config_of(name);
    const LayerConfig layer = layer_of(config.architecture->layer);
    const LayerPlan plan(layer, config);
    std::vector<C> found;
    for (const OpSpec& op : config.architecture->layer) {
      if (plan.is_read_later(op.out)) found.push_back(op.out);
    }
    return found;
  };
  EXPECT_THAT(read_later("llama"), ElementsAre(C::kAttnNorm, C::kK, C::kV, C::kKRope));
  EXPECT_THAT(read_later("gpt2"), ElementsAre(C::kAttnNorm, C::kK, C::kV));
  EXPECT_THAT(read_later("qwen3"), ElementsAre(C::kAttnNorm, C::kK, C::kV, C::kKNorm, C::kKRope));
}

TEST(FuseLayer, CoversEveryOpInOrder) {
  for (const char* name : kFused) {
    const std::span<const OpSpec> layer = find_architecture(name)->layer;
    const auto groups = fuse_layer(layer);
    ASSERT_TRUE(groups) << name;
    std::vector<FusedKind> kinds;
    size_t at = 0;
    for (const FusedGroup& group : *groups) {
      kinds.push_back(group.kind);
      EXPECT_EQ(group.ops.data(), layer.data() + at) << name;
      at += group.ops.size();
    }
    EXPECT_EQ(at, layer.size()) << name;
    EXPECT_THAT(kinds, ElementsAre(FusedKind::kQkv, FusedKind::kAttention, FusedKind::kResidual,
                                   FusedKind::kActivation, FusedKind::kResidual));
  }
}

// Breaks if a network with an op that no fused kernel computes were decoded without it.
TEST(FuseLayer, RejectsAnOpOutsideAnyGroup) {
  for (const char* name : kByOps) EXPECT_FALSE(fuse_layer(find_architecture(name)->layer)) << name;
  std::vector<OpSpec> layer(common_layer().begin(), common_layer().end());
  for (size_t i = 0; i < layer.size(); ++i) {
    std::vector<OpSpec> more = layer;
    more.insert(more.begin() + static_cast<std::ptrdiff_t>(i), OpSpec{.out = Checkpoint::kLogits});
    EXPECT_FALSE(fuse_layer(more)) << i;
  }
  for (OpSpec& op : layer) {
    const OpSpec right = op;
    op.in.front() = op.in.front() == Checkpoint::kV ? Checkpoint::kQ : Checkpoint::kV;
    EXPECT_FALSE(fuse_layer(layer)) << checkpoint_op(op.out) << " reads something else";
    op = right;
  }
  layer.pop_back();
  EXPECT_FALSE(fuse_layer(layer));
  EXPECT_TRUE(fuse_layer(without_op(common_layer(), Checkpoint::kFfnGate)));
}

}  // namespace
}  // namespace assay
