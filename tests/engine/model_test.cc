#include "engine/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/error.h"
#include "tests/support/latent_model.h"
#include "tests/support/tiny_model.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::TinyModel;

std::string write(const TinyModel& model, const std::string& name) {
  return model.write(testing::TempDir() + "model_test_" + name + ".gguf");
}

TEST(Model, BindsTheWeights) {
  const Model model(std::make_shared<Gguf>(write({}, "good")));
  EXPECT_EQ(model.config().n_vocab, 5);
  EXPECT_EQ(model.config().head_dim, 4);
  EXPECT_EQ(model.config().rotary_dim, 4);
  ASSERT_EQ(model.layers.size(), 1U);
  EXPECT_EQ(model.layers[0].linear(Checkpoint::kK).weight.rows, 4);
  EXPECT_NE(model.output.weight.data, model.token_embedding.data);
}

TEST(Model, UsesTheEmbeddingWithoutAnOutputMatrix) {
  TinyModel tiny;
  tiny.tensors.erase("output.weight");
  const Model model(std::make_shared<Gguf>(write(tiny, "tied")));
  EXPECT_EQ(model.output.weight.data, model.token_embedding.data);
}

// llama.cpp scales linearly where a file has a factor and no type.
TEST(Model, AFactorWithoutATypeScalesLinearly) {
  TinyModel tiny;
  EXPECT_EQ(Model(std::make_shared<Gguf>(write(tiny, "none"))).config().rope_freq_scale, 1.0);
  tiny.floats["llama.rope.scale_linear"] = 2.0F;
  EXPECT_EQ(Model(std::make_shared<Gguf>(write(tiny, "old"))).config().rope_freq_scale, 0.5);
  tiny.floats["llama.rope.scaling.factor"] = 4.0F;
  EXPECT_EQ(Model(std::make_shared<Gguf>(write(tiny, "new"))).config().rope_freq_scale, 0.25);
  tiny.texts["llama.rope.scaling.type"] = "none";
  EXPECT_EQ(Model(std::make_shared<Gguf>(write(tiny, "off"))).config().rope_freq_scale, 1.0);
}

// Breaks if a sound file were rejected for its own metadata.
TEST(Model, AcceptsKeysWithoutEffect) {
  TinyModel tiny;
  tiny.booleans["llama.attention.causal"] = true;
  tiny.booleans["llama.rope.scaling.finetuned"] = true;
  tiny.floats["llama.attention.scale"] = 0.5F;  // of heads of 4
  tiny.floats["llama.attention.clamp_kqv"] = 0;
  tiny.floats["llama.logit_scale"] = 1;
  tiny.floats["llama.residual_scale"] = 0;
  tiny.ints["llama.attention.sliding_window"] = 4096;
  EXPECT_EQ(Model(std::make_shared<Gguf>(write(tiny, "neutral"))).config().head_dim, 4);
}

struct HostileModelCase {
  std::string name;
  std::function<void(TinyModel&)> spoil;
  std::string message;
};

void PrintTo(const HostileModelCase& hostile, std::ostream* out) {
  *out << hostile.name;
}

void add_experts(TinyModel& model) {
  for (const char* name : {"gate", "up", "down"}) {
    model.tensors.erase(std::string("blk.0.ffn_") + name + ".weight");
  }
  model.ints["llama.expert_count"] = 3;
  model.ints["llama.expert_used_count"] = 2;
  model.tensors["blk.0.ffn_gate_inp.weight"] = {{8, 3}};
  model.tensors["blk.0.ffn_gate_exps.weight"] = {{8, 12, 3}};
  model.tensors["blk.0.ffn_up_exps.weight"] = {{8, 12, 3}};
  model.tensors["blk.0.ffn_down_exps.weight"] = {{12, 8, 3}};
}

// Two layers, the second of experts.
void become_deepseek(TinyModel& model) {
  become_latent(model, "deepseek2", 2);
  for (const auto& [key, value] : std::map<std::string, uint32_t>{{"leading_dense_block_count", 1},
                                                                  {"expert_count", 4},
                                                                  {"expert_used_count", 2},
                                                                  {"expert_feed_forward_length", 7},
                                                                  {"expert_shared_count", 1},
                                                                  {"expert_gating_func", 2},
                                                                  {"expert_group_count", 2},
                                                                  {"expert_group_used_count", 1}}) {
    model.ints["deepseek2." + key] = value;
  }
  model.tensors["blk.1.ffn_gate_inp.weight"] = {{8, 4}};
  model.tensors["blk.1.exp_probs_b.bias"] = {{4}};
  model.tensors["blk.1.ffn_gate_exps.weight"] = {{8, 7, 4}};
  model.tensors["blk.1.ffn_up_exps.weight"] = {{8, 7, 4}};
  model.tensors["blk.1.ffn_down_exps.weight"] = {{7, 8, 4}};
  model.tensors["blk.1.ffn_gate_shexp.weight"] = {{8, 7}};
  model.tensors["blk.1.ffn_up_shexp.weight"] = {{8, 7}};
  model.tensors["blk.1.ffn_down_shexp.weight"] = {{7, 8}};
}

// Breaks if layers behind the network's own, which predict further tokens, were computed or stopped
// a file.
TEST(Model, LeavesOutLayersThatPredictFurtherTokens) {
  TinyModel tiny;
  tiny.ints["llama.block_count"] = 2;
  tiny.ints["llama.nextn_predict_layers"] = 1;
  tiny.tensors["blk.1.nextn.eh_proj.weight"] = {{16, 8}};
  const Model model(std::make_shared<Gguf>(write(tiny, "nextn")));
  EXPECT_EQ(model.config().n_layers, 1);
  EXPECT_EQ(model.layers.size(), 1U);
}

// Breaks if DeepSeek-V3's experts were scored by a softmax where the file does not say how: the
// converter writes it only if config.json has it, which transformers may leave out.
TEST(LatentAttention, ExpertsChosenWithABiasAreScoredByASigmoid) {
  TinyModel tiny;
  become_deepseek(tiny);
  tiny.ints.erase("deepseek2.expert_gating_func");
  const auto gating = [&](const std::string& name) {
    return Model(std::make_shared<Gguf>(write(tiny, name))).config().routing.gating;
  };
  EXPECT_EQ(gating("bias"), Gating::kSigmoid);
  tiny.tensors.erase("blk.1.exp_probs_b.bias");
  EXPECT_EQ(gating("no_bias"), Gating::kSoftmax);
}

// Breaks if rows and columns of the keys' matrix were swapped, or values came before keys.
TEST(LatentAttention, ReadsTheProductOfTheLatentVectorInOneTensorOrTwo) {
  TinyModel tiny;
  become_deepseek(tiny);
  const Model two(std::make_shared<Gguf>(write(tiny, "two_tensors")));
  EXPECT_EQ(two.config().width(Width::kKvB), 14);
  const auto* k = reinterpret_cast<const float*>(
      two.gguf().find_tensor("blk.1.attn_k_b.weight")->data.data());  // [2][5][4]
  const auto* v = reinterpret_cast<const float*>(
      two.gguf().find_tensor("blk.1.attn_v_b.weight")->data.data());  // [2][3][5]
  const WeightMatrix& joined = two.layers[1].linear(Checkpoint::kKvB).weight;
  ASSERT_EQ(joined.rows, 14);
  ASSERT_EQ(joined.columns, 5);
  const auto* values = static_cast<const float*>(joined.data);
  for (int64_t head = 0; head < 2; ++head) {
    for (int64_t row = 0; row < 7; ++row) {
      for (int64_t column = 0; column < 5; ++column) {
        const float want =
            row < 4 ? k[(head * 5 + column) * 4 + row] : v[(head * 3 + row - 4) * 5 + column];
        EXPECT_EQ(values[(head * 7 + row) * 5 + column], want) << head << " " << row;
      }
    }
  }
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    tiny.tensors.erase(layer + "attn_k_b.weight");
    tiny.tensors.erase(layer + "attn_v_b.weight");
    tiny.tensors[layer + "attn_kv_b.weight"] = {{5, 14}};
  }
  tiny.ints.erase("deepseek2.attention.key_length_mla");
  tiny.ints.erase("deepseek2.attention.value_length_mla");
  tiny.ints["deepseek2.attention.key_length"] = 6;
  tiny.ints["deepseek2.attention.value_length"] = 3;
  const Model one(std::make_shared<Gguf>(write(tiny, "one_tensor")));
  EXPECT_EQ(one.layers[0].linear(Checkpoint::kKvB).weight.data,
            one.gguf().find_tensor("blk.0.attn_kv_b.weight")->data.data());
  EXPECT_EQ(one.config().head_dim, 6);
  EXPECT_EQ(one.config().value_dim, 3);
  EXPECT_EQ(one.config().n_kv_heads, 2);
}

// Breaks if files of MiniCPM that were converted before its factors had keys were computed without
// them, or a factor that a file switches off were taken for one that it leaves out.
TEST(MiniCpm, HasThePublishedFactorsWhereTheFileStatesNone) {
  TinyModel tiny;
  tiny.become("minicpm");
  const auto config_of = [&](const char* name) {
    return Model(std::make_shared<Gguf>(write(tiny, name))).config();
  };
  const ModelConfig older = config_of("minicpm_older");
  EXPECT_EQ(older.embedding_factor(), 12.0F);
  EXPECT_FLOAT_EQ(older.residual_factor(), 1.4F / std::sqrt(static_cast<float>(older.n_layers)));
  EXPECT_FLOAT_EQ(older.logit_factor(), 256.0F / static_cast<float>(older.embedding_length));
  tiny.floats["minicpm.embedding_scale"] = 3.0F;
  tiny.floats["minicpm.residual_scale"] = 0.0F;
  tiny.floats["minicpm.logit_scale"] = 2.0F;
  const ModelConfig stated = config_of("minicpm_stated");
  EXPECT_EQ(stated.embedding_factor(), 3.0F);
  EXPECT_EQ(stated.residual_factor(), 1.0F);
  EXPECT_EQ(stated.logit_factor(), 0.5F);
}

// Breaks if mistral3's key scaled the scores, as deepseek2's does, or if its scores' temperature or
// span were others than the file's.
TEST(Ministral, YarnsLogMultiplierDividesTheFactorOfTheAngles) {
  TinyModel tiny;
  tiny.become("mistral3");
  tiny.texts["mistral3.rope.scaling.type"] = "yarn";
  tiny.floats["mistral3.rope.scaling.factor"] = 16.0F;
  tiny.floats["mistral3.rope.scaling.yarn_log_multiplier"] = 0.75F;
  tiny.floats["mistral3.attention.temperature_scale"] = 0.375F;
  tiny.ints["mistral3.rope.scaling.original_context_length"] = 4;
  const Model model(std::make_shared<Gguf>(write(tiny, "ministral")));
  const ModelConfig& config = model.config();
  EXPECT_DOUBLE_EQ(config.rope_attn_factor,
                   (0.1 * std::log(16.0) + 1.0) / (0.075 * std::log(16.0) + 1.0));
  EXPECT_EQ(config.yarn_score_factor, 1.0);
  const AttentionShape shape = config.attention_shape(0);
  EXPECT_EQ(shape.temperature, 0.375F);
  EXPECT_EQ(shape.temperature_span, 4);
  EXPECT_FLOAT_EQ(shape.scale_at(5), shape.scale * static_cast<float>(1 + 0.375 * std::log(2.0)));
}

// Breaks if the factor of the scores were also that of the rotation, or not squared.
TEST(LatentAttention, ScalesScoresByYarnsLogMultiplier) {
  TinyModel tiny;
  become_deepseek(tiny);
  tiny.texts["deepseek2.rope.scaling.type"] = "yarn";
  tiny.floats["deepseek2.rope.scaling.factor"] = 16.0F;
  tiny.floats["deepseek2.rope.scaling.yarn_log_multiplier"] = 0.075F;
  const Model model(std::make_shared<Gguf>(write(tiny, "yarn_scores")));
  const double scale = 1.0 + static_cast<double>(0.075F) * std::log(16.0);
  EXPECT_FLOAT_EQ(model.config().attention_shape(0).scale,
                  static_cast<float>(scale * scale / std::sqrt(6.0)));
  EXPECT_EQ(model.config().rope_attn_factor, 1.0);
  EXPECT_EQ(model.config().first_turned(), 4);
}

void become_gptneox(TinyModel& model) {
  model.become("gptneox");
  model.floats["gptneox.attention.layer_norm_epsilon"] = 1e-5F;
}

class HostileModel : public testing::TestWithParam<HostileModelCase> {};

TEST_P(HostileModel, IsRejectedNamingTheKeyOrTensor) {
  TinyModel tiny;
  GetParam().spoil(tiny);
  const std::string path = write(tiny, GetParam().name);
  EXPECT_THAT([&] { Model(std::make_shared<Gguf>(path)); },
              ThrowsMessage<Error>(AllOf(HasSubstr(path), HasSubstr(GetParam().message))));
}

HostileModelCase of_deepseek(const std::string& name, const std::string& key, uint32_t value,
                             const std::string& message) {
  return {name,
          [key, value](TinyModel& model) {
            become_deepseek(model);
            model.ints["deepseek2." + key] = value;
          },
          "key 'deepseek2." + key + "' " + message};
}

HostileModelCase without_of_deepseek(const std::string& name, const std::string& tensor,
                                     const std::string& message) {
  return {name,
          [tensor](TinyModel& model) {
            become_deepseek(model);
            model.tensors.erase(tensor);
          },
          message};
}

INSTANTIATE_TEST_SUITE_P(
    Latent, HostileModel,
    testing::Values(
        of_deepseek("odd_rotation", "rope.dimension_count", 3, "is 3, which is odd"),
        of_deepseek("whole_rotation", "rope.dimension_count", 6, "is 6, all of a head"),
        of_deepseek("wide_rotation", "rope.dimension_count", 8, "is 8, allowed are 1 to 6"),
        of_deepseek("no_rank", "attention.kv_lora_rank", 0, "is 0"),
        of_deepseek("no_values", "attention.value_length_mla", 0, "is 0"),
        of_deepseek("uneven_groups", "expert_group_count", 3,
                    "is 3, of which 1 are used, for 4 experts, of which 2 are used"),
        of_deepseek("small_groups", "expert_group_count", 4,
                    "is 4, of which 1 are used, for 4 experts, of which 2 are used"),
        of_deepseek("unused_groups", "expert_group_used_count", 3, "is 3, allowed are 1 to 2"),
        of_deepseek("unknown_gating", "expert_gating_func", 4, "is 4"),
        of_deepseek("leading_layers", "leading_dense_block_count", 2,
                    "is 2, and layer 1 has experts"),
        without_of_deepseek("no_router", "blk.1.ffn_gate_inp.weight",
                            "'deepseek2.leading_dense_block_count' is 1, and layer 1 lacks"),
        without_of_deepseek("no_latent_keys", "blk.1.attn_k_b.weight",
                            "tensor 'blk.1.attn_k_b.weight' is missing"),
        without_of_deepseek("no_latent_norm", "blk.0.attn_kv_a_norm.weight",
                            "tensor 'blk.0.attn_kv_a_norm.weight' is missing"),
        without_of_deepseek("no_shared_expert", "blk.1.ffn_up_shexp.weight",
                            "tensor 'blk.1.ffn_up_shexp.weight' is missing"),
        HostileModelCase{
            "latent_shape",
            [](auto& m) {
              become_deepseek(m);
              m.tensors["blk.1.attn_k_b.weight"] = {{5, 4, 2}};
            },
            "tensor 'blk.1.attn_k_b.weight' has the shape [5, 4, 2], the hyperparameters "
            "say [4, 5, 2]"}),
    [](const auto& test) { return test.param.name; });

HostileModelCase with_int(const std::string& name, const std::string& key, uint32_t value,
                          const std::string& message) {
  return {name, [key, value](TinyModel& model) { model.ints["llama." + key] = value; }, message};
}

// Kernels compute in 32 bits: breaks if what a file says in 64 became infinite or 0 there.
HostileModelCase with_double(const std::string& name, const std::string& key, double value,
                             const std::string& said) {
  return {
      name, [key, value](TinyModel& model) { model.doubles["llama." + key] = value; },
      "key 'llama." + key + "' is " + said + ", which is outside of the range of 32-bit floats"};
}

INSTANTIATE_TEST_SUITE_P(
    Doubles, HostileModel,
    testing::Values(with_double("large_eps", "attention.layer_norm_rms_epsilon", 1e300, "1e+300"),
                    with_double("small_eps", "attention.layer_norm_rms_epsilon", 1e-60, "1e-60"),
                    with_double("denormal_eps", "attention.layer_norm_rms_epsilon", 1e-40, "1e-40"),
                    with_double("large_base", "rope.freq_base", 1e300, "1e+300"),
                    with_double("small_base", "rope.freq_base", 1e-300, "1e-300"),
                    with_double("small_factor", "rope.scaling.factor", 1e-320, "1e-320"),
                    with_double("old_factor", "rope.scale_linear", 1e-320, "1e-320"),
                    with_double("attn_factor", "rope.scaling.attn_factor", 1e300, "1e+300")),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Files, HostileModel,
    testing::Values(
        with_int("all_layers_predict", "nextn_predict_layers", 1, "is 1, allowed are 1 to 0"),
        HostileModelCase{"negative_multiplier",
                         [](auto& m) {
                           m.become("granite");
                           m.floats["granite.residual_scale"] = -1.0F;
                         },
                         "'granite.residual_scale' is -1"},
        HostileModelCase{"part", [](auto& m) { m.ints["split.count"] = 2; },
                         "key 'split.count' is 2: the file is one part of a model"},
        HostileModelCase{"architecture", [](auto& m) { m.architecture = "rwkv7"; }, "'rwkv7'"},
        HostileModelCase{"missing_key", [](auto& m) { m.ints.erase("llama.block_count"); },
                         "key 'llama.block_count' is missing"},
        with_int("no_layers", "block_count", 0, "key 'llama.block_count' is 0"),
        with_int("many_layers", "block_count", 4000000000, "'llama.block_count' is 4000000000"),
        with_int("more_layers", "block_count", 2, "tensor 'blk.1.attn_norm.weight' is missing"),
        with_int("fewer_heads", "attention.head_count", 1, "tensor"),
        with_int("odd_heads", "attention.head_count", 3, "head_count"),
        with_int("many_heads", "attention.head_count", 65536, "allowed are 1 to 65535"),
        with_int("no_heads", "attention.head_count", 0, "'llama.attention.head_count' is 0"),
        with_int("kv_heads", "attention.head_count_kv", 3, "does not divide the 2 query heads"),
        with_int("rotary", "rope.dimension_count", 6, "allowed are 1 to 4"),
        with_int("rotary_sections", "rope.dimension_sections", 16, "positions in images"),
        with_int("odd_rotary", "rope.dimension_count", 3, "which is odd"),
        with_int("value_length", "attention.value_length", 2, "is 2 and the key length 4"),
        with_int("experts", "expert_count", 8, "'llama.expert_used_count' is missing"),
        HostileModelCase{"experts_used",
                         [](auto& m) {
                           add_experts(m);
                           m.ints["llama.expert_used_count"] = 4;
                         },
                         "'llama.expert_used_count' is 4, allowed are 1 to 3"},
        HostileModelCase{"expert_groups",
                         [](auto& m) {
                           add_experts(m);
                           m.ints["llama.expert_group_count"] = 2;
                         },
                         "'llama.expert_group_count' is 2"},
        HostileModelCase{"gating",
                         [](auto& m) {
                           add_experts(m);
                           m.ints["llama.expert_gating_func"] = 9;
                         },
                         "'llama.expert_gating_func' is 9"},
        HostileModelCase{"expert_tensor",
                         [](auto& m) {
                           add_experts(m);
                           m.tensors.erase("blk.0.ffn_up_exps.weight");
                         },
                         "tensor 'blk.0.ffn_up_exps.weight' is missing"},
        HostileModelCase{"expert_shape",
                         [](auto& m) {
                           add_experts(m);
                           m.tensors["blk.0.ffn_up_exps.weight"] = {{8, 12, 2}};
                         },
                         "the hyperparameters say [8, 12, 3]"},
        HostileModelCase{"uncounted_experts",
                         [](auto& m) {
                           add_experts(m);
                           m.ints.erase("llama.expert_count");
                         },
                         "layer 0 has experts"},
        HostileModelCase{"no_window",
                         [](auto& m) {
                           m.become("gemma2");
                           m.ints["gemma2.attention.sliding_window"] = 0;
                         },
                         "'gemma2.attention.sliding_window' is 0"},
        HostileModelCase{"residual_unstated", [](auto& m) { become_gptneox(m); },
                         "'gptneox.use_parallel_residual' is missing"},
        HostileModelCase{"local_base",
                         [](auto& m) {
                           m.become("gemma2");
                           m.floats["gemma2.rope.freq_base_swa"] = 500;
                         },
                         "'gemma2.rope.freq_base_swa' is 500"},
        HostileModelCase{"yarn_log",
                         [](auto& m) { m.floats["llama.rope.scaling.yarn_log_multiplier"] = 0.1F; },
                         "'llama.rope.scaling.yarn_log_multiplier' is 0.1"},
        HostileModelCase{"temperature",
                         [](auto& m) { m.floats["llama.attention.temperature_scale"] = 0.1F; },
                         "'llama.attention.temperature_scale' is 0.1"},
        HostileModelCase{"soft_cap", [](auto& m) { m.floats["llama.attn_logit_softcapping"] = 50; },
                         "'llama.attn_logit_softcapping' is 50"},
        with_int("no_context", "context_length", 0, "'llama.context_length' is 0"),
        HostileModelCase{"eps",
                         [](auto& m) { m.floats["llama.attention.layer_norm_rms_epsilon"] = 0; },
                         "not a finite number above 0"},
        HostileModelCase{"base", [](auto& m) { m.floats["llama.rope.freq_base"] = NAN; },
                         "'llama.rope.freq_base' is nan"},
        HostileModelCase{"scaling", [](auto& m) { m.texts["llama.rope.scaling.type"] = "dynamic"; },
                         "'llama.rope.scaling.type' is 'dynamic'"},
        HostileModelCase{"longrope",
                         [](auto& m) { m.texts["llama.rope.scaling.type"] = "longrope"; },
                         "'llama.rope.scaling.type' is 'longrope'"},
        HostileModelCase{
            "causal", [](auto& m) { m.booleans["llama.attention.causal"] = false; },
            "'llama.attention.causal' is false; Assay runs models whose attention is causal"},
        HostileModelCase{"scale", [](auto& m) { m.floats["llama.attention.scale"] = 0.25F; },
                         "'llama.attention.scale' is 0.25"},
        HostileModelCase{"softcap", [](auto& m) { m.floats["llama.final_logit_softcapping"] = 30; },
                         "'llama.final_logit_softcapping' is 30"},
        HostileModelCase{"logit_scale", [](auto& m) { m.floats["llama.logit_scale"] = NAN; },
                         "'llama.logit_scale' is nan"},
        HostileModelCase{"missing_tensor", [](auto& m) { m.tensors.erase("blk.0.ffn_up.weight"); },
                         "tensor 'blk.0.ffn_up.weight' is missing"},
        HostileModelCase{"shape",
                         [](auto& m) {
                           m.tensors["blk.0.ffn_up.weight"].dims = {12, 8};
                         },
                         "tensor 'blk.0.ffn_up.weight' has the shape [12, 8]"},
        HostileModelCase{"norm_shape", [](auto& m) { m.tensors["output_norm.weight"].dims = {4}; },
                         "tensor 'output_norm.weight' has the shape [4]"},
        HostileModelCase{"unknown_tensor",
                         [](auto& m) { m.tensors["blk.0.attn_gate.weight"].dims = {8}; },
                         "tensor 'blk.0.attn_gate.weight' is not one that Assay uses"},
        HostileModelCase{"rope_factor",
                         [](auto& m) {
                           m.tensors["rope_freqs.weight"].dims = {2};
                           m.fill["rope_freqs.weight"] = 0.0F;
                         },
                         "tensor 'rope_freqs.weight' holds 0"}),
    [](const auto& test) { return test.param.name; });

// Breaks if files of ChatGLM's own class, which have queries, keys and values in one tensor, were
// refused.
TEST(Model, ChatGlmMayHaveOneProductOfQueriesKeysAndValues) {
  TinyModel tiny;
  tiny.become("chatglm");
  for (const char* name : {"attn_q", "attn_k", "attn_v", "ffn_gate"}) {
    tiny.tensors.erase("blk.0." + std::string(name) + ".weight");
  }
  tiny.tensors["blk.0.attn_qkv.weight"] = {{8, 16}};
  tiny.tensors["blk.0.attn_qkv.bias"] = {{16}};
  tiny.tensors["blk.0.ffn_up.weight"] = {{8, 24}};
  const Model model(std::make_shared<Gguf>(write(tiny, "chatglm")));
  EXPECT_EQ(model.config().find(Checkpoint::kV)->tensor, "attn_qkv");
  EXPECT_EQ(model.config().find(Checkpoint::kFfnGate)->tensor, "ffn_up");
}

}  // namespace
}  // namespace assay
