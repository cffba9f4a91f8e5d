#include "engine/hf/expert_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/hf/mamba.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

// Always, of kinds without a key of it.
bool normalises_weights(const ConfigObject& object) {
  constexpr char kKey[] = "norm_topk_prob";
  return object.default_of(kKey) == nullptr || object.flag(kKey);
}

constexpr char kSharedLength[] = "shared_intermediate_size";  // of HfModel::shared_mlp

// How many layers, the first, have no experts: by number, or by a list, which counts more.
int64_t leading_dense(const ConfigObject& object, const HfConfig& config) {
  constexpr char kList[] = "mlp_layer_types";
  const std::vector<std::string> types = object.texts(kList);
  if (types.empty()) {
    for (const char* key : {"first_k_dense_replace", "num_dense_layers"}) {
      if (object.default_of(key) != nullptr) return object.whole_or_zero(key, kMaxLayers);
    }
    const bool is_older =
        config.model->dense_by_older_key && object.states("first_k_dense_replace");
    if (is_older || config.model->routing == HfRouting::kPrefixed) {
      return object.whole_or_zero("first_k_dense_replace", kMaxLayers, 0);
    }
    return config.model->n_dense_layers;
  }
  const auto sparse = std::ranges::find(types, "sparse");
  const bool all_sparse =
      std::all_of(sparse, types.end(), [](auto& type) { return type == "sparse"; });
  const bool all_dense =
      std::all_of(types.begin(), sparse, [](auto& type) { return type == "dense"; });
  if (!all_sparse || !all_dense) {
    object.refuse(kList, "leaves later layers without experts, or has others than dense and sparse",
                  "Assay computes experts in all later layers");
  }
  return sparse - types.begin();
}

// The same number of all layers, where it is a list.
int64_t whole_of_layers(const ConfigObject& object, const char* key, int64_t most,
                        std::optional<int64_t> fallback) {
  const rapidjson::Value* value = object.find(key);
  if (value == nullptr || !value->IsArray()) return object.whole({key}, most, fallback);
  const std::vector<int64_t> all = object.wholes(key, most);
  const bool alike = std::ranges::adjacent_find(all, std::not_equal_to()) == all.end();
  if (all.empty() || all.front() == 0 || !alike) {
    object.refuse(key, "is not the same number of all layers", "Assay runs models where it is");
  }
  return all.front();
}

// The name under which a number is stated that transformers takes under two; the first where
// neither is.
const char* either(const ConfigObject& object, const char* own, const char* other) {
  if (!object.states(other)) return own;
  if (!object.states(own)) return other;
  const auto* a = object.find(own);
  const auto* b = object.find(other);
  if (a == nullptr || b == nullptr || *a != *b) {
    object.refuse(other, fmt::format("is not what '{}' is, which transformers takes it for", own));
  }
  return own;
}

// Of hunyuan_v1_moe, whose shared expert is as wide as the others.
void read_hunyuan(const ConfigObject& object, HfConfig& config, Keys& keys) {
  const int64_t width = config.feed_forward_length;
  config.n_experts = whole_of_layers(object, either(object, "num_experts", "num_local_experts"),
                                     65536, std::nullopt);
  keys.whole(hyperparameter::kExpertCount, config.n_experts);
  keys.whole(hyperparameter::kExpertUsedCount,
             whole_of_layers(object, either(object, "moe_topk", "num_experts_per_tok"),
                             config.n_experts, std::nullopt));
  for (const char* key : {"moe_intermediate_size", "num_shared_expert"}) {
    const int64_t usual = std::string_view(key) == "num_shared_expert" ? 1 : width;
    if (whole_of_layers(object, key, kMaxWidth, usual) != usual) {
      object.refuse(key, fmt::format("is not {}", usual), "transformers computes no other");
    }
  }
  keys.whole(hyperparameter::kExpertFeedForwardLength, width);
  keys.whole(hyperparameter::kSharedFeedForwardLength, width);
  config.shares_expert = true;
}

// Of networks that have n_routed_experts, as DeepSeek's do.
void read_shared_and_groups(const ConfigObject& object, HfConfig& config, Keys& keys) {
  const bool sigmoid = config.model->routing == HfRouting::kSigmoid;
  if (has_layers_without_feed_forward(*config.architecture)) {  // which are told by a list
    keys.whole(hyperparameter::kSharedFeedForwardLength,
               object.whole({"moe_shared_expert_intermediate_size"}, kMaxWidth));
  } else {
    config.n_dense_layers = leading_dense(object, config);
    keys.whole(hyperparameter::kLeadingDense, config.n_dense_layers);
  }
  if (has_checkpoint(*config.architecture, Checkpoint::kSharedOut)) {
    keys.whole(hyperparameter::kExpertSharedCount,
               object.whole({"n_shared_experts", "num_shared_experts"}, config.n_experts));
  }
  keys.real(hyperparameter::kExpertWeightsScale,
            object.positive(
                {object.own({"routed_scaling_factor", "router_scaling_factor", "route_scale"})},
                1.0));  // null in MiMo-V2-Flash's files
  keys.whole(hyperparameter::kExpertGating, sigmoid ? 2 : 1);
  keys.flag(hyperparameter::kExpertWeightsNorm,
            config.model->routing != HfRouting::kSoftmax && normalises_weights(object));
  constexpr char kStep[] = "moe_layer_freq";  // of each layer in files of MiMo-V2-Flash
  const bool is_list = config.model->windowed_sinks && object.find(kStep) != nullptr &&
                       object.find(kStep)->IsArray();
  if (!is_list && object.whole({kStep}, kMaxLayers, 1) != 1) {
    object.refuse(kStep, "is not 1", "Assay computes experts in all later layers");
  }
  constexpr char kGroups[] = "n_group";
  if (config.model->routing == HfRouting::kNormalised) {
    if (object.whole({kGroups}, config.n_experts) == 1) return;
    object.refuse(kGroups, "is not 1", "Assay runs it with experts in one group");
  }
  if (object.default_of(kGroups) == nullptr && sigmoid) return;
  constexpr char kMethod[] = "topk_method";
  const std::string method = object.text({kMethod}, "greedy");
  if (!sigmoid && method == "greedy") return;
  if (!sigmoid && method != "group_limited_greedy") {
    object.refuse(kMethod, fmt::format("is '{}'", method),
                  "Assay computes greedy and group_limited_greedy");
  }
  keys.whole(hyperparameter::kExpertGroupCount, object.whole({kGroups}, config.n_experts));
  keys.whole(hyperparameter::kExpertGroupUsedCount, object.whole({"topk_group"}, config.n_experts));
}

// Of networks that have moe_num_experts, as Ernie 4.5 does.
void read_stepped(const ConfigObject& object, HfConfig& config, Keys& keys) {
  constexpr char kShared[] = "moe_num_shared_experts";
  constexpr char kLast[] = "moe_layer_end_index";
  if (object.flag("use_bias")) object.refuse("use_bias", "asks for what Assay does not compute");
  config.n_dense_layers = object.whole_or_zero("moe_layer_start_index", kMaxLayers);
  config.expert_step = object.whole({"moe_layer_interval"}, kMaxLayers);
  const rapidjson::Value* last = object.find(kLast);
  const bool is_open = last != nullptr && last->IsInt() && last->GetInt() == -1;
  if (!is_open && object.whole_or_zero(kLast, kMaxLayers) < config.n_layers - 1) {
    object.refuse(kLast, "leaves later layers without experts",
                  "Assay computes experts in all later layers");
  }
  keys.whole(hyperparameter::kLeadingDense, config.n_dense_layers);
  keys.whole(hyperparameter::kExpertStep, config.expert_step);
  const int64_t shared = object.whole_or_zero(kShared, config.n_experts);
  config.shares_expert = shared > 0;
  if (shared == 0) return;
  keys.whole(hyperparameter::kExpertSharedCount, shared);
  keys.whole(hyperparameter::kSharedFeedForwardLength,
             shared * object.whole({"moe_intermediate_size"}, kMaxWidth));
}

// Every nth layer has experts: n, by a number or by a list, which counts more.
int64_t step_of_experts(const ConfigObject& object, const HfConfig& config) {
  constexpr char kList[] = "moe_layers";
  if (object.find(kList) == nullptr) {
    return object.whole({"interleave_moe_layer_step"}, kMaxLayers);
  }
  const std::vector<int64_t> layers = object.wholes(kList, kMaxLayers);
  const int64_t step = layers.empty() ? kMaxLayers : layers.front() + 1;
  std::vector<int64_t> stepped;
  for (int64_t i = step - 1; i < config.n_layers; i += step) stepped.push_back(i);
  if (layers.empty() || layers != stepped) {
    object.refuse(kList, "is not every nth of the layers", "Assay computes experts in such alone");
  }
  return step;
}

// Of llama4_text, whose shared expert is as wide as the others.
void read_llama4(const ConfigObject& object, HfConfig& config, Keys& keys) {
  config.n_experts = object.whole({"num_local_experts"}, 65536);
  config.expert_feed_forward_length = object.whole({"intermediate_size"}, kMaxWidth);
  config.expert_step = step_of_experts(object, config);
  config.shares_expert = true;
  keys.whole(hyperparameter::kExpertCount, config.n_experts);
  keys.whole(hyperparameter::kExpertUsedCount,
             object.whole({"num_experts_per_tok"}, config.n_experts));
  keys.whole(hyperparameter::kExpertStep, config.expert_step);
  keys.whole(hyperparameter::kExpertFeedForwardLength, config.expert_feed_forward_length);
  keys.whole(hyperparameter::kSharedFeedForwardLength, config.expert_feed_forward_length);
}

// Of cohere2_moe, whose layers without experts may have a width of their own.
void read_prefixed(const ConfigObject& object, HfConfig& config, Keys& keys) {
  constexpr char kShared[] = "num_shared_experts";
  constexpr char kTogether[] = "shared_expert_combination_strategy";
  constexpr char kChoice[] = "expert_selection_fn";
  config.n_experts = object.whole({"num_experts"}, 65536);
  config.expert_feed_forward_length = object.whole({"intermediate_size"}, kMaxWidth);
  config.n_dense_layers = leading_dense(object, config);
  const int64_t shared = object.whole_or_zero(kShared, config.n_experts, 0);
  const std::string together = object.text({kTogether}, "");
  const std::string choice = object.text({kChoice}, "");
  config.shares_expert = shared > 0;
  if (together != "average" && together != "sum") {
    object.refuse(kTogether, fmt::format("is '{}'", together), "Assay computes average and sum");
  }
  if (choice != "softmax" && choice != "sigmoid") {
    object.refuse(kChoice, fmt::format("is '{}'", choice), "Assay computes softmax and sigmoid");
  }
  const bool is_softmax = choice == "softmax";  // over those that are used
  keys.whole(hyperparameter::kExpertCount, config.n_experts);
  keys.whole(hyperparameter::kExpertUsedCount,
             object.whole({"num_experts_per_tok"}, config.n_experts));
  keys.whole(hyperparameter::kExpertFeedForwardLength, config.expert_feed_forward_length);
  keys.whole(hyperparameter::kLeadingDense, config.n_dense_layers);
  keys.whole(hyperparameter::kExpertGating, is_softmax ? 3 : 2);
  keys.flag(hyperparameter::kExpertWeightsNorm, !is_softmax && object.flag("norm_topk_prob"));
  if (!config.shares_expert) return;
  if (together == "sum") keys.own_flag(hyperparameter::own::kWholeShared, true);
  keys.whole(hyperparameter::kExpertSharedCount, shared);
  keys.whole(hyperparameter::kSharedFeedForwardLength, shared * config.expert_feed_forward_length);
}

// Of phimoe, which has two experts whatever it says.
void read_mixer(const ConfigObject& object, HfConfig& config, Keys& keys) {
  constexpr char kUsed[] = "num_experts_per_tok";
  constexpr char kJitter[] = "router_jitter_noise";
  config.n_experts = object.whole({"num_local_experts"}, 65536);
  config.expert_feed_forward_length = config.feed_forward_length;
  if (config.n_experts < 2) object.refuse("num_local_experts", "is not 2 or more");
  if (object.whole({kUsed}, config.n_experts) != 2) {
    object.refuse(kUsed, "is not 2", "transformers computes no other");
  }
  keys.whole(hyperparameter::kExpertCount, config.n_experts);
  keys.whole(hyperparameter::kExpertUsedCount, 2);
  keys.whole(hyperparameter::kExpertFeedForwardLength, config.expert_feed_forward_length);
  const rapidjson::Value* jitter = object.find(kJitter);
  const bool is_zero = jitter != nullptr && jitter->IsNumber() && jitter->GetDouble() == 0.0;
  keys.own_number(hyperparameter::own::kRouterJitter, is_zero ? 0.0 : object.positive({kJitter}));
}

// Of lfm2_moe, whose GGUF files can state neither a scale of the weights nor that these are not
// normalised.
void read_leading_dense(const ConfigObject& object, HfConfig& config, Keys& keys) {
  constexpr char kScale[] = "routed_scaling_factor";
  config.n_dense_layers = object.whole_or_zero("num_dense_layers", kMaxLayers);
  keys.whole(hyperparameter::kLeadingDense, config.n_dense_layers);
  if (!object.flag("norm_topk_prob")) {
    object.refuse("norm_topk_prob", "is false", "Assay normalises the weights of these experts");
  }
  if (object.positive({kScale}) != 1.0) {
    object.refuse(kScale, "is not 1", "Assay does not scale the weights of these experts");
  }
}

// lfm2 states the width of a feed-forward without a gate, of which two thirds are taken.
void adjust_feed_forward(const ConfigObject& object, HfConfig& config) {
  if (!object.flag("block_auto_adjust_ff_dim")) return;
  constexpr char kMultiplier[] = "block_ffn_dim_multiplier";
  int64_t& length = config.feed_forward_length;
  length = 2 * length / 3;
  if (object.find(kMultiplier) == nullptr) return;
  const double adjusted = object.positive({kMultiplier}) * static_cast<double>(length);
  if (!(adjusted <= static_cast<double>(kMaxWidth))) object.refuse(kMultiplier, "is too large");
  const int64_t unit = object.whole({"block_multiple_of"}, kMaxWidth);
  length = std::max<int64_t>(1, (static_cast<int64_t>(adjusted) + unit - 1) / unit * unit);
}

// Of gemma4_text, whose experts are beside the feed-forward of each layer.
void read_experts_beside_dense(const ConfigObject& object, HfConfig& config, Keys& keys) {
  if (!object.flag("enable_moe_block")) return;
  config.n_experts = object.whole({"num_experts"}, 65536);
  keys.whole(hyperparameter::kExpertCount, config.n_experts);
  keys.whole(hyperparameter::kExpertUsedCount, object.whole({"top_k_experts"}, config.n_experts));
  keys.whole(hyperparameter::kExpertFeedForwardLength,
             object.whole({"moe_intermediate_size"}, kMaxWidth));
}

// Files may say that they have none.
bool has_no_experts(const ConfigObject& object) {
  constexpr char kCount[] = "num_local_experts";
  return object.find(kCount) != nullptr && object.whole_or_zero(kCount, kMaxWidth) == 0;
}

}  // namespace

// The width of each layer's.
static void read_feed_forwards(const ConfigObject& object, const char* key, HfConfig& config,
                               Keys& keys) {
  const std::vector<int64_t> widths = object.wholes(key, kMaxWidth);
  if (std::ssize(widths) != config.n_layers || std::ranges::find(widths, 0) != widths.end()) {
    object.refuse(key,
                  fmt::format("is not {} numbers above 0, one for each layer", config.n_layers));
  }
  config.feed_forward_length = *std::ranges::max_element(widths);
  keys.wholes(hyperparameter::kFeedForwardLength, {widths.begin(), widths.end()});
}

void read_feed_forward(const ConfigObject& object, HfConfig& config, Keys& keys) {
  const KeyNames of_experts = {"block_ff_dim", "intermediate_size", "n_inner", "ffn_hidden_size",
                               "ffn_dim"};
  const KeyNames shared = {kSharedLength};
  const bool is_shared = config.model->shared_mlp && has_no_experts(object);
  const KeyNames dense = {"intermediate_size_mlp"};  // beside experts of another width
  const KeyNames prefix = {"prefix_dense_intermediate_size"};
  const bool is_prefixed =
      config.model->routing == HfRouting::kPrefixed && object.find(*prefix.begin()) != nullptr;
  const KeyNames names = is_shared                                     ? shared
                         : config.model->routing == HfRouting::kLlama4 ? dense
                         : is_prefixed                                 ? prefix
                                                                       : of_experts;
  // Older kinds may leave it out, and those all of whose layers have experts.
  const bool is_stated = object.find(object.present(names)) != nullptr;
  if (!has_checkpoint(*config.architecture, Checkpoint::kFfnOut)) return;
  if (!is_stated && !has_dense_feed_forward(*config.architecture)) return;
  if (config.architecture->own_feed_forwards && is_stated &&
      object.find(object.present(names))->IsArray()) {
    return read_feed_forwards(object, object.present(names), config, keys);
  }
  const bool has_default = config.model->layers.starts_with("transformer.");
  config.feed_forward_length = object.whole(
      names, kMaxWidth, has_default ? std::optional(4 * config.embedding_length) : std::nullopt);
  if (config.model->model_type == "lfm2") adjust_feed_forward(object, config);
  keys.whole(hyperparameter::kFeedForwardLength, config.feed_forward_length);
}

void read_expert_config(const ConfigObject& object, HfConfig& config, Keys& keys) {
  if (config.model->experts == HfExperts::kOfLayer) {
    return read_experts_beside_dense(object, config, keys);
  }
  if (config.model->routing == HfRouting::kHunyuan) return read_hunyuan(object, config, keys);
  if (config.model->routing == HfRouting::kLlama4) return read_llama4(object, config, keys);
  if (config.model->routing == HfRouting::kMixer) return read_mixer(object, config, keys);
  if (config.model->routing == HfRouting::kPrefixed) return read_prefixed(object, config, keys);
  const KeyNames count = {"num_local_experts", "num_experts", "moe_num_experts",
                          "n_routed_experts"};
  const bool is_stated = object.find(object.present(count)) != nullptr;
  if (!is_stated && config.model->shared_mlp) {
    object.refuse("num_local_experts", "is missing", "give 0 where no layer has experts");
  }
  if (!has_checkpoint(*config.architecture, Checkpoint::kExperts)) return;
  const bool in_some_layers = has_layers_without_feed_forward(*config.architecture);
  if (!in_some_layers && (!is_stated || has_no_experts(object))) return;
  config.n_experts = object.whole(count, 65536);
  if (config.n_experts == 1 && !expert_layers_by_period(object).empty()) {
    config.n_experts = 0;  // that one is a feed-forward
    return;
  }
  keys.whole(hyperparameter::kExpertCount, config.n_experts);
  keys.whole(hyperparameter::kExpertUsedCount,
             object.whole({"num_experts_per_tok", "moe_k", "moe_top_k"}, config.n_experts));
  const bool may_be_dense = config.feed_forward_length > 0 && !in_some_layers;
  config.expert_feed_forward_length =
      object.whole({"moe_intermediate_size"}, kMaxWidth,
                   may_be_dense ? std::optional(config.feed_forward_length) : std::nullopt);
  keys.whole(hyperparameter::kExpertFeedForwardLength, config.expert_feed_forward_length);
  if (config.model->routing == HfRouting::kStepped) return read_stepped(object, config, keys);
  if (config.model->routing != HfRouting::kOwn) {
    return read_shared_and_groups(object, config, keys);
  }
  if (object.default_of("num_dense_layers") != nullptr) read_leading_dense(object, config, keys);
  // llama.cpp knows no default of this kind.
  if (config.architecture->gating == Gating::kSigmoid) keys.whole(hyperparameter::kExpertGating, 2);
  if (has_checkpoint(*config.architecture, Checkpoint::kSharedScore)) {
    keys.whole(hyperparameter::kSharedFeedForwardLength,
               object.whole({"shared_expert_intermediate_size"}, kMaxWidth));
  }
  if (config.model->shared_mlp) {
    const bool may_lack = !has_checkpoint(*config.architecture, Checkpoint::kSsm);
    config.shared_feed_forward_length = may_lack ? object.whole_or_zero(kSharedLength, kMaxWidth)
                                                 : object.whole({kSharedLength}, kMaxWidth);
    config.shares_expert = config.shared_feed_forward_length > 0;
    keys.whole(hyperparameter::kSharedFeedForwardLength, config.shared_feed_forward_length);
  }
  // The others always do what their architecture has.
  if (config.architecture->routing_keys == RoutingKeys::kNormalised) {
    keys.flag(hyperparameter::kExpertWeightsNorm, normalises_weights(object));
  }
}

}  // namespace assay
