#include "assay/synth/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "assay/synth/presets.h"
#include "base/error.h"
#include "base/input_file.h"
#include "engine/hf/config.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

// Whose files the header and the list of tensors can state in full.
constexpr std::string_view kTypes[] = {"llama", "mistral", "qwen2",   "qwen3", "phi3",
                                       "olmo2", "granite", "smollm3", "gpt2"};

std::string type_names() {
  return fmt::format("{}", fmt::join(kTypes, ", "));
}

// What asks for a key that GGUF does not have.
constexpr std::pair<std::string_view, std::string_view> kNotInFiles[] = {
    {hyperparameter::own::kActivation, "hidden_act"},
    {hyperparameter::own::kHonoursWindow, "sliding_window"},
    {hyperparameter::own::kRotaryLayers, "no_rope_layers"},
    {hyperparameter::own::kYarnWholePairs, "truncate"}};

[[noreturn]] void refuse(const std::string& where, std::string_view key, const std::string& what,
                         const std::string& hint) {
  throw Error(fmt::format("key '{}' {}", key, what), where, hint);
}

std::vector<float> factors(const HfConfig& config, const char* tensor) {
  const auto found = config.rope_factors.find(tensor);
  return found == config.rope_factors.end() ? std::vector<float>() : found->second;
}

}  // namespace

SynthConfig parse_config(const std::string& json, const std::string& where) {
  HfConfig read = read_hf_config(json, where);
  if (std::ranges::find(kTypes, read.model->model_type) == std::end(kTypes)) {
    refuse(where, "model_type", fmt::format("is '{}'", read.model->model_type),
           "Assay makes " + type_names());
  }
  for (const auto& [own, key] : kNotInFiles) {
    if (read.metadata.contains(own)) {
      refuse(where, key, "asks for what a GGUF file cannot state", "run the folder itself");
    }
  }
  SynthConfig config;
  config.model =
      ModelConfig::from_gguf(Gguf(where, {{}, std::move(read.made), std::move(read.metadata), {}}));
  if (config.model.yarn) {
    refuse(where + ", rope_scaling", "rope_type", "is 'yarn'",
           "Assay makes linear scaling, llama3 for llama, and longrope for phi3");
  }
  config.model.n_vocab = read.n_vocab;
  config.rope_freqs = factors(read, "rope_freqs.weight");
  config.rope_long = factors(read, "rope_factors_long.weight");
  config.rope_short = factors(read, "rope_factors_short.weight");
  config.tied = read.tied;
  const std::span<const OpSpec> layer = read.architecture->layer;
  const Presence qkv_bias = find_spec(layer, Checkpoint::kQ)->bias;
  const Presence other_bias = find_spec(layer, Checkpoint::kAttnOut)->bias;
  config.qkv_bias = qkv_bias == Presence::kAlways || read.attention_bias;
  config.other_bias = other_bias == Presence::kAlways || read.mlp_bias;
  if ((config.qkv_bias && qkv_bias == Presence::kNever) ||
      (config.other_bias && other_bias == Presence::kNever)) {
    refuse(where, "attention_bias", fmt::format("does not belong to '{}'", read.model->model_type),
           {});
  }
  return config;
}

SynthConfig load_config(const std::string& name) {
  if (name.ends_with(".json")) {
    return parse_config(read_whole_file(name, kMaxConfigBytes, kConfigHint), name);
  }
  for (const Preset& preset : presets()) {
    if (preset.name == name) return parse_config(std::string(preset.json), name);
  }
  throw Error(fmt::format("'{}' is not a model that Assay knows", printable(name, 80)), {},
              fmt::format("give a config.json or one of {}", preset_names()));
}

std::string preset_names() {
  std::string names;
  for (const Preset& preset : presets()) {
    if (!names.empty()) names += ", ";
    names += preset.name;
  }
  return names;
}

}  // namespace assay
