// Steps of a layer that an engine computes in another way, where the kernels here know nothing of
// the catalogue's own edits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

float silu(float x) {
  return x / (1 + std::exp(-x));
}

class OtherActivation : public WrongKernels {
 public:
  explicit OtherActivation(std::function<float(float gate, float up)> f) : f_(std::move(f)) {}

 protected:
  void activate(ActivateCall call) override {
    for (int64_t i = 0; i < call.count; ++i) call.out[i] = f_(call.x[i], call.up[i]);
  }

 private:
  std::function<float(float gate, float up)> f_;
};

// As of engines that compute in bfloat16: the softmax's weights are rounded to it.
class RoundedSoftmax : public WrongKernels {
 public:
  explicit RoundedSoftmax(bool before_division) : before_division_(before_division) {}

 protected:
  void attention(AttentionCall call) override {
    const AttentionShape& shape = call.shape;
    const int64_t group = shape.n_heads / shape.n_kv_heads;
    const auto rows = [&](const void* of, int64_t head, int64_t position) {
      return static_cast<const float*>(of) +
             (position * shape.n_kv_heads + head / group) * shape.head_dim;
    };
    for (int64_t row = 0; row < call.n_tokens * shape.n_heads; ++row) {
      const int64_t head = row % shape.n_heads;
      const int64_t n_keys = call.first_position + row / shape.n_heads + 1;
      const float* q = call.q + row * shape.head_dim;
      std::vector<float> weights;
      for (int64_t key = 0; key < n_keys; ++key) {
        double score = 0;
        for (int64_t d = 0; d < shape.head_dim; ++d) score += q[d] * rows(call.kv.k, head, key)[d];
        weights.push_back(static_cast<float>(score) * shape.scale);
      }
      const float max = *std::max_element(weights.begin(), weights.end());
      float sum = 0;
      for (float& weight : weights) sum += weight = std::exp(weight - max);
      for (float& weight : weights) {
        const float whole = before_division_ ? weight : weight / sum;
        weight = float_from_bf16(bf16_from_float(whole)) / (before_division_ ? sum : 1);
      }
      for (int64_t d = 0; d < shape.head_dim; ++d) {
        float value = 0;
        for (int64_t key = 0; key < n_keys; ++key) {
          value += weights[static_cast<size_t>(key)] * rows(call.kv.v, head, key)[d];
        }
        call.out[row * shape.head_dim + d] = value;
      }
    }
  }

 private:
  bool before_division_;
};

// The feed-forward reads what the attention reads.
class OneNorm : public WrongKernels {
 protected:
  void norm(NormCall call) override {
    const auto count = static_cast<size_t>(call.n_tokens * call.width);
    if (call.site.checkpoint == Checkpoint::kFfnNorm) {
      ASSERT_EQ(of_attention_.size(), count);
      std::copy_n(of_attention_.begin(), count, call.out);
      return;
    }
    right_->run(call);
    if (call.site.checkpoint == Checkpoint::kAttnNorm) {
      of_attention_.assign(call.out, call.out + count);
    }
  }

 private:
  std::vector<float> of_attention_;
};

class CausesOfSteps : public FaultyLogs {
 protected:
  void expect(const std::string& name, Kernels& wrong, const std::string& cause,
              const std::string& words, double tolerance = 1e-4) {
    const auto model = load(name);
    const auto right = make_reference_kernels();
    for (const char* set : {"ops", "layers", "logits"}) {
      const std::string ref = log(*model, *right, "ref", set);
      const std::string got = log(*model, wrong, "got", set);
      const Comparison comparison = compare(model.get(), ref, got, tolerance);
      ASSERT_THAT(comparison.causes, SizeIs(1)) << set << ": " << comparison.cause_hint;
      EXPECT_EQ(comparison.causes[0].name, cause) << comparison.causes[0].sentence;
      EXPECT_THAT(comparison.causes[0].sentence, HasSubstr(words)) << set;
      EXPECT_GT(comparison.causes[0].explained, 0.99) << set;
    }
  }
};

TEST_F(CausesOfSteps, NamesSwigluWithoutTheOneThatIsAddedToUp) {
  OtherActivation wrong([](float gate, float up) {
    gate = std::min(gate, 7.0F);
    return std::clamp(up, -7.0F, 7.0F) * gate / (1 + std::exp(-1.702F * gate));
  });
  expect("gpt-oss", wrong, "activation_kind", "does not add 1 to up");
}

TEST_F(CausesOfSteps, NamesSwigluWithTheSlopeOfSilu) {
  OtherActivation wrong([](float gate, float up) {
    return (std::clamp(up, -7.0F, 7.0F) + 1) * silu(std::min(gate, 7.0F));
  });
  expect("gpt-oss", wrong, "activation_kind", "its slope is 1 in place of 1.702");
}

TEST_F(CausesOfSteps, NamesAnActivationOfBothBranches) {
  OtherActivation wrong([](float gate, float up) { return silu(gate) * silu(up); });
  expect("tinyllama", wrong, "activation_kind", "activates up as well as gate");
}

TEST_F(CausesOfSteps, NamesWeightsOfASoftmaxInHalfPrecision) {
  RoundedSoftmax divided(false);
  expect("tinyllama", divided, "rounding", "rounds the weights of its softmax to bf16", 1e-6);
  RoundedSoftmax before(true);
  expect("tinyllama", before, "rounding",
         "rounds the weights of its softmax to bf16 before they are divided by their sum", 1e-6);
}

// Of a layer that is skipped, in words of the layer.
class NothingAdded : public WrongKernels {
 protected:
  void add(AddCall call) override {
    const bool skipped =
        call.site.layer == 1 && (call.site.checkpoint == Checkpoint::kOutput ||
                                 call.site.checkpoint == Checkpoint::kAttnResidual);
    if (skipped) {
      std::copy_n(call.a, call.count, call.out);
    } else {
      right_->run(call);
    }
  }
};

TEST_F(CausesOfSteps, SaysThatALayerIsLeftOut) {
  const auto model = load("tinyllama");
  const auto right = make_reference_kernels();
  NothingAdded wrong;
  for (const char* set : {"layers", "logits"}) {
    const std::string ref = log(*model, *right, "ref", set);
    const std::string got = log(*model, wrong, "got", set);
    const Comparison comparison = compare(model.get(), ref, got, 1e-4);
    ASSERT_THAT(comparison.causes, SizeIs(1)) << set << ": " << comparison.cause_hint;
    EXPECT_EQ(comparison.causes[0].name, "residual");
    EXPECT_THAT(comparison.causes[0].sentence,
                HasSubstr("layer_1 is left out: it gives what enters it: this explains"))
        << set;
  }
}

// Two norms that are both left out.
class NoPostNorms : public WrongKernels {
 protected:
  void norm(NormCall call) override {
    const bool is_post = call.site.checkpoint == Checkpoint::kPostAttnNorm ||
                         call.site.checkpoint == Checkpoint::kPostFfnNorm;
    if (is_post) {
      std::copy_n(call.x, call.n_tokens * call.width, call.out);
    } else {
      right_->run(call);
    }
  }
};

TEST_F(CausesOfSteps, NamesNormsOfBothBranchesThatAreLeftOut) {
  const auto model = load("glm4");
  const auto right = make_reference_kernels();
  NoPostNorms wrong;
  for (const char* set : {"layers", "logits"}) {
    const std::string ref = log(*model, *right, "ref", set);
    const std::string got = log(*model, wrong, "got", set);
    const Comparison comparison = compare(model.get(), ref, got, 1e-4);
    ASSERT_THAT(comparison.causes, SizeIs(1)) << set << ": " << comparison.cause_hint;
    EXPECT_EQ(comparison.causes[0].name, "norm_kind") << comparison.causes[0].sentence;
    EXPECT_THAT(comparison.causes[0].sentence, HasSubstr("post_ffn_norm, leaves the norm out"));
  }
}

TEST_F(CausesOfSteps, NamesOneNormForBothBranches) {
  OneNorm wrong;
  expect("tinyllama", wrong, "parallel_residual", "gives what the attention's norm gives");
  expect("gpt2", wrong, "parallel_residual", "gives what the attention's norm gives");
}

}  // namespace
}  // namespace assay
