#include "assay/weights/networks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

// Files hold floats, and some numbers are computed from two or three of them.
bool is_near(double a, double b) {
  constexpr double kRounding = 0x1p-22;
  return a == b || std::fabs(a - b) <= kRounding * std::max(std::fabs(a), std::fabs(b));
}

void take_if_near(double from, double& to) {
  if (is_near(from, to)) to = from;
}

// Whether the scores of each layer are scaled alike, of models of as many layers.
bool is_scaled_alike(const ModelConfig& a, const ModelConfig& b) {
  for (int64_t i = 0; i < a.n_layers; ++i) {
    if (!is_near(a.attention_scale(a.heads(i)), b.attention_scale(b.heads(i)))) return false;
  }
  return true;
}

bool is_rotated(const ModelConfig& config) {
  return config.find(Checkpoint::kQRope) != nullptr || config.kv_lora_rank > 0;
}

// Of a network that has no rotation, what would say how.
void take_rotation(const ModelConfig& from, ModelConfig& to) {
  to.rotary_dim = from.rotary_dim;
  to.rope_freq_base = from.rope_freq_base;
  to.local_rope_freq_base = from.local_rope_freq_base;
  to.rope_freq_scale = from.rope_freq_scale;
  to.rope_attn_factor = from.rope_attn_factor;
  to.yarn = from.yarn;
}

std::optional<ModelConfig> config_of(const Gguf& file) {
  try {
    return ModelConfig::from_gguf(file);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The file with a key as `value`, or without it where that is null; without its tokenizer.
std::optional<ModelConfig> config_with(const Gguf& file, const std::string& key,
                                       const GgufValue* value) {
  GgufContent content;
  for (const auto& [name, stated] : file.metadata()) {
    if (name != key && !name.starts_with("tokenizer.")) content.metadata.emplace(name, stated);
  }
  if (value != nullptr) content.metadata.emplace(key, *value);
  content.tensors = file.tensors();
  return config_of(Gguf(file.path(), std::move(content)));
}

// What files with attn_k_b and attn_v_b state under the key; nothing of keys that all state alike.
std::optional<int64_t> of_latent_vectors(const ModelConfig& config, std::string_view key) {
  if (key == hyperparameter::kHeadCountKv) return 1;
  if (key == hyperparameter::kKeyLength) return config.kv_lora_rank + config.rotary_dim;
  if (key == hyperparameter::kValueLength) return config.kv_lora_rank;
  return std::nullopt;
}

std::optional<int64_t> of_heads(const ModelConfig& config, std::string_view key) {
  if (key == hyperparameter::kHeadCountKv) return config.n_kv_heads;
  if (key == hyperparameter::kKeyLength) return config.head_dim;
  if (key == hyperparameter::kValueLength) return config.value_dim;
  return std::nullopt;
}

bool states(const Gguf& file, const std::string& key, std::optional<int64_t> number) {
  try {
    return number && file.find(key) != nullptr && file.get_int(key) == *number;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool is_one_network(const ModelConfig& a, ModelConfig b) {
  if (a.architecture != b.architecture || a.layers.size() != b.layers.size()) return false;
  b.name = a.name;
  b.context_length = a.context_length;  // says how far, not what
  if (!is_rotated(a) && !is_rotated(b)) take_rotation(a, b);
  const bool has_original = a.yarn || a.architecture->rope_long_short;
  if (!has_original) b.rope_original_context_length = a.rope_original_context_length;
  if (!a.yarn) b.yarn_whole_pairs = a.yarn_whole_pairs;
  for (size_t i = 0; i < b.multipliers.size(); ++i) {
    const auto which = static_cast<Multiplier>(i);
    const bool is_alike = which == Multiplier::kAttention
                              ? is_scaled_alike(a, b)
                              : is_near(a.multiplier(which), b.multiplier(which));
    if (is_alike) b.multipliers[i] = a.multipliers[i];
  }
  for (double ModelConfig::*number :
       {&ModelConfig::max_alibi_bias, &ModelConfig::rope_freq_base,
        &ModelConfig::local_rope_freq_base, &ModelConfig::rope_freq_scale,
        &ModelConfig::rope_attn_factor, &ModelConfig::yarn_score_factor}) {
    take_if_near(a.*number, b.*number);
  }
  take_if_near(a.routing.jitter, b.routing.jitter);
  if (a.yarn && b.yarn) {
    for (double Yarn::*number : {&Yarn::extrapolation, &Yarn::beta_fast, &Yarn::beta_slow}) {
      take_if_near((*a.yarn).*number, (*b.yarn).*number);
    }
  }
  return a == b;
}

Networks::Networks(const Gguf& ref, const Gguf& got)
    : ref_(ref), got_(got), ref_config_(config_of(ref)), got_config_(config_of(got)) {
  are_one_ = ref_config_ && got_config_ && is_one_network(*ref_config_, *got_config_);
}

bool Networks::depends_on(const std::string& key) const {
  if (!ref_config_ || !got_config_) return true;
  const auto ref = config_with(ref_, key, got_.find(key));
  const auto got = config_with(got_, key, ref_.find(key));
  return !ref || !got || !is_one_network(*ref_config_, *ref) || !is_one_network(*got_config_, *got);
}

bool Networks::is_of_latent_form(const std::string& key) const {
  if (!ref_config_ || !got_config_ || ref_config_->kv_lora_rank == 0) return false;
  const std::string network = fmt::format("{}.", ref_config_->architecture->name);
  if (!key.starts_with(network)) return false;
  const auto is_of_vectors = [&](const Gguf& file) {
    return file.find(network + std::string(hyperparameter::kLatentKeyLength)) != nullptr;
  };
  if (is_of_vectors(ref_) == is_of_vectors(got_)) return false;
  const std::string_view name = std::string_view(key).substr(network.size());
  const auto is_right = [&](const Gguf& file, const ModelConfig& config) {
    return states(file, key,
                  is_of_vectors(file) ? of_latent_vectors(config, name) : of_heads(config, name));
  };
  return is_right(ref_, *ref_config_) && is_right(got_, *got_config_);
}

}  // namespace assay
