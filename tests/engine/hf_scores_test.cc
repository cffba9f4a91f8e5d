#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "engine/hf/config.h"
#include "engine/model.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_model.h"

// What config.json of Llama 4, Phi-3.5-MoE, MPT and BLOOM says of scores, chunks and experts.
namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

HfConfig config_of(const std::string& type, const std::string& more) {
  return read_hf_config(R"({"model_type": ")" + type +
                            R"(", "vocab_size": 5, "hidden_size": 8, "num_hidden_layers": 4,
                                "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
                                "intermediate_size": 6, "num_local_experts": 4,
                                "max_position_embeddings": 64)" +
                            more + "}",
                        "config.json");
}

HfConfig llama4(const std::string& more) {
  return config_of("llama4_text", R"(, "intermediate_size_mlp": 7)" + more);
}

template <class Number>
Number value(const HfConfig& config, const std::string& key) {
  return std::get<Number>(config.metadata.at(key));
}

std::vector<bool> flags(const HfConfig& config, const std::string& key) {
  const auto& numbers = std::get<GgufNumbers<bool>>(value<GgufArray>(config, key).items);
  std::vector<bool> all;
  for (size_t i = 0; i < numbers.size(); ++i) all.push_back(numbers[i]);
  return all;
}

void expect_refused(const std::string& type, const std::string& more, const std::string& message) {
  EXPECT_THAT([&] { config_of(type, more); }, ThrowsMessage<Error>(HasSubstr(message))) << more;
}

// Breaks if chunks, rotation or temperature were those of other layers, or widths those of others.
TEST(HfLlama4, HasWhatItsClassHas) {
  const HfConfig read = llama4("");
  EXPECT_EQ(value<int64_t>(read, "llama4.attention.sliding_window"), 8192);
  EXPECT_THAT(flags(read, "llama4.attention.sliding_window_pattern"),
              ElementsAre(true, true, true, false));
  EXPECT_THAT(flags(read, "assay.rotary_layers"), ElementsAre(true, true, true, false));
  EXPECT_EQ(value<double>(read, "llama4.attention.temperature_scale"), 0.1F);
  EXPECT_EQ(value<int64_t>(read, "llama4.attention.temperature_length"), 8192);
  EXPECT_EQ(value<int64_t>(read, "llama4.feed_forward_length"), 7);
  EXPECT_EQ(value<int64_t>(read, "llama4.expert_feed_forward_length"), 6);
  EXPECT_EQ(value<int64_t>(read, "llama4.expert_shared_feed_forward_length"), 6);
  EXPECT_EQ(value<int64_t>(read, "llama4.interleave_moe_layer_step"), 1);
  EXPECT_TRUE(value<bool>(read, "assay.use_qk_norm"));
  EXPECT_THAT(read.parts.experts, ElementsAre(true, true, true, true));
}

// Breaks if a list counted less than the number that it stands in place of.
TEST(HfLlama4, ListsSayWhichLayers) {
  const HfConfig read = llama4(R"(, "moe_layers": [1, 3], "interleave_moe_layer_step": 1,
                                  "no_rope_layers": [0, 1, 1, 1], "use_qk_norm": false,
                                  "attn_temperature_tuning": false, "attention_chunk_size": 16)");
  EXPECT_THAT(read.parts.experts, ElementsAre(false, true, false, true));
  EXPECT_THAT(flags(read, "assay.rotary_layers"), ElementsAre(false, true, true, true));
  EXPECT_THAT(flags(read, "llama4.attention.sliding_window_pattern"),
              ElementsAre(false, true, true, true));
  EXPECT_EQ(value<int64_t>(read, "llama4.attention.sliding_window"), 16);
  EXPECT_EQ(value<double>(read, "llama4.attention.temperature_scale"), 0.0);
  EXPECT_FALSE(value<bool>(read, "assay.use_qk_norm"));
  const HfConfig listed = llama4(R"(, "layer_types": ["full_attention", "chunked_attention",
                                      "full_attention", "full_attention"])");
  EXPECT_THAT(flags(listed, "llama4.attention.sliding_window_pattern"),
              ElementsAre(false, true, false, false));
}

TEST(HfLlama4, WhatIsNotComputedIsRefused) {
  const std::pair<const char*, const char*> others[] = {
      {R"(, "moe_layers": [0, 3])", "key 'moe_layers' is not every nth of the layers"},
      {R"(, "moe_layers": [])", "key 'moe_layers' is not every nth of the layers"},
      {R"(, "layer_types": ["sliding_attention", "full_attention", "full_attention",
                            "full_attention"])",
       "key 'layer_types' has a layer of type 'sliding_attention'"},
      {R"(, "no_rope_layers": [1, 1])", "key 'no_rope_layers' is not 4 numbers 0 or 1"}};
  for (const auto& [more, message] : others) {
    EXPECT_THAT([&] { llama4(more); }, ThrowsMessage<Error>(HasSubstr(message))) << more;
  }
  expect_refused("llama", R"(, "attention_chunk_size": 16)", "key 'attention_chunk_size'");
}

// Breaks if Llama 4's frequencies, of which none lie between its two borders, were refused.
TEST(HfLlama4, BordersOfItsScalingAreOne) {
  const HfConfig read = llama4(R"(, "rope_theta": 10000.0, "rope_scaling": {"rope_type": "llama3",
      "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0,
      "original_max_position_embeddings": 64})");
  EXPECT_THAT(read.rope_factors.at("rope_freqs.weight"), ElementsAre(1.0F, 8.0F));
}

TEST(HfPhiMoe, HasTwoExpertsByTheirJitter) {
  EXPECT_EQ(value<double>(config_of("phimoe", ""), "assay.router_jitter_noise"), 0.01);
  EXPECT_EQ(value<double>(config_of("phimoe", R"(, "router_jitter_noise": 0.0)"),
                          "assay.router_jitter_noise"),
            0.0);
  expect_refused("phimoe", R"(, "num_experts_per_tok": 3)", "key 'num_experts_per_tok' is not 2");
  expect_refused("phimoe", R"(, "router_jitter_noise": -0.5)", "key 'router_jitter_noise'");
  EXPECT_TRUE(config_of("phimoe", R"(, "lm_head_bias": true)").parts.logits_bias);
}

// Breaks if the scale of cosines and sines were that of Phi-3, or two scales one.
TEST(HfPhiMoe, HasScalesOfItsOwn) {
  const auto scaled = [](const std::string& of_long) {
    return config_of("phimoe", R"(, "rope_scaling": {"type": "longrope", "short_factor": [1.0, 2.0],
        "long_factor": [2.0, 3.0], "original_max_position_embeddings": 16, "short_mscale": 1.25,
        "long_mscale": )" + of_long +
                                   "}");
  };
  EXPECT_EQ(value<double>(scaled("1.25"), "phimoe.rope.scaling.attn_factor"), 1.25);
  EXPECT_THAT([&] { scaled("1.5"); }, ThrowsMessage<Error>(HasSubstr("key 'long_mscale'")));
  expect_refused("phimoe",
                 R"(, "rope_scaling": {"rope_type": "linear", "factor": 2.0, "short_mscale": 1.0,
                      "long_mscale": 1.0})",
                 "key 'rope_type' is 'linear'");
}

TEST(HfMpt, HasAlibiAndRefusesTheRest) {
  const auto read = [](const std::string& attention) {
    return read_hf_config(R"({"model_type": "mpt", "vocab_size": 5, "d_model": 8, "n_heads": 2,
                              "n_layers": 1, "max_seq_len": 16, "attn_config": )" +
                              attention + "}",
                          "config.json");
  };
  const HfConfig usual = read("null");
  EXPECT_EQ(value<double>(usual, "mpt.attention.max_alibi_bias"), 8.0);
  EXPECT_EQ(value<int64_t>(usual, "mpt.feed_forward_length"), 32);
  EXPECT_EQ(value<int64_t>(usual, "mpt.attention.head_count_kv"), 2);
  EXPECT_EQ(value<double>(read(R"({"alibi_bias_max": 4})"), "mpt.attention.max_alibi_bias"), 4.0);
  EXPECT_EQ(value<double>(read(R"({"clip_qkv": 6.0})"), "mpt.attention.clamp_kqv"), 6.0);
  for (const char* none : {R"({"clip_qkv": null})", R"({"clip_qkv": 0})"}) {
    EXPECT_FALSE(read(none).metadata.contains("mpt.attention.clamp_kqv")) << none;
  }
  const std::pair<const char*, const char*> others[] = {
      {R"({"alibi": false})", "key 'alibi' is false"},
      {R"({"clip_qkv": -6.0})", "key 'clip_qkv'"},
      {R"({"softmax_scale": 0.5})", "key 'softmax_scale'"},
      {R"({"prefix_lm": true})", "key 'prefix_lm'"},
      {R"({"qk_ln": true})", "key 'qk_ln'"},
      {R"({"attn_type": "multiquery_attention"})", "key 'attn_type'"}};
  for (const auto& [attention, message] : others) {
    EXPECT_THAT([&] { read(attention); }, ThrowsMessage<Error>(HasSubstr(message))) << attention;
  }
}

TEST(HfBloom, HasAlibiAndItsOwnNames) {
  const auto read = [](const std::string& more) {
    return read_hf_config(
        R"({"model_type": "bloom", "vocab_size": 5, "n_head": 2, "n_layer": 1)" + more + "}",
        "config.json");
  };
  const HfConfig both = read(R"(, "hidden_size": 4, "n_embed": 8, "seq_length": 16)");
  EXPECT_EQ(value<int64_t>(both, "bloom.embedding_length"), 8);
  EXPECT_EQ(value<int64_t>(both, "bloom.feed_forward_length"), 32);
  EXPECT_EQ(value<int64_t>(both, "bloom.context_length"), 16);
  EXPECT_EQ(value<double>(both, "bloom.attention.max_alibi_bias"), 8.0);
  EXPECT_TRUE(both.tied);
  EXPECT_EQ(value<int64_t>(read(R"(, "hidden_size": 4)"), "bloom.context_length"), 1 << 20);
  const std::pair<const char*, const char*> others[] = {
      {"", "key 'n_embed' is missing"},
      {R"(, "n_embed": 0)", "key 'n_embed' is not a whole number from 1"},
      {R"(, "n_embed": 9)", "key 'n_head' is 2, which does not divide the width 9"},
      {R"(, "n_embed": 8, "seq_length": -1)", "key 'seq_length' is not a whole number"},
      {R"(, "n_embed": 8, "apply_residual_connection_post_layernorm": true)",
       "key 'apply_residual_connection_post_layernorm' asks for what Assay does not compute"}};
  for (const auto& [more, message] : others) {
    EXPECT_THAT([&] { read(more); }, ThrowsMessage<Error>(HasSubstr(message))) << more;
  }
}

using HostileJitter = TemporaryFolder;

// Breaks if a file's NaN made all experts near.
TEST_F(HostileJitter, IsRefused) {
  for (const float jitter :
       {std::numeric_limits<float>::quiet_NaN(), -0.5F, std::numeric_limits<float>::infinity()}) {
    testing_support::TinyModel tiny;
    tiny.become("phimoe");
    tiny.floats.clear();
    tiny.floats["phimoe.attention.layer_norm_epsilon"] = 1e-5F;
    tiny.ints["phimoe.expert_count"] = 3;
    tiny.ints["phimoe.expert_used_count"] = 2;
    tiny.floats["assay.router_jitter_noise"] = jitter;
    const std::string file = tiny.write(path("jitter.gguf"));
    EXPECT_THAT([&] { Model(std::make_shared<Gguf>(file)); },
                ThrowsMessage<Error>(
                    HasSubstr("key 'assay.router_jitter_noise' is " + fmt::format("{}", jitter))));
  }
}

}  // namespace
}  // namespace assay
