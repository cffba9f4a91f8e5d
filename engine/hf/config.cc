#include "engine/hf/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json_file.h"
#include "engine/hf/class_defaults.h"
#include "engine/hf/expert_config.h"
#include "engine/hf/indexer.h"
#include "engine/hf/json_object.h"
#include "engine/hf/keys.h"
#include "engine/hf/linear_attention.h"
#include "engine/hf/mamba.h"
#include "engine/hf/nested_config.h"
#include "engine/hf/parts.h"
#include "engine/hf/rope_config.h"
#include "engine/hf/scales.h"
#include "engine/hf/scores.h"
#include "engine/hf/streams.h"
#include "engine/hf/windowed_heads.h"
#include "engine/hf/windows.h"
#include "engine/model_config.h"
#include "engine/rope_sections.h"
#include "model/hyperparameter_keys.h"

namespace assay {

namespace {

// Features that change what is computed, in the state in which they do not. A key of any model
// counts: a config.json that has one means it.
struct Feature {
  const char* key;
  bool neutral;  // the flag's value that is not refused
};
constexpr char kSeesAhead[] = "use_bidirectional_attention";
constexpr char kHasExperts[] = "enable_moe_block";
constexpr Feature kFlags[] = {{"alibi", false},
                              {"is_encoder_decoder", false},
                              {"add_cross_attention", false},
                              {kSeesAhead, false},
                              {kHasExperts, false},
                              {"scale_attn_by_inverse_layer_idx", false},
                              {"scale_attn_weights", true},
                              {"apply_residual_connection_post_layernorm", false},
                              {"do_layer_norm_before", true},
                              {"_remove_final_layer_norm", false},
                              {"layer_norm_elementwise_affine", true},
                              {"rope_interleave", true}};
// These are refused wherever they are not 0, but for architectures that may have them: layers that
// read keys and values of others, and embeddings of each layer.
constexpr const char* kSizes[] = {"num_kv_shared_layers", "hidden_size_per_layer_input"};
// These are refused wherever they are not null.
constexpr const char* kObjects[] = {"quantization_config", "moe_latent_size"};
constexpr char kChunk[] = "attention_chunk_size";
// And this one, but where HfModel::routing says what it is for.
constexpr char kRouted[] = "n_routed_experts";
// Positions of a model whose config.json does not bound them, as converters write.
constexpr int64_t kContextWithoutAttention = int64_t{1} << 20;
// Constants of the clamped SwiGLU that the kernels have.
constexpr std::pair<const char*, double> kConstants[] = {{"swiglu_limit", 7.0},
                                                         {"swiglu_alpha", 1.702}};

bool is_latent(const HfConfig& config) {
  return has_checkpoint(*config.architecture, Checkpoint::kKvA);
}

// Text does not change by it.
bool is_of_images(const ConfigObject& object, const char* key, const HfConfig& config) {
  const rapidjson::Value* value = object.find(key);
  return config.model->sees_ahead_in_images && std::string_view(key) == kSeesAhead &&
         value != nullptr && value->IsString() && object.text({key}, "") == "vision";
}

void refuse_features(const ConfigObject& object, const HfConfig& config) {
  for (const Feature& feature : kFlags) {
    const bool is_read = object.states(feature.key) || object.default_of(feature.key) != nullptr;
    const bool is_known = std::string_view(feature.key) == kHasExperts &&
                          config.model->experts == HfExperts::kOfLayer;
    if (!is_read || is_known || is_of_images(object, feature.key, config)) continue;
    if (object.flag(feature.key) == feature.neutral) continue;
    object.refuse(feature.key, "asks for what Assay does not compute");
  }
  const bool may_have = has_checkpoint(*config.architecture, Checkpoint::kPleInput);
  for (const char* key : kSizes) {
    if (!may_have && object.whole_or_zero(key, kMaxWidth, 0) > 0) {
      object.refuse(key, "is not 0", "Assay does not compute what it asks for");
    }
  }
  for (const char* key : kObjects) {
    if (object.find(key) != nullptr) object.refuse(key, "asks for what Assay does not compute");
  }
  // MiMo-V2-Flash's files have it, too, and no engine reads it of them.
  const bool may_chunk =
      config.model->window == HfWindow::kChunked || config.model->window == HfWindow::kSixths;
  if (!may_chunk && object.find(kChunk) != nullptr) {
    object.refuse(kChunk, "asks for what Assay does not compute");
  }
  // Networks with layers of one branch say which of these have experts.
  const bool is_routed = config.model->routing == HfRouting::kSoftmax ||
                         config.model->routing == HfRouting::kNormalised ||
                         config.model->routing == HfRouting::kSigmoid ||
                         has_layers_without_feed_forward(*config.architecture);
  if (!is_routed && object.find(kRouted) != nullptr) {
    object.refuse(kRouted, "asks for what Assay does not compute");
  }
  for (const auto& [key, value] : kConstants) {
    if (object.positive({key}, value) != value) {
      object.refuse(key, fmt::format("is not {}", value), "Assay computes no other");
    }
  }
}

int64_t kv_heads(const ConfigObject& object, const HfConfig& config) {
  if (config.model->model_type == "gpt_bigcode") {
    if (object.flag("multi_query")) return 1;
    object.refuse("multi_query", "is false", "Assay runs it with one head of keys and values");
  }
  if (config.model->model_type == "falcon" && !object.flag("new_decoder_architecture")) {
    return object.flag("multi_query") ? 1 : config.n_heads;
  }
  if (is_latent(config)) return config.n_heads;
  const KeyNames names = {"kv_n_heads", "num_key_value_heads", "num_kv_heads"};
  const int64_t count = object.whole(names, kMaxHeads, config.n_heads);
  if (config.n_heads % count != 0) {
    object.refuse(object.present(names),
                  fmt::format("is {}, which does not divide the {} heads", count, config.n_heads));
  }
  return count;
}

// Of latent attention, whose config.json calls the rotated part of a head head_dim.
void read_latent_shape(const ConfigObject& object, HfConfig& config, Keys& keys) {
  constexpr int64_t kMaxHeadLength = 65536;
  config.head_dim = object.whole({"qk_rope_head_dim"}, kMaxHeadLength);
  const int64_t own = object.whole({"qk_nope_head_dim"}, kMaxHeadLength);
  std::optional<int64_t> usual;  // where the class has no default
  if (object.default_of("v_head_dim") == nullptr) usual = config.embedding_length / config.n_heads;
  const int64_t of_values = object.whole({"v_head_dim"}, kMaxHeadLength, usual);
  // As files have it whose keys and values are one product.
  keys.whole(hyperparameter::kKeyLength, own + config.head_dim);
  keys.whole(hyperparameter::kValueLength, of_values);
  keys.whole(hyperparameter::kKvLoraRank, object.whole({"kv_lora_rank"}, kMaxWidth));
  if (object.find("q_lora_rank") != nullptr) {
    config.has_q_lora = true;
    keys.whole(hyperparameter::kQLoraRank, object.whole({"q_lora_rank"}, kMaxWidth));
  }
}

void read_heads(const ConfigObject& object, HfConfig& config) {
  config.n_heads = object.whole({"num_attention_heads", "n_head", "n_heads"}, kMaxHeads);
  config.n_kv_heads = kv_heads(object, config);
  if (object.find("head_dim") == nullptr && config.embedding_length % config.n_heads != 0) {
    object.refuse(object.present({"num_attention_heads", "n_head", "n_heads"}),
                  fmt::format("is {}, which does not divide the width {}", config.n_heads,
                              config.embedding_length));
  }
  config.head_dim = object.whole({"head_dim"}, 65536,
                                 std::max<int64_t>(1, config.embedding_length / config.n_heads));
}

void write_heads(const ConfigObject& object, HfConfig& config, Keys& keys) {
  keys.whole(hyperparameter::kHeadCount, config.n_heads);
  keys.whole(hyperparameter::kHeadCountKv, config.n_kv_heads);
  if (is_latent(config)) {
    read_latent_shape(object, config, keys);
  } else if (config.head_dim * config.n_heads != config.embedding_length) {
    keys.whole(hyperparameter::kKeyLength, config.head_dim);
    keys.whole(hyperparameter::kValueLength, config.head_dim);
  }
}

void write_norm_eps(const ConfigObject& object, const HfConfig& config, Keys& keys) {
  constexpr char kRms[] = "rms_norm_eps";
  const Architecture& architecture = *config.architecture;
  if (architecture.norm_by_eps && object.find(kRms) != nullptr) {
    return keys.real(hyperparameter::norm_eps(NormKind::kRms), object.positive({kRms}));
  }
  keys.real(hyperparameter::norm_eps(architecture),
            config.model->norm_eps > 0.0
                ? config.model->norm_eps
                : object.positive({object.own({kRms, "layer_norm_eps", "layer_norm_epsilon",
                                               "norm_eps", "norm_epsilon"})}));
}

void read_shape(const ConfigObject& object, HfConfig& config, Keys& keys) {
  config.n_vocab = object.whole({"vocab_size"}, kMaxWidth);
  const bool is_bloom = config.model->model_type == "bloom";  // of two names n_embed counts
  config.embedding_length = is_bloom
                                ? object.whole({"n_embed", "hidden_size"}, kMaxWidth)
                                : object.whole({"hidden_size", "n_embd", "d_model"}, kMaxWidth);
  const auto listed = std::ssize(layer_types(object));
  const bool lists_layers = has_layers_without_feed_forward(*config.architecture) && listed > 0;
  config.n_layers = object.whole({"num_hidden_layers", "n_layer", "n_layers"}, kMaxLayers,
                                 lists_layers ? std::optional(listed) : std::nullopt);
  constexpr char kOwnWidth[] = "word_embed_proj_dim";
  if (object.whole({kOwnWidth}, kMaxWidth, config.embedding_length) != config.embedding_length) {
    object.refuse(kOwnWidth, "is not hidden_size", "Assay computes no embedding of another width");
  }
  const bool attends = has_checkpoint(*config.architecture, Checkpoint::kAttn);
  if (attends) read_heads(object, config);
  keys.whole(hyperparameter::kVocabularySize, config.n_vocab);
  const KeyNames usual = {"max_position_embeddings", "n_positions", "max_seq_len"};
  const KeyNames of_bloom = {"seq_length"};
  const KeyNames context = is_bloom ? of_bloom : usual;
  const bool has_context = attends && !is_bloom;
  config.context_length = has_context || object.find(object.present(context)) != nullptr
                              ? object.whole(context, kMostPositions)
                              : kContextWithoutAttention;
  keys.whole(hyperparameter::kContextLength, config.context_length);
  keys.whole(hyperparameter::kEmbeddingLength, config.embedding_length);
  keys.whole(hyperparameter::kBlockCount, config.n_layers);
  read_feed_forward(object, config, keys);
  if (attends) write_heads(object, config, keys);
  write_norm_eps(object, config, keys);
  if (has_checkpoint(*config.architecture, Checkpoint::kConv)) {
    if (object.flag("conv_bias")) {
      object.refuse("conv_bias", "is true", "Assay computes convolutions without a bias");
    }
    keys.whole(hyperparameter::kConvTaps, object.whole({"conv_L_cache"}, kMaxConvTaps));
  }
  read_linear_attention(object, config, keys);
  read_mamba(object, config, keys);
  read_indexer(object, config, keys);
  read_scales(object, config);
}

struct ActivationName {
  std::string_view name;
  ActivationKind kind;
};
constexpr ActivationName kActivations[] = {{"silu", ActivationKind::kSilu},
                                           {"swish", ActivationKind::kSilu},
                                           {"gelu", ActivationKind::kGelu},
                                           {"gelu_python", ActivationKind::kGelu},
                                           {"gelu_new", ActivationKind::kGeluTanh},
                                           {"gelu_fast", ActivationKind::kGeluTanh},
                                           {"gelu_pytorch_tanh", ActivationKind::kGeluTanh},
                                           {"gelu_python_tanh", ActivationKind::kGeluTanh},
                                           {"relu", ActivationKind::kRelu},
                                           {"relu2", ActivationKind::kReluSquared},
                                           {"xielu", ActivationKind::kXielu}};

// About what transformers starts with, as numbers that F16 and BF16 hold; the tensors of a folder
// take their place.
void write_xielu(const HfConfig& config, Keys& keys) {
  constexpr float kNumbers[] = {0.203125F, -1.046875F, 0.5F, -0x1p-20F};
  const auto n_layers = static_cast<size_t>(config.n_layers);
  for (size_t i = 0; i < std::size(kNumbers); ++i) {
    keys.own_reals(hyperparameter::kXieluKeys[i], std::vector<float>(n_layers, kNumbers[i]));
  }
}

void read_activation(const ConfigObject& object, const HfConfig& config, Keys& keys) {
  const char* key = object.own({"hidden_activation", "mlp_hidden_act", "hidden_act",
                                "activation_function", "activation", "ffn_act_fn"});
  std::string stated = object.text({key}, "");
  if (config.model->gelu_is_tanh && stated == "gelu") stated = "gelu_pytorch_tanh";
  if (stated.empty()) return;
  // gpt_oss says silu and computes a form of its own.
  if (config.architecture->activation == ActivationKind::kClampedSwiglu) return;
  const auto* found = std::find_if(std::begin(kActivations), std::end(kActivations),
                                   [&](const ActivationName& each) { return each.name == stated; });
  if (found == std::end(kActivations)) {
    std::string known;
    for (const ActivationName& each : kActivations) known += fmt::format(" {}", each.name);
    object.refuse(key, fmt::format("is '{}'", stated), "Assay computes" + known);
  }
  if (found->kind == ActivationKind::kXielu) {
    if (config.architecture->activation == found->kind) return write_xielu(config, keys);
    object.refuse(key, "is 'xielu', which does not belong to this model_type");
  }
  if (found->kind == config.architecture->activation) return;
  keys.own_text(hyperparameter::own::kActivation,
                hyperparameter::kActivationNames[static_cast<size_t>(found->kind)]);
}

void read_rotation(const ConfigObject& object, HfConfig& config, Keys& keys) {
  RopeConfig rope = read_rope_config(object, config);
  config.rotary_dim = rope.dimensions;
  config.rope_factors = std::move(rope.factors);
  keys.whole(hyperparameter::kRopeDimensions, rope.dimensions);
  for (const auto& [key, value] : rope.numbers) keys.real(key, value);
  if (!rope.scaling.empty()) {
    config.metadata[fmt::format("{}.{}", config.architecture->name, hyperparameter::kRopeScaling)] =
        rope.scaling;
  }
  if (config.architecture->rope_sections != RopeSections::kNone) {
    keys.wholes(hyperparameter::kRopeSections, rope.sections);
    const std::vector<int64_t> sections(rope.sections.begin(), rope.sections.end());
    for (int64_t pair = 0; pair < rope.dimensions / 2; ++pair) {
      if (is_turned_in_text(sections, config.architecture->rope_sections, pair)) continue;
      keys.own_flag(hyperparameter::own::kTurnsAllPairs, true);
      break;
    }
  }
  if (config.architecture->rope_long_short || config.architecture->temperature ||
      rope.scaling == "yarn") {
    const int64_t original =
        rope.original_context_length > 0 ? rope.original_context_length : config.context_length;
    keys.whole(hyperparameter::kRopeOriginalContext, original);
    if (config.architecture->temperature) keys.whole(hyperparameter::kTemperatureSpan, original);
  }
  if (rope.yarn_whole_pairs) {
    keys.own_flag(hyperparameter::own::kYarnWholePairs, *rope.yarn_whole_pairs);
  }
  const std::vector<bool> rotated = rotated_layers(object, config);
  if (config.architecture->rope_pattern && !rotated.empty()) {
    keys.flags(hyperparameter::kRopePattern, rotated);
  } else if (!rotated.empty()) {
    keys.own_flags(hyperparameter::own::kRotaryLayers, rotated);
  }
  constexpr char kPositions[] = "position_embedding_type";
  if (config.model->rotates_by_name) {
    keys.flag(hyperparameter::kRopeSwitch, object.text({kPositions}, "") == "rope");
  }
}

// Layers in the form that the architecture has: parallel or one after the other.
void read_residual(const ConfigObject& object, HfConfig& config, Keys& keys) {
  constexpr char kParallel[] = "use_parallel_residual";
  const bool falcon = config.model->model_type == "falcon";
  if (falcon && !object.flag("parallel_attn") && !object.flag("new_decoder_architecture")) {
    object.refuse("parallel_attn", "is false", "Assay runs falcon with parallel attention");
  }
  const bool neox = config.model->model_type == "gpt_neox";
  config.parallel_residual = object.flag(kParallel);
  if (neox) keys.flag(kParallel, config.parallel_residual);
}

// Which layers have attention, or a feed-forward, where not all have.
void write_layers(const HfConfig& config, Keys& keys) {
  if (has_checkpoint(*config.architecture, Checkpoint::kDelta)) {
    keys.flags(hyperparameter::kLinearLayers, config.parts.conv);
  } else if (!config.parts.attends.empty() ||
             std::ranges::find(config.parts.conv, true) != config.parts.conv.end()) {
    const std::vector<bool>& attends = config.parts.attends;
    std::vector<int32_t> heads;
    std::vector<int32_t> widths;
    for (size_t i = 0; i < config.parts.conv.size(); ++i) {
      const bool has_heads = attends.empty() ? !config.parts.conv[i] : attends[i];
      heads.push_back(has_heads ? static_cast<int32_t>(config.n_kv_heads) : 0);
      if (attends.empty()) continue;
      const int64_t width = config.parts.feeds_forward[i] ? config.feed_forward_length
                            : config.parts.experts[i]     ? config.expert_feed_forward_length
                                                          : 0;
      widths.push_back(static_cast<int32_t>(width));
    }
    keys.wholes(hyperparameter::kHeadCountKv, heads);
    if (!widths.empty()) keys.wholes(hyperparameter::kFeedForwardLength, widths);
  }
}

constexpr char kTextConfig[] = "text_config";

// transformers asks the whole model's, and of some kinds then the text's.
void read_tied(const ConfigObject& whole, const ConfigObject& object, HfConfig& config) {
  constexpr char kTied[] = "tie_word_embeddings";
  config.tied_is_stated = whole.find(kTied) != nullptr;
  const TextPart* part = config.text_part;
  if (part == nullptr) {
    config.tied = object.flag(kTied);
    return;
  }
  config.tied = whole.flag(kTied, part->tied);
  if (config.tied || !part->tied_by_text || !object.states(kTied) || !object.flag(kTied)) return;
  config.tied = config.tied_is_stated = true;
}

// The class of the whole may leave logits as they are that the text's own scales or caps.
void refuse_scaled_logits(const ConfigObject& object, const HfConfig& config) {
  if (config.text_part == nullptr || config.text_part->scales_logits) return;
  const auto differs = [&](std::string_view key, double neutral) {
    const auto found = config.metadata.find(fmt::format("{}.{}", config.architecture->name, key));
    return found != config.metadata.end() && !(std::get<double>(found->second) == neutral);
  };
  const bool of_weights = std::ranges::find(config.model->scales, "output", &HfScale::tensor) !=
                          config.model->scales.end();
  constexpr auto kScale = kMultiplierKeys[static_cast<size_t>(Multiplier::kLogits)];
  if (!of_weights && !differs(hyperparameter::kLogitSoftCap, 0.0) && !differs(kScale, 1.0)) return;
  object.refuse("model_type",
                fmt::format("is '{}', whose logits are scaled or capped", config.model->model_type),
                "transformers does so only of the text alone, and not within this model");
}

}  // namespace

HfConfig read_hf_config(const std::string& json, const std::string& where) {
  const rapidjson::Document document = parse_json_text(json, where, kConfigHint, JsonNumbers::kAll);
  const ConfigObject whole(document, where);
  HfConfig config;
  config.text_part = find_text_part(whole.text({"model_type"}, ""));
  const bool is_flat =
      config.text_part != nullptr && config.text_part->flat && whole.find(kTextConfig) == nullptr;
  const bool is_part = config.text_part != nullptr && !is_flat;
  if (is_part && whole.find(kTextConfig) == nullptr) {
    whole.refuse(kTextConfig, "is missing", kConfigHint);
  }
  const rapidjson::Value& json_of_text = is_part ? *whole.find(kTextConfig) : document;
  const std::string place = is_part ? fmt::format("{}, {}", where, kTextConfig) : where;
  const ConfigObject stated(json_of_text, place);
  const std::string usual = config.text_part != nullptr ? config.text_part->text : "";
  const std::string type = is_flat ? usual : stated.text({"model_type"}, usual);
  config.model = find_hf_model(type);
  if (config.model != nullptr) {
    config.architecture = find_architecture(config.model->architecture);
  }
  if (config.architecture == nullptr) {
    stated.refuse("model_type", fmt::format("is '{}'", type),
                  fmt::format("Assay reads {}", hf_model_types()));
  }
  const rapidjson::Document defaults = class_defaults(type, is_part);
  const rapidjson::Document joined = with_nested_keys(stated, *config.model);
  const ConfigObject object(joined, place, &defaults);
  if (std::ranges::any_of(layer_types(object), is_of_experts)) {
    config.architecture = architectures_of(*config.model).back();
  }
  refuse_features(object, config);
  if (is_part) refuse_features(whole, config);
  Keys keys(config);
  keys.own_text("general.architecture", config.architecture->name);
  const std::string& name = config.made.emplace_back(object.text({"_name_or_path"}, type));
  keys.own_text("general.name", name);
  read_shape(object, config, keys);
  read_expert_config(object, config, keys);
  read_activation(object, config, keys);
  read_multipliers(object, config, keys);
  read_clip(object, config, keys);
  read_soft_caps(object, config, keys);
  refuse_scaled_logits(object, config);
  read_window(object, config, keys);
  if (config.architecture->windowed_heads) read_windowed_heads(object, config, keys);
  if (has_checkpoint(*config.architecture, Checkpoint::kPredictions)) {
    read_streams(object, config, keys);
  }
  read_residual(object, config, keys);
  if (config.architecture->position == PositionKind::kAlibi) read_alibi(object, keys);
  if (config.architecture->default_temperature > 0.0) read_own_temperature(object, keys);
  if (config.architecture->unnormed_experts > 0) {
    keys.own_flag(hyperparameter::own::kPlainQkNorm, object.flag("use_qk_norm"));
  }
  if (config.architecture->position == PositionKind::kRotary) {
    if (has_checkpoint(*config.architecture, Checkpoint::kQRope)) {
      read_rotation(object, config, keys);
    } else {
      config.rotary_dim = config.head_dim;  // files have rows of heads as if they were turned
    }
  }
  if (config.model->routing != HfRouting::kOwn) {
    const KeyNames ignored = {"num_nextn_predict_layers", "num_mtp_layers"};
    config.n_ignored_layers = object.whole_or_zero(object.present(ignored), kMaxLayers, 0);
  }
  read_tied(whole, object, config);
  config.parts = read_parts(object, config);
  write_layers(config, keys);
  return config;
}

std::string hf_model_types() {
  std::string names;
  for (const HfModel& model : hf_models()) {
    if (find_architecture(model.architecture) == nullptr) continue;
    if (!names.empty()) names += ", ";
    names += model.model_type;
  }
  for (const auto& part : text_parts()) names += ", " + part.first;
  return names;
}

}  // namespace assay
