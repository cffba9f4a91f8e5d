#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/hf/config.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

HfConfig config(const std::string& type, const std::string& more) {
  return read_hf_config(R"({"model_type": ")" + type +
                            R"(", "vocab_size": 5, "hidden_size": 40, "num_hidden_layers": 4)" +
                            more + "}",
                        "config.json");
}

int64_t number(const HfConfig& config, const std::string& key) {
  return std::get<int64_t>(config.metadata.at(std::string(config.architecture->name) + "." + key));
}

// Breaks if a size were another's, or a rank that is not stated were rounded down.
TEST(HfMamba, SizesFollowFromTheWidth) {
  const HfConfig read = config("mamba", "");
  EXPECT_EQ(read.delta, (DeltaShape{1, 80, 16, 1, false, true}));
  EXPECT_EQ(read.ssm_rank, 3);
  EXPECT_EQ(number(read, "ssm.inner_size"), 80);
  EXPECT_EQ(number(read, "ssm.time_step_rank"), 3);
  EXPECT_EQ(number(read, "ssm.conv_kernel"), 4);
  EXPECT_FALSE(read.metadata.contains("mamba.ssm.group_count"));
  EXPECT_TRUE(read.tied);
  const HfConfig other = config("mamba", R"(, "expand": 3, "state_size": 5, "time_step_rank": 7)");
  EXPECT_EQ(number(other, "ssm.inner_size"), 120);
  EXPECT_EQ(number(other, "ssm.state_size"), 5);
  EXPECT_EQ(other.ssm_rank, 7);
  EXPECT_EQ(number(config("mamba", R"(, "intermediate_size": 72)"), "ssm.inner_size"), 72)
      << "it counts more than expand";
}

// Breaks if norms without weights were another class's, or had the eps of the others.
TEST(HfMamba, FalconsHasNormsWithin) {
  const auto normed = [](const std::string& type) {
    return std::get<bool>(config(type, "").metadata.at("mamba.ssm.dt_b_c_rms"));
  };
  EXPECT_FALSE(normed("mamba"));
  EXPECT_TRUE(normed("falcon_mamba"));
  const auto eps = [](const std::string& more) {
    return std::get<double>(config("falcon_mamba", more).metadata.at("assay.mixer_rms_eps"));
  };
  EXPECT_EQ(eps(R"(, "layer_norm_epsilon": 0.5)"), 1e-6);
  EXPECT_EQ(eps(R"(, "mixer_rms_eps": 0.25)"), 0.25);
}

// Breaks if a layer had the attention or the experts of the one before it.
TEST(HfMamba, JambaLayersFollowFromPeriods) {
  const std::string sizes = R"(, "num_attention_heads": 4, "num_key_value_heads": 2,
                                "intermediate_size": 6, "max_position_embeddings": 16)";
  const std::string four = sizes + R"(, "num_experts": 4)";
  const HfConfig read = config("jamba", four + R"(, "attn_layer_period": 3, "attn_layer_offset": 2,
                           "expert_layer_period": 3, "expert_layer_offset": 0)");
  EXPECT_EQ(read.parts.conv, (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(read.parts.experts, (std::vector<bool>{true, false, false, true}));
  EXPECT_EQ(number(read, "expert_used_count"), 2);
  EXPECT_EQ(number(read, "expert_feed_forward_length"), 6);
  const HfConfig usual = config("jamba", four);
  EXPECT_EQ(usual.parts.conv, std::vector<bool>(4, true)) << "the fifth of eight would have it";
  EXPECT_EQ(usual.parts.experts, (std::vector<bool>{false, true, false, true}));
  const HfConfig dense = config("jamba", sizes + R"(, "num_experts": 1)");
  EXPECT_EQ(dense.parts.experts, std::vector<bool>(4, false)) << "of one expert all is dense";
}

TEST(HfMamba, WhatIsNotComputedIsRefused) {
  const std::pair<const char*, const char*> others[] = {
      {R"(, "use_bias": true)", "key 'use_bias' is true"},
      {R"(, "hidden_act": "gelu")", "key 'hidden_act' is 'gelu'"},
      {R"(, "time_step_rank": "none")", "key 'time_step_rank' is neither a number nor 'auto'"},
      {R"(, "time_step_rank": 0)", "key 'time_step_rank'"},
      {R"(, "expand": 100000)", "key 'expand' gives more than 1048576 channels"}};
  for (const auto& [more, message] : others) {
    EXPECT_THAT([&] { config("mamba", more); }, ThrowsMessage<Error>(HasSubstr(message))) << more;
  }
  EXPECT_THAT(
      [] {
        config("jamba", R"(, "num_attention_heads": 4, "num_key_value_heads": 2,
                                       "intermediate_size": 6, "attn_layer_period": 2, "attn_layer_offset": 4)");
      },
      ThrowsMessage<Error>(HasSubstr("key 'attn_layer_offset' is 4, which is not below "
                                     "the 2 of attn_layer_period")));
}

}  // namespace
}  // namespace assay
