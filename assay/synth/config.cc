#include "assay/synth/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "assay/log/json_file.h"
#include "assay/synth/presets.h"
#include "base/error.h"
#include "base/input_file.h"

namespace assay {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 20;
constexpr int64_t kMaxWidth = int64_t{1} << 20;

// One object of the file, with its place for messages.
class Object {
 public:
  Object(const rapidjson::Value& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.IsObject()) throw Error("is not a JSON object", where_, kHint);
  }

  // Null if the key is missing or null.
  const rapidjson::Value* find(const char* key) const {
    const auto found = json_.FindMember(key);
    return found == json_.MemberEnd() || found->value.IsNull() ? nullptr : &found->value;
  }

  int64_t whole(const char* key, int64_t most, std::optional<int64_t> fallback = {}) const {
    const auto* value = find(key);
    if (value == nullptr) return fallback ? *fallback : missing(key);
    if (!value->IsInt64() || value->GetInt64() < 1 || value->GetInt64() > most) {
      refuse(key, fmt::format("is not a whole number from 1 to {}", most));
    }
    return value->GetInt64();
  }

  double positive(const char* key, std::optional<double> fallback = {}) const {
    const auto* value = find(key);
    if (value == nullptr) return fallback ? *fallback : static_cast<double>(missing(key));
    if (!value->IsNumber() || !(value->GetDouble() > 0.0) || !std::isfinite(value->GetDouble())) {
      refuse(key, "is not a finite number above 0");
    }
    if (!is_in_float_range(value->GetDouble())) {
      refuse(key, "is outside of the range of 32-bit floats", kHint);
    }
    return value->GetDouble();
  }

  bool flag(const char* key, bool fallback) const {
    const auto* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->IsBool()) refuse(key, "is neither true nor false");
    return value->GetBool();
  }

  std::string text(const char* key, const std::string& fallback) const {
    const auto* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->IsString()) refuse(key, "is not a string");
    return {value->GetString(), value->GetStringLength()};
  }

  std::vector<float> factors(const char* key, int64_t count) const {
    const auto* value = find(key);
    if (value == nullptr) missing(key);
    std::vector<float> result;
    if (value->IsArray()) {
      for (const auto& each : value->GetArray()) {
        const float factor = each.IsNumber() ? each.GetFloat() : 0.0F;
        if (!(factor > 0.0F) || !std::isfinite(factor)) break;
        result.push_back(factor);
      }
    }
    if (!value->IsArray() || value->Size() != static_cast<size_t>(count) ||
        result.size() != static_cast<size_t>(count)) {
      refuse(key, fmt::format("is not an array of {} numbers above 0", count));
    }
    return result;
  }

  [[noreturn]] void refuse(const char* key, const std::string& why,
                           const std::string& hint = {}) const {
    throw Error(fmt::format("key '{}' {}", key, why), where_, hint);
  }
  const std::string& where() const { return where_; }

  static constexpr const char* kHint = "give a model's config.json as the hub has it";

 private:
  [[noreturn]] int64_t missing(const char* key) const { refuse(key, "is missing", kHint); }

  const rapidjson::Value& json_;
  std::string where_;
};

// The rescaling of Llama 3.1: wavelengths up to original / high stay, those from original / low on
// are stretched by the factor, and between them the divisor is interpolated.
std::vector<float> llama3_divisors(const Object& scaling, const ModelConfig& model) {
  const double factor = scaling.positive("factor");
  const double low = scaling.positive("low_freq_factor");
  const double high = scaling.positive("high_freq_factor");
  const auto original =
      static_cast<double>(scaling.whole("original_max_position_embeddings", kMaxWidth));
  if (!(high > low)) scaling.refuse("high_freq_factor", "is not above low_freq_factor");
  std::vector<float> divisors;
  for (int64_t i = 0; i < model.rotary_dim; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(model.rotary_dim);
    const double wavelength = 2.0 * std::numbers::pi * std::pow(model.rope_freq_base, exponent);
    const double smooth = std::clamp((original / wavelength - low) / (high - low), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / factor + smooth)));
  }
  return divisors;
}

void read_rope_scaling(const Object& object, SynthConfig& config) {
  const auto* value = object.find("rope_scaling");
  if (value == nullptr) return;
  ModelConfig& model = config.model;
  const Object scaling(*value, object.where() + ", rope_scaling");
  const std::string type = scaling.text("rope_type", scaling.text("type", "default"));
  if (type == "default") return;
  if (type == "linear") {
    model.rope_freq_scale = 1.0 / scaling.positive("factor");
  } else if (type == "llama3" && model.architecture->rope_freqs) {
    config.rope_freqs = llama3_divisors(scaling, model);
  } else if (type == "longrope" && model.architecture->rope_long_short) {
    config.rope_long = scaling.factors("long_factor", model.rotary_dim / 2);
    config.rope_short = scaling.factors("short_factor", model.rotary_dim / 2);
    const double scale = static_cast<double>(model.context_length) /
                         static_cast<double>(model.rope_original_context_length);
    if (scale > 1.0) {
      model.rope_attn_factor =
          std::sqrt(1.0 + std::log(scale) /
                              std::log(static_cast<double>(model.rope_original_context_length)));
    }
  } else {
    scaling.refuse(
        "rope_type",
        fmt::format("is '{}', which does not belong to '{}'", type, model.architecture->name),
        "Assay makes linear scaling, llama3 for llama, and longrope for phi3");
  }
}

void read_rotary(const Object& object, SynthConfig& config) {
  ModelConfig& model = config.model;
  model.n_vocab = object.whole("vocab_size", kMaxWidth);
  model.embedding_length = object.whole("hidden_size", kMaxWidth);
  model.feed_forward_length = object.whole("intermediate_size", kMaxWidth);
  model.n_layers = object.whole("num_hidden_layers", 4096);
  model.n_heads = object.whole("num_attention_heads", kMaxHeads);
  model.n_kv_heads = object.whole("num_key_value_heads", kMaxHeads, model.n_heads);
  model.context_length = object.whole("max_position_embeddings", int64_t{1} << 31);
  model.norm_eps = static_cast<float>(object.positive("rms_norm_eps"));
  model.head_dim =
      object.whole("head_dim", 65536, std::max<int64_t>(1, model.embedding_length / model.n_heads));
  const double share = object.positive("partial_rotary_factor", 1.0);
  if (share > 1.0) object.refuse("partial_rotary_factor", "is above 1");
  model.rotary_dim = static_cast<int64_t>(share * static_cast<double>(model.head_dim));
  if (model.rotary_dim < 2 || model.rotary_dim % 2 != 0) {
    object.refuse("head_dim", fmt::format("gives {} rotary dimensions; the number must be even",
                                          model.rotary_dim));
  }
  model.rope_freq_base = object.positive("rope_theta", 10000.0);
  model.rope_original_context_length =
      object.whole("original_max_position_embeddings", int64_t{1} << 31, model.context_length);
  if (object.text("hidden_act", "silu") != "silu") {
    object.refuse("hidden_act", "is not 'silu'", "Assay computes no other for this architecture");
  }
  config.tied = object.flag("tie_word_embeddings", false);
  const Architecture& architecture = *model.architecture;
  if (architecture.multipliers) {
    const char* const keys[] = {"embedding_multiplier", "attention_multiplier",
                                "residual_multiplier", "logits_scaling"};  // as kMultiplierKeys
    for (size_t i = 0; i < model.multipliers.size(); ++i) {
      model.multipliers[i] = object.positive(keys[i]);
    }
  }
  const Presence qkv_bias = find_spec(architecture.layer, Checkpoint::kQ)->bias;
  const Presence other_bias = find_spec(architecture.layer, Checkpoint::kAttnOut)->bias;
  config.qkv_bias = qkv_bias == Presence::kAlways || object.flag("attention_bias", false);
  config.other_bias = object.flag("mlp_bias", false);
  if ((config.qkv_bias && qkv_bias == Presence::kNever) ||
      (config.other_bias && other_bias == Presence::kNever)) {
    object.refuse("attention_bias", fmt::format("does not belong to '{}'", architecture.name));
  }
  const bool honoured = architecture.sliding_window == SlidingWindow::kHonoured;
  const bool window_used = honoured || object.flag("use_sliding_window", false);
  if (window_used && object.find("sliding_window") != nullptr) {
    if (!honoured) {
      object.refuse("sliding_window", "is used", "Assay computes sliding windows for phi3 only");
    }
    model.sliding_window = object.whole("sliding_window", int64_t{1} << 31);
  }
  read_rope_scaling(object, config);
}

void read_gpt2(const Object& object, SynthConfig& config) {
  ModelConfig& model = config.model;
  model.n_vocab = object.whole("vocab_size", kMaxWidth);
  model.embedding_length = object.whole("n_embd", kMaxWidth);
  model.feed_forward_length = object.whole("n_inner", kMaxWidth, 4 * model.embedding_length);
  model.n_layers = object.whole("n_layer", 4096);
  model.n_heads = object.whole("n_head", kMaxHeads);
  model.n_kv_heads = model.n_heads;
  model.head_dim = std::max<int64_t>(1, model.embedding_length / model.n_heads);
  model.context_length = object.whole("n_positions", int64_t{1} << 24);
  model.norm_eps = static_cast<float>(object.positive("layer_norm_epsilon"));
  if (object.text("activation_function", "gelu_new") != "gelu_new") {
    object.refuse("activation_function", "is not 'gelu_new'", "Assay computes no other for gpt2");
  }
  config.tied = object.flag("tie_word_embeddings", true);
  config.qkv_bias = true;
  config.other_bias = true;
}

void check_heads(const Object& object, const SynthConfig& config) {
  const ModelConfig& model = config.model;
  const char* key =
      model.architecture->position == PositionKind::kLearned ? "n_head" : "num_attention_heads";
  if (object.find("head_dim") == nullptr && model.embedding_length % model.n_heads != 0) {
    object.refuse(key, fmt::format("is {}, which does not divide the width {}", model.n_heads,
                                   model.embedding_length));
  }
  if (model.n_heads % model.n_kv_heads != 0) {
    object.refuse("num_key_value_heads", fmt::format("is {}, which does not divide the {} heads",
                                                     model.n_kv_heads, model.n_heads));
  }
}

}  // namespace

SynthConfig parse_config(const std::string& json, const std::string& where) {
  const rapidjson::Document document = parse_json_text(json, where, Object::kHint);
  const Object object(document, where);
  SynthConfig config;
  const std::string type = object.text("model_type", "");
  config.model.architecture = find_architecture(type);
  if (config.model.architecture == nullptr) {
    object.refuse("model_type", fmt::format("is '{}'", type),
                  fmt::format("Assay makes {}", architecture_names()));
  }
  config.model.name = object.text("_name_or_path", type);
  const bool rotary = config.model.architecture->position == PositionKind::kRotary;
  if (rotary) {
    read_rotary(object, config);
  } else {
    read_gpt2(object, config);
  }
  check_heads(object, config);
  return config;
}

SynthConfig load_config(const std::string& name) {
  if (name.ends_with(".json")) {
    return parse_config(read_whole_file(name, kMaxBytes, Object::kHint), name);
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
