#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/small_config.h"

// What config.json of networks says whose layers are nearly those of another.
namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::small_config;
using testing_support::stated;

// Breaks if the window were in the layers that have none in other networks: those counted from 1.
TEST(HfCwm, EveryFourthLayerFromTheFirstOnHasNoWindow) {
  const std::string heads = R"(, "head_dim": 4)";
  EXPECT_THAT(small_config("cwm", heads).windowed, ElementsAre(false, true, true, true));
  EXPECT_EQ(stated<int64_t>(small_config("cwm", heads), "llama.attention.sliding_window"), 8192);
  EXPECT_THAT([&] { small_config("cwm", heads + R"(, "sliding_window": null)"); },
              ThrowsMessage<Error>(HasSubstr("key 'sliding_window' is null")));
}

// Breaks if norms behind attention and feed-forward were asked for where a class has no such key.
TEST(HfHyperClovaX, NormsBehindTheLayersPartsCanBeSwitchedOff) {
  EXPECT_TRUE(small_config("hyperclovax", "").parts.post_norms);
  EXPECT_FALSE(small_config("hyperclovax", R"(, "use_post_norm": false)").parts.post_norms);
  EXPECT_TRUE(small_config("gemma2", R"(, "use_post_norm": false)").parts.post_norms);
  EXPECT_FALSE(small_config("hyperclovax", "").metadata.contains("hyperclovax.attention.scale"));
}

// Breaks if first_k_dense_replace counted where the list of layers is, or did not where it is not.
TEST(HfAxk1, LeadingLayersWithoutExpertsAreStatedInTwoWays) {
  const auto leading = [](const std::string& more) {
    return stated<int64_t>(small_config("axk1", R"(, "n_routed_experts": 16,
                                                    "moe_intermediate_size": 7)" +
                                                    more),
                           "axk1.leading_dense_block_count");
  };
  EXPECT_EQ(leading(""), 1);
  EXPECT_EQ(leading(R"(, "first_k_dense_replace": 3)"), 3);
  EXPECT_EQ(leading(R"(, "first_k_dense_replace": 3,
                       "mlp_layer_types": ["dense", "dense", "sparse", "sparse"])"),
            2);
}

// Breaks if a base or scaling counted that transformers does not read of GPT-J.
TEST(HfGptJ, RotatesAsPublished) {
  const HfConfig config = small_config(
      "gptj", R"(, "n_embd": 16, "n_layer": 4, "n_head": 4, "rotary_dim": 2, "n_inner": null,
                               "rope_theta": 7.0, "rope_scaling": {"type": "linear", "factor": 2.0})");
  EXPECT_EQ(stated<double>(config, "gptj.rope.freq_base"), 10000.0);
  EXPECT_EQ(stated<int64_t>(config, "gptj.rope.dimension_count"), 2);
  EXPECT_FALSE(config.metadata.contains("gptj.rope.scaling.factor"));
  EXPECT_THAT([] { small_config("gptj", R"(, "rotary_dim": 3)"); },
              ThrowsMessage<Error>(HasSubstr("rotary dimensions")));
}

TEST(HfOpt, RefusesTheNormsAndEmbeddingOfItsSmallModel) {
  const auto read = [](const std::string& more) {
    return small_config("opt", R"(, "ffn_dim": 6)" + more);
  };
  EXPECT_EQ(stated<double>(read(""), "opt.attention.layer_norm_epsilon"), double{1e-5F});
  for (const char* key : {"do_layer_norm_before", "layer_norm_elementwise_affine"}) {
    EXPECT_THAT([&] { read(std::string(", \"") + key + "\": false"); },
                ThrowsMessage<Error>(HasSubstr(key)));
  }
  EXPECT_THAT([&] { read(R"(, "_remove_final_layer_norm": true)"); },
              ThrowsMessage<Error>(HasSubstr("_remove_final_layer_norm")));
  EXPECT_THAT([&] { read(R"(, "word_embed_proj_dim": 8)"); },
              ThrowsMessage<Error>(HasSubstr("key 'word_embed_proj_dim' is not hidden_size")));
}

// Breaks if biases that a class always computes here were computed although config.json switches
// them off.
TEST(HfBiases, ThoseThatAreAlwaysComputedCannotBeSwitchedOff) {
  const std::string experts = R"(, "head_dim": 4, "num_local_experts": 4, "sliding_window": 4)";
  EXPECT_TRUE(small_config("gpt_oss", experts).parts.qkv_bias);
  EXPECT_THAT([&] { small_config("gpt_oss", experts + R"(, "attention_bias": false)"); },
              ThrowsMessage<Error>(HasSubstr("key 'attention_bias' asks for what Assay does not")));
  // Its class does not have the key.
  EXPECT_FALSE(small_config("qwen2", R"(, "attention_bias": false)").parts.qkv_bias);
}

}  // namespace
}  // namespace assay
