// Gemma 3n's config.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "engine/hf/config.h"
#include "engine/hf/streams.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// `more`: further keys, or others in the place of these.
HfConfig gemma3n_config(const std::string& more) {
  std::string json = R"({"model_type": "gemma3n_text", "vocab_size": 300000, "hidden_size": 40,
                         "head_dim": 8, "num_attention_heads": 4)";
  for (const auto& [key, value] :
       {std::pair("num_hidden_layers", "20"), std::pair("intermediate_size", "24")}) {
    if (more.find(key) == std::string::npos) json += std::string(", \"") + key + "\": " + value;
  }
  return read_hf_config(json + more + "}", "config.json");
}

std::vector<double> cutoffs(const HfConfig& config) {
  const auto& stated = std::get<GgufArray>(config.metadata.at("gemma3n.activation_sparsity_scale"));
  const auto& numbers = std::get<GgufNumbers<float>>(stated.items);
  std::vector<double> values;
  for (size_t i = 0; i < numbers.size(); ++i) values.push_back(numbers[i]);
  return values;
}

// Breaks if the number were another than what transformers, and llama.cpp's converter, take.
TEST(HfStreams, ACutoffIsRoundedAsTorchRoundsIt) {
  EXPECT_EQ(cutoff_of(0.95), 1.6448535919189453F);
  EXPECT_EQ(cutoff_of(0.9), 1.281551480293274F);
  EXPECT_EQ(cutoff_of(0.8), 0.8416212797164917F);
  EXPECT_EQ(cutoff_of(0.5), 0.0F);
  EXPECT_EQ(cutoff_of(0.3), -0.5244004726409912F);
  EXPECT_EQ(cutoff_of(0.05), -1.6448535919189453F);
  EXPECT_EQ(cutoff_of(0.99), 2.326348304748535F);
}

TEST(HfStreams, TheFirstTenLayersOfManyHaveACutoff) {
  const HfConfig read = gemma3n_config("");
  const std::vector<double> all = cutoffs(read);
  ASSERT_EQ(all.size(), 20U);
  EXPECT_EQ(all[9], 1.6448535919189453);
  EXPECT_EQ(all[10], -INFINITY);
  EXPECT_EQ(read.n_streams, 4);
  EXPECT_EQ(read.laurel_rank, 64);
  EXPECT_EQ(read.ple_length, 256);
  EXPECT_EQ(read.n_shared_kv_layers, 15);
  const HfConfig few = gemma3n_config(R"(, "num_hidden_layers": 2, "num_kv_shared_layers": 0)");
  EXPECT_THAT(cutoffs(few), ElementsAre(-INFINITY, -INFINITY));
  const HfConfig own = gemma3n_config(R"(, "num_hidden_layers": 2, "num_kv_shared_layers": 0,
                                 "activation_sparsity_pattern": [0.0, 0.5])");
  EXPECT_THAT(cutoffs(own), ElementsAre(-INFINITY, 0.0));
}

// Breaks if layers of several widths had one.
TEST(HfStreams, FeedForwardsMayDifferInWidth) {
  const HfConfig read = gemma3n_config(R"(, "num_hidden_layers": 2, "num_kv_shared_layers": 0,
                                  "intermediate_size": [24, 32])");
  EXPECT_EQ(read.feed_forward_length, 32);
  EXPECT_TRUE(std::holds_alternative<GgufArray>(read.metadata.at("gemma3n.feed_forward_length")));
}

TEST(HfStreams, OtherConfigsAreRefusedByName) {
  const struct {
    const char* more;
    const char* message;
  } kCases[] = {{R"(, "altup_active_idx": 1)", "key 'altup_active_idx'"},
                {R"(, "altup_num_inputs": 1)", "key 'altup_num_inputs'"},
                {R"(, "altup_num_inputs": 17)", "key 'altup_num_inputs'"},
                {R"(, "altup_correct_scale": false)", "key 'altup_correct_scale'"},
                {R"(, "hidden_size_per_layer_input": 0)", "key 'hidden_size_per_layer_input'"},
                {R"(, "vocab_size_per_layer_input": 300001)", "key 'vocab_size_per_layer_input'"},
                {R"(, "num_kv_shared_layers": 20)", "key 'num_kv_shared_layers'"},
                {R"(, "activation_sparsity_pattern": 0.5)", "key 'activation_sparsity_pattern'"},
                {R"(, "activation_sparsity_pattern": [0.5])", "key 'activation_sparsity_pattern'"},
                {R"(, "num_hidden_layers": 1, "num_kv_shared_layers": 0,
          "activation_sparsity_pattern": [1.0])",
                 "key 'activation_sparsity_pattern'"},
                {R"(, "intermediate_size": [24, 32])", "key 'intermediate_size'"}};
  for (const auto& [more, message] : kCases) {
    EXPECT_THAT([&] { gemma3n_config(more); }, ThrowsMessage<Error>(HasSubstr(message))) << more;
  }
}

}  // namespace
}  // namespace assay
