#include "engine/hf/mamba.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "engine/linear_config.h"
#include "engine/model_config.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

// Each kind of model has its own name of a size.
constexpr char kTypes[] = "layer_types";
constexpr char kOtherTypes[] = "layers_block_type";
constexpr char kAttentionLayers[] = "attn_layer_indices";
constexpr char kPattern[] = "hybrid_override_pattern";
// Of a pattern, a letter a layer.
struct Letter {
  char letter;
  std::string_view type;
};
constexpr Letter kLetters[] = {{'M', "mamba"}, {'*', "attention"}, {'-', "mlp"}, {'E', "moe"}};

// Steps of all lengths: [0, infinity], where infinity is a number that JSON does not have, or the
// object that transformers writes in its place.
void check_step_limit(const ConfigObject& object) {
  constexpr char kLimit[] = "time_step_limit";
  const rapidjson::Value* limit = object.find(kLimit);
  if (limit == nullptr) return;
  const auto is_infinite = [](const rapidjson::Value& value) {
    return value.IsObject() || (value.IsNumber() && std::isinf(value.GetDouble()));
  };
  const bool is_open = limit->IsArray() && limit->Size() == 2 && (*limit)[0].IsNumber() &&
                       (*limit)[0].GetDouble() == 0.0 && is_infinite((*limit)[1]);
  if (!is_open) object.refuse(kLimit, "bounds the steps", "Assay computes steps of any length");
}

// What is no more than the class has anyway. transformers bounds the steps of several tokens from
// below by it, and those of a single token, which Assay computes for all, by nothing.
void check_least_step(const ConfigObject& object) {
  constexpr char kLeast[] = "time_step_min";
  const double usual = object.default_of(kLeast)->GetDouble();
  for (const char* key : {kLeast, "mamba_dt_min"}) {
    const rapidjson::Value* least = object.find(key);
    if (least == nullptr) continue;
    if (least->IsNumber() && least->GetDouble() >= 0.0 && least->GetDouble() <= usual) continue;
    object.refuse(key, fmt::format("is no number up to {}", usual),
                  "Assay computes steps of any length");
  }
}

constexpr int64_t kMaxPeriod = 4096;  // layers

// What every nth layer is, from one on, where the class says so by two numbers; else empty.
std::vector<bool> every_nth(const ConfigObject& object, const char* period, const char* first) {
  std::vector<bool> layers;
  if (object.default_of(period) == nullptr) return layers;
  const int64_t n = object.whole({period}, kMaxPeriod);
  const int64_t offset = object.whole_or_zero(first, kMaxPeriod);
  if (offset >= n) {
    object.refuse(first, fmt::format("is {}, which is not below the {} of {}", offset, n, period));
  }
  layers.resize(static_cast<size_t>(object.whole({"num_hidden_layers"}, kMaxLayers)));
  for (int64_t i = 0; i < std::ssize(layers); ++i) layers[static_cast<size_t>(i)] = i % n == offset;
  return layers;
}

// The sizes that Mamba and Mamba-2 have in common: the width of the values, and of a key.
int64_t inner_width(const ConfigObject& object, const HfConfig& config) {
  return object.whole({"mamba_expand", "expand"}, kMaxWidth) * config.embedding_length;
}
int64_t state_length(const ConfigObject& object) {
  return object.whole({"mamba_d_state", "ssm_state_size", "state_size"}, kMaxLinearHead);
}

// What Assay does not compute of either.
void check_mamba(const ConfigObject& object) {
  const char* activations = object.own({"mamba_hidden_act", "hidden_act"});
  const std::string activation = object.text({activations}, "silu");
  if (activation != "silu" && activation != "swish") {
    object.refuse(activations, fmt::format("is '{}'", activation),
                  "Assay computes the convolution of Mamba with silu");
  }
  for (const char* key : {"mamba_proj_bias", "use_bias", "projectors_bias"}) {
    if (!object.flag(key)) continue;
    object.refuse(key, "is true", "Assay computes the products of Mamba without biases");
  }
}

// Of the first Mamba, whose steps are a product of a short vector: an auto one has a sixteenth of
// the model's width, rounded up.
void read_first_mamba(const ConfigObject& object, HfConfig& config, Keys& keys) {
  using namespace hyperparameter;
  const KeyNames rank = {"mamba_dt_rank", "time_step_rank"};
  const rapidjson::Value* stated = object.find(object.present(rank));
  const bool is_auto = stated != nullptr && stated->IsString();
  if (is_auto && object.text(rank, "") != "auto") {
    object.refuse(object.present(rank), "is neither a number nor 'auto'");
  }
  // Which is no feed-forward's where layers have none.
  constexpr char kInner[] = "intermediate_size";
  const bool is_stated =
      !has_checkpoint(*config.architecture, Checkpoint::kFfnOut) && object.find(kInner) != nullptr;
  const int64_t inner =
      is_stated ? object.whole({kInner}, kMaxLinearWidth) : inner_width(object, config);
  if (inner > kMaxLinearWidth) {
    object.refuse(object.present({"mamba_expand", "expand"}),
                  fmt::format("gives more than {} channels", kMaxLinearWidth));
  }
  config.delta = mamba_shape(inner, state_length(object));
  config.ssm_rank =
      is_auto ? (config.embedding_length + 15) / 16 : object.whole(rank, kMaxLinearWidth);
  check_mamba(object);
  keys.whole(kLinearTaps, object.whole({"mamba_d_conv", "conv_kernel"}, kMaxConvTaps));
  keys.whole(kLinearValues, inner);
  keys.whole(kLinearKeyLength, config.delta.key_dim);
  keys.whole(kSsmRank, config.ssm_rank);
  constexpr char kNormEps[] = "mixer_rms_eps";  // of a class that has norms without weights
  if (!has_plain_ssm_norms(*config.architecture)) return;
  const bool normed = object.default_of(kNormEps) != nullptr;
  keys.flag(kSsmNorms, normed);
  if (normed) keys.own_number(own::kSsmNormEps, object.positive({kNormEps}));
}

}  // namespace

std::vector<bool> expert_layers_by_period(const ConfigObject& object) {
  return every_nth(object, "expert_layer_period", "expert_layer_offset");
}

std::vector<std::string> layer_types(const ConfigObject& object) {
  std::vector<std::string> types = object.texts(object.present({kTypes, kOtherTypes}));
  if (!types.empty()) return types;
  // Bamba's, where any layer has attention.
  if (object.find(kAttentionLayers) != nullptr && object.text({"model_type"}, "") == "bamba") {
    types.resize(static_cast<size_t>(object.whole({"num_hidden_layers"}, kMaxLayers)), "mamba");
    for (const int64_t layer : object.wholes(kAttentionLayers, std::ssize(types) - 1)) {
      types[static_cast<size_t>(layer)] = "attention";
    }
    return types;
  }
  for (const bool attends : every_nth(object, "attn_layer_period", "attn_layer_offset")) {
    types.emplace_back(attends ? "attention" : "mamba");
  }
  if (!types.empty()) return types;
  for (const char letter : object.text({kPattern}, "")) {
    const auto* known = std::ranges::find(kLetters, letter, &Letter::letter);
    types.emplace_back(known == std::end(kLetters) ? std::string(1, letter)
                                                   : std::string(known->type));
  }
  return types;
}

bool is_mamba(std::string_view layer_type) {
  return layer_type == "linear_attention" || layer_type == "mamba";
}

bool is_attention(std::string_view layer_type) {
  return layer_type == "full_attention" || layer_type == "attention";
}

bool is_feed_forward(std::string_view layer_type) {
  return layer_type == "mlp";
}

bool is_of_experts(std::string_view layer_type) {
  return layer_type == "moe";
}

void read_mamba(const ConfigObject& object, HfConfig& config, Keys& keys) {
  using namespace hyperparameter;
  if (!has_checkpoint(*config.architecture, Checkpoint::kSsm)) return;
  if (has_checkpoint(*config.architecture, Checkpoint::kSsmStep)) {
    return read_first_mamba(object, config, keys);
  }
  const KeyNames heads = {"mamba_n_heads", "mamba_num_heads", "num_heads"};
  const KeyNames groups = {"mamba_n_groups", "n_groups"};
  const KeyNames head_length = {"mamba_d_head", "mamba_head_dim", "head_dim"};
  DeltaShape& shape = config.delta;
  shape.n_value_heads = object.whole(heads, kMaxHeads);
  shape.n_key_heads = object.whole(groups, kMaxHeads);
  shape.key_dim = state_length(object);
  shape.grouped = config.architecture->grouped_value_heads;
  if (shape.n_value_heads % shape.n_key_heads != 0) {
    object.refuse(object.present(groups), fmt::format("is {}, which does not divide the {} heads",
                                                      shape.n_key_heads, shape.n_value_heads));
  }
  // Others may state the key of another kind, which is that of heads of attention.
  const auto* own = std::ranges::find_if(
      head_length, [&](const char* key) { return object.default_of(key) != nullptr; });
  const char* length = own == head_length.end() ? *head_length.begin() : *own;
  const rapidjson::Value* stated = object.find(length);
  const bool is_auto = stated == nullptr || stated->IsString();
  constexpr char kInner[] = "mamba_d_ssm";
  const bool is_stated = object.default_of(kInner) != nullptr && object.find(kInner) != nullptr;
  const int64_t inner =
      is_stated ? object.whole({kInner}, kMaxLinearWidth) : inner_width(object, config);
  if (is_auto && inner % shape.n_value_heads != 0) {
    object.refuse(object.present(heads), fmt::format("is {}, which does not divide the width {}",
                                                     shape.n_value_heads, inner));
  }
  shape.value_dim = is_auto ? std::max<int64_t>(1, inner / shape.n_value_heads)
                            : object.whole({length}, kMaxLinearHead);
  if (shape.value_width() > kMaxLinearWidth || shape.key_width() > kMaxLinearWidth) {
    object.refuse(object.present(heads),
                  fmt::format("gives all heads together more than {} elements", kMaxLinearWidth));
  }
  if (config.model->inner_is_expanded && shape.value_width() != inner) {
    object.refuse(length, fmt::format("gives {} heads {} elements, and the width is expanded to {}",
                                      shape.n_value_heads, shape.value_width(), inner));
  }
  check_step_limit(object);
  if (config.model->bounds_steps) check_least_step(object);
  check_mamba(object);
  constexpr char kNormFirst[] = "mamba_norm_before_gate";
  if (object.flag("mamba_rms_norm") && object.flag(kNormFirst)) {
    object.refuse(kNormFirst, "is true", "Assay gates what Mamba-2 gives before its norm");
  }
  keys.whole(kLinearTaps, object.whole({"mamba_d_conv", "conv_kernel"}, kMaxConvTaps));
  keys.whole(kLinearKeyHeads, shape.n_key_heads);
  keys.whole(kLinearValueHeads, shape.n_value_heads);
  keys.whole(kLinearKeyLength, shape.key_dim);
  keys.whole(kLinearValues, shape.value_width());
}

}  // namespace assay
