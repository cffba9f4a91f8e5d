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

// The model with one more expert of a token than its file says, as of another config.json.
TEST_F(CausesOfExperts, NamesAnotherNumberByTheIdsAlone) {
  const auto right = load("deepseek3");
  const auto wrong = load("deepseek3");
  ++wrong->config().routing.n_used;
  const auto kernels = make_reference_kernels();
  const std::string ref = log(*right, *kernels, "ref", "ops");
  const std::string got = log(*wrong, *kernels, "got", "ops");
  for (const Model* model : {right.get(), static_cast<Model*>(nullptr)}) {
    const Comparison more = compare(model, ref, got, 1e-5);
    EXPECT_EQ(more.first_divergence->checkpoint.name, "layer_1_experts");
    ASSERT_THAT(more.causes, ElementsAre(Field(&Cause::name, "experts_used"))) << more.cause_hint;
    EXPECT_THAT(more.causes[0].sentence,
                testing::HasSubstr("has 3 experts for a token in place of 2, and the reference's "
                                   "are among them at each of 12 tokens"));
  }
  const Comparison fewer = compare(wrong.get(), got, ref, 1e-5);
  EXPECT_THAT(fewer.causes[0].sentence,
              testing::HasSubstr("has 2 experts for a token in place of 3, and they are among the "
                                 "reference's"));
}

// The further expert may be the best by its score, and then it comes first.
TEST_F(CausesOfExperts, NamesAFurtherExpertThatIsNotTheLast) {
  const auto right = load("deepseek3");
  const auto wrong = load("deepseek3");
  ++wrong->config().routing.n_used;
  const auto kernels = make_reference_kernels();
  const std::string ref = log(*right, *kernels, "ref", "layers");
  const std::string got = log(*wrong, *kernels, "got", "layers");
  const Comparison comparison = compare(right.get(), ref, got, 1e-5);
  EXPECT_THAT(comparison.causes, ElementsAre(Field(&Cause::name, "experts_used")))
      << comparison.cause_hint;
}

// The two weights of a token change places.
class ReversedWeights : public WrongKernels {
 public:
  using WrongKernels::run;
  void run(const WeighCall& call) override {
    right_->run(call);
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      float* own = call.weights + t * call.routing.n_used;
      std::reverse(own, own + call.routing.n_used);
    }
  }
};

// Breaks if the weights of a token's two experts counted as rows that are shifted by one.
TEST_F(CausesOfExperts, ReversedWeightsAreNoShiftOfRows) {
  for (const char* name : {"mixtral", "qwen3moe"}) {
    const auto model = load(name);
    const auto kernels = make_reference_kernels();
    ReversedWeights reversed;
    const std::string ref = log(*model, *kernels, "ref", "ops");
    const std::string got = log(*model, reversed, "got", "ops");
    for (const Model* given : {model.get(), static_cast<Model*>(nullptr)}) {
      const Comparison comparison = compare(given, ref, got, 1e-5);
      EXPECT_EQ(comparison.first_divergence->checkpoint.name, "layer_0_expert_weights");
      EXPECT_THAT(comparison.causes, ElementsAre(Field(&Cause::name, "expert_order"))) << name;
    }
  }
}

// Each expert takes the tokens that weigh it most first, then those that have it second, until it
// has as many as there would be for each if all had the same.
class CrowdedExperts : public WrongKernels {
 public:
  using WrongKernels::run;
  void run(const WeighCall& call) override {
    right_->run(call);
    const Routing& routing = call.routing;
    const int64_t even = call.n_tokens * routing.n_used / routing.n_experts;
    for (int32_t expert = 0; expert < routing.n_experts; ++expert) {
      std::vector<int64_t> queue;
      for (int64_t choice = 0; choice < routing.n_used; ++choice) {
        for (int64_t t = 0; t < call.n_tokens; ++t) {
          const int64_t slot = t * routing.n_used + choice;
          if (call.ids[slot] == expert) queue.push_back(slot);
        }
      }
      const int64_t room = std::max(routing.n_used, even);
      for (size_t i = static_cast<size_t>(room); i < queue.size(); ++i) {
        call.weights[queue[i]] = 0.0F;
        ++dropped;
      }
    }
  }

  int dropped = 0;
};

// mistral.rs computes Hunyuan so. Three tokens are decoded one by one, of which none is dropped.
TEST_F(CausesOfExperts, NamesWhatAnExpertHasNoRoomFor) {
  for (const char* checkpoints : {"ops", "layers", "logits"}) {
    const auto model = load("hunyuan-moe");
    const auto kernels = make_reference_kernels();
    CrowdedExperts crowded;
    n_named_ = 9;
    const std::string ref = log(*model, *kernels, "ref", checkpoints, kAllValues, KvType::kF32, 9);
    const std::string got = log(*model, crowded, "got", checkpoints, kAllValues, KvType::kF32, 9);
    EXPECT_GT(crowded.dropped, 0);
    const Comparison comparison = compare(model.get(), ref, got, 1e-5);
    ASSERT_THAT(comparison.causes, ElementsAre(Field(&Cause::name, "experts_used")))
        << checkpoints << ": " << comparison.cause_hint;
    EXPECT_THAT(comparison.causes[0].sentence,
                testing::HasSubstr("drops tokens beyond an expert's capacity, its even share"));
  }
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
