// Slips of layers: norms with each other's weights, another layer's keys and values, experts'
// weights at the wrong end. The kernels here know nothing of the catalogue's own edits.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

class SlipsOfLayers : public FaultyLogs {
 protected:
  // The cause with its sentence, else the hint.
  std::string named(const Model& right, const Model& wrong, Kernels& kernels, const char* set) {
    const auto reference = make_reference_kernels();
    const std::string ref = log(right, *reference, "ref", set);
    const std::string got = log(wrong, kernels, "got", set);
    const Comparison comparison = compare(&right, ref, got, 1e-6);
    EXPECT_FALSE(comparison.pass);
    if (comparison.causes.empty()) return comparison.cause_hint;
    EXPECT_GT(comparison.causes[0].explained, 0.999);
    return comparison.causes[0].name + ": " + comparison.causes[0].sentence;
  }
  std::string named(const std::string& name, Kernels& kernels, const char* set) {
    const auto model = load(name);
    return named(*model, *model, kernels, set);
  }
};

// A loader that takes the two for each other, in all layers or in one.
TEST_F(SlipsOfLayers, NamesNormsWithEachOthersWeights) {
  const auto right = make_reference_kernels();
  for (const char* name : {"tinyllama", "gpt2"}) {
    for (const size_t first : {0, 1}) {
      const auto model = load(name);
      const auto wrong = load(name);
      for (size_t i = first; i < wrong->layers.size(); ++i) {
        Layer& layer = wrong->layers[i];
        std::swap(layer.norm(Checkpoint::kAttnNorm), layer.norm(Checkpoint::kFfnNorm));
      }
      EXPECT_THAT(named(*model, *wrong, *right, "layers"),
                  HasSubstr(fmt::format("norm_order: layer_{0}_attn_norm, like layer_{0}_ffn_norm, "
                                        "has the weights of the other:",
                                        first)))
          << name;
    }
  }
}

// One of the two alone is not an exchange.
TEST_F(SlipsOfLayers, OneNormWithTheOthersWeightsIsNoExchange) {
  const auto right = make_reference_kernels();
  const auto model = load("tinyllama");
  for (const auto& [at, of] : {std::pair(Checkpoint::kAttnNorm, Checkpoint::kFfnNorm),
                               std::pair(Checkpoint::kFfnNorm, Checkpoint::kAttnNorm)}) {
    const auto wrong = load("tinyllama");
    for (Layer& layer : wrong->layers) layer.norm(at) = layer.norm(of);
    EXPECT_THAT(named(*model, *wrong, *right, "layers"), Not(HasSubstr("of the other:")));
  }
}

// Attention over the keys, values or both of another layer.
class OtherCache : public WrongKernels {
 public:
  int by = -1;
  bool keys = true;
  bool values = true;

 protected:
  void attention(AttentionCall call) override {
    kv_[call.site.layer] = call.kv;
    const auto other = kv_.find(call.site.layer + by);
    if (other != kv_.end() && keys) call.kv.k = other->second.k;
    if (other != kv_.end() && values) call.kv.v = other->second.v;
    right_->run(call);
  }

 private:
  std::map<int, KvView> kv_;
};

TEST_F(SlipsOfLayers, NamesKeysAndValuesOfAnotherLayer) {
  for (const char* name : {"tinyllama", "gpt2"}) {
    for (const char* set : {"ops", "layers", "logits"}) {
      OtherCache before;
      EXPECT_THAT(named(name, before, set),
                  AnyOf(HasSubstr("kv_layer: layer_1_attn reads the keys and values of the layer "
                                  "before:"),
                        HasSubstr("kv_layer: every layer's attn reads the keys and")))
          << name << " " << set;
    }
  }
  for (const char* set : {"ops", "layers"}) {
    OtherCache two_before;
    two_before.by = -2;
    EXPECT_THAT(named("gemma2", two_before, set),
                HasSubstr("kv_layer: layer_2_attn reads the keys and values of 2 layers before:"));
  }
}

TEST_F(SlipsOfLayers, KeysOrValuesAloneOfAnotherLayerAreNotBoth) {
  for (const bool keys : {true, false}) {
    OtherCache wrong;
    wrong.keys = keys;
    wrong.values = !keys;
    for (const char* set : {"ops", "layers"}) {
      EXPECT_THAT(named("tinyllama", wrong, set), HasSubstr("no known mistake")) << set;
    }
  }
}

// The experts' weights on what goes into them, and on what the experts give if `out`.
class WeighedInput : public WrongKernels {
 public:
  bool up = true;  // besides the gate
  bool out = false;

  using WrongKernels::run;
  void run(const WeighCall& call) override {
    right_->run(call);
    weights_.assign(call.weights, call.weights + call.n_tokens * call.routing.n_used);
  }
  void run(const MixCall& call) override {
    MixCall mix = call;
    const std::vector<float> ones(static_cast<size_t>(call.n_tokens * call.n_used), 1.0F);
    if (!out) mix.weights = ones.data();
    right_->run(mix);
  }

 protected:
  // What the products give, in the order of the tokens' experts: linear, and without a bias.
  void get_rows(GetRowsCall call) override {
    right_->run(call);
    const Checkpoint at = call.site.checkpoint;
    const bool is_input = at == Checkpoint::kFfnGate || (at == Checkpoint::kFfnUp && up);
    if (!is_input || !call.site.finishes || call.n_ids != std::ssize(weights_)) return;
    for (int64_t i = 0; i < call.n_ids * call.table.columns; ++i) {
      call.out[i] *= weights_[static_cast<size_t>(i / call.table.columns)];
    }
  }

 private:
  std::vector<float> weights_;
};

TEST_F(SlipsOfLayers, NamesExpertsWeightsOnTheirInput) {
  const std::string words = "has the experts' weights on the experts' input, not on their output:";
  for (const char* name : {"mixtral", "deepseek2"}) {
    WeighedInput wrong;
    const auto first = std::string(name) == "deepseek2" ? "layer_1" : "layer_0";
    EXPECT_THAT(named(name, wrong, "ops"),
                HasSubstr(std::string("router_weights: ") + first + "_ffn_gate " + words));
    EXPECT_THAT(named(name, wrong, "layers"), HasSubstr(words)) << name;
    EXPECT_THAT(named(name, wrong, "logits"), HasSubstr(words)) << name;
  }
}

// Weights at both ends, or on the gate alone, are another mistake.
TEST_F(SlipsOfLayers, ExpertsWeightsElsewhereAreNotThoseOfTheirInput) {
  WeighedInput both;
  both.out = true;
  WeighedInput gate;
  gate.up = false;
  for (WeighedInput* wrong : {&both, &gate}) {
    EXPECT_THAT(named("mixtral", *wrong, "layers"), HasSubstr("no known mistake"));
  }
}

}  // namespace
}  // namespace assay
