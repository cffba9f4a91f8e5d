#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "engine/hf/config.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// transformers takes no notice of another class's name for a number, nor of one beside its own.
TEST(HfClassKeys, NamesAreThoseOfTheClass) {
  const auto config = [](const std::string& type, const std::string& more) {
    return read_hf_config(R"({"model_type": ")" + type +
                              R"(", "vocab_size": 5, "hidden_size": 64, "num_hidden_layers": 2,
                              "num_attention_heads": 2, "num_key_value_heads": 1,
                              "mamba_num_heads": 8, "intermediate_size": 6,
                              "max_position_embeddings": 16)" +
                              more + "}",
                          "config.json");
  };
  const std::string layers = R"(, "layer_types": ["mamba", "attention"])";
  const auto eps = [&](const std::string& more) {
    return std::get<double>(config("nemotron_h", layers + more)
                                .metadata.at("nemotron_h.attention.layer_norm_rms_epsilon"));
  };
  EXPECT_EQ(static_cast<float>(eps(R"(, "rms_norm_eps": 0.5)")), 1e-5F);
  EXPECT_EQ(eps(R"(, "rms_norm_eps": 0.5, "layer_norm_epsilon": 0.25)"), 0.25);
  const auto states_activation = [&](const std::string& more) {
    return config("nemotron_h", layers + more).metadata.contains("assay.activation");
  };
  EXPECT_FALSE(states_activation(R"(, "hidden_act": "silu")"));
  EXPECT_TRUE(states_activation(R"(, "mlp_hidden_act": "silu")"));
  const auto gemma_states = [&](const std::string& more) {
    return config("gemma", more).metadata.contains("assay.activation");
  };
  EXPECT_FALSE(gemma_states(R"(, "hidden_act": "gelu")")) << "it means the form with tanh";
  EXPECT_FALSE(gemma_states(R"(, "hidden_act": "gelu", "hidden_activation": null)"));
  EXPECT_TRUE(gemma_states(R"(, "hidden_act": "silu")"));
  EXPECT_TRUE(gemma_states(R"(, "hidden_act": "silu", "hidden_activation": "gelu_pytorch_tanh")"));
  EXPECT_FALSE(gemma_states(R"(, "hidden_act": "gelu", "hidden_activation": "silu")"))
      << "transformers does not read the second";
  for (const char* key : {"time_step_min", "mamba_dt_min"}) {
    const auto least = [&](const std::string& value) {
      config("nemotron_h", layers + fmt::format(R"(, "{}": {})", key, value));
    };
    least("0.001");
    for (const char* other : {"0.5", "-1", "\"0.001\"", "[]"}) {
      EXPECT_THAT([&] { least(other); },
                  ThrowsMessage<Error>(HasSubstr(fmt::format("key '{}' is no number up to", key))))
          << other;
    }
  }
}

}  // namespace
}  // namespace assay
