// What a Hugging Face folder's config.json states is computed, or refused by its name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "engine/hf/config.h"
#include "tests/support/hf_builder.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::HfTensors;
using testing_support::llama;
using testing_support::llama_config;

class HfConfigFile : public testing_support::HfFolder {};

// The activation is stated in config.json alone: a GGUF file of both models says the same.
TEST_F(HfConfigFile, TheActivationIsThatOfTheConfig) {
  const auto activation = [&](const std::string& more) {
    write(llama_config(more), llama());
    return Model(std::make_shared<Gguf>(folder_)).config().activation;
  };
  EXPECT_EQ(activation(""), ActivationKind::kSilu);
  EXPECT_EQ(activation(R"(, "hidden_act": "gelu")"), ActivationKind::kGelu);
  EXPECT_EQ(activation(R"(, "hidden_act": "gelu_fast")"), ActivationKind::kGeluTanh);
  EXPECT_THAT(refusal(llama_config(R"(, "hidden_act": "mish")"), llama()),
              AllOf(HasSubstr("config.json: key 'hidden_act' is 'mish'"), HasSubstr("gelu_new")));
}

// Windows that files of the architecture do not have are honoured, each in its layer.
TEST_F(HfConfigFile, WindowsAreThoseOfTheConfig) {
  const auto windows = [&](const std::string& type, const std::string& more) {
    HfTensors tensors = llama();
    for (const auto& [name, tensor] : llama()) {
      if (!name.starts_with("model.layers.0.")) continue;
      tensors["model.layers.1." + name.substr(15)] = tensor;
    }
    std::string config = llama_config(more, type);
    config.replace(config.find(R"("num_hidden_layers": 1)"), 22, R"("num_hidden_layers": 2)");
    write(config, tensors);
    std::vector<int64_t> result;
    const Model model(std::make_shared<Gguf>(folder_));
    for (const LayerConfig& layer : model.config().layers) {
      result.push_back(layer.window);
    }
    return result;
  };
  EXPECT_THAT(windows("mistral", R"(, "sliding_window": 5)"), ElementsAre(5, 5));
  EXPECT_THAT(windows("mistral", R"(, "sliding_window": null)"), ElementsAre(0, 0));
  EXPECT_THAT(windows("llama", R"(, "sliding_window": 5)"), ElementsAre(0, 0));
  const std::string listed =
      R"(, "sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"])";
  EXPECT_THAT(windows("smollm3", listed + R"(, "use_sliding_window": true)"), ElementsAre(0, 5));
  EXPECT_THAT(windows("smollm3", R"(, "sliding_window": 5)"), ElementsAre(0, 0));
}

// A config.json without the key has the window of transformers' config class, and null has none: a
// model that is taken for one without a window is wrong from that position on.
TEST_F(HfConfigFile, AMissingWindowIsThatOfTheConfigClass) {
  const auto window = [](const std::string& type, const std::string& more) {
    const HfConfig config = read_hf_config(llama_config(more, type), "config.json");
    const auto found =
        config.metadata.find(std::string(config.architecture->name) + ".attention.sliding_window");
    return found == config.metadata.end() ? 0 : std::get<int64_t>(found->second);
  };
  for (const std::string type : {"mistral", "gemma2", "gemma3_text", "cohere2", "exaone4"}) {
    EXPECT_EQ(window(type, ""), 4096) << type;
  }
  EXPECT_EQ(window("olmo3", R"(, "rope_theta": 500000.0)"), 4096);
  EXPECT_EQ(window("gpt_oss", R"(, "num_local_experts": 2, "num_experts_per_tok": 1)"), 128);
  EXPECT_EQ(window("qwen3", ""), 0);
  EXPECT_EQ(window("qwen3", R"(, "use_sliding_window": true)"), 4096);
  for (const std::string type : {"mixtral", "phi3", "starcoder2"}) {
    EXPECT_EQ(window(type, ""), 0) << type;
  }
  EXPECT_EQ(window("mistral", R"(, "sliding_window": null)"), 0);
  EXPECT_EQ(window("gemma3_text", R"(, "sliding_window": null)"), 0);
}

// Breaks if what is stated for all layers were taken for those with a window, which transformers
// rotates by the class's own base.
TEST_F(HfConfigFile, LayersWithAWindowRotateByTheirOwnBase) {
  const auto config = [](const std::string& more, const std::string& type = "olmo3") {
    return read_hf_config(llama_config(R"(, "sliding_window": 5)" + more, type), "config.json");
  };
  const auto local = [&](const std::string& more) {
    const auto metadata = config(more).metadata;
    const auto found = metadata.find("olmo2.rope.freq_base_swa");
    return found == metadata.end() ? 0.0 : std::get<double>(found->second);
  };
  EXPECT_EQ(local(R"(, "rope_theta": 10000.0)"), 500000.0);
  EXPECT_EQ(local(R"(, "rope_parameters": {"full_attention": {"rope_theta": 9},
                       "sliding_attention": {"rope_theta": 7}})"),
            7.0);
  const auto refuses = [&](const std::string& more, const std::string& type, const char* why) {
    EXPECT_THAT([&] { config(more, type); }, ThrowsMessage<Error>(HasSubstr(why))) << type;
  };
  const std::string flat = R"(, "rope_parameters": {"rope_theta": 500000})";
  refuses(flat, "olmo3", "'full_attention' is missing");
  refuses(flat, "gemma3_text", "'full_attention' is missing");
  refuses(R"(, "rope_parameters": {"full_attention": {}})", "olmo2",
          "'full_attention' does not belong");
  refuses(R"(, "rope_scaling": {"type": "linear", "factor": 2})", "gemma3_text",
          "'rope_type' is missing");
  EXPECT_THAT([&] { read_hf_config(llama_config(R"(, "sliding_window": null)", "olmo3"), ""); },
              ThrowsMessage<Error>(HasSubstr("Assay runs it with a window only")));
}

// What a key that is missing counts as, by its class in transformers; null is not missing.
TEST_F(HfConfigFile, MissingKeysAreTheDefaultsOfTheirClass) {
  const auto config = [](const std::string& type, const std::string& more = "") {
    return read_hf_config(llama_config(more, type), "config.json");
  };
  const auto real = [&](const HfConfig& read, const std::string& key) {
    const auto found = read.metadata.find(std::string(read.architecture->name) + "." + key);
    return found == read.metadata.end() ? -1.0 : std::get<double>(found->second);
  };
  EXPECT_EQ(real(config("cohere"), "rope.freq_base"), 500000.0);
  EXPECT_EQ(real(config("cohere", R"(, "rope_theta": 7)"), "rope.freq_base"), 7.0);
  EXPECT_EQ(real(config("cohere"), "logit_scale"), 0.0625);
  EXPECT_EQ(real(config("gemma2"), "final_logit_softcapping"), 30.0);
  EXPECT_EQ(
      real(config("gemma2", R"(, "final_logit_softcapping": null)"), "final_logit_softcapping"),
      0.0);
  EXPECT_EQ(config("gpt_oss").metadata.contains("gpt-oss.rope.scaling.factor"), true);
  EXPECT_EQ(config("gpt_oss").head_dim, 64);
  EXPECT_EQ(config("gpt_oss", R"(, "head_dim": null)").head_dim, 4);
  EXPECT_THAT(
      [] {
        read_hf_config(R"({"model_type": "mistral", "vocab_size": 5, "hidden_size": 8,
                                      "num_hidden_layers": 1, "num_attention_heads": 2})",
                       "config.json");
      },
      ThrowsMessage<Error>(
          HasSubstr("key 'num_key_value_heads', by its default, is 8, which does not divide")));
}

// smollm3's list says which layers rotate, whatever the period of its files is.
TEST_F(HfConfigFile, LayersRotateAsTheConfigSays) {
  const auto rotates = [&](const std::string& more) {
    write(llama_config(more, "smollm3"), llama());
    const Model model(std::make_shared<Gguf>(folder_));
    return find_spec(model.config().layers[0].ops, Checkpoint::kQRope) != nullptr;
  };
  EXPECT_TRUE(rotates(""));
  EXPECT_FALSE(rotates(R"(, "no_rope_layers": [0])"));
  EXPECT_FALSE(rotates(R"(, "no_rope_layer_interval": 1)"));
  EXPECT_THAT(refusal(llama_config(R"(, "no_rope_layers": [0, 2])", "smollm3"), llama()),
              HasSubstr("key 'no_rope_layers' is not 1 numbers 0 or 1"));
}

// The rotation is stated in one of three forms.
TEST_F(HfConfigFile, ReadsAllFormsOfTheRotation) {
  const auto config = [&](const std::string& more) {
    write(llama_config(more), llama());
    return Model(std::make_shared<Gguf>(folder_)).config();
  };
  EXPECT_EQ(config("").rope_freq_base, 10000.0);
  EXPECT_EQ(config(R"(, "rope_theta": 500)").rope_freq_base, 500.0);
  const ModelConfig old =
      config(R"(, "rope_theta": 500, "rope_scaling": {"type": "linear", "factor": 4})");
  EXPECT_EQ(old.rope_freq_scale, 0.25);
  const ModelConfig yarn = config(R"(, "rope_parameters": {"rope_type": "yarn", "factor": 4,
      "rope_theta": 700, "original_max_position_embeddings": 4, "attention_factor": 1.5,
      "truncate": false})");
  EXPECT_EQ(yarn.rope_freq_base, 700.0);
  EXPECT_EQ(yarn.rope_original_context_length, 4);
  EXPECT_EQ(yarn.rope_attn_factor, 1.5);
  EXPECT_FALSE(yarn.yarn_whole_pairs);
  EXPECT_THAT(
      refusal(llama_config(R"(, "rope_scaling": {"rope_type": "default", "new": 1})"), llama()),
      HasSubstr("config.json, rope_scaling: key 'new' asks for what Assay does not"));
}

// Breaks if a key of DeepSeek's were left out, or the generations were taken for each other.
TEST_F(HfConfigFile, LatentAttentionAndGroupsAreThoseOfTheConfig) {
  const auto config = [](const std::string& type, const std::string& more) {
    return read_hf_config(
               R"({"vocab_size": 5, "hidden_size": 8, "num_hidden_layers": 2,
                   "num_attention_heads": 2, "intermediate_size": 6, "rms_norm_eps": 1e-5,
                   "max_position_embeddings": 16, "n_routed_experts": 8, "num_experts_per_tok": 2,
                   "moe_intermediate_size": 4, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2,
                   "v_head_dim": 3, "kv_lora_rank": 5, "n_group": 4,
                   "topk_group": 2, "model_type": ")" +
                   type + "\"" + more + "}",
               "config.json")
        .metadata;
  };
  const auto whole = [](const auto& metadata, const std::string& key) {
    const auto found = metadata.find("deepseek2." + key);
    return found == metadata.end() ? int64_t{-1} : std::get<int64_t>(found->second);
  };
  const auto second = config("deepseek_v2", R"(, "q_lora_rank": null, "first_k_dense_replace": 1)");
  EXPECT_EQ(whole(second, "attention.key_length"), 6);
  EXPECT_EQ(whole(second, "attention.value_length"), 3);
  EXPECT_EQ(whole(second, "attention.kv_lora_rank"), 5);
  EXPECT_EQ(whole(second, "attention.q_lora_rank"), -1);
  EXPECT_EQ(whole(second, "rope.dimension_count"), 2);
  EXPECT_EQ(whole(second, "leading_dense_block_count"), 1);
  EXPECT_EQ(whole(second, "expert_gating_func"), 1);
  EXPECT_EQ(whole(second, "expert_group_count"), -1) << "greedy";
  const auto limited = config("deepseek_v2", R"(, "topk_method": "group_limited_greedy")");
  EXPECT_EQ(whole(limited, "attention.q_lora_rank"), 1536);
  EXPECT_EQ(whole(limited, "expert_group_count"), 4);
  EXPECT_EQ(whole(limited, "expert_group_used_count"), 2);
  const auto third = config("deepseek_v3", R"(, "q_lora_rank": 4, "first_k_dense_replace": 0)");
  EXPECT_EQ(whole(third, "attention.q_lora_rank"), 4);
  EXPECT_EQ(whole(third, "leading_dense_block_count"), 0);
  EXPECT_EQ(whole(third, "expert_gating_func"), 2);
  EXPECT_EQ(whole(third, "expert_group_count"), 4);
  EXPECT_THAT([&] { config("deepseek_v2", R"(, "topk_method": "other")"); },
              ThrowsMessage<Error>(HasSubstr("key 'topk_method' is 'other'")));
  EXPECT_THAT([&] { config("deepseek_v3", R"(, "rope_interleave": false)"); },
              ThrowsMessage<Error>(HasSubstr("key 'rope_interleave'")));
}

// Breaks if layers of linear attention were others than transformers', or sizes were not checked.
TEST_F(HfConfigFile, LinearAttentionIsThatOfTheConfig) {
  const auto config = [](const std::string& more) {
    return read_hf_config(R"({"model_type": "qwen3_5_text", "vocab_size": 5, "hidden_size": 8,
                              "num_hidden_layers": 5, "num_attention_heads": 2,
                              "num_key_value_heads": 1, "intermediate_size": 6)" +
                              more + "}",
                          "config.json");
  };
  const HfConfig usual = config("");
  EXPECT_EQ(usual.delta, (DeltaShape{16, 32, 128, 128}));
  EXPECT_EQ(usual.parts.conv, (std::vector<bool>{true, true, true, false, true}));
  EXPECT_EQ(usual.rotary_dim, 64);
  EXPECT_EQ(std::get<int64_t>(usual.metadata.at("qwen35.ssm.inner_size")), 4096);
  EXPECT_EQ(std::get<int64_t>(usual.metadata.at("qwen35.ssm.conv_kernel")), 4);
  EXPECT_EQ(config(R"(, "full_attention_interval": 2)").parts.conv,
            (std::vector<bool>{true, false, true, false, true}));
  EXPECT_EQ(config(R"(, "full_attention_interval": 2, "layer_types": ["full_attention",
                       "linear_attention", "linear_attention", "linear_attention",
                       "linear_attention"])")
                .parts.conv,
            (std::vector<bool>{false, true, true, true, true}));
  EXPECT_EQ(config(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6,
                       "partial_rotary_factor": 0.5, "mrope_interleaved": true,
                       "mrope_section": [24, 20, 20]})")
                .rotary_dim,
            128);
  EXPECT_THAT([&] { config(R"(, "linear_num_key_heads": 12)"); },
              ThrowsMessage<Error>(HasSubstr(
                  "key 'linear_num_key_heads' is 12, which does not divide the 32 value heads")));
  EXPECT_THAT([&] { config(R"(, "linear_key_head_dim": 0)"); },
              ThrowsMessage<Error>(HasSubstr("key 'linear_key_head_dim' is not a whole number")));
  // The order of so many rows would be made before a tensor of another shape is met.
  EXPECT_THAT([&] { config(R"(, "linear_value_head_dim": 32769)"); },
              ThrowsMessage<Error>(HasSubstr("key 'linear_value_head_dim' gives 32 heads 1048608 "
                                             "elements, allowed are 1048576 of all")));
  EXPECT_THAT([&] { config(R"(, "linear_key_head_dim": 65536, "linear_num_key_heads": 32)"); },
              ThrowsMessage<Error>(HasSubstr("key 'linear_key_head_dim' gives 32 heads 2097152 ")));
  EXPECT_THAT([&] { config(R"(, "linear_conv_kernel_dim": 65)"); },
              ThrowsMessage<Error>(HasSubstr("key 'linear_conv_kernel_dim' is not a whole")));
  EXPECT_THAT([&] { config(R"(, "layer_types": ["conv", "conv", "conv", "conv", "conv"])"); },
              ThrowsMessage<Error>(HasSubstr("key 'layer_types' has a layer of type 'conv'")));
}

// Breaks if sizes or layers of Mamba-2 were others than transformers', or what asks for another
// computation were ignored.
TEST_F(HfConfigFile, StateSpacesAreThoseOfTheConfig) {
  const auto config = [](const std::string& more) {
    return read_hf_config(R"({"model_type": "granitemoehybrid", "vocab_size": 5, "hidden_size": 64,
                              "num_hidden_layers": 3, "num_attention_heads": 2,
                              "num_key_value_heads": 1, "intermediate_size": 6,
                              "mamba_n_heads": 8, "mamba_d_state": 16,
                              "shared_intermediate_size": 10, "max_position_embeddings": 16)" +
                              more + "}",
                          "config.json");
  };
  const auto number = [](const HfConfig& read, const std::string& key) {
    return std::get<int64_t>(read.metadata.at("granitehybrid." + key));
  };
  const std::string dense = R"(, "num_local_experts": 0)";
  const HfConfig usual = config(dense);
  EXPECT_EQ(usual.delta, (DeltaShape{1, 8, 16, 16, true}));
  EXPECT_EQ(number(usual, "ssm.inner_size"), 128);
  EXPECT_EQ(number(usual, "ssm.time_step_rank"), 8);
  EXPECT_EQ(number(usual, "ssm.conv_kernel"), 4);
  EXPECT_EQ(number(usual, "feed_forward_length"), 10);
  EXPECT_TRUE(usual.parts.conv_bias);
  EXPECT_FALSE(std::get<bool>(usual.metadata.at("granitehybrid.rope.scaling.finetuned")));
  EXPECT_TRUE(std::get<bool>(config(dense + R"(, "position_embedding_type": "rope")")
                                 .metadata.at("granitehybrid.rope.scaling.finetuned")));
  const HfConfig experts = config(R"(, "num_local_experts": 4, "num_experts_per_tok": 2)");
  EXPECT_EQ(number(experts, "feed_forward_length"), 6);
  EXPECT_EQ(number(experts, "expert_shared_feed_forward_length"), 10);
  const std::vector<bool> layers = {true, false, true};
  EXPECT_EQ(config(dense + R"(, "layer_types": ["mamba", "attention", "mamba"])").parts.conv,
            layers);
  EXPECT_EQ(config(dense + R"(, "layers_block_type": ["linear_attention", "full_attention",
                                                      "linear_attention"])")
                .parts.conv,
            layers);
  for (const char* limit : {"[0.0, Infinity]", R"([0.0, {"__float__": "Infinity"}])", "null"}) {
    EXPECT_EQ(config(dense + R"(, "time_step_limit": )" + limit).delta, usual.delta) << limit;
  }
  const std::pair<const char*, const char*> others[] = {
      {R"("time_step_limit": [0.0, 0.1])", "key 'time_step_limit' bounds the steps"},
      {R"("time_step_limit": [0.001, Infinity])", "key 'time_step_limit' bounds the steps"},
      {R"("mamba_proj_bias": true)", "key 'mamba_proj_bias' is true"},
      {R"("mamba_n_groups": 3)", "key 'mamba_n_groups' is 3, which does not divide the 8 heads"},
      {R"("mamba_d_head": 8)", "key 'mamba_d_head' gives 8 heads 64 elements"},
      {R"("mamba_d_conv": 65)", "key 'mamba_d_conv' is not a whole number from 1 to 64"},
      {R"("hidden_act": "gelu")", "key 'hidden_act' is 'gelu'"},
      {R"("layer_types": ["mamba", "conv", "mamba"])", "has a layer of type 'conv'"},
      {R"("rms_norm_eps": NaN)", "key 'rms_norm_eps' is not a finite number above 0"}};
  for (const auto& [more, message] : others) {
    const std::string added = dense + ", " + more;
    EXPECT_THAT([&] { config(added); }, ThrowsMessage<Error>(HasSubstr(message))) << added;
  }
}

// Breaks if layers with experts were taken for others, or their widths for those of other layers.
TEST_F(HfConfigFile, LayersOfExpertsAreThoseOfTheList) {
  const auto config = [](const std::string& more) {
    return read_hf_config(R"({"model_type": "nemotron_h", "vocab_size": 5, "hidden_size": 64,
                              "num_attention_heads": 2, "num_key_value_heads": 1,
                              "mamba_num_heads": 8, "intermediate_size": 6,
                              "n_routed_experts": 4, "max_position_embeddings": 16)" +
                              more + "}",
                          "config.json");
  };
  EXPECT_EQ(config(R"(, "hybrid_override_pattern": "M-*")").architecture->name, "nemotron_h");
  const std::string sizes = R"(, "moe_intermediate_size": 7,
                                "moe_shared_expert_intermediate_size": 9)";
  const HfConfig read = config(sizes + R"(, "hybrid_override_pattern": "ME*-")");
  EXPECT_EQ(read.architecture->name, "nemotron_h_moe");
  EXPECT_EQ(read.parts.experts, (std::vector<bool>{false, true, false, false}));
  EXPECT_EQ(read.parts.feeds_forward, (std::vector<bool>{false, false, false, true}));
  const auto number = [&](const std::string& key) {
    return std::get<int64_t>(read.metadata.at("nemotron_h_moe." + key));
  };
  EXPECT_EQ(number("expert_feed_forward_length"), 7);
  EXPECT_EQ(number("expert_shared_feed_forward_length"), 9);
  EXPECT_FALSE(read.metadata.contains("nemotron_h_moe.leading_dense_block_count"));
  const std::pair<std::string, const char*> others[] = {
      {sizes + R"(, "hybrid_override_pattern": "MX")", "has a layer of type 'X'"},
      {sizes + R"(, "hybrid_override_pattern": "ME", "moe_latent_size": 3)",
       "key 'moe_latent_size' asks for what Assay does not compute"},
      {R"(, "hybrid_override_pattern": "ME")", "key 'moe_intermediate_size' is missing"}};
  for (const auto& [more, message] : others) {
    EXPECT_THAT([&] { config(more); }, ThrowsMessage<Error>(HasSubstr(message))) << more;
  }
}

// Breaks if the width that transformers makes of lfm2's were another, or the layers that attend.
TEST_F(HfConfigFile, ConvolutionsAndTheirWidthsAreThoseOfTheConfig) {
  const auto config = [](const std::string& more) {
    return read_hf_config(R"({"model_type": "lfm2", "vocab_size": 5, "hidden_size": 8,
                              "num_hidden_layers": 3, "num_attention_heads": 2,
                              "num_key_value_heads": 1, "norm_eps": 1e-5,
                              "max_position_embeddings": 16)" +
                              more + "}",
                          "config.json");
  };
  const auto width = [&](const std::string& more) { return config(more).feed_forward_length; };
  EXPECT_EQ(width(R"(, "intermediate_size": 768)"), 512);
  EXPECT_EQ(width(R"(, "intermediate_size": 6, "block_ff_dim": 1000)"), 768);
  EXPECT_EQ(width(R"(, "intermediate_size": 100, "block_auto_adjust_ff_dim": false)"), 100);
  EXPECT_EQ(width(R"(, "intermediate_size": 100, "block_ffn_dim_multiplier": null)"), 66);
  EXPECT_EQ(width(R"(, "intermediate_size": 96, "block_ffn_dim_multiplier": 1.25,
                       "block_multiple_of": 32)"),
            96);
  const std::vector<bool> conv = {true, false, true};
  const std::string ff = R"(, "intermediate_size": 6)";
  EXPECT_EQ(config(ff + R"(, "layer_types": ["conv", "full_attention", "conv"])").parts.conv, conv);
  EXPECT_EQ(config(ff + R"(, "full_attn_idxs": [1])").parts.conv, conv);
  EXPECT_THAT([&] { config(ff + R"(, "conv_bias": true)"); },
              ThrowsMessage<Error>(HasSubstr("key 'conv_bias' is true")));
  EXPECT_THAT(
      [&] { config(ff + R"(, "conv_L_cache": 65)"); },
      ThrowsMessage<Error>(HasSubstr("key 'conv_L_cache' is not a whole number from 1 to 64")));
  EXPECT_THAT([&] { config(ff + R"(, "full_attn_idxs": [3])"); },
              ThrowsMessage<Error>(HasSubstr("key 'full_attn_idxs'")));
  EXPECT_THAT([&] { config(ff + R"(, "layer_types": ["conv"])"); },
              ThrowsMessage<Error>(HasSubstr("key 'layer_types' has 1 entries for 3 layers")));
  EXPECT_THAT([&] { config(R"(, "intermediate_size": 1000, "block_ffn_dim_multiplier": 1e30)"); },
              ThrowsMessage<Error>(HasSubstr("key 'block_ffn_dim_multiplier' is too large")));
}

// Breaks if what lfm2_moe says of its experts were left out, or what its GGUF files cannot state
// were ignored.
TEST_F(HfConfigFile, ExpertsBesideConvolutionsAreThoseOfTheConfig) {
  const auto config = [](const std::string& more) {
    return read_hf_config(R"({"model_type": "lfm2_moe", "vocab_size": 5, "hidden_size": 8,
                              "num_hidden_layers": 3, "num_attention_heads": 2,
                              "num_key_value_heads": 1, "norm_eps": 1e-5, "num_experts": 6,
                              "num_experts_per_tok": 2, "intermediate_size": 16,
                              "moe_intermediate_size": 4, "max_position_embeddings": 16,
                              "layer_types": ["conv", "full_attention", "conv"])" +
                              more + "}",
                          "config.json");
  };
  const HfConfig usual = config("");
  EXPECT_EQ(usual.parts.experts, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(usual.parts.conv, (std::vector<bool>{true, false, true}));
  EXPECT_TRUE(usual.parts.choice_bias);
  EXPECT_EQ(usual.feed_forward_length, 16);
  EXPECT_EQ(std::get<int64_t>(usual.metadata.at("lfm2moe.leading_dense_block_count")), 2);
  EXPECT_EQ(std::get<int64_t>(usual.metadata.at("lfm2moe.expert_feed_forward_length")), 4);
  EXPECT_EQ(std::get<int64_t>(usual.metadata.at("lfm2moe.expert_gating_func")), 2);
  EXPECT_EQ(config(R"(, "num_dense_layers": 0)").parts.experts, std::vector<bool>(3, true));
  EXPECT_FALSE(config(R"(, "use_expert_bias": false)").parts.choice_bias);
  EXPECT_THAT([&] { config(R"(, "norm_topk_prob": false)"); },
              ThrowsMessage<Error>(HasSubstr("key 'norm_topk_prob' is false")));
  EXPECT_THAT([&] { config(R"(, "routed_scaling_factor": 2.5)"); },
              ThrowsMessage<Error>(HasSubstr("key 'routed_scaling_factor' is not 1")));
}

// Breaks if a key that only lfm2_moe's class reads took the bias from a model that always has one.
TEST_F(HfConfigFile, AnotherClassesKeyLeavesTheBiasOfTheChoice) {
  std::ifstream file(source_path("tests/data/synth/minimax-m2.json"));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  text.insert(text.find('{') + 1, R"("use_expert_bias": false, )");
  EXPECT_TRUE(read_hf_config(text, "config.json").parts.choice_bias);
}

// Breaks if the temperature of the scores were left out, or its span taken from elsewhere.
TEST_F(HfConfigFile, TheTemperatureOfScoresIsThatOfTheConfig) {
  const auto config = [](const std::string& rope, const std::string& type = "ministral3") {
    return read_hf_config(R"({"model_type": ")" + type + R"(", "vocab_size": 5, "hidden_size": 8,
                              "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 4,
                              "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
                              "intermediate_size": 16, "max_position_embeddings": 64,
                              "rope_parameters": {"rope_theta": 1e4, )" +
                              rope + "}}",
                          "config.json");
  };
  const std::string yarn = R"("rope_type": "yarn", "factor": 16.0, "mscale": 1.0,
                              "mscale_all_dim": 1.0, "max_position_embeddings": 64)";
  const std::string scales = R"(, "original_max_position_embeddings": 16,
                                "llama_4_scaling_beta": 0.25)";
  const HfConfig usual = config(yarn + scales);
  EXPECT_EQ(std::get<double>(usual.metadata.at("mistral3.attention.temperature_scale")), 0.25);
  EXPECT_EQ(std::get<int64_t>(usual.metadata.at("mistral3.rope.scaling.original_context_length")),
            16);
  EXPECT_EQ(std::get<double>(usual.metadata.at("mistral3.rope.scaling.yarn_log_multiplier")), 1.0);
  EXPECT_FALSE(usual.metadata.contains("mistral3.rope.scaling.yarn_attn_factor"));
  const HfConfig plain = config(R"("rope_type": "default")" + scales);
  EXPECT_EQ(std::get<int64_t>(plain.metadata.at("mistral3.rope.scaling.original_context_length")),
            16);
  EXPECT_THAT([&] { config(yarn); },
              ThrowsMessage<Error>(HasSubstr("key 'llama_4_scaling_beta' is missing")));
  EXPECT_THAT([&] { config(R"("llama_4_scaling_beta": 0.25)"); },
              ThrowsMessage<Error>(HasSubstr("key 'original_max_position_embeddings' is missing")));
  EXPECT_THAT([&] { config(yarn + scales, "mistral"); },
              ThrowsMessage<Error>(HasSubstr("asks for what Assay does not compute")));
}

TEST_F(HfConfigFile, FeaturesThatAreNotComputedAreRefusedByName) {
  const std::pair<const char*, const char*> features[] = {
      {"quantization_config", "{}"},
      {"alibi", "true"},
      {"use_bidirectional_attention", "true"},
      {"attention_chunk_size", "8"},
      {"clip_qkv", "8.0"},
      {"n_routed_experts", "4"},
      {"query_pre_attn_scalar", "16"},
      {"final_logit_softcapping", "30.0"},
      {"logit_scale", "0.5"},
      {"partial_rotary_factor", "0.5"},
      {"no_rope_layers", "[1]"},
      {"layer_types", R"(["chunked_attention"])"},
      {"layer_types", R"(["conv"])"},
      {"layer_types", R"(["sliding_attention"])"}};
  for (const auto& [key, value] : features) {
    EXPECT_THAT(refusal(llama_config(fmt::format(", \"{}\": {}", key, value)), llama()),
                AllOf(HasSubstr(path("config.json: key '")), HasSubstr(key)));
  }
  EXPECT_THAT(refusal(llama_config("", "rwkv"), llama()), HasSubstr("'model_type' is 'rwkv'"));
}

}  // namespace
}  // namespace assay
