// Mistakes in what few families have, on the models of the suite. The kernels here know nothing of
// the catalogue's own edits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assay/conform/feature_model.h"
#include "kernels/tensor_type.h"
#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The right kernels, but for the calls that an edit replaces.
class Edited : public WrongKernels {
 public:
  std::function<void(MatmulCall&)> of_matmul = [](MatmulCall&) {};
  std::function<bool(const NormCall&)> of_norm = [](const NormCall&) { return false; };
  std::function<bool(const ActivateCall&)> of_activate = [](const ActivateCall&) { return false; };
  std::function<void(GetRowsCall&)> of_rows = [](GetRowsCall&) {};
  std::function<void(std::vector<float>& a)> of_decays = [](std::vector<float>&) {};

  void run(const SsmCall& call) override {
    std::vector<float> a(call.a, call.a + call.shape.n_decays());
    of_decays(a);
    SsmCall edited = call;
    edited.a = a.data();
    right_->run(edited);
  }
  using WrongKernels::run;

 protected:
  void matmul(const MatmulCall& call) override {
    MatmulCall edited = call;
    of_matmul(edited);
    right_->run(edited);
  }
  void norm(NormCall call) override {
    if (!of_norm(call)) right_->run(call);
  }
  void activate(ActivateCall call) override {
    if (!of_activate(call)) right_->run(call);
  }
  void get_rows(GetRowsCall call) override {
    of_rows(call);
    right_->run(call);
  }
};

// Other rows of the matrix that the call's are a part of.
void move_rows(MatmulCall& call, int64_t by) {
  call.w.data = static_cast<const std::byte*>(call.w.data) +
                by * static_cast<int64_t>(row_bytes(call.w.type, call.w.columns));
}

class CausesOfFamilies : public FaultyLogs {
 protected:
  // Of the suite, with a merge patch of its config.
  std::shared_ptr<Model> family(const std::string& name, const std::string& patch = "{}") {
    const std::vector<Feature> features = read_suite(source_path("conform/suite"), {name});
    const Feature& feature = features.at(0);
    const std::string folder = path(patch == "{}" ? name : name + ".changed");
    write_feature_folder(feature, patched_config(feature.config, patch), {}, folder);
    prompt_ = feature.tokens;
    return std::make_shared<Model>(std::make_shared<Gguf>(folder));
  }

  // The cause with its sentence, else the hint.
  std::string named(const Model& model, Kernels& wrong, const char* set) {
    const auto right = make_reference_kernels();
    const std::string ref = log(model, *right, "ref", set);
    const std::string got = log(model, wrong, "got", set);
    const Comparison comparison = compare(&model, ref, got, 1e-5);
    EXPECT_FALSE(comparison.pass);
    if (comparison.causes.empty()) return "no name: " + comparison.cause_hint;
    EXPECT_GT(comparison.causes[0].explained, 0.999) << comparison.causes[0].sentence;
    return comparison.causes[0].name + ": " + comparison.causes[0].sentence;
  }
};

TEST_F(CausesOfFamilies, MambaWithXForItsGate) {
  const auto model = family("family_mamba");
  Edited wrong;
  wrong.of_matmul = [](MatmulCall& call) {
    if (call.site.checkpoint == Checkpoint::kSsmX) move_rows(call, call.w.rows);
    if (call.site.checkpoint == Checkpoint::kLinearZ) move_rows(call, -call.w.rows);
  };
  for (const char* set : {"ops", "layer_*_output"}) {
    EXPECT_THAT(named(*model, wrong, set), StartsWith("fused_order: ")) << set;
    EXPECT_THAT(named(*model, wrong, set), HasSubstr("takes x for the gate z")) << set;
  }
}

TEST_F(CausesOfFamilies, Mamba2WithItsGateBehindXBAndC) {
  const auto model = family("mamba2");
  const Layer& first = model->layers.front();
  const int64_t gate = first.linear(Checkpoint::kLinearZ).weight.rows;
  const int64_t others = first.linear(Checkpoint::kSsmXbc).weight.rows;
  Edited wrong;
  wrong.of_matmul = [&](MatmulCall& call) {
    if (call.site.checkpoint == Checkpoint::kLinearZ) move_rows(call, others);
    if (call.site.checkpoint == Checkpoint::kSsmXbc) move_rows(call, -gate);
  };
  for (const char* set : {"ops", "layer_*_output"}) {
    EXPECT_THAT(named(*model, wrong, set), StartsWith("fused_order: ")) << set;
    EXPECT_THAT(named(*model, wrong, set), HasSubstr("for x, B and C, then z, where z is first"))
        << set;
  }
}

TEST_F(CausesOfFamilies, Mamba2WithDecaysOfTheLogarithm) {
  const auto model = family("mamba2");
  Edited wrong;
  wrong.of_decays = [](std::vector<float>& a) {
    for (float& each : a) each = -std::log(-each);  // A is -e^A_log
  };
  for (const char* set : {"ops", "layer_*_output"}) {
    EXPECT_THAT(named(*model, wrong, set), StartsWith("ssm: ")) << set;
    EXPECT_THAT(named(*model, wrong, set), HasSubstr("takes -A_log, without the exponential"))
        << set;
  }
}

TEST_F(CausesOfFamilies, Phi3WithKInFrontOfQ) {
  const auto model = family("family_phi3");
  const Layer& first = model->layers.front();
  const int64_t q = first.linear(Checkpoint::kQ).weight.rows;
  const int64_t k = first.linear(Checkpoint::kK).weight.rows;
  Edited wrong;
  wrong.of_matmul = [&](MatmulCall& call) {
    if (call.site.checkpoint == Checkpoint::kQ) move_rows(call, k);
    if (call.site.checkpoint == Checkpoint::kK) move_rows(call, -q);
  };
  for (const char* set : {"ops", "layer_*_output"}) {
    EXPECT_THAT(named(*model, wrong, set), StartsWith("fused_order: ")) << set;
    EXPECT_THAT(named(*model, wrong, set), HasSubstr("from one matrix as if K were first")) << set;
  }
}

TEST_F(CausesOfFamilies, Lfm2WithTheLastPartsOfItsProductSwapped) {
  const auto model = family("family_lfm2");
  Edited wrong;
  wrong.of_matmul = [](MatmulCall& call) {
    if (call.site.checkpoint == Checkpoint::kConvC) move_rows(call, call.w.rows);
    if (call.site.checkpoint == Checkpoint::kConvX) move_rows(call, -call.w.rows);
  };
  for (const char* set : {"ops", "layer_*_output"}) {
    EXPECT_THAT(named(*model, wrong, set), StartsWith("gate_up_swapped: ")) << set;
  }
}

TEST_F(CausesOfFamilies, JambaWithTheRowsOfBAndCSwapped) {
  const auto model = family("family_jamba");
  Edited wrong;
  wrong.of_matmul = [](MatmulCall& call) {
    if (call.site.checkpoint == Checkpoint::kSsmB) move_rows(call, call.w.rows);
    if (call.site.checkpoint == Checkpoint::kSsmC) move_rows(call, -call.w.rows);
  };
  for (const char* set : {"ops", "layer_*_output"}) {
    EXPECT_THAT(named(*model, wrong, set), StartsWith("ssm: ")) << set;
  }
}

TEST_F(CausesOfFamilies, NanochatWithoutTheNormOfItsEmbedding) {
  const auto model = family("family_nanochat");
  Edited wrong;
  wrong.of_norm = [](const NormCall& call) {
    return call.site.checkpoint == Checkpoint::kEmbedding;
  };
  for (const char* set : {"ops", "layer_*_output"}) {
    EXPECT_THAT(named(*model, wrong, set), StartsWith("norm_kind: embedding leaves the norm out"))
        << set;
  }
}

TEST_F(CausesOfFamilies, OptWithoutTheTwoRowsBeforePosition0) {
  const auto model = family("family_opt");
  Edited wrong;
  wrong.of_rows = [](GetRowsCall& call) {
    if (call.of_positions) {
      call.table.data = static_cast<const std::byte*>(call.table.data) -
                        2 * row_bytes(call.table.type, call.table.columns);
    }
  };
  EXPECT_THAT(named(*model, wrong, "ops"),
              StartsWith("rope_position: embedding takes the learned position -2 places off"));
}

TEST_F(CausesOfFamilies, BitNetWithItsNormsInOtherPlaces) {
  const auto model = family("family_bitnet");
  const auto normalise = [&](Checkpoint of, int layer, int64_t n_tokens, float* x) {
    const float* weight = model->layers[static_cast<size_t>(layer)].norm(of).weight;
    const int64_t width = of == Checkpoint::kFfnSubNorm ? model->config().feed_forward_length
                                                        : model->config().embedding_length;
    for (int64_t t = 0; t < n_tokens; ++t) {
      double squares = 0;
      for (int64_t i = 0; i < width; ++i) squares += std::pow(x[t * width + i], 2.0);
      const double root =
          std::sqrt(squares / static_cast<double>(width) + model->config().norm_eps);
      for (int64_t i = 0; i < width; ++i) {
        x[t * width + i] = static_cast<float>(x[t * width + i] / root) * weight[i];
      }
    }
  };
  const auto pass_through = [](Checkpoint at) {
    return [at](const NormCall& call) {
      if (call.site.checkpoint != at) return false;
      std::copy_n(call.x, call.n_tokens * call.width, call.out);
      return true;
    };
  };
  Edited before_up;
  before_up.of_norm = pass_through(Checkpoint::kFfnSubNorm);
  before_up.of_activate = [&](const ActivateCall& call) {
    const std::vector<float> up(call.up, call.up + call.count);  // out may stand in its place
    for (int64_t i = 0; i < call.count; ++i) {
      call.out[i] = std::pow(std::max(call.x[i], 0.0F), 2.0F);
    }
    const int64_t width = model->config().feed_forward_length;
    normalise(Checkpoint::kFfnSubNorm, call.site.layer, call.count / width, call.out);
    for (int64_t i = 0; i < call.count; ++i) call.out[i] *= up[static_cast<size_t>(i)];
    return true;
  };
  for (const char* set : {"ops", "layer_*_output"}) {
    EXPECT_THAT(named(*model, before_up, set), StartsWith("norm_order: ")) << set;
  }
}

// The softmax of the chosen experts' scores alone is that of all, divided by what the chosen have.
TEST_F(CausesOfFamilies, FlexOlmoWithTheSoftmaxOfTheChosen) {
  const auto wrong = family("family_flex_olmo", R"({"norm_topk_prob": true})");
  const auto model = family("family_flex_olmo");
  const auto right = make_reference_kernels();
  const std::string ref = log(*model, *right, "ref", "ops");
  const std::string got = log(*wrong, *right, "got", "ops");
  const Comparison comparison = compare(model.get(), ref, got, 1e-5);
  ASSERT_FALSE(comparison.causes.empty()) << comparison.cause_hint;
  EXPECT_EQ(comparison.causes[0].name, "router_weights");
  EXPECT_THAT(comparison.causes[0].sentence,
              HasSubstr("takes the softmax over the experts that are used, not over all"));
}

// Breaks if the eps of other norms were blamed that are beside these.
TEST_F(CausesOfFamilies, MambaWithAnotherEpsOfItsOwnNorms) {
  for (const char* name : {"family_jamba", "mixer_rms_eps"}) {
    const auto model = family(name);
    const auto right = make_reference_kernels();
    Edited wrong;
    wrong.of_norm = [&](NormCall call) {
      const Checkpoint at = call.site.checkpoint;
      if (at != Checkpoint::kSsmDtNorm && at != Checkpoint::kSsmBNorm &&
          at != Checkpoint::kSsmCNorm) {
        return false;
      }
      call.eps = 0.02F;
      right->run(call);
      return true;
    };
    const std::string found = named(*model, wrong, "layer_*_output");
    EXPECT_THAT(found, StartsWith("eps: ")) << name;
    EXPECT_THAT(found, HasSubstr("layer_0_ssm_dt_norm, like layer_0_ssm_b_norm and "
                                 "layer_0_ssm_c_norm, normalises with eps 0.02"))
        << name;
  }
}

TEST_F(CausesOfFamilies, Gemma2WithItsCapInOtherPlaces) {
  const auto model = family("family_gemma2");
  // Scores of a prompt are capped after their mask: what is masked has the score -cap.
  class CappedLast : public WrongKernels {
   protected:
    void attention(AttentionCall call) override {
      const AttentionShape& shape = call.shape;
      const auto* k = static_cast<const float*>(call.kv.k);
      const auto* v = static_cast<const float*>(call.kv.v);
      const int64_t group = shape.n_heads / shape.n_kv_heads;
      const int64_t width = shape.n_kv_heads * shape.head_dim;
      const int64_t n_keys = call.first_position + call.n_tokens;
      for (int64_t t = 0; t < call.n_tokens; ++t) {
        for (int64_t h = 0; h < shape.n_heads; ++h) {
          const int64_t position = call.first_position + t;
          const float* q = call.q + (t * shape.n_heads + h) * shape.head_dim;
          const int64_t first = h / group * shape.head_dim;
          std::vector<double> weights;
          double sum = 0;
          for (int64_t key = 0; key < n_keys; ++key) {
            double score = 0;
            for (int64_t i = 0; i < shape.head_dim; ++i) score += q[i] * k[key * width + first + i];
            const bool seen = key <= position && key >= shape.first_key(position);
            score = seen ? shape.soft_cap * std::tanh(score * shape.scale / shape.soft_cap)
                         : -shape.soft_cap;
            weights.push_back(std::exp(score));
            sum += weights.back();
          }
          float* out = call.out + (t * shape.n_heads + h) * shape.head_dim;
          for (int64_t i = 0; i < shape.head_dim; ++i) {
            double value = 0;
            for (int64_t key = 0; key < n_keys; ++key) {
              value += weights[static_cast<size_t>(key)] / sum * v[key * width + first + i];
            }
            out[i] = static_cast<float>(value);
          }
        }
      }
    }
  } wrong;
  EXPECT_THAT(named(*model, wrong, "ops"),
              StartsWith("attention_softcap: layer_0_attn caps the attention scores after it has "
                         "masked them"));
}

}  // namespace
}  // namespace assay
