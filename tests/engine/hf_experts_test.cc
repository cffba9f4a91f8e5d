#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "engine/hf/config.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

HfConfig config_of_type(const std::string& type, const std::string& more) {
  return read_hf_config(R"({"model_type": ")" + type +
                            R"(", "vocab_size": 5, "hidden_size": 8, "num_hidden_layers": 4,
                                "num_attention_heads": 2, "num_key_value_heads": 1,
                                "intermediate_size": 6, "num_experts": 4,
                                "max_position_embeddings": 16)" +
                            more + "}",
                        "config.json");
}

// Breaks if a list of layers counted less than a number, or other lists than those were taken.
TEST(HfExperts, LayersWithoutAreTheFirst) {
  const auto dense = [](const std::string& more) {
    return config_of_type("exaone_moe",
                          R"(, "moe_intermediate_size": 3, "num_experts_per_tok": 2)" + more)
        .n_dense_layers;
  };
  EXPECT_EQ(dense(R"(, "first_k_dense_replace": 2)"), 2);
  EXPECT_EQ(dense(""), 1) << "the class's";
  EXPECT_EQ(dense(R"(, "mlp_layer_types": ["dense", "dense", "sparse", "sparse"])"), 2);
  EXPECT_EQ(dense(R"(, "mlp_layer_types": ["sparse", "sparse", "sparse", "sparse"])"), 0);
  for (const char* list : {R"(["sparse", "dense", "sparse", "sparse"])", R"(["dense", "moe"])"}) {
    EXPECT_THAT([&] { dense(R"(, "mlp_layer_types": )" + std::string(list)); },
                ThrowsMessage<Error>(HasSubstr("key 'mlp_layer_types' leaves later layers")))
        << list;
  }
}

// Breaks if a number that transformers does not read of these counted, or one that it reads did
// not.
TEST(HfExperts, LayersWithoutAreAsEachClassSaysIt) {
  const auto dense = [](const std::string& type, const std::string& more) {
    return config_of_type(type, R"(, "moe_intermediate_size": 3, "num_experts_per_tok": 2)" + more)
        .n_dense_layers;
  };
  EXPECT_EQ(dense("hy_v3", R"(, "first_k_dense_replace": 2)"), 1);
  EXPECT_EQ(dense("hy_v3", R"(, "mlp_layer_types": ["sparse", "sparse", "sparse", "sparse"])"), 0);
  EXPECT_EQ(dense("afmoe", R"(, "num_dense_layers": 2)"), 2);
  EXPECT_EQ(dense("solar_open", R"(, "n_routed_experts": 4, "first_k_dense_replace": 2)"), 0);
}

// Breaks if layers that a file without a window has by default were rotated, or others were not.
TEST(HfExperts, TrinityHasAWindow) {
  EXPECT_THAT(
      [] {
        config_of_type("afmoe", R"(, "moe_intermediate_size": 3, "num_experts_per_tok": 2,
                                    "sliding_window": null)");
      },
      ThrowsMessage<Error>(HasSubstr("key 'sliding_window' is null; Assay runs it with a window")));
}

// Breaks if groups of a softmax were scored otherwise than transformers scores them.
TEST(HfExperts, MistralSmall4HasOneGroup) {
  const std::string sizes =
      R"(, "moe_intermediate_size": 3, "n_routed_experts": 4, "num_experts_per_tok": 2)";
  EXPECT_EQ(config_of_type("mistral4", sizes).n_dense_layers, 0);
  EXPECT_THAT([&] { config_of_type("mistral4", sizes + R"(, "n_group": 2)"); },
              ThrowsMessage<Error>(HasSubstr("key 'n_group' is not 1")));
}

// Breaks if the share of a whole head, which gives the end that is rotated, were taken of that end.
TEST(HfExperts, MistralSmall4RotatesTheEndOfEachHead) {
  const auto read = [](const std::string& share) {
    return config_of_type(
        "mistral4",
        R"(, "moe_intermediate_size": 3, "n_routed_experts": 4, "num_experts_per_tok": 2,
            "qk_nope_head_dim": 12, "qk_rope_head_dim": 4, "rope_parameters": {"rope_type": "yarn",
            "rope_theta": 100.0, "factor": 2.0, "original_max_position_embeddings": 8,
            "llama_4_scaling_beta": 0.5)" +
            share + "}");
  };
  EXPECT_EQ(read("").rotary_dim, 4);
  EXPECT_EQ(read(R"(, "partial_rotary_factor": 0.25)").rotary_dim, 4);
  EXPECT_THAT([&] { read(R"(, "partial_rotary_factor": 0.5)"); },
              ThrowsMessage<Error>(
                  HasSubstr("key 'partial_rotary_factor' does not give qk_rope_head_dim, 4")));
}

// Breaks if the first of a list were taken for all, or a width that transformers does not compute.
TEST(HfExperts, NumbersOfLayersMayBeLists) {
  const HfConfig read = config_of_type("hunyuan_v1_moe", R"(, "moe_topk": [3, 3, 3, 3])");
  const auto number = [&](const std::string& key) {
    return std::get<int64_t>(read.metadata.at("hunyuan-moe." + key));
  };
  EXPECT_EQ(number("expert_used_count"), 3);
  EXPECT_EQ(number("expert_feed_forward_length"), 6);
  EXPECT_EQ(number("expert_shared_feed_forward_length"), 6);
  const std::pair<const char*, const char*> others[] = {
      {R"(, "moe_topk": [3, 2, 3, 3])", "key 'moe_topk' is not the same number of all layers"},
      {R"(, "moe_topk": [])", "key 'moe_topk' is not the same number of all layers"},
      {R"(, "moe_topk": 5)", "key 'moe_topk' is not a whole number from 1 to 4"},
      {R"(, "moe_topk": 2, "moe_intermediate_size": [5, 5])",
       "key 'moe_intermediate_size' is not 6"},
      {R"(, "moe_topk": 2, "num_shared_expert": 2)", "key 'num_shared_expert' is not 1"}};
  for (const auto& [more, message] : others) {
    EXPECT_THAT([&] { config_of_type("hunyuan_v1_moe", more); },
                ThrowsMessage<Error>(HasSubstr(message)))
        << more;
  }
}

// transformers takes a number of hunyuan_v1_moe under two names.
TEST(HfExperts, NumbersOfHunyuanHaveTwoNames) {
  const auto used = [](const std::string& more) {
    return std::get<int64_t>(
        config_of_type("hunyuan_v1_moe", more).metadata.at("hunyuan-moe.expert_used_count"));
  };
  EXPECT_EQ(used(R"(, "num_experts_per_tok": 3)"), 3);
  EXPECT_EQ(used(R"(, "num_experts_per_tok": 3, "moe_topk": 3, "num_local_experts": 4)"), 3);
  EXPECT_THAT(
      [&] { used(R"(, "num_experts_per_tok": 3, "moe_topk": 2)"); },
      ThrowsMessage<Error>(HasSubstr("key 'num_experts_per_tok' is not what 'moe_topk' is")));
  EXPECT_THAT(
      [&] { used(R"(, "moe_topk": 2, "num_local_experts": 3)"); },
      ThrowsMessage<Error>(HasSubstr("key 'num_local_experts' is not what 'num_experts' is")));
}

// Its published files have one.
TEST(HfExperts, AlphaOfHunyuanStretchesTheBase) {
  const auto base = [](const std::string& more) {
    return std::get<double>(
        config_of_type("hunyuan_v1_moe",
                       R"(, "moe_topk": 2, "head_dim": 8, "rope_theta": 100)" + more)
            .metadata.at("hunyuan-moe.rope.freq_base"));
  };
  EXPECT_EQ(base(""), 100);
  EXPECT_NEAR(base(R"(, "rope_scaling": {"type": "dynamic", "alpha": 8.0})"), 1600, 1e-9);
}

}  // namespace
}  // namespace assay
