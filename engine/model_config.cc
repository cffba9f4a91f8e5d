#include "engine/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

// Reads "<architecture>.<key>" with its range.
class Keys {
 public:
  Keys(const Gguf& gguf, std::string_view architecture)
      : gguf_(gguf), prefix_(std::string(architecture) + ".") {}

  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  bool has(std::string_view key) const { return gguf_.find(full(key)) != nullptr; }

  int64_t count(std::string_view key, int64_t maximum) const {
    return checked(key, gguf_.get_int(full(key)), maximum);
  }
  int64_t count(std::string_view key, int64_t maximum, int64_t fallback) const {
    return checked(key, gguf_.get_int(full(key), fallback), maximum);
  }

  // A finite number above zero that computations in 32 bits can use.
  double positive(std::string_view key) const { return checked(key, gguf_.get_float(full(key))); }
  double positive(std::string_view key, double fallback) const {
    return checked(key, gguf_.get_float(full(key), fallback));
  }

  std::string_view text(std::string_view key, std::string_view fallback) const {
    return gguf_.get_string(full(key), fallback);
  }

  [[noreturn]] void reject(std::string_view key, const std::string& why,
                           const std::string& hint = {}) const {
    throw Error(fmt::format("key '{}' {}", full(key), why), gguf_.path(), hint);
  }

 private:
  int64_t checked(std::string_view key, int64_t value, int64_t maximum) const {
    if (value < 1 || value > maximum) {
      reject(key, fmt::format("is {}, allowed are 1 to {}", value, maximum));
    }
    return value;
  }
  double checked(std::string_view key, double value) const {
    if (!(value > 0.0) || !std::isfinite(value)) {
      reject(key, fmt::format("is {}, which is not a finite number above 0", value));
    }
    if (!is_in_float_range(value)) {
      reject(key, fmt::format("is {}, which is outside of the range of 32-bit floats", value),
             "the file is damaged: convert or fetch it again");
    }
    return value;
  }

  const Gguf& gguf_;
  std::string prefix_;
};

constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxPositions = int64_t{1} << 31;

const Architecture& read_architecture(const Gguf& gguf) {
  const std::string_view name = gguf.get_string("general.architecture");
  const Architecture* architecture = find_architecture(name);
  if (architecture == nullptr) {
    throw Error(fmt::format("key 'general.architecture' is '{}', which Assay does not run", name),
                gguf.path(), fmt::format("it runs {}", architecture_names()));
  }
  return *architecture;
}

constexpr int64_t kMaxExperts = 65536;

// Of a file whose layers have experts: how they are chosen and how wide they are.
void read_experts(const Gguf& gguf, const Keys& keys, ModelConfig& config) {
  using namespace hyperparameter;
  if (gguf.get_int(keys.full(kExpertCount), 0) == 0) return;
  Routing& routing = config.routing;
  routing.n_experts = keys.count(kExpertCount, kMaxExperts);
  routing.n_used = keys.count(kExpertUsedCount, routing.n_experts);
  routing.gating = config.architecture->gating;
  // llama.cpp's converter states none if config.json does not; networks that correct the choice by
  // a bias (DeepSeek-V3, arXiv:2412.19437, 2.1.2) score experts by a sigmoid.
  const std::string bias = fmt::format("blk.{}.exp_probs_b.bias", config.n_layers - 1);
  if (gguf.find_tensor(bias) != nullptr) routing.gating = Gating::kSigmoid;
  if (const int64_t stated = gguf.get_int(keys.full(kExpertGating), 0); stated != 0) {
    if (stated < 1 || stated > 3) {
      keys.reject(kExpertGating, fmt::format("is {}", stated),
                  "Assay computes 1 (softmax), 2 (sigmoid) and 3 (softmax of those used)");
    }
    routing.gating = static_cast<Gating>(stated - 1);
  }
  routing.normalise =
      gguf.get_bool(keys.full(kExpertWeightsNorm), config.architecture->normalise_weights);
  // Files state 0 for no scale.
  if (gguf.get_float(keys.full(kExpertWeightsScale), 0.0) != 0.0) {
    routing.scale = static_cast<float>(keys.positive(kExpertWeightsScale));
  }
  routing.n_groups = keys.count(kExpertGroupCount, routing.n_experts, 1);
  routing.n_groups_used = keys.count(kExpertGroupUsedCount, routing.n_groups, 1);
  const int64_t group_size = routing.n_experts / routing.n_groups;
  if (routing.n_experts % routing.n_groups != 0 ||
      routing.n_used > routing.n_groups_used * group_size) {
    keys.reject(
        kExpertGroupCount,
        fmt::format("is {}, of which {} are used, for {} experts, of which {} are used",
                    routing.n_groups, routing.n_groups_used, routing.n_experts, routing.n_used));
  }
  config.expert_feed_forward_length =
      keys.count(kExpertFeedForwardLength, kMaxWidth, config.feed_forward_length);
  if (keys.has(kSharedFeedForwardLength)) {
    config.shared_feed_forward_length = keys.count(kSharedFeedForwardLength, kMaxWidth);
  } else if (keys.has(kExpertSharedCount)) {
    config.shared_feed_forward_length =
        keys.count(kExpertSharedCount, kMaxExperts) * config.expert_feed_forward_length;
  }
}

constexpr int64_t kMaxHeadLength = 65536;

// Of latent attention: each head has keys and values of its own, whatever the file says for engines
// that do without. Older files state the lengths of a head as other architectures' do.
void read_latent_heads(const Keys& keys, ModelConfig& config) {
  using namespace hyperparameter;
  config.kv_lora_rank = keys.count(kKvLoraRank, kMaxWidth);
  if (keys.has(kQLoraRank)) config.q_lora_rank = keys.count(kQLoraRank, kMaxWidth);
  config.n_kv_heads = config.n_heads;
  const bool own = keys.has(kLatentKeyLength);
  config.head_dim = keys.count(own ? kLatentKeyLength : kKeyLength, kMaxHeadLength);
  config.value_dim = keys.count(own ? kLatentValueLength : kValueLength, kMaxHeadLength);
}

// The number of each layer, where the file has an array of them; empty where it has one for all.
std::vector<int64_t> kv_heads_of_layers(const Gguf& gguf, const Keys& keys,
                                        const ModelConfig& config) {
  constexpr std::string_view kKey = hyperparameter::kHeadCountKv;
  const GgufValue* value = gguf.find(keys.full(kKey));
  if (value == nullptr || !std::holds_alternative<GgufArray>(*value)) return {};
  std::vector<int64_t> heads = gguf.get_ints(keys.full(kKey));
  if (std::ssize(heads) != config.n_layers) {
    keys.reject(kKey, fmt::format("has {} entries for {} layers", heads.size(), config.n_layers));
  }
  const int64_t most = std::ranges::max(heads);
  for (const int64_t count : heads) {
    if (count < 0 || count > kMaxHeads) {
      keys.reject(kKey, fmt::format("is {} in a layer, allowed are 0 to {}", count, kMaxHeads));
    }
    if (count != most && count != 0) {
      keys.reject(kKey, fmt::format("is {} in one layer and {} in another", most, count),
                  "Assay runs models with as many key-value heads in all layers with attention");
    }
  }
  return heads;
}

void read_heads(const Gguf& gguf, const Keys& keys, ModelConfig& config) {
  config.n_heads = keys.count(hyperparameter::kHeadCount, kMaxHeads);
  if (has_checkpoint(*config.architecture, Checkpoint::kKvA)) {
    return read_latent_heads(keys, config);
  }
  const std::vector<int64_t> heads = kv_heads_of_layers(gguf, keys, config);
  config.n_kv_heads = heads.empty()
                          ? keys.count(hyperparameter::kHeadCountKv, kMaxHeads, config.n_heads)
                          : std::ranges::max(heads);
  if (config.n_kv_heads == 0) config.n_kv_heads = config.n_heads;  // no layer has attention
  if (config.n_heads % config.n_kv_heads != 0) {
    keys.reject(hyperparameter::kHeadCountKv,
                fmt::format("is {}, which does not divide the {} query heads", config.n_kv_heads,
                            config.n_heads));
  }
  if (!keys.has(hyperparameter::kKeyLength) && config.embedding_length % config.n_heads != 0) {
    keys.reject(hyperparameter::kHeadCount, fmt::format("is {}, which does not divide the width {}",
                                                        config.n_heads, config.embedding_length));
  }
  config.head_dim = keys.count(hyperparameter::kKeyLength, kMaxHeadLength,
                               std::max<int64_t>(1, config.embedding_length / config.n_heads));
  config.value_dim = keys.count(hyperparameter::kValueLength, kMaxHeadLength, config.head_dim);
  if (config.value_dim != config.head_dim) {
    keys.reject(hyperparameter::kValueLength,
                fmt::format("is {} and the key length {}; Assay runs models where they are equal",
                            config.value_dim, config.head_dim));
  }
}

// The value that a key may have where the computation is not done.
void reject_unless(const Gguf& gguf, const Keys& keys, std::string_view key, double neutral) {
  const double value = gguf.get_float(keys.full(key), 0.0);
  // Files hold 32-bit floats.
  if (value == 0.0 || std::abs(value - neutral) <= 1e-6 * neutral) return;
  keys.reject(key, fmt::format("is {}", value), "Assay does not compute what it asks for");
}

// Keys that other architectures have: with another value than these the file asks for a computation
// that Assay does not do. A file of these architectures may hold any of them, switched off.
void reject_other_computations(const Gguf& gguf, const Keys& keys,
                               const Architecture& architecture) {
  if (!gguf.get_bool(keys.full(hyperparameter::kCausal), true)) {
    keys.reject(hyperparameter::kCausal, "is false", "Assay runs models whose attention is causal");
  }
  if (keys.has(hyperparameter::kRopeSections)) {
    keys.reject(hyperparameter::kRopeSections, "asks for positions in images",
                "Assay runs models of text alone");
  }
  for (const std::string_view key : hyperparameter::kNotComputed) {
    reject_unless(gguf, keys, key, 0.0);
  }
  if (!architecture.yarn_log_multiplier) {
    reject_unless(gguf, keys, hyperparameter::kYarnLogMultiplier, 0.0);
  }
}

// Files may state multipliers that the architecture does not have and that change nothing.
void read_multipliers(const Gguf& gguf, const Keys& keys, ModelConfig& config) {
  for (size_t i = 0; i < kMultiplierKeys.size(); ++i) {
    const std::string_view key = kMultiplierKeys[i];
    const auto which = static_cast<Multiplier>(i);
    if ((config.architecture->multipliers & bit(which)) == 0) {
      reject_unless(gguf, keys, key, config.multiplier(which));
    } else if (gguf.get_float(keys.full(key), 0.0) != 0.0) {
      config.multipliers[i] = keys.positive(key);
    }
  }
}

// 0, in the file too, is no cap.
void read_soft_cap(const Gguf& gguf, const Keys& keys, std::string_view key, double fallback,
                   float& cap) {
  const double stated = gguf.get_float(keys.full(key), fallback);
  if (stated == 0.0) return;
  if (gguf.get_float(keys.full(key), 0.0) != 0.0) keys.positive(key);  // throws
  cap = static_cast<float>(stated);
}

void read_soft_caps(const Gguf& gguf, const Keys& keys, ModelConfig& config) {
  const Architecture& architecture = *config.architecture;
  if (!architecture.soft_caps) {
    reject_unless(gguf, keys, hyperparameter::kAttentionSoftCap, 0.0);
    reject_unless(gguf, keys, hyperparameter::kLogitSoftCap, 0.0);
    return;
  }
  read_soft_cap(gguf, keys, hyperparameter::kAttentionSoftCap, architecture.attention_soft_cap,
                config.attention_soft_cap);
  read_soft_cap(gguf, keys, hyperparameter::kLogitSoftCap, architecture.logit_soft_cap,
                config.logit_soft_cap);
}

// Whether each layer has the window.
std::vector<bool> windowed_layers(const Gguf& gguf, const Keys& keys, const ModelConfig& config) {
  const auto count = static_cast<size_t>(config.n_layers);
  const std::string key = keys.full(hyperparameter::kWindowPattern);
  int64_t period = config.architecture->window_period;
  if (const GgufValue* value = gguf.find(key)) {
    if (std::holds_alternative<GgufArray>(*value)) {
      std::vector<bool> windowed = gguf.get_bools(key);
      if (windowed.size() != count) {
        keys.reject(hyperparameter::kWindowPattern,
                    fmt::format("has {} entries for {} layers", windowed.size(), count));
      }
      return windowed;
    }
    period = keys.count(hyperparameter::kWindowPattern, kMaxLayers);
  }
  std::vector<bool> windowed(count);
  for (size_t i = 0; i < count; ++i) {
    windowed[i] = period == 1 || static_cast<int64_t>(i + 1) % period != 0;
  }
  return windowed;
}

void read_window(const Gguf& gguf, const Keys& keys, ModelConfig& config) {
  const Architecture& architecture = *config.architecture;
  const bool honoured = gguf.get_bool(hyperparameter::own::kHonoursWindow, false);
  if (architecture.sliding_window == SlidingWindow::kIgnored && !honoured) return;
  constexpr std::string_view kKey = hyperparameter::kSlidingWindow;
  // 0 says that there is no window.
  config.sliding_window = gguf.get_int(keys.full(kKey), architecture.default_window);
  if (config.sliding_window < 0) keys.reject(kKey, "is negative");
  if (config.sliding_window == 0 && keys.has(kKey) && architecture.window_period > 1) {
    keys.reject(kKey, "is 0", "leave the key out if no layer has a window");
  }
}

// Whether each layer is rotated.
std::vector<bool> rotated_layers(const Gguf& gguf, const Keys& keys, const ModelConfig& config,
                                 const std::vector<bool>& windowed) {
  const Architecture& architecture = *config.architecture;
  const auto count = static_cast<size_t>(config.n_layers);
  std::vector<bool> rotated = gguf.get_bools(hyperparameter::own::kRotaryLayers);
  if (!rotated.empty()) {
    if (rotated.size() == count) return rotated;
    throw Error(fmt::format("key '{}' has {} entries for {} layers",
                            hyperparameter::own::kRotaryLayers, rotated.size(), count),
                gguf.path());
  }
  const bool ever =
      !architecture.rope_switch || gguf.get_bool(keys.full(hyperparameter::kRopeSwitch), true);
  rotated.assign(count, ever);
  const bool by_window = architecture.rotated == Rotated::kWindowed && config.sliding_window > 0;
  const auto period = static_cast<size_t>(architecture.unrotated_period);
  for (size_t i = 0; i < count; ++i) {
    if ((by_window && !windowed[i]) || (period > 0 && (i + 1) % period == 0)) rotated[i] = false;
  }
  return rotated;
}

// Tensors and a file that says how many layers come before those with experts must agree.
void check_dense(const Gguf& gguf, const Keys& keys, int64_t number,
                 std::span<const OpSpec> layer) {
  constexpr std::string_view kKey = hyperparameter::kLeadingDense;
  const bool is_dense = find_spec(layer, Checkpoint::kExperts) == nullptr;
  const int64_t leading = gguf.get_int(keys.full(kKey), is_dense ? number + 1 : number);
  if (is_dense == (number < leading)) return;
  keys.reject(kKey, fmt::format("is {}, and layer {} {} experts", leading, number,
                                is_dense ? "lacks" : "has"));
}

// Tensors and a file that says which layers have attention must agree.
void check_attention(const Keys& keys, std::span<const int64_t> heads, int64_t number,
                     std::span<const OpSpec> layer) {
  const bool attends = find_spec(layer, Checkpoint::kAttn) != nullptr;
  if (heads.empty() || attends == (heads[static_cast<size_t>(number)] > 0)) return;
  keys.reject(hyperparameter::kHeadCountKv,
              fmt::format("is {} in layer {}, which {} attention",
                          heads[static_cast<size_t>(number)], number, attends ? "has" : "lacks"));
}

// The ops of each layer, its window and its rotation.
void read_layers(const Gguf& gguf, const Keys& keys, ModelConfig& config) {
  const Architecture& architecture = *config.architecture;
  const bool has_window = config.sliding_window > 0;
  const std::vector<bool> windowed = has_window
                                         ? windowed_layers(gguf, keys, config)
                                         : std::vector<bool>(static_cast<size_t>(config.n_layers));
  const std::vector<bool> rotated = rotated_layers(gguf, keys, config, windowed);
  const std::vector<int64_t> heads = kv_heads_of_layers(gguf, keys, config);
  for (int64_t i = 0; i < config.n_layers; ++i) {
    LayerConfig layer;
    layer.ops = layer_ops(
        architecture,
        [&](std::string_view stem) {
          return gguf.find_tensor(fmt::format("blk.{}.{}.weight", i, stem)) != nullptr;
        },
        [&](std::string_view key) {
          if (!keys.has(key)) keys.reject(key, "is missing");
          return gguf.get_bool(keys.full(key), false);
        });
    const bool has_own_window = windowed[static_cast<size_t>(i)];
    layer.window = has_own_window ? config.sliding_window : 0;
    layer.local_rope = has_own_window && config.local_rope_freq_base > 0.0;
    check_dense(gguf, keys, i, layer.ops);
    check_attention(keys, heads, i, layer.ops);
    if (!rotated[static_cast<size_t>(i)]) layer.ops = without_rotation(layer.ops);
    config.layers.push_back(std::move(layer));
  }
}

void read_activation(const Gguf& gguf, ModelConfig& config) {
  config.activation = config.architecture->activation;
  const std::string_view stated = gguf.get_string(hyperparameter::own::kActivation, "");
  if (stated.empty()) return;
  const auto& names = hyperparameter::kActivationNames;
  const auto found = std::find(names.begin(), names.end(), stated);
  if (found == names.end()) {
    throw Error(fmt::format("key '{}' is '{}'", hyperparameter::own::kActivation, stated),
                gguf.path(), fmt::format("Assay computes {}", fmt::join(names, ", ")));
  }
  config.activation = static_cast<ActivationKind>(found - names.begin());
}

// The scores' own factor takes the place of that of cos and sin.
void read_yarn(const Gguf& gguf, const Keys& keys, double factor, ModelConfig& config) {
  constexpr std::string_view kLog = hyperparameter::kYarnLogMultiplier;
  const double stretch = factor > 1.0 ? std::log(factor) : 0.0;
  double turned_factor = 0.1 * stretch + 1.0;
  if (config.architecture->yarn_log_multiplier && gguf.get_float(keys.full(kLog), 0.0) != 0.0) {
    config.yarn_score_factor = std::pow(1.0 + keys.positive(kLog) * stretch, 2.0);
    turned_factor = 1.0;
  }
  const auto read = [&](std::string_view key, double& value) {
    if (keys.has(key)) value = keys.positive(key);
  };
  config.yarn = Yarn();
  read(hyperparameter::kYarnExtFactor, config.yarn->extrapolation);
  read(hyperparameter::kYarnBetaFast, config.yarn->beta_fast);
  read(hyperparameter::kYarnBetaSlow, config.yarn->beta_slow);
  config.rope_freq_scale = 1.0 / factor;
  config.rope_attn_factor *= keys.positive(hyperparameter::kYarnAttentionFactor, turned_factor);
}

void read_rope(const Gguf& gguf, const Keys& keys, ModelConfig& config) {
  config.rotary_dim = keys.count(hyperparameter::kRopeDimensions, config.head_dim, config.head_dim);
  if (config.rotary_dim % 2 != 0) {
    keys.reject(hyperparameter::kRopeDimensions,
                fmt::format("is {}, which is odd", config.rotary_dim));
  }
  if (config.kv_lora_rank > 0 && config.rotary_dim == config.head_dim) {
    keys.reject(
        hyperparameter::kRopeDimensions,
        fmt::format("is {}, all of a head; keys need a part of their own", config.rotary_dim));
  }
  config.rope_freq_base =
      keys.positive(hyperparameter::kRopeBase, hyperparameter::kDefaultRopeBase);
  // A file with a factor and no type scales linearly; older files call the factor scale_linear.
  const std::string_view scaling = keys.text(hyperparameter::kRopeScaling, "linear");
  const double factor = keys.positive(hyperparameter::kRopeFactor,
                                      keys.positive(hyperparameter::kOldRopeFactor, 1.0));
  config.rope_attn_factor = keys.positive(hyperparameter::kRopeAttentionFactor, 1.0);
  config.rope_original_context_length =
      keys.count(hyperparameter::kRopeOriginalContext, kMaxPositions, config.context_length);
  if (scaling == "linear") {
    config.rope_freq_scale = 1.0 / factor;
  } else if (scaling == "longrope") {
    if (!config.architecture->rope_long_short || factor != 1.0) {
      keys.reject(hyperparameter::kRopeScaling, "is 'longrope', with what does not belong to it",
                  "Assay computes it for phi3 from the tensors rope_factors_long and _short");
    }
  } else if (scaling == "yarn") {
    read_yarn(gguf, keys, factor, config);
  } else if (scaling != "none") {
    keys.reject(hyperparameter::kRopeScaling, fmt::format("is '{}'", scaling),
                "Assay computes none, linear, yarn and longrope");
  }
  const double local =
      keys.positive(hyperparameter::kLocalRopeBase, config.architecture->local_rope_base > 0.0
                                                        ? config.architecture->local_rope_base
                                                        : config.rope_freq_base);
  if (config.architecture->local_rope) {
    if (config.sliding_window > 0) config.local_rope_freq_base = local;
  } else if (local != config.rope_freq_base) {
    keys.reject(hyperparameter::kLocalRopeBase, fmt::format("is {}", local),
                "Assay knows one rotary base for all layers of this architecture");
  }
}

}  // namespace

ModelConfig ModelConfig::from_gguf(const Gguf& gguf) {
  ModelConfig config;
  config.architecture = &read_architecture(gguf);
  const std::string& path = gguf.path();
  config.name = gguf.get_string("general.name", path.substr(path.find_last_of('/') + 1));
  const Keys keys(gguf, config.architecture->name);
  config.n_layers = keys.count(hyperparameter::kBlockCount, kMaxLayers);
  if (gguf.get_int(keys.full(hyperparameter::kNextnLayers), 0) != 0) {
    config.n_ignored_layers = keys.count(hyperparameter::kNextnLayers, config.n_layers - 1);
    config.n_layers -= config.n_ignored_layers;
  }
  config.embedding_length = keys.count(hyperparameter::kEmbeddingLength, kMaxWidth);
  config.feed_forward_length = keys.count(hyperparameter::kFeedForwardLength, kMaxWidth);
  config.context_length = keys.count(hyperparameter::kContextLength, kMaxPositions);
  read_experts(gguf, keys, config);
  read_heads(gguf, keys, config);
  if (has_checkpoint(*config.architecture, Checkpoint::kConv)) {
    config.conv_taps = keys.count(hyperparameter::kConvTaps, kMaxConvTaps);
  }
  config.norm_eps =
      static_cast<float>(keys.positive(hyperparameter::norm_eps(config.architecture->norm)));
  reject_other_computations(gguf, keys, *config.architecture);
  read_activation(gguf, config);
  read_multipliers(gguf, keys, config);
  read_soft_caps(gguf, keys, config);
  read_window(gguf, keys, config);
  if (config.architecture->position == PositionKind::kRotary) read_rope(gguf, keys, config);
  config.yarn_whole_pairs =
      gguf.get_bool(hyperparameter::own::kYarnWholePairs, config.architecture->yarn_whole_pairs);
  read_layers(gguf, keys, config);
  return config;
}

const OpSpec* ModelConfig::find(Checkpoint checkpoint) const {
  for (const LayerConfig& layer : layers) {
    if (const OpSpec* op = find_spec(layer.ops, checkpoint)) return op;
  }
  return nullptr;
}

double ModelConfig::multiplier(Multiplier which) const {
  const double stated = multipliers[static_cast<size_t>(which)];
  if (stated > 0.0) return stated;
  if (which == Multiplier::kEmbedding && architecture->embedding_root) {
    return std::sqrt(static_cast<double>(embedding_length));
  }
  if (which != Multiplier::kAttention) return 1.0;
  const bool wide = architecture->wide_scale_layers == n_layers;
  return 1.0 / std::sqrt(static_cast<double>(wide ? embedding_length / n_heads : head_dim));
}

}  // namespace assay
