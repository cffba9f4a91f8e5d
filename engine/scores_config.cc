#include "engine/scores_config.h"

#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

constexpr int64_t kMaxSpan = int64_t{1} << 31;

// 0, in the file too, is no cap.
void read_soft_cap(const ConfigKeys& keys, std::string_view key, double fallback, float& cap) {
  const double stated = keys.number(key, fallback);
  if (stated == 0.0) return;
  if (keys.number(key, 0.0) != 0.0) keys.positive(key);  // throws
  cap = static_cast<float>(stated);
}

}  // namespace

void read_clip(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kKey = hyperparameter::kClip;
  if (!has_checkpoint(*config.architecture, Checkpoint::kQClip)) {
    return keys.reject_unless(kKey, 0.0, kNotDone);
  }
  if (keys.number(kKey, 0.0) == 0.0) return;
  config.clip = static_cast<float>(keys.positive(kKey));
}

void read_soft_caps(const ConfigKeys& keys, ModelConfig& config) {
  const Architecture& architecture = *config.architecture;
  if (!architecture.soft_caps) {
    keys.reject_unless(hyperparameter::kAttentionSoftCap, 0.0, kNotDone);
    keys.reject_unless(hyperparameter::kLogitSoftCap, 0.0, kNotDone);
    return;
  }
  read_soft_cap(keys, hyperparameter::kAttentionSoftCap, architecture.attention_soft_cap,
                config.attention_soft_cap);
  read_soft_cap(keys, hyperparameter::kLogitSoftCap, architecture.logit_soft_cap,
                config.logit_soft_cap);
}

void read_temperature(const ConfigKeys& keys, ModelConfig& config) {
  const Architecture& architecture = *config.architecture;
  const double fallback = architecture.default_temperature;
  if (!architecture.temperature && fallback == 0.0) return;
  if (keys.number(hyperparameter::kTemperature, fallback) == 0.0) return;
  config.attention_temperature =
      static_cast<float>(fallback == 0.0 ? keys.positive(hyperparameter::kTemperature)
                                         : keys.positive(hyperparameter::kTemperature, fallback));
  config.temperature_span = keys.count_or(hyperparameter::kTemperatureSpan, kMaxSpan,
                                          architecture.default_temperature_span == 0
                                              ? config.rope_original_context_length
                                              : architecture.default_temperature_span);
}

void read_value_scale(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kKey = hyperparameter::kValueScale;
  if (!config.architecture->value_scale) return keys.reject_unless(kKey, 1.0, kNotDone);
  if (keys.number(kKey, 0.0) == 0.0) return;
  config.value_scale = static_cast<float>(keys.positive(kKey));
}

void read_alibi(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kKey = hyperparameter::kMaxAlibiBias;
  const double usual = config.architecture->default_alibi_bias;
  config.max_alibi_bias = usual > 0.0 ? keys.positive(kKey, usual) : keys.positive(kKey);
}

}  // namespace assay
