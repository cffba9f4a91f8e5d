#include "assay/synth/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "assay/synth/presets.h"
#include "base/error.h"
#include "engine/hf/config.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kSmall =
    R"({"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-5)";

// The message about `json`; empty if it is accepted.
std::string refusal(const std::string& json) {
  try {
    parse_config(json, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::string with(const std::string& more) {
  return kSmall + ", " + more + "}";
}

// A twin would have another shape than the published model: the sizes are those that the hub's
// config.json files give.
TEST(Config, PresetsHaveThePublishedShapes) {
  EXPECT_EQ(presets().size(), 5U);
  for (const Preset& preset : presets()) EXPECT_NO_THROW(load_config(std::string(preset.name)));
  const ModelConfig tiny = load_config("tinyllama-1.1b").model;
  EXPECT_EQ(tiny.head_dim, 64);
  EXPECT_EQ(tiny.kv_width(), 256);
  const ModelConfig phi = load_config("phi-3-mini-4k").model;
  EXPECT_EQ(phi.rotary_dim, 96);
  EXPECT_EQ(phi.sliding_window, 2047);
  const SynthConfig qwen = load_config("qwen2.5-0.5b");
  EXPECT_TRUE(qwen.tied);
  EXPECT_TRUE(qwen.qkv_bias);
  EXPECT_EQ(load_config("llama-3-8b").model.rope_freq_base, 500000.0);
  EXPECT_EQ(load_config("gpt2-124m").model.feed_forward_length, 3072);
}

TEST(Config, ReportsAnUnknownPresetAndListsTheKnownOnes) {
  EXPECT_THAT([] { load_config("llama-4"); },
              testing::ThrowsMessage<Error>(AllOf(HasSubstr("'llama-4'"), HasSubstr("gpt2-124m"))));
}

TEST(Config, DefaultsAreThoseOfTheFormat) {
  const SynthConfig config = parse_config(kSmall + "}", "config.json");
  EXPECT_EQ(config.model.head_dim, 8);
  EXPECT_EQ(config.model.rotary_dim, 8);
  EXPECT_EQ(config.model.rope_freq_base, 10000.0);
  EXPECT_FALSE(config.tied);
  EXPECT_FALSE(config.qkv_bias);
}

// Long wavelengths are stretched by the factor, short ones stay: a rotation by other angles is
// another model.
TEST(Config, Llama3ScalingDividesSlowFrequenciesByTheFactor) {
  const SynthConfig config = load_config(ASSAY_SOURCE_DIR "/tests/data/synth/llama.json");
  ASSERT_EQ(config.rope_freqs.size(), 16U);
  EXPECT_EQ(config.rope_freqs.front(), 1.0F);
  EXPECT_EQ(config.rope_freqs.back(), 8.0F);
}

TEST(Config, UnsupportedConfigsAreRejected) {
  EXPECT_THAT(refusal(with(R"("model_type": "llama", "hidden_act": "gelu")")),
              HasSubstr("'hidden_act'"));
  EXPECT_THAT(refusal(with(R"("rope_scaling": {"rope_type": "yarn", "factor": 4})")),
              AllOf(HasSubstr("config.json, rope_scaling"), HasSubstr("'yarn'")));
  EXPECT_THAT(refusal(R"({"model_type": "mamba"})"), HasSubstr(hf_model_types()));
  EXPECT_THAT(refusal(with(R"("sliding_window": 4, "use_sliding_window": true)")), "");
  std::string mistral = with(R"("sliding_window": 4)");
  mistral.replace(mistral.find("llama"), 5, "mistral");
  EXPECT_THAT(refusal(mistral), HasSubstr("'sliding_window' asks for what a GGUF file cannot"));
  mistral.replace(mistral.find("mistral"), 7, "gemma2");
  EXPECT_THAT(refusal(mistral), HasSubstr("Assay makes llama, mistral"));
}

// Sizes from a hostile file would overflow or take all memory.
TEST(Config, BadSizesAreRefusedByName) {
  const auto replaced = [](const std::string& from, const std::string& to) {
    std::string text = kSmall + "}";
    return text.replace(text.find(from), from.size(), to);
  };
  for (const char* bad : {"0", "-1", "1e30", "9223372036854775807", "1.5", "\"64\"", "[64]"}) {
    EXPECT_THAT(refusal(replaced(R"("vocab_size": 64)", std::string(R"("vocab_size": )") + bad)),
                HasSubstr("'vocab_size'"))
        << bad;
  }
  EXPECT_THAT(refusal(replaced(R"("hidden_size": 32)", R"("hidden_size": 33)")),
              HasSubstr("does not divide"));
  EXPECT_THAT(refusal(replaced(R"("num_key_value_heads": 2)", R"("num_key_value_heads": 3)")),
              HasSubstr("'num_key_value_heads'"));
  EXPECT_THAT(refusal(replaced(R"("rms_norm_eps": 1e-5)", R"("rms_norm_eps": 0)")),
              HasSubstr("'rms_norm_eps'"));
  for (const char* bad : {"1e300", "1e-60"}) {  // as a float it would be infinite, or 0
    EXPECT_THAT(
        refusal(replaced(R"("rms_norm_eps": 1e-5)", std::string(R"("rms_norm_eps": )") + bad)),
        HasSubstr("'rms_norm_eps' is outside of the range of 32-bit floats"));
  }
  EXPECT_THAT(refusal(replaced(R"("hidden_size": 32,)", "")),
              HasSubstr("'hidden_size' is missing"));
}

TEST(Config, RejectsTextThatIsNotAJsonObject) {
  EXPECT_THAT(refusal(""), HasSubstr("config.json: is not valid JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("is not a JSON object"));
  EXPECT_THAT(refusal(std::string(100000, '[')), HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace assay
