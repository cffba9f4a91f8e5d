#include "assay/synth/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "assay/synth/presets.h"
#include "assay/synth/synth.h"
#include "base/error.h"
#include "engine/hf/config.h"
#include "tests/support/paths.h"

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
  for (const Preset& preset : presets()) EXPECT_NO_THROW(load_config(std::string(preset.name)));
  const ModelConfig tiny = load_config("tinyllama-1.1b").model;
  EXPECT_EQ(tiny.head_dim, 64);
  EXPECT_EQ(tiny.kv_width(), 256);
  const ModelConfig phi = load_config("phi-3-mini-4k").model;
  EXPECT_EQ(phi.rotary_dim, 96);
  EXPECT_EQ(phi.sliding_window, 2047);
  const SynthConfig qwen = load_config("qwen2.5-0.5b");
  EXPECT_TRUE(qwen.hf.tied);
  EXPECT_EQ(load_config("llama-3-8b").model.rope_freq_base, 500000.0);
  EXPECT_EQ(load_config("gpt2-124m").model.feed_forward_length, 3072);
}

// The parameters of published models, as their hub counts them: a wrong width, a missing tensor or
// one too many shows.
TEST(Config, PresetsHaveAsManyParametersAsPublished) {
  const std::pair<const char*, int64_t> published[] = {
      {"tinyllama-1.1b", 1'100'048'384},  {"llama-3-8b", 8'030'261'248},
      {"mistral-7b-v0.1", 7'241'732'096}, {"mixtral-8x7b", 46'702'792'704},
      {"qwen2.5-0.5b", 494'032'768},      {"qwen3-0.6b", 596'049'920},
      {"qwen3-30b-a3b", 30'532'122'624},  {"phi-2", 2'779'683'840},
      {"phi-3-mini-4k", 3'821'079'552},   {"gpt2-124m", 124'439'808},
      {"pythia-1.4b", 1'414'647'808},     {"starcoder2-3b", 3'030'371'328},
      {"command-r-35b", 34'980'831'232},  {"olmoe-1b-7b", 6'919'161'856},
      {"gemma-2b", 2'506'172'416},        {"gemma-2-2b", 2'614'341'888},
      {"gemma-3-1b", 999'885'952},        {"smollm3-3b", 3'075'098'624},
      {"gpt-oss-20b", 20'914'757'184},    {"deepseek-v2-lite", 15'706'484'224},
      {"qwen2.5-7b", 7'615'616'512},      {"qwen2.5-32b", 32'763'876'352},
      {"qwen3-8b", 8'190'735'360},        {"phi-3-medium-4k", 13'960'238'080},
      {"gemma-2-9b", 9'241'705'984},      {"gemma-2-27b", 27'227'128'320}};
  for (const auto& [name, count] : published) {
    EXPECT_EQ(count_parameters(load_config(name)), count) << name;
  }
}

TEST(Config, ReportsAnUnknownPreset) {
  EXPECT_THAT(
      [] { load_config("llama-4"); },
      testing::ThrowsMessage<Error>(AllOf(HasSubstr("'llama-4'"), HasSubstr("synth --list"))));
}

TEST(Config, DefaultsAreThoseOfTheFormat) {
  const SynthConfig config = parse_config(kSmall + "}", "config.json");
  EXPECT_EQ(config.model.head_dim, 8);
  EXPECT_EQ(config.model.rotary_dim, 8);
  EXPECT_EQ(config.model.rope_freq_base, 10000.0);
  EXPECT_FALSE(config.hf.tied);
  EXPECT_FALSE(config.hf.parts.qkv_bias);
}

// Long wavelengths are stretched by the factor, short ones stay: a rotation by other angles is
// another model.
TEST(Config, Llama3ScalingDividesSlowFrequenciesByTheFactor) {
  const SynthConfig config = load_config(source_path("tests/data/synth/llama.json"));
  const std::vector<float>& divisors = config.hf.rope_factors.at("rope_freqs.weight");
  ASSERT_EQ(divisors.size(), 16U);
  EXPECT_EQ(divisors.front(), 1.0F);
  EXPECT_EQ(divisors.back(), 8.0F);
}

TEST(Config, UnsupportedConfigsAreRejected) {
  EXPECT_THAT(refusal(with(R"("model_type": "llama", "hidden_act": "mish")")),
              HasSubstr("'hidden_act'"));
  EXPECT_THAT(refusal(with(R"("rope_scaling": {"rope_type": "longrope", "factor": 4})")),
              AllOf(HasSubstr("config.json, rope_scaling"), HasSubstr("'longrope'")));
  EXPECT_THAT(refusal(R"({"model_type": "rwkv"})"), HasSubstr(hf_model_types()));
  const auto of_type = [](const std::string& type, const std::string& more) {
    std::string json = with(more);
    return refusal(json.replace(json.find("llama"), 5, type));
  };
  EXPECT_THAT(of_type("phi3", R"("attention_bias": true)"),
              HasSubstr("'attention_bias' does not belong to this model_type"));
  EXPECT_THAT(of_type("gemma2", R"("mlp_bias": true)"), HasSubstr("'mlp_bias' does not belong"));
  EXPECT_THAT(of_type("phi", R"("qk_layernorm": true, "hidden_act": "gelu_new")"),
              HasSubstr("'qk_layernorm' does not belong"));
  EXPECT_THAT(of_type("olmoe", R"("rope_theta": 10000)"), HasSubstr("'num_experts' is missing"));
  const std::string experts = R"("num_experts": 4, "num_experts_per_tok": 2, )";
  EXPECT_THAT(
      of_type("qwen3_moe", experts + R"("mlp_only_layers": [2])"),
      HasSubstr("'mlp_only_layers' holds something that is not a whole number from 0 to 1"));
  EXPECT_THAT(of_type("olmoe", R"("num_experts": 4, "num_experts_per_tok": 5)"),
              HasSubstr("'num_experts_per_tok' is not a whole number from 1 to 4"));
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
