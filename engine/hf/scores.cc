#include "engine/hf/scores.h"

#include <fmt/format.h>

#include <string>

#include "model/hyperparameter_keys.h"

// What config.json says of the attention's scores.
namespace assay {
namespace {

constexpr char kAttnConfig[] = "attn_config";
constexpr char kAlibiMax[] = "alibi_bias_max";
// Refused where they are true, a number or an object.
constexpr const char* kNotInAttnConfig[] = {"clip_qkv", "softmax_scale", "prefix_lm",
                                            "qk_ln",    "qk_gn",         "attn_uses_sequence_id",
                                            "rope",     "kv_n_heads"};

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

void read_alibi(const ConfigObject& object, Keys& keys) {
  constexpr char kNorm[] = "norm_type";
  constexpr char kRatio[] = "expansion_ratio";
  double max_bias = 8.0;  // transformers takes it for this whatever is stated
  if (const rapidjson::Value* attention = object.find(kAttnConfig)) {
    const ConfigObject stated(*attention, fmt::format("{}, {}", object.where(), kAttnConfig));
    refuse_others(stated);
    max_bias = stated.positive({kAlibiMax}, max_bias);
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
