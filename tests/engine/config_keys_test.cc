// What keys of a GGUF file mean: as llama.cpp reads them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/error.h"
#include "engine/model.h"
#include "tests/support/tiny_model.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::TinyModel;

ModelConfig config_of(const TinyModel& model) {
  const std::string path = model.write(testing::TempDir() + "config_keys_test.gguf");
  return Model(std::make_shared<Gguf>(path)).config();
}

void expect_rejected(const TinyModel& model, const std::string& message) {
  EXPECT_THAT([&] { config_of(model); }, ThrowsMessage<Error>(HasSubstr(message)));
}

void become_mixtral(TinyModel& model) {
  for (const std::string part : {"gate", "up", "down"}) {
    model.tensors["blk.0.ffn_" + part + "_exps.weight"] = {
        {part == "down" ? 12U : 8U, part == "down" ? 8U : 12U, 3}};
    model.tensors.erase("blk.0.ffn_" + part + ".weight");
  }
  model.tensors["blk.0.ffn_gate_inp.weight"] = {{8, 3}};
  model.ints[model.architecture + ".expert_count"] = 3;
  model.ints[model.architecture + ".expert_used_count"] = 2;
}

// Layers of Gemma 3 with heads of 4.
TinyModel gemma3(int layers) {
  TinyModel model;
  model.become("gemma3");
  model.ints["gemma3.block_count"] = static_cast<uint32_t>(layers);
  model.ints["gemma3.attention.sliding_window"] = 5;
  const auto first = model.tensors;
  for (int i = 0; i < layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    for (const auto& [name, tensor] : first) {
      if (name.starts_with("blk.0.")) model.tensors[layer + name.substr(6)] = tensor;
    }
    for (const char* norm : {"post_attention_norm.weight", "post_ffw_norm.weight"}) {
      model.tensors[layer + norm] = {{8}};
    }
    for (const char* norm : {"attn_q_norm.weight", "attn_k_norm.weight"}) {
      model.tensors[layer + norm] = {{4}};
    }
  }
  return model;
}

std::vector<int64_t> windows(const TinyModel& model) {
  std::vector<int64_t> result;
  for (const LayerConfig& layer : config_of(model).layers) result.push_back(layer.window);
  return result;
}

// As llama_model_save_to_file() writes it.
void state_all_variables(TinyModel& model) {
  const std::string prefix = model.architecture + ".";
  for (const char* key :
       {"attention.sliding_window", "expert_feed_forward_length", "expert_gating_func",
        "expert_group_count", "expert_group_used_count", "expert_shared_count",
        "expert_shared_feed_forward_length", "leading_dense_block_count", "nextn_predict_layers"}) {
    model.ints.try_emplace(prefix + key, 0);
  }
  for (const auto& [key, value] :
       std::map<std::string, float>{{"attn_logit_softcapping", 50},
                                    {"final_logit_softcapping", 30},
                                    {"expert_weights_scale", 0},
                                    {"rope.freq_base", 500},
                                    {"rope.freq_base_swa", 10000},
                                    {"rope.scaling.factor", 0},
                                    {"rope.scaling.yarn_ext_factor", -1},
                                    {"rope.scaling.yarn_attn_factor", 1},
                                    {"rope.scaling.yarn_beta_fast", 32},
                                    {"rope.scaling.yarn_beta_slow", 1}}) {
    model.floats.try_emplace(prefix + key, value);
  }
  model.booleans[prefix + "expert_weights_norm"] = false;
  model.int_lists[prefix + "rope.dimension_sections"] = {0, 0, 0, 0};
}

// Breaks if a file were refused for what llama.cpp itself writes into it.
TEST(ConfigKeys, AFileThatLlamaCppSavedIsThatWhichItLoaded) {
  TinyModel tiny;
  tiny.floats["llama.rope.freq_base"] = 500;
  ModelConfig loaded = config_of(tiny);
  state_all_variables(tiny);
  ModelConfig saved = config_of(tiny);
  loaded.name = saved.name = "";
  EXPECT_EQ(saved, loaded);
}

// Breaks if the values that llama.cpp states for what it never read were taken for the model's.
TEST(ConfigKeys, WhatLlamaCppNeverReadIsNotTheModels) {
  TinyModel tiny;
  become_mixtral(tiny);
  tiny.texts["llama.rope.scaling.type"] = "yarn";
  tiny.floats["llama.rope.scaling.factor"] = 4;
  state_all_variables(tiny);
  const ModelConfig config = config_of(tiny);
  EXPECT_TRUE(config.routing.normalise);
  EXPECT_DOUBLE_EQ(config.rope_attn_factor, 0.1 * std::log(4.0) + 1.0);
  EXPECT_EQ(config.yarn->extrapolation, 1.0);

  TinyModel capped = gemma3(1);
  state_all_variables(capped);
  EXPECT_EQ(config_of(capped).attention_soft_cap, 0.0F);
  capped.floats["gemma3.attn_logit_softcapping"] = 20;
  EXPECT_EQ(config_of(capped).attention_soft_cap, 20.0F);
}

// Breaks if layers had a window that llama.cpp gives to the others.
TEST(ConfigKeys, WindowsAreStatedByAPeriodOrALayerAtATime) {
  TinyModel tiny = gemma3(3);
  const std::string key = "gemma3.attention.sliding_window_pattern";
  const auto with_period = [&](uint32_t period) {
    tiny.ints[key] = period;
    return windows(tiny);
  };
  EXPECT_THAT(windows(tiny), ElementsAre(5, 5, 5));
  EXPECT_THAT(with_period(0), ElementsAre(5, 5, 5));
  EXPECT_THAT(with_period(1), ElementsAre(0, 0, 0));
  EXPECT_THAT(with_period(2), ElementsAre(5, 0, 5));
  tiny.ints.erase(key);
  tiny.int_lists[key] = {0, 1, 0};
  EXPECT_THAT(windows(tiny), ElementsAre(0, 5, 0));
  tiny.int_lists[key] = {0, 1};
  expect_rejected(tiny, "'" + key + "' has 2 entries for 3 layers");
  tiny.int_lists.erase(key);
  tiny.ints["gemma3.attention.sliding_window"] = 0;
  EXPECT_THAT(windows(tiny), ElementsAre(0, 0, 0));
}

// Breaks if a file that has one number for each layer were refused, or taken for the first of them.
TEST(ConfigKeys, ANumberForEachLayerHasToBeTheSame) {
  for (const std::string key : {"attention.head_count", "feed_forward_length"}) {
    TinyModel tiny = gemma3(2);
    const uint32_t number = tiny.ints.at("gemma3." + key);
    tiny.ints.erase("gemma3." + key);
    tiny.int_lists["gemma3." + key] = std::vector<int32_t>(2, static_cast<int32_t>(number));
    EXPECT_EQ(config_of(tiny).layers.size(), 2U) << key;
    tiny.int_lists["gemma3." + key].back() *= 2;
    expect_rejected(tiny, "key 'gemma3." + key + "' is ");
    expect_rejected(tiny, "in one layer and ");
  }
}

// Breaks if llama.cpp gave other sizes to the heads of layers with a window than Assay.
TEST(ConfigKeys, HeadsOfAnotherSizeInLayersWithAWindowAreRefused) {
  for (const std::string key :
       {"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"}) {
    TinyModel tiny = gemma3(1);
    tiny.ints["gemma3." + key] = 4;
    EXPECT_EQ(config_of(tiny).head_dim, 4);
    tiny.ints["gemma3." + key] = 2;
    expect_rejected(tiny, "key 'gemma3." + key + "' is 2, and 4 in layers without a window");
    tiny.ints["gemma3.attention.sliding_window"] = 0;
    EXPECT_EQ(config_of(tiny).head_dim, 4) << "no layer has one";
  }
}

// llama.cpp has a factor of the rotation in the scores of latent attention, too, and in Gemma 3's
// layers with a window.
TEST(ConfigKeys, AFactorOfRotationsThatDifferIsRefused) {
  TinyModel tiny = gemma3(1);
  tiny.floats["gemma3.rope.scaling.attn_factor"] = 1;
  EXPECT_EQ(config_of(tiny).rope_attn_factor, 1.0);
  tiny.floats["gemma3.rope.scaling.attn_factor"] = 1.5F;
  expect_rejected(tiny, "key 'gemma3.rope.scaling.attn_factor' is 1.5");
}

// llama.cpp reads none of these for Mixtral, and would compute another network than Assay.
TEST(ConfigKeys, ExpertsThatDoOtherThanTheArchitecturesAreRefused) {
  TinyModel tiny;
  become_mixtral(tiny);
  tiny.ints["llama.expert_gating_func"] = 1;
  tiny.floats["llama.expert_weights_scale"] = 1;
  tiny.booleans["llama.expert_weights_norm"] = true;
  EXPECT_EQ(config_of(tiny).routing.gating, Gating::kSoftmax);
  tiny.ints["llama.expert_gating_func"] = 2;
  expect_rejected(tiny, "key 'llama.expert_gating_func' is 2");
  tiny.ints["llama.expert_gating_func"] = 0;
  tiny.floats["llama.expert_weights_scale"] = 2.5F;
  expect_rejected(tiny, "key 'llama.expert_weights_scale' is 2.5");
  tiny.floats["llama.expert_weights_scale"] = 0;
  tiny.booleans["llama.expert_weights_norm"] = false;
  expect_rejected(tiny, "key 'llama.expert_weights_norm' is false");
}

// llama.cpp rotates Granite's layers unless this key says otherwise, and those with experts always.
TEST(ConfigKeys, OnlyGraniteHasASwitchOfItsRotation) {
  TinyModel tiny;
  tiny.become("granite");
  tiny.booleans["granite.rope.scaling.finetuned"] = false;
  EXPECT_EQ(config_of(tiny).find(Checkpoint::kQRope), nullptr);
  TinyModel routed;
  routed.become("granitemoe");
  become_mixtral(routed);
  routed.booleans["granitemoe.rope.scaling.finetuned"] = false;
  EXPECT_NE(config_of(routed).find(Checkpoint::kQRope), nullptr);
}

// Breaks if a key without effect in a file without experts were refused.
TEST(ConfigKeys, FilesWithoutExpertsMayCountTheirLayers) {
  TinyModel tiny;
  tiny.ints["llama.leading_dense_block_count"] = 0;
  EXPECT_EQ(config_of(tiny).n_layers, 1);
}

}  // namespace
}  // namespace assay
