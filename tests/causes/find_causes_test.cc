#include "assay/causes/find_causes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "kernels/reference/dequantize.h"
#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class OtherPairs : public WrongKernels {
 protected:
  void rope(RopeCall call) override {
    call.pairing = other(call.pairing);
    right_->run(call);
  }
};

class NoScale : public WrongKernels {
 protected:
  void attention(AttentionCall call) override {
    call.shape.scale = 1;
    right_->run(call);
  }
};

class OtherEps : public WrongKernels {
 protected:
  void norm(NormCall call) override {
    if (call.kind == NormKind::kRms) call.eps = 3e-3F;
    right_->run(call);
  }
};

class Swapped : public WrongKernels {
 protected:
  void activate(ActivateCall call) override {
    if (call.up != nullptr) std::swap(call.x, call.up);
    right_->run(call);
  }
};

class NoResidual : public WrongKernels {
 protected:
  void add(AddCall call) override { std::copy(call.b, call.b + call.count, call.out); }
};

// A block of 32 weights in row 5 of the FFN's last matrix counts three times.
class OneBlock : public WrongKernels {
 protected:
  void matmul(const MatmulCall& call) override {
    const WeightMatrix& w = call.w;
    right_->run(call);
    if (w.columns != 256) return;
    std::vector<float> row(static_cast<size_t>(w.columns));
    dequantize_row(w.type, w.slice(5, 1).data, w.columns, row.data());
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      for (int64_t c = 32; c < 64; ++c) {
        call.out[t * w.rows + 5] += 2 * row[static_cast<size_t>(c)] * call.x[t * w.columns + c];
      }
    }
  }
};

// V of the first layer is 2 % too large.
class LargeValues : public WrongKernels {
 protected:
  void matmul(const MatmulCall& call) override {
    right_->run(call);
    if (call.site.checkpoint != Checkpoint::kV || call.site.layer != 0) return;
    for (int64_t i = 0; i < call.n_tokens * call.w.rows; ++i) call.out[i] *= 1.02F;
  }
};

// The attention's output is a little too large.
class LargeAttention : public WrongKernels {
 protected:
  void matmul(const MatmulCall& call) override {
    right_->run(call);
    if (call.site.checkpoint != Checkpoint::kAttnOut) return;
    for (int64_t i = 0; i < call.n_tokens * call.w.rows; ++i) call.out[i] *= 1.0003F;
  }
};

// The attention's output is lost.
class NoAttention : public WrongKernels {
 protected:
  void matmul(const MatmulCall& call) override {
    right_->run(call);
    if (call.site.checkpoint == Checkpoint::kAttnOut) {
      std::fill_n(call.out, call.n_tokens * call.w.rows, 0.0F);
    }
  }
};

// The halves of each block of the embedding change places.
class SwapsHalvesOfRows : public WrongKernels {
 protected:
  void get_rows(GetRowsCall call) override {
    right_->run(call);
    for (int64_t i = 0; i < call.n_ids * call.table.columns; i += 32) {
      std::swap_ranges(call.out + i, call.out + i + 16, call.out + i + 16);
    }
  }
};

class AddsVector : public WrongKernels {
 protected:
  void matmul(const MatmulCall& call) override {
    right_->run(call);
    if (call.site.checkpoint != Checkpoint::kQ || call.site.layer != 0) return;
    for (int64_t i = 0; i < call.n_tokens * call.w.rows; ++i) {
      call.out[i] += 0.1F * static_cast<float>(i % call.w.rows % 7);
    }
  }
};

// The result of a norm is multiplied, in one layer or in all.
class ScaledNorm : public WrongKernels {
 public:
  ScaledNorm(Checkpoint checkpoint, std::optional<int> layer, float factor)
      : checkpoint_(checkpoint), layer_(layer), factor_(factor) {}

 protected:
  void norm(NormCall call) override {
    right_->run(call);
    const bool is_here =
        call.site.checkpoint == checkpoint_ && call.site.layer == layer_.value_or(call.site.layer);
    if (!is_here) return;
    for (int64_t i = 0; i < call.n_tokens * call.width; ++i) call.out[i] *= factor_;
  }

 private:
  Checkpoint checkpoint_;
  std::optional<int> layer_;
  float factor_;
};

class FindCauses : public FaultyLogs {
 protected:
  void expect(const Comparison& comparison, const std::string& name, const std::string& checkpoint,
              const std::string& words) {
    ASSERT_FALSE(comparison.pass);
    ASSERT_THAT(comparison.causes, SizeIs(1)) << name;
    const Cause& cause = comparison.causes[0];
    EXPECT_EQ(cause.name, name);
    EXPECT_EQ(cause.checkpoint.name, checkpoint);
    EXPECT_GT(cause.explained, 0.999);
    EXPECT_GT(cause.confidence, 0.8);
    EXPECT_THAT(cause.sentence, HasSubstr(words));
  }
};

TEST_F(FindCauses, RecomputesTheStepFromItsLoggedInputs) {
  OtherPairs pairs;
  expect(compare("tinyllama", pairs, "ops", true), "rope_pairing", "layer_0_q_rope",
         "rotates the halves of a head");
  expect(compare("qwen2.5", pairs, "ops", true), "rope_pairing", "layer_0_q_rope",
         "rotates adjacent elements");
  NoScale scale;
  expect(compare("llama3", scale, "ops", true), "attention_scale", "layer_0_attn", "by 1 (none)");
  OtherEps eps;
  expect(compare("phi3", eps, "ops", true), "eps", "layer_0_attn_norm", "eps 0.003 in place of");
  Swapped swapped;
  expect(compare("phi3", swapped, "ops", true), "gate_up_swapped", "layer_0_ffn_act",
         "activates up");
}

TEST_F(FindCauses, FindsOneBlockOfTheWeights) {
  OneBlock block;
  expect(compare("tinyllama", block, "ops", true), "quant_block", "layer_0_ffn_out",
         "in row 5: columns 32 to 63 by a factor");
}

// Breaks if what an eps without bounds comes near to were called one.
TEST_F(FindCauses, NamesNoEpsThatNoEngineHas) {
  NoAttention lost;
  const Comparison comparison = compare("tinyllama", lost, "logits", true);
  ASSERT_THAT(comparison.causes, SizeIs(1)) << comparison.cause_hint;
  EXPECT_EQ(comparison.causes[0].name, "residual");
  EXPECT_THAT(comparison.causes[0].sentence, Not(HasSubstr("eps")));
}

// A file that a quantiser packed wrong is wrong from the embedding on.
TEST_F(FindCauses, FindsAMisreadEmbedding) {
  const auto model = load("tinyllama", "q8_0");
  const auto right = make_reference_kernels();
  SwapsHalvesOfRows wrong;
  const std::string ref = log(*model, *right, "ref", "layers");
  const std::string got = log(*model, wrong, "got", "layers");
  expect(compare(model.get(), ref, got), "quant_block", "embedding",
         "reads Q8_0 wrongly: takes the halves of a block for each other");
}

// Breaks if a missing bias were named where the model has none.
TEST_F(FindCauses, AVectorWhereTheModelHasNoBiasIsToldAsThat) {
  AddsVector adds;
  const Comparison without = compare("tinyllama", adds, "ops", true);
  EXPECT_THAT(without.causes, IsEmpty());
  EXPECT_THAT(without.cause_hint, HasSubstr("is off by the same vector at every token"));
  EXPECT_THAT(without.cause_hint, HasSubstr("the model has no bias there"));
  EXPECT_THAT(without.cause_hint, Not(HasSubstr("--model")));
  expect(compare("qwen2.5", adds, "ops", true), "bias_missing", "layer_0_q",
         "the same vector at every token");
}

TEST_F(FindCauses, SomeStepsNeedNoModel) {
  NoResidual residual;
  expect(compare("tinyllama", residual, "ops", false), "residual", "layer_0_attn_residual",
         "leaves the residual stream out");
}

// Most engines log the layers alone: then the whole layer is computed again.
TEST_F(FindCauses, RecomputesALayerUnderEachMistake) {
  OtherPairs pairs;
  expect(compare("tinyllama", pairs, "layers", true), "rope_pairing", "layer_0_output",
         "layer_0_q_rope, like layer_0_k_rope, rotates");
}

// Fixtures keep few positions: a mistake that says nothing of these must not stand before one that
// fits.
TEST_F(FindCauses, AcceptsAReferenceOfFewPositions) {
  const auto model = load("tinyllama");
  const auto right = make_reference_kernels();
  OtherPairs pairs;
  const std::string ref = log(*model, *right, "ref", "ops");
  std::string kept;
  std::ifstream lines(ref);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("\"token_idx\":");
    if (at == std::string::npos || std::stoi(line.substr(at + 12)) % 5 == 0) kept += line + "\n";
  }
  expect(compare(model.get(), put("few.jsonl", kept), log(*model, pairs, "got", "ops")),
         "rope_pairing", "layer_0_q_rope", "rotates the halves of a head");
}

// Breaks if a base seemed to be wrong in the layers that have it rightly.
TEST_F(FindCauses, TellsWhichLayersHaveTheBaseOfTheOthers) {
  const auto model = load("gemma3");
  const auto wrong = load("gemma3");
  const auto right = make_reference_kernels();
  const std::string ref = log(*model, *right, "ref", "ops");
  wrong->config().local_rope_freq_base = model->config().rope_freq_base;
  expect(
      compare(model.get(), ref, log(*wrong, *right, "got", "ops")), "rope_base", "layer_0_q_rope",
      "rotates with the frequency base 2.346e+05 in layers with a window, too, in place of 3456");
  wrong->config().local_rope_freq_base = model->config().local_rope_freq_base;
  wrong->config().rope_freq_base = model->config().local_rope_freq_base;
  expect(compare(model.get(), ref, log(*wrong, *right, "got", "ops")), "rope_base",
         "layer_5_q_rope", "in layers without a window, too, in place of 2.346e+05");
}

// Breaks if the reference were accused where the error is made in a layer whose records pass at
// that token: what fails first, in the order of tokens, is then the output of a later layer.
TEST_F(FindCauses, LooksInEarlierLayersThatPass) {
  const auto model = load("smollm3");
  const auto right = make_reference_kernels();
  LargeValues large;
  const std::string ref = log(*model, *right, "ref", "layers");
  const std::string got = log(*model, large, "got", "layers");
  const Comparison comparison = compare(model.get(), ref, got, 0.0105);
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "layer_2_output");
  expect(comparison, "scale", "layer_0_output", "is multiplied by 1.02");
}

// What only the judged log holds may be wrong itself: here the layer's inner steps are.
TEST_F(FindCauses, DoesNotTrustWhatTheReferenceLacks) {
  const auto model = load("tinyllama");
  const auto right = make_reference_kernels();
  OtherPairs pairs;
  const std::string ref = log(*model, *right, "ref", "layers");
  const std::string got = log(*model, pairs, "got", "ops");
  const Comparison comparison = compare(model.get(), ref, got);
  expect(comparison, "rope_pairing", "layer_0_output",
         "layer_0_q_rope, like layer_0_k_rope, rotates");
  ASSERT_FALSE(comparison.error_sources.empty());
  EXPECT_GT(comparison.error_sources[0].own.value_or(0), 0.01);
  const Comparison without = compare(nullptr, ref, got);
  EXPECT_THAT(without.causes, IsEmpty());
  EXPECT_THAT(without.cause_hint, HasSubstr("the reference does not have these"));
}

// With a faulty log as the reference the judged one is right, and the report says so.
TEST_F(FindCauses, SuspectsAWrongReference) {
  const auto model = load("tinyllama");
  const auto right = make_reference_kernels();
  OtherPairs pairs;
  const Comparison comparison = compare(model.get(), log(*model, pairs, "ref", "layers"),
                                        log(*model, *right, "got", "layers"));
  EXPECT_FALSE(comparison.pass);
  EXPECT_THAT(comparison.causes, IsEmpty());
  EXPECT_THAT(comparison.cause_hint, HasSubstr("it is the reference that computes something else"));
}

// Of Q as it should be, of K with other pairs.
class OtherPairsOfK : public WrongKernels {
 protected:
  void rope(RopeCall call) override {
    if (call.site.checkpoint == Checkpoint::kKRope) call.pairing = other(call.pairing);
    right_->run(call);
  }
};

// Without a model nothing says which of the two is right.
TEST_F(FindCauses, DoesNotMentionAModelWithoutOne) {
  const auto model = load("tinyllama");
  const auto right = make_reference_kernels();
  OtherPairsOfK pairs;
  const std::string ref = log(*model, pairs, "ref", "ops");
  const std::string got = log(*model, *right, "got", "ops");
  const std::string hint = compare(nullptr, ref, got).cause_hint;
  EXPECT_THAT(hint, HasSubstr("layer_0_k_rope of the judged log is what its inputs, in which both "
                              "logs agree, give if"));
  EXPECT_THAT(hint, Not(HasSubstr("what the model gives")));
  EXPECT_THAT(hint, HasSubstr("--model"));
  EXPECT_THAT(compare(model.get(), ref, got).cause_hint, HasSubstr("what the model gives"));
}

// Adding the negative and subtracting are the same; the sentence must not pretend to know.
TEST_F(FindCauses, ListsAllIndistinguishableMistakes) {
  Negated negated(Checkpoint::kAttnOut);
  const Comparison comparison = compare("tinyllama", negated, "layers", true);
  ASSERT_THAT(comparison.causes, SizeIs(1)) << comparison.cause_hint;
  const Cause& cause = comparison.causes[0];
  EXPECT_EQ(cause.name, "sign");
  EXPECT_LT(cause.confidence, 0.6);
  EXPECT_THAT(cause.sentence, HasSubstr("or layer_0_attn_out has the opposite sign"));
  EXPECT_THAT(cause.sentence, HasSubstr("layer_0_attn_residual adds -1 times the block's output"));
  EXPECT_THAT(cause.sentence, HasSubstr("which the logs do not tell apart"));
}

// Breaks if a factor that is nearly 1 were printed as 1.
TEST_F(FindCauses, TellsASmallFactorFromOne) {
  const auto model = load("llama3");
  const auto right = make_reference_kernels();
  LargeAttention large;
  const std::string ref = log(*model, *right, "ref", "layers");
  const std::string got = log(*model, large, "got", "layers");
  const Comparison comparison = compare(model.get(), ref, got, 1e-5);
  ASSERT_FALSE(comparison.causes.empty()) << comparison.cause_hint;
  EXPECT_THAT(comparison.causes[0].sentence,
              HasSubstr("adds 1.0003 times the block's output to the residual stream"));
}

// Without a model the reference shows how it rotates.
TEST_F(FindCauses, InfersTheRopeBaseFromTheReference) {
  OtherPairs pairs;
  expect(compare("llama3", pairs, "ops", false), "rope_pairing", "layer_0_q_rope",
         "rotates the halves of a head");
  NoScale scale;
  expect(compare("phi3", scale, "ops", false), "attention_scale", "layer_0_attn", "by 1 (none)");
  OtherEps eps;
  expect(compare("phi3", eps, "ops", false), "eps", "layer_0_attn_norm", "eps 0.003 in place of");
}

TEST_F(FindCauses, NamesNoCauseForNoise) {
  Noise noise;
  for (const char* set : {"ops", "layers", "logits"}) {
    for (const bool with_model : {true, false}) {
      const Comparison comparison = compare("tinyllama", noise, set, with_model);
      EXPECT_FALSE(comparison.pass);
      EXPECT_THAT(comparison.causes, IsEmpty()) << set << comparison.causes[0].sentence;
      noise = {};
    }
  }
}

// Breaks if a norm that makes the feed-forward all but vanish (both of its factors are a hundredth,
// so its output is a ten-thousandth) were called an output that is not added.
TEST_F(FindCauses, NamesANormThatAllButLosesItsBlock) {
  for (const char* model : {"llama3", "gemma2"}) {
    const float of_all = std::string_view(model) == "llama3" ? 0.1F : 0.01F;
    for (const float factor : {0.1F, 0.01F}) {
      ScaledNorm scaled(Checkpoint::kFfnNorm, 0, factor);
      expect(compare(model, scaled, "layers", true), "scale", "layer_0_output",
             "layer_0_ffn_norm is multiplied by " + fmt::format("{:g}", factor) + ": ");
    }
    ScaledNorm everywhere(Checkpoint::kFfnNorm, std::nullopt, of_all);
    expect(compare(model, everywhere, "logits", true), "scale", "logits",
           "every layer's ffn_norm is multiplied by " + fmt::format("{:g}", of_all) + ": ");
    // What is lost is still not added.
    ScaledNorm lost(Checkpoint::kFfnNorm, 0, 0.0F);
    expect(compare(model, lost, "layers", true), "residual", "layer_0_output", "does not add");
  }
  ScaledNorm lost(Checkpoint::kFfnNorm, 0, 0.0F);
  expect(compare("gemma2", lost, "logits", true), "residual", "logits", "does not add");
}

TEST_F(FindCauses, ParityHasNoCause) {
  WrongKernels right;
  const Comparison comparison = compare("tinyllama", right, "ops", true);
  EXPECT_TRUE(comparison.pass);
  EXPECT_THAT(comparison.causes, IsEmpty());
}

}  // namespace
}  // namespace assay
