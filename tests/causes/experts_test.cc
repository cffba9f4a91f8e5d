// What no golden has yet: a scale of the experts' weights, and an expert that all tokens use.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/causes/faulty_logs.h"
#include "tests/support/tiny_model.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::Field;

class CausesOfExperts : public FaultyLogs {};

TEST_F(CausesOfExperts, NamesTheMissingScaleOfTheRouter) {
  const auto right = load("mixtral");
  right->config().routing.scale = 2.5F;
  const auto kernels = make_reference_kernels();
  const std::string ref = log(*right, *kernels, "ref", "ops");
  const std::string got = log(*load("mixtral"), *kernels, "got", "ops");
  const Comparison comparison = compare(right.get(), ref, got);
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "layer_0_expert_weights");
  EXPECT_THAT(comparison.causes, ElementsAre(Field(&Cause::name, "router_scale")));
}

class NoSharedExpert : public WrongKernels {
 protected:
  void add(AddCall call) override {
    if (call.site.checkpoint == Checkpoint::kFfnOut) {
      std::copy_n(call.a, call.count, call.out);
    } else {
      right_->run(call);
    }
  }
};

TEST_F(CausesOfExperts, NamesTheMissingSharedExpert) {
  testing_support::TinyModel tiny;
  for (const char* name : {"gate", "up", "down"}) {
    tiny.tensors.erase(std::string("blk.0.ffn_") + name + ".weight");
  }
  tiny.tensors["blk.0.ffn_gate_inp.weight"] = {{8, 3}};
  tiny.tensors["blk.0.ffn_gate_exps.weight"] = {{8, 12, 3}};
  tiny.tensors["blk.0.ffn_up_exps.weight"] = {{8, 12, 3}};
  tiny.tensors["blk.0.ffn_down_exps.weight"] = {{12, 8, 3}};
  tiny.tensors["blk.0.ffn_gate_shexp.weight"] = {{8, 10}};
  tiny.tensors["blk.0.ffn_up_shexp.weight"] = {{8, 10}};
  tiny.tensors["blk.0.ffn_down_shexp.weight"] = {{10, 8}};
  for (const char* name : {"token_embd.weight", "output.weight"}) {
    tiny.tensors[name] = {{8, 256}};
  }
  tiny.ints["llama.context_length"] = 64;
  tiny.ints["llama.expert_count"] = 3;
  tiny.ints["llama.expert_used_count"] = 2;
  tiny.ints["llama.expert_shared_feed_forward_length"] = 10;
  tiny.become("granitemoe");
  const Model model(std::make_shared<Gguf>(tiny.write(folder_ + "/tiny.gguf")));
  const auto kernels = make_reference_kernels();
  NoSharedExpert faulty;
  const std::string ref = log(model, *kernels, "ref", "ops");
  const std::string got = log(model, faulty, "got", "ops");
  const Comparison comparison = compare(&model, ref, got, 1e-5);
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "layer_0_ffn_out");
  EXPECT_THAT(comparison.causes, ElementsAre(Field(&Cause::name, "shared_expert")));
}

// Each expert counts for as much as the others.
class UniformExperts : public WrongKernels {
 public:
  using WrongKernels::run;
  void run(const MixCall& call) override {
    MixCall uniform = call;
    const std::vector<float> weights(static_cast<size_t>(call.n_tokens * call.n_used),
                                     1.0F / static_cast<float>(call.n_used));
    uniform.weights = weights.data();
    right_->run(uniform);
  }
};

// Breaks if a factor of the router were named that a thousandth of it would explain as well.
TEST_F(CausesOfExperts, UniformWeightsAreNoScaleOfTheRouter) {
  const auto right = load("mixtral");
  const auto kernels = make_reference_kernels();
  UniformExperts uniform;
  const std::string ref = log(*right, *kernels, "ref", "layers");
  const std::string got = log(*right, uniform, "got", "layers");
  const Comparison comparison = compare(right.get(), ref, got);
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "layer_0_output");
  for (const Cause& cause : comparison.causes) EXPECT_NE(cause.name, "scale") << cause.sentence;
}

}  // namespace
}  // namespace assay
