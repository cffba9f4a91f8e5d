#include "engine/hf/parts.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "engine/hf/linear_attention.h"
#include "engine/hf/mamba.h"
#include "engine/model_config.h"

namespace assay {
namespace {

constexpr int64_t kMaxStep = 4096;

// The keys that say which products have biases; "attention_bias" and "mlp_bias" where a model_type
// has no row here.
struct BiasKey {
  std::string_view model_type;
  const char* key;              // null: always
  bool of_all;                  // otherwise of q, k and v alone
  const char* other = nullptr;  // another name of the key
};
constexpr BiasKey kBiasKeys[] = {
    {"starcoder2", "use_bias", true},      {"falcon", "bias", true},
    {"gpt_neox", "attention_bias", true},  {"stablelm", "use_qkv_bias", false},
    {"glm", "attention_bias", false},      {"glm4", "attention_bias", false},
    {"glm4v_text", nullptr, false},        {"glm4v_moe_text", "attention_bias", false},
    {"glm4_moe", "attention_bias", false}, {"opt", "enable_bias", true},
    {"seed_oss", "attention_bias", false}, {"ernie4_5", "use_bias", true},
    {"qwen2_moe", "qkv_bias", false},      {"internlm3", "qkv_bias", true, "attention_bias"},
    {"helium", "attention_bias", false},   {"mimo_v2_flash", "attention_bias", false}};

void read_biases(const ConfigObject& object, const HfConfig& config, HfParts& parts) {
  const auto* own = std::find_if(
      std::begin(kBiasKeys), std::end(kBiasKeys),
      [&](const BiasKey& each) { return each.model_type == config.model->model_type; });
  if (own != std::end(kBiasKeys)) {
    const char* other = own->other == nullptr ? own->key : own->other;
    parts.qkv_bias = own->key == nullptr || object.flag(object.present({own->key, other}));
    parts.output_bias = parts.ffn_bias = own->of_all && parts.qkv_bias;
    return;
  }
  const auto stated = [&](const char* key, Checkpoint checkpoint) {
    const OpSpec* op = find_spec(config.architecture->layer, checkpoint);
    for (const LayerVariant& variant : config.architecture->variants) {
      if (op == nullptr) op = find_spec(variant.ops, checkpoint);
    }
    const bool has = object.flag(key);
    if (has && op != nullptr && op->bias == Presence::kNever) {
      object.refuse(key, "does not belong to this model_type");
    }
    const bool is_read = object.default_of(key) != nullptr;
    if (!has && is_read && op != nullptr && op->bias == Presence::kAlways) {
      object.refuse(key, "asks for what Assay does not compute");
    }
    return has;
  };
  // q of latent attention has one in its first product only.
  const bool latent = has_checkpoint(*config.architecture, Checkpoint::kKvA);
  parts.qkv_bias = stated("attention_bias", latent ? Checkpoint::kKvA : Checkpoint::kQ);
  parts.output_bias = parts.qkv_bias;
  parts.ffn_bias = stated("mlp_bias", Checkpoint::kFfnUp);
}

// Qwen's leave experts out of the layers listed and of those between the steps, deepseek out of
// the first.
std::vector<bool> expert_layers(const ConfigObject& object, const HfConfig& config) {
  std::vector<bool> layers(static_cast<size_t>(config.n_layers), config.n_experts > 0);
  if (has_layers_without_feed_forward(*config.architecture)) {
    const std::vector<std::string> types = layer_types(object);
    std::transform(types.begin(), types.end(), layers.begin(), is_of_experts);
    return layers;
  }
  const std::vector<bool> by_period = expert_layers_by_period(object);
  for (size_t i = 0; i < by_period.size(); ++i) layers[i] = layers[i] && by_period[i];
  if (object.default_of("decoder_sparse_step") != nullptr) {
    const int64_t step = object.whole({"decoder_sparse_step"}, kMaxStep, 1);
    for (int64_t i = 0; i < config.n_layers; ++i) {
      if ((i + 1) % step != 0) layers[static_cast<size_t>(i)] = false;
    }
    for (const int64_t dense : object.wholes("mlp_only_layers", config.n_layers - 1)) {
      layers[static_cast<size_t>(dense)] = false;
    }
  }
  for (int64_t i = 0; i < config.n_layers; ++i) {
    if ((i + 1) % config.expert_step != 0) layers[static_cast<size_t>(i)] = false;
  }
  const int64_t dense = std::min(config.n_dense_layers, config.n_layers);
  std::fill(layers.begin(), layers.begin() + dense, false);
  return layers;
}

// Whether each layer has attention and a state space model.
bool has_both(const Architecture& architecture) {
  return has_checkpoint(architecture, Checkpoint::kMixerOut);
}

// lfm2 lists the kinds of its layers, older files those with attention.
std::vector<bool> conv_layers(const ConfigObject& object, const HfConfig& config) {
  const auto count = static_cast<size_t>(config.n_layers);
  std::vector<bool> layers(count);
  if (has_both(*config.architecture)) return layers;
  if (has_checkpoint(*config.architecture, Checkpoint::kSsm)) {
    const std::vector<std::string> types = layer_types(object);
    for (size_t i = 0; i < count; ++i) layers[i] = types.empty() || is_mamba(types[i]);
    return layers;
  }
  if (!has_checkpoint(*config.architecture, Checkpoint::kConv)) {
    return linear_attention_layers(object, config);
  }
  constexpr char kAttention[] = "full_attn_idxs";
  const std::vector<std::string> types = object.texts("layer_types");
  for (size_t i = 0; i < std::min(count, types.size()); ++i) layers[i] = types[i] == kConvLayer;
  if (!types.empty() || object.find(kAttention) == nullptr) return layers;
  layers.assign(count, true);
  for (const int64_t layer : object.wholes(kAttention, config.n_layers - 1)) {
    layers[static_cast<size_t>(layer)] = false;
  }
  return layers;
}

}  // namespace

HfParts read_parts(const ConfigObject& object, const HfConfig& config) {
  HfParts parts;
  read_biases(object, config, parts);
  for (const char* key : {"qk_layernorm", "use_qk_norm"}) {
    if (!object.flag(key)) continue;
    if (!has_checkpoint(*config.architecture, Checkpoint::kQNorm) &&
        !has_checkpoint(*config.architecture, Checkpoint::kQRopeNorm)) {
      object.refuse(key, "does not belong to this model_type");
    }
    parts.head_norms = true;
  }
  parts.two_norms = config.model->model_type == "falcon" &&
                    object.flag("new_decoder_architecture") &&
                    object.whole({"num_ln_in_parallel_attn"}, 2, 2) == 2;
  parts.choice_bias =
      config.model->choice_bias &&
      (object.default_of("use_expert_bias") == nullptr || object.flag("use_expert_bias"));
  for (const bool windowed : config.windowed) {
    parts.values.push_back(windowed || !config.keys_as_values);
  }
  parts.conv_bias = object.flag(object.present({"mamba_conv_bias", "use_conv_bias"}));
  parts.logits_bias = object.flag("lm_head_bias");
  constexpr char kPostNorms[] = "use_post_norm";
  parts.post_norms = object.default_of(kPostNorms) == nullptr || object.flag(kPostNorms);
  constexpr char kSsmNorm[] = "mamba_rms_norm";
  parts.ssm_norm = object.default_of(kSsmNorm) == nullptr || object.flag(kSsmNorm);
  parts.experts = expert_layers(object, config);
  parts.conv = conv_layers(object, config);
  if (has_layers_without_feed_forward(*config.architecture)) {
    const std::vector<std::string> types = layer_types(object);
    if (types.empty() && has_checkpoint(*config.architecture, Checkpoint::kAttn)) {
      object.refuse("layers_block_type", "is missing", "it has to say what each layer is");
    }
    for (const std::string& type : types) {
      parts.attends.push_back(is_attention(type));
      parts.feeds_forward.push_back(is_feed_forward(type));
    }
  }
  return parts;
}

std::optional<bool> stated_part(const HfConfig& config, int64_t layer, std::string_view tensor) {
  const HfParts& parts = config.parts;
  if (tensor == "ffn_gate_inp") return parts.experts[static_cast<size_t>(layer)];
  if (tensor == "ffn_norm") return !config.parallel_residual;
  if (tensor == "attn_norm_2") return parts.two_norms;
  if (tensor == "post_attention_norm") return parts.post_norms;
  if (is_of_kv(tensor) && config.shares_kv(layer)) return false;
  if (tensor == "ssm_norm") return parts.ssm_norm;
  if (tensor == "inp_gate") return config.ple_length > 0;
  if (tensor == "attn_v") return parts.values.empty() || parts.values[static_cast<size_t>(layer)];
  if (tensor == "attn_q_norm" || tensor == "attn_k_norm") return parts.head_norms;
  if (tensor == "attn_q" && !parts.attends.empty()) {
    return parts.attends[static_cast<size_t>(layer)];
  }
  if (tensor == "attn_q") return !config.has_q_lora && !parts.conv[static_cast<size_t>(layer)];
  if (tensor == "ffn_up") {
    return parts.feeds_forward.empty() || parts.feeds_forward[static_cast<size_t>(layer)];
  }
  if (tensor == "ffn_gate_shexp" || tensor == "ffn_up_shexp") return config.shares_expert;
  if (tensor.starts_with("indexer.") && !config.indexed.empty()) {
    return config.indexed[static_cast<size_t>(layer)];
  }
  if (tensor == "attn_sinks" && config.model->windowed_sinks) {
    return config.windowed[static_cast<size_t>(layer)];
  }
  return std::nullopt;
}

bool has_part(const HfConfig& config, int64_t layer, std::string_view tensor) {
  return stated_part(config, layer, tensor).value_or(true);
}

bool is_of_other_layers(const HfConfig& config, const OpSpec& op, int64_t layer) {
  if (op.tensor.starts_with("indexer.")) return !has_part(config, layer, op.tensor);
  if (config.model->unread_post_norm && op.out == Checkpoint::kPostFfnNorm) {
    return !config.parts.experts[static_cast<size_t>(layer)];
  }
  if (!config.model->shared_mlp) return false;
  const bool has_experts = config.parts.experts[static_cast<size_t>(layer)];
  const bool is_dense =
      op.kind == OpKind::kLinear && !is_of_shared_expert(op.out) &&
      (op.tensor == "ffn_gate" || op.tensor == "ffn_up" || op.tensor == "ffn_down");
  return is_dense ? has_experts : is_of_shared_expert(op.out) && !has_experts;
}

bool has_bias(const HfConfig& config, const OpSpec& op) {
  if (op.bias != Presence::kOptional) return op.bias == Presence::kAlways;
  switch (op.out) {
    case Checkpoint::kExperts:
      return config.parts.choice_bias;
    case Checkpoint::kLinearConv:
      return config.parts.conv_bias;
    case Checkpoint::kAttnOut:
      return config.parts.output_bias;
    case Checkpoint::kFfnGate:
    case Checkpoint::kFfnUp:
    case Checkpoint::kFfnOut:
      return config.parts.ffn_bias;
    default:
      return config.parts.qkv_bias;
  }
}

}  // namespace assay
