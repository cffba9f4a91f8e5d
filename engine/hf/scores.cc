#include "engine/hf/scores.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "model/hyperparameter_keys.h"

// What config.json says of the attention's scores.
namespace assay {
namespace {

constexpr char kAttnConfig[] = "attn_config";
constexpr char kAlibiMax[] = "alibi_bias_max";
// Refused where they are true, a number or an object.
constexpr const char* kNotInAttnConfig[] = {
    "softmax_scale", "prefix_lm", "qk_ln", "qk_gn", "attn_uses_sequence_id", "rope", "kv_n_heads"};
constexpr char kClipKey[] = "clip_qkv";

bool is_on(const rapidjson::Value* value) {
  return value != nullptr && !(value->IsBool() && !value->GetBool());
}

void refuse_others(const ConfigObject& attention) {
  for (const char* key : kNotInAttnConfig) {
    if (is_on(attention.find(key))) attention.refuse(key, "asks for what Assay does not compute");
  }
  if (!attention.flag("alibi", true)) {
    attention.refuse("alibi", "is false", "Assay runs models of this kind with it");
  }
  constexpr char kType[] = "attn_type";
  const std::string type = attention.text({kType}, "multihead_attention");
  if (type != "multihead_attention") {
    attention.refuse(kType, fmt::format("is '{}'", type), "Assay computes multihead_attention");
  }
}

}  // namespace

void read_clip(const ConfigObject& object, const HfConfig& config, Keys& keys) {
  if (object.find(kClipKey) == nullptr) return;
  if (!has_checkpoint(*config.architecture, Checkpoint::kQClip) ||
      config.architecture->position == PositionKind::kAlibi) {  // which has it elsewhere
    object.refuse(kClipKey, "asks for what Assay does not compute");
  }
  keys.real(hyperparameter::kClip, object.positive({kClipKey}));
}

void read_soft_caps(const ConfigObject& object, const HfConfig& config, Keys& keys) {
  const std::pair<const char*, std::string_view> caps[] = {
      {"attn_logit_softcapping", hyperparameter::kAttentionSoftCap},
      {"final_logit_softcapping", hyperparameter::kLogitSoftCap}};
  for (const auto& [name, key] : caps) {
    if (!object.states(name) && object.default_of(name) == nullptr) continue;
    const double cap = object.find(name) == nullptr ? 0.0 : object.positive({name});
    // transformers reads the cap of scores of gemma3 and does not apply it.
    const bool ignored =
        config.model->model_type == "gemma3_text" && key == hyperparameter::kAttentionSoftCap;
    if (config.architecture->soft_caps && !ignored) {
      keys.real(key, cap);
    } else if (cap > 0.0) {
      object.refuse(name, "does not belong to this model_type");
    }
  }
}

void read_alibi(const ConfigObject& object, Keys& keys) {
  constexpr char kNorm[] = "norm_type";
  constexpr char kRatio[] = "expansion_ratio";
  double max_bias = 8.0;  // transformers takes it for this whatever is stated
  if (const rapidjson::Value* attention = object.find(kAttnConfig)) {
    const ConfigObject stated(*attention, fmt::format("{}, {}", object.where(), kAttnConfig));
    refuse_others(stated);
    max_bias = stated.positive({kAlibiMax}, max_bias);
    const rapidjson::Value* clip = stated.find(kClipKey);
    const bool is_off = clip != nullptr && clip->IsNumber() && clip->GetDouble() == 0.0;
    if (clip != nullptr && !is_off) keys.real(hyperparameter::kClip, stated.positive({kClipKey}));
  }
  if (object.positive({kRatio}, 4.0) != 4.0) {
    object.refuse(kRatio, "is not 4", "transformers computes no other");
  }
  const std::string norm = object.text({kNorm}, "layernorm");
  if (norm != "layernorm" && norm != "low_precision_layernorm") {
    object.refuse(kNorm, fmt::format("is '{}'", norm),
                  "Assay computes layernorm and low_precision_layernorm");
  }
  keys.real(hyperparameter::kMaxAlibiBias, max_bias);
}

void read_own_temperature(const ConfigObject& object, Keys& keys) {
  const bool is_tuned = object.flag("attn_temperature_tuning");
  keys.real(hyperparameter::kTemperature, is_tuned ? object.positive({"attn_scale"}) : 0.0);
  keys.whole(hyperparameter::kTemperatureSpan, object.whole({"floor_scale"}, kMostPositions));
}

}  // namespace assay
