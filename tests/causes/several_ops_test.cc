// Mistakes that an engine makes in several ops of a layer at once, seen from the logits alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/causes/logits_logs.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

class SeveralOps : public LogitsLogs {
 protected:
  Comparison of_logits(const std::string& name, Kernels& faulty) {
    const auto model = load(name);
    const auto right = make_reference_kernels();
    const std::string ref = log(logits_of(*model, *right), "ref", LogitsForm::kAll);
    const std::string got = log(logits_of(*model, faulty), "got", LogitsForm::kAll);
    return compare(model.get(), ref, got);
  }
};

// Each of four ranks adds the bias to its part of a product that ranks sum.
class BiasOfEachRank : public WrongKernels {
 protected:
  void matmul(const MatmulCall& call) override {
    const Checkpoint at = call.site.checkpoint;
    const bool is_summed = at == Checkpoint::kAttnOut || at == Checkpoint::kFfnOut;
    if (!is_summed || call.bias == nullptr) return right_->run(call);
    std::vector<float> bias(call.bias, call.bias + call.w.rows);
    for (float& each : bias) each *= 4;
    MatmulCall wrong = call;
    wrong.bias = bias.data();
    right_->run(wrong);
  }
};

// What would break: only one of the two kinds of products was tried at a time, and neither fits.
TEST_F(SeveralOps, NamesTheBiasThatEachRankAddsToAllThatTheySum) {
  BiasOfEachRank faulty;
  const Comparison comparison = of_logits("starcoder2", faulty);
  ASSERT_THAT(comparison.causes, ElementsAre(Field(&Cause::name, "bias_missing")))
      << comparison.cause_hint;
  EXPECT_THAT(comparison.causes[0].sentence, HasSubstr("adds the bias 4 times"));
}

// Normalises q and k before the rotation, and what has been rotated no more.
class NormsBeforeRotation : public WrongKernels {
 public:
  explicit NormsBeforeRotation(const Model& model) : model_(model) {}

 protected:
  void norm(NormCall call) override {
    const Checkpoint at = call.site.checkpoint;
    if (at != Checkpoint::kQRopeNorm && at != Checkpoint::kKRopeNorm) return right_->run(call);
    std::copy_n(call.x, call.n_tokens * call.width, call.out);
  }
  void rope(RopeCall call) override {
    const bool is_q = call.site.checkpoint == Checkpoint::kQRope;
    const auto& weights = model_.layers[static_cast<size_t>(call.site.layer)].norm(
        is_q ? Checkpoint::kQRopeNorm : Checkpoint::kKRopeNorm);
    std::vector<float> normed(static_cast<size_t>(call.n_tokens * call.n_heads * call.head_dim));
    right_->run(NormCall{.x = call.x,
                         .weight = weights.weight,
                         .eps = model_.config().norm_eps,
                         .n_tokens = call.n_tokens * call.n_heads,
                         .width = call.head_dim,
                         .out = normed.data()});
    call.x = normed.data();
    right_->run(call);
  }

 private:
  const Model& model_;
};

// What would break: the norm behind the rotation was thought to be there as well.
TEST_F(SeveralOps, NamesNormsBeforeTheRotationThatAreLeftOutBehindIt) {
  const auto model = load("hunyuan-dense");
  NormsBeforeRotation faulty(*model);
  const Comparison comparison = of_logits("hunyuan-dense", faulty);
  ASSERT_THAT(comparison.causes, ElementsAre(Field(&Cause::name, "norm_order")))
      << comparison.cause_hint;
  EXPECT_THAT(comparison.causes[0].sentence, HasSubstr("before the rotation, not behind it"));
}

}  // namespace
}  // namespace assay
