#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "tests/support/small_config.h"

// What config.json of MiMo-V2-Flash, of Granite with windows, of Cohere's experts, of Bamba and of
// OLMo says that no other does.
namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::small_config;
using testing_support::stated;

HfConfig small_mimo(const std::string& more) {
  return small_config("mimo_v2_flash", R"(, "head_dim": 24, "v_head_dim": 8, "n_routed_experts": 4,
                                        "num_experts_per_tok": 2, "moe_intermediate_size": 7)" +
                                           more);
}

HfConfig small_cohere(const std::string& more) {
  return small_config("cohere2_moe", R"(, "head_dim": 4, "num_experts": 4)" + more);
}

template <class Number>
std::vector<Number> listed(const HfConfig& config, const std::string& key) {
  const auto& numbers = std::get<GgufNumbers<Number>>(stated<GgufArray>(config, key).items);
  std::vector<Number> all;
  for (size_t i = 0; i < numbers.size(); ++i) all.push_back(numbers[i]);
  return all;
}

template <class Read>
void expect_others_refused(const Read& read, const std::string& more, const std::string& message) {
  EXPECT_THAT([&] { read(more); }, ThrowsMessage<Error>(HasSubstr(message))) << more;
}

// Breaks if heads of layers with a window were those of others, or published keys that transformers
// does not read changed anything.
TEST(HfMimo, HasWhatItsClassHas) {
  const HfConfig read =
      small_mimo(R"(, "moe_layer_freq": [0, 1, 1, 1], "routed_scaling_factor": null,
                                 "attention_chunk_size": 128, "rope_theta": 7.0,
                                 "swa_num_key_value_heads": 4)");
  EXPECT_THAT(listed<bool>(read, "mimo2.attention.sliding_window_pattern"),
              ElementsAre(false, true, true, true));
  EXPECT_THAT(listed<int32_t>(read, "mimo2.attention.head_count_kv"), ElementsAre(2, 4, 4, 4));
  EXPECT_EQ(stated<int64_t>(read, "mimo2.attention.sliding_window"), 129);
  EXPECT_EQ(stated<int64_t>(read, "mimo2.attention.key_length"), 24);
  EXPECT_EQ(stated<int64_t>(read, "mimo2.attention.value_length"), 8);
  EXPECT_EQ(stated<int64_t>(read, "mimo2.rope.dimension_count"), 8);
  EXPECT_EQ(stated<double>(read, "mimo2.rope.freq_base"), 5e6);
  EXPECT_EQ(stated<double>(read, "mimo2.rope.freq_base_swa"), 1e4);
  EXPECT_EQ(stated<double>(read, "mimo2.attention.value_scale"), double{0.707F});
  EXPECT_EQ(stated<double>(read, "mimo2.expert_weights_scale"), 1.0);
  EXPECT_EQ(stated<int64_t>(read, "mimo2.leading_dense_block_count"), 1);
  EXPECT_EQ(stated<double>(small_mimo(R"(, "attention_value_scale": null)"),
                           "mimo2.attention.value_scale"),
            1.0);
  EXPECT_EQ(stated<int64_t>(small_mimo(R"(, "sliding_window_size": 3)"),
                            "mimo2.attention.sliding_window"),
            4);
}

TEST(HfMimo, WhatIsNotComputedIsRefused) {
  const std::pair<const char*, const char*> others[] = {
      {R"(, "num_key_value_heads": 4)", "key 'num_key_value_heads' is 4, and twice that does not"},
      {R"(, "swa_num_key_value_heads": 2)", "key 'swa_num_key_value_heads' is not 4"},
      {R"(, "swa_v_head_dim": "8")", "key 'swa_v_head_dim' is not a whole number"},
      {R"(, "v_head_dim": 0)", "key 'v_head_dim' is not a whole number from 1"},
      {R"(, "v_head_dim": 1e300)", "key 'v_head_dim' is not a whole number from 1"},
      {R"(, "attention_value_scale": 0)", "key 'attention_value_scale' is not a finite number"},
      {R"(, "attention_value_scale": -1)", "key 'attention_value_scale' is not a finite number"},
      {R"(, "sliding_window_size": -1)", "key 'sliding_window_size' is not a whole number"},
      {R"(, "sliding_window": null)", "key 'sliding_window' is null"},
      {R"(, "moe_layer_freq": 2)", "key 'moe_layer_freq' is not 1"},
      {R"(, "rope_parameters": {
            "full_attention": {"rope_theta": 1e4, "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_theta": 1e4}})",
       "key 'partial_rotary_factor' gives 8 rotary dimensions, and layers without "
       "a window 12"}};
  for (const auto& [more, message] : others) {
    // Of two keys of a name the first counts, so those stand in front.
    const auto read = [](const std::string& other) {
      return read_hf_config(R"({"model_type": "mimo_v2_flash")" + other + R"(, "vocab_size": 5,
                "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 24,
                "num_key_value_heads": 2, "intermediate_size": 6, "max_position_embeddings": 64,
                "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
                "moe_intermediate_size": 7})",
                            "config.json");
    };
    expect_others_refused(read, more, message);
  }
}

TEST(HfGraniteSwa, BasesSayWhichLayersAreRotated) {
  const auto read = [](const std::string& more) { return small_config("granite_swa", more); };
  const HfConfig some = read(R"(, "layer_rope_theta": [0, 7, 7.0, 0.0])");
  EXPECT_THAT(listed<bool>(some, "granite_swa.attention.rope_pattern"),
              ElementsAre(false, true, true, false));
  EXPECT_EQ(stated<double>(some, "granite_swa.rope.freq_base"), 7.0);
  EXPECT_THAT(listed<bool>(some, "granite_swa.attention.sliding_window_pattern"),
              ElementsAre(false, true, true, true));
  EXPECT_FALSE(read("").metadata.contains("granite_swa.attention.rope_pattern"));
  read(R"(, "layer_rope_theta": [0, 7, 7, 0], "no_rope_layers": [0, 1, 1, 0])");
  const std::pair<const char*, const char*> others[] = {
      {R"(, "layer_rope_theta": [0, 7, 8, 0])", "key 'layer_rope_theta' has 7 and 8"},
      {R"(, "layer_rope_theta": [7, 7, 7])", "key 'layer_rope_theta' is not 4 numbers above 0, or"},
      {R"(, "layer_rope_theta": [7, 7, 7, -7])", "key 'layer_rope_theta' is not 4 numbers"},
      {R"(, "layer_rope_theta": [7, 7, 7, "7"])", "key 'layer_rope_theta' is not 4 numbers"},
      {R"(, "layer_rope_theta": [7, 7, 7, 1e300])", "key 'layer_rope_theta' is not 4 numbers"},
      {R"(, "layer_rope_theta": 7)", "key 'layer_rope_theta' is not 4 numbers"},
      {R"(, "layer_rope_theta": [0, 7, 7, 0], "no_rope_layers": [0, 1, 1, 1])",
       "key 'no_rope_layers'"}};
  for (const auto& [more, message] : others) expect_others_refused(read, more, message);
}

// Breaks if the leading layers' windows, widths or rotations were those of the others.
TEST(HfCohere2Moe, LeadingLayersAreOthers) {
  const HfConfig leading =
      small_cohere(R"(, "first_k_dense_replace": 2, "sliding_window_pattern": 2,
                                      "prefix_dense_intermediate_size": 9)");
  EXPECT_THAT(listed<bool>(leading, "cohere2moe.attention.sliding_window_pattern"),
              ElementsAre(false, false, true, false));
  EXPECT_THAT(leading.parts.experts, ElementsAre(false, false, true, true));
  EXPECT_EQ(stated<int64_t>(leading, "cohere2moe.feed_forward_length"), 9);
  EXPECT_EQ(stated<int64_t>(leading, "cohere2moe.expert_feed_forward_length"), 6);
  EXPECT_FALSE(leading.metadata.contains("assay.rotary_layers"));
  const HfConfig windowed = small_cohere(R"(, "first_k_dense_replace": 2,
                                       "prefix_dense_sliding_window_pattern": 2)");
  EXPECT_THAT(listed<bool>(windowed, "assay.rotary_layers"), ElementsAre(true, false, true, true));
}

TEST(HfCohere2Moe, NormAndExpertsAreAsStated) {
  EXPECT_TRUE(small_cohere("").metadata.contains("cohere2moe.attention.layer_norm_epsilon"));
  const HfConfig rms = small_cohere(R"(, "rms_norm_eps": 0.25)");
  EXPECT_EQ(stated<double>(rms, "cohere2moe.attention.layer_norm_rms_epsilon"), 0.25);
  EXPECT_FALSE(rms.metadata.contains("cohere2moe.attention.layer_norm_epsilon"));
  EXPECT_EQ(stated<int64_t>(small_cohere(""), "cohere2moe.expert_gating_func"), 3);
  EXPECT_FALSE(stated<bool>(small_cohere(""), "cohere2moe.expert_weights_norm"));
  EXPECT_FALSE(small_cohere("").shares_expert);
  const HfConfig sum = small_cohere(R"(, "num_shared_experts": 2, "expert_selection_fn": "sigmoid",
                                  "shared_expert_combination_strategy": "sum")");
  EXPECT_TRUE(stated<bool>(sum, "assay.adds_whole_shared_expert"));
  EXPECT_TRUE(stated<bool>(sum, "cohere2moe.expert_weights_norm"));
  EXPECT_EQ(stated<int64_t>(sum, "cohere2moe.expert_shared_feed_forward_length"), 12);
  const std::pair<const char*, const char*> others[] = {
      {R"(, "shared_expert_combination_strategy": "most")",
       "key 'shared_expert_combination_strategy' is 'most'"},
      {R"(, "expert_selection_fn": 1)", "key 'expert_selection_fn' is not a string"},
      {R"(, "num_shared_experts": -1)", "key 'num_shared_experts' is not a whole number"},
      {R"(, "prefix_dense_sliding_window_pattern": 0)",
       "key 'prefix_dense_sliding_window_pattern' is not a whole number"},
      {R"(, "sliding_window": null)", "key 'sliding_window' is null"},
      {R"(, "rope_scaling": {"rope_type": "linear", "factor": 2.0})",
       "key 'rope_scaling' is stated, which transformers does not read"},
      {R"(, "mlp_layer_types": ["sparse", "dense", "sparse", "sparse"])",
       "key 'mlp_layer_types' leaves later layers without experts"}};
  for (const auto& [more, message] : others) expect_others_refused(small_cohere, more, message);
}

TEST(HfBamba, ListsLayersWithAttention) {
  const auto read = [](const std::string& more) {
    return small_config("bamba", R"(, "mamba_n_heads": 4, "mamba_d_state": 2)" + more);
  };
  const HfConfig some = read(R"(, "attn_layer_indices": [1, 3])");
  EXPECT_THAT(listed<int32_t>(some, "granitehybrid.attention.head_count_kv"),
              ElementsAre(0, 2, 0, 2));
  EXPECT_EQ(stated<int64_t>(some, "granitehybrid.rope.dimension_count"), 2);
  EXPECT_FALSE(some.metadata.contains("granitehybrid.attention.scale"));
  EXPECT_THAT(listed<int32_t>(read(""), "granitehybrid.attention.head_count_kv"),
              ElementsAre(0, 0, 0, 0));
  expect_others_refused(read, R"(, "attn_layer_indices": [4])", "key 'attn_layer_indices' holds");
  expect_others_refused(read, R"(, "attn_layer_indices": 1)",
                        "key 'attn_layer_indices' is not an array");
}

TEST(HfOlmo, StatesNoEps) {
  const auto read = [](const std::string& more) { return small_config("olmo", more); };
  EXPECT_EQ(stated<double>(read(""), "olmo.attention.layer_norm_epsilon"), double{1e-5F});
  EXPECT_EQ(stated<double>(read(R"(, "clip_qkv": 8.0)"), "olmo.attention.clamp_kqv"), 8.0);
  EXPECT_FALSE(read(R"(, "clip_qkv": null)").metadata.contains("olmo.attention.clamp_kqv"));
  expect_others_refused(read, R"(, "clip_qkv": 0)", "key 'clip_qkv'");
}

}  // namespace
}  // namespace assay
