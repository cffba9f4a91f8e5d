#include "engine/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/config_keys.h"
#include "engine/heads_config.h"
#include "engine/linear_config.h"
#include "engine/rope_sections.h"
#include "engine/routing_config.h"
#include "engine/scores_config.h"
#include "engine/shared_kv_config.h"
#include "engine/streams_config.h"
#include "engine/xielu_config.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxPositions = int64_t{1} << 31;

// Parts of a large model; the first of them has the hyperparameters.
void reject_part(const Gguf& gguf) {
  const int64_t parts = gguf.get_int("split.count", 0);
  if (parts <= 1) return;
  throw Error(fmt::format("key 'split.count' is {}: the file is one part of a model", parts),
              gguf.path(), "join the parts with llama.cpp's llama-gguf-split --merge");
}

const Architecture& read_architecture(const Gguf& gguf) {
  const std::string_view name = gguf.get_string("general.architecture");
  const Architecture* architecture = find_architecture(name);
  if (architecture == nullptr) {
    throw Error(fmt::format("key 'general.architecture' is '{}', which Assay does not run", name),
                gguf.path(), fmt::format("it runs {}", architecture_names()));
  }
  return *architecture;
}

bool is_all_zero(const ConfigKeys& keys, std::string_view key) {
  const GgufValue* value = keys.find(key);
  if (value == nullptr) return true;
  if (!std::holds_alternative<GgufArray>(*value)) return keys.integer(key, 0) == 0;
  return std::ranges::all_of(keys.gguf().get_ints(keys.full(key)),
                             [](int64_t item) { return item == 0; });
}

// Keys that other architectures have: with another value than these the file asks for a computation
// that Assay does not do. A file of these architectures may hold any of them, switched off.
void reject_other_computations(const ConfigKeys& keys, const Architecture& architecture) {
  if (!keys.flag(hyperparameter::kCausal, true)) {
    keys.reject(hyperparameter::kCausal, "is false", "Assay runs models whose attention is causal");
  }
  if (architecture.rope_sections == RopeSections::kNone &&
      !is_all_zero(keys, hyperparameter::kRopeSections)) {
    keys.reject(hyperparameter::kRopeSections, "asks for positions in images",
                "Assay runs models of text alone");
  }
  if (!has_checkpoint(architecture, Checkpoint::kPleInput)) {
    keys.reject_unless(hyperparameter::kSharedKvLayers, 0.0, kNotDone);
    keys.reject_unless(hyperparameter::kLayerEmbeddingLength, 0.0, kNotDone);
  }
  if (architecture.yarn_log_multiplier == YarnLog::kRefused) {
    keys.reject_unless(hyperparameter::kYarnLogMultiplier, 0.0, kNotDone);
  }
  if (!architecture.temperature && architecture.default_temperature == 0.0) {
    keys.reject_unless(hyperparameter::kTemperature, 0.0, kNotDone);
  }
  if (architecture.position != PositionKind::kAlibi) {
    keys.reject_unless(hyperparameter::kMaxAlibiBias, 0.0, kNotDone);
  }
}

// Of a file that does not state it; 0: that of ModelConfig::multiplier().
double default_multiplier(const ModelConfig& config, Multiplier which) {
  const Architecture& architecture = *config.architecture;
  if (which == Multiplier::kEmbedding) return architecture.default_embedding_scale;
  if (which == Multiplier::kResidual) {
    return architecture.default_depth_scale / std::sqrt(static_cast<double>(config.n_layers));
  }
  const double width = architecture.default_logits_width;
  if (which != Multiplier::kLogits || width == 0.0) return 0.0;
  return static_cast<double>(config.embedding_length) / width;
}

// Files may state multipliers that the architecture does not have and that change nothing.
void read_multipliers(const ConfigKeys& keys, ModelConfig& config) {
  for (size_t i = 0; i < kMultiplierKeys.size(); ++i) {
    const std::string_view key = kMultiplierKeys[i];
    const auto which = static_cast<Multiplier>(i);
    if ((config.architecture->multipliers & bit(which)) == 0) {
      keys.reject_unless(key, config.multiplier(which), kNotDone);
    } else if (keys.number(key, 0.0) != 0.0) {
      config.multipliers[i] = keys.positive(key);
    } else if (!keys.has(key)) {
      config.multipliers[i] = default_multiplier(config, which);
    }
  }
}

// Whether each layer has the window.
std::vector<bool> windowed_layers(const ConfigKeys& keys, const ModelConfig& config) {
  const auto count = static_cast<size_t>(config.n_layers);
  constexpr std::string_view kKey = hyperparameter::kWindowPattern;
  const std::vector<int64_t> stated = keys.array_of_layers(kKey);
  if (!stated.empty()) return {stated.begin(), stated.end()};
  const int64_t period = keys.integer(kKey, config.architecture->window_period);
  if (period < 0 || period > kMaxLayers) {
    keys.reject(kKey, fmt::format("is {}, allowed are 0 to {}", period, kMaxLayers));
  }
  std::vector<bool> windowed(count);
  for (size_t i = 0; i < count; ++i) {
    windowed[i] = period == 0 || static_cast<int64_t>(i + 1) % period != 0;
  }
  return windowed;
}

void read_window(const ConfigKeys& keys, ModelConfig& config) {
  const Architecture& architecture = *config.architecture;
  const bool honoured = keys.gguf().get_bool(hyperparameter::own::kHonoursWindow, false);
  if (architecture.sliding_window == SlidingWindow::kIgnored && !honoured) return;
  constexpr std::string_view kKey = hyperparameter::kSlidingWindow;
  // 0 says that there is no window; in some architectures of llama.cpp, that nothing is seen.
  config.sliding_window = keys.integer(kKey, architecture.default_window);
  if (config.sliding_window < 0) keys.reject(kKey, "is negative");
  if (config.sliding_window == 0 && keys.has(kKey) && architecture.needs_window) {
    keys.reject(kKey, "is 0", "Assay runs models of this architecture with a window");
  }
}

// Whether each layer is rotated.
std::vector<bool> rotated_layers(const ConfigKeys& keys, const ModelConfig& config,
                                 const std::vector<bool>& windowed) {
  const Architecture& architecture = *config.architecture;
  const auto count = static_cast<size_t>(config.n_layers);
  std::vector<bool> rotated = keys.gguf().get_bools(hyperparameter::own::kRotaryLayers);
  if (!rotated.empty()) {
    if (rotated.size() == count) return rotated;
    throw Error(fmt::format("key '{}' has {} entries for {} layers",
                            hyperparameter::own::kRotaryLayers, rotated.size(), count),
                keys.gguf().path());
  }
  if (architecture.rope_pattern) {
    const std::vector<int64_t> stated = keys.array_of_layers(hyperparameter::kRopePattern);
    if (!stated.empty()) return {stated.begin(), stated.end()};
  }
  const bool ever = !architecture.rope_switch || keys.flag(hyperparameter::kRopeSwitch, true);
  rotated.assign(count, ever);
  const bool by_window = architecture.rotated != Rotated::kAll && config.sliding_window > 0;
  const int64_t n_dense = architecture.rotated == Rotated::kWindowedOrDense
                              ? keys.integer(hyperparameter::kLeadingDense, 0)
                              : 0;
  const auto period = static_cast<size_t>(architecture.unrotated_period);
  for (size_t i = 0; i < count; ++i) {
    const bool unwindowed = by_window && !windowed[i] && static_cast<int64_t>(i) >= n_dense;
    if (unwindowed || (period > 0 && (i + 1) % period == 0)) rotated[i] = false;
  }
  return rotated;
}

// Tensors and what a file says of the layers that have experts must agree.
void check_dense(const ConfigKeys& keys, int64_t number, std::span<const OpSpec> layer) {
  constexpr std::string_view kKey = hyperparameter::kLeadingDense;
  if (keys.integer(hyperparameter::kExpertCount, 0) == 0) return;
  const bool is_dense = find_spec(layer, Checkpoint::kExperts) == nullptr;
  const int64_t leading = keys.integer(kKey, is_dense ? number + 1 : number);
  const int64_t step = keys.count_or(hyperparameter::kExpertStep, kMaxLayers, 1);
  const bool is_between = number >= leading && (number + 1) % step != 0;
  if (is_dense == (number < leading || is_between)) return;
  keys.reject(is_between ? hyperparameter::kExpertStep : kKey,
              fmt::format("is {}, and layer {} {} experts", is_between ? step : leading, number,
                          is_dense ? "lacks" : "has"));
}

// Where no layer is without a window, llama.cpp reads nothing that says which are.
void check_window(const ConfigKeys& keys, const Architecture& architecture, int64_t number,
                  const LayerConfig& layer) {
  const bool all =
      architecture.sliding_window == SlidingWindow::kHonoured && architecture.window_period == 0;
  if (!all || layer.window > 0 || find_spec(layer.ops, Checkpoint::kAttn) == nullptr) return;
  keys.reject(hyperparameter::kWindowPattern,
              fmt::format("leaves layer {} without a window", number),
              "Assay runs models of this architecture with the window in all layers");
}

// Of each layer, where they differ; else empty.
std::vector<int64_t> feed_forward_lengths(const ConfigKeys& keys, const ModelConfig& config) {
  constexpr std::string_view kKey = hyperparameter::kFeedForwardLength;
  if (!config.architecture->own_feed_forwards) return {};
  std::vector<int64_t> lengths = keys.array_of_layers(kKey);
  for (const int64_t length : lengths) {
    if (length < 1 || length > kMaxModelWidth) {
      keys.reject(kKey, fmt::format("has a layer of {}, allowed are 1 to {}", length,
                                    int64_t{kMaxModelWidth}));
    }
  }
  const bool alike = std::ranges::adjacent_find(lengths, std::not_equal_to()) == lengths.end();
  return alike ? std::vector<int64_t>() : lengths;
}

// What a file says of the layers that have a feed-forward, where not all have.
void check_feed_forward(const ConfigKeys& keys, const ModelConfig& config, int64_t number,
                        std::span<const OpSpec> layer) {
  constexpr std::string_view kKey = hyperparameter::kFeedForwardLength;
  if (!has_layers_without_feed_forward(*config.architecture)) return;
  const std::vector<int64_t> widths = keys.array_of_layers(kKey);
  const int64_t stated =
      widths.empty() ? config.feed_forward_length : widths[static_cast<size_t>(number)];
  const bool has = find_spec(layer, Checkpoint::kFfnOut) != nullptr;
  if (has == (stated > 0)) return;
  keys.reject(kKey, fmt::format("is {} in layer {}, which {} a feed-forward", stated, number,
                                has ? "has" : "lacks"));
}

// The width of those layers; what files state of layers with experts is the experts'.
int64_t width_of_some_layers(const ConfigKeys& keys) {
  return keys.count_of_some_layers(
      hyperparameter::kFeedForwardLength, kMaxModelWidth, [&](int64_t layer) {
        return keys.gguf().find_tensor(fmt::format("blk.{}.ffn_gate_inp.weight", layer)) != nullptr;
      });
}

void read_norm(const ConfigKeys& keys, ModelConfig& config) {
  const Architecture& architecture = *config.architecture;
  const NormKind other_kind =
      architecture.norm == NormKind::kRms ? NormKind::kLayer : NormKind::kRms;
  const std::string_view own = hyperparameter::norm_eps(architecture.norm);
  const std::string_view other = hyperparameter::norm_eps(other_kind);
  const bool is_other = architecture.norm_by_eps && keys.number(other, 0.0) != 0.0;
  const bool says_other = architecture.eps_of_other_norm && !keys.has(own) && keys.has(other);
  config.norm = is_other ? other_kind : architecture.norm;
  config.norm_eps = static_cast<float>(keys.positive(is_other || says_other ? other : own));
}

// The ops of each layer, its window and its rotation.
void read_layers(const ConfigKeys& keys, ModelConfig& config) {
  const Architecture& architecture = *config.architecture;
  const bool has_window = config.sliding_window > 0;
  const std::vector<bool> windowed = has_window
                                         ? windowed_layers(keys, config)
                                         : std::vector<bool>(static_cast<size_t>(config.n_layers));
  const std::optional<HeadSizes> windowed_heads = read_windowed_heads(keys, windowed, config);
  const std::vector<bool> rotated = rotated_layers(keys, config, windowed);
  const bool normed = keys.gguf().get_bool(
      hyperparameter::own::kPlainQkNorm, config.routing.n_experts != architecture.unnormed_experts);
  const bool adds_whole = keys.gguf().get_bool(hyperparameter::own::kWholeShared, false);
  const std::vector<int64_t> heads = keys.array_of_layers(hyperparameter::kHeadCountKv);
  const std::vector<bool> linear = linear_layers(keys, config);
  const int64_t n_own_kv = n_layers_with_kv(keys, config);
  const std::vector<int64_t> lengths = feed_forward_lengths(keys, config);
  const std::vector<double> cutoffs = read_cutoffs(keys, config);
  for (int64_t i = 0; i < config.n_layers; ++i) {
    LayerConfig layer;
    if (!lengths.empty()) layer.feed_forward_length = lengths[static_cast<size_t>(i)];
    layer.ops = layer_ops(
        architecture,
        [&](std::string_view stem) {
          if (i >= n_own_kv && is_of_kv(stem)) return false;
          if (stem == "inp_gate" && config.ple_length == 0) return false;
          return keys.gguf().find_tensor(fmt::format("blk.{}.{}.weight", i, stem)) != nullptr;
        },
        [&](std::string_view key) {
          if (!keys.has(key)) keys.reject(key, "is missing");
          return keys.flag(key, false);
        },
        place_of(i, config.n_layers));
    const bool has_own_window = windowed[static_cast<size_t>(i)];
    layer.window = has_own_window ? config.sliding_window : 0;
    layer.local_rope = has_own_window && config.local_rope_freq_base > 0.0;
    if (has_own_window) layer.own_heads = windowed_heads;
    if (i >= n_own_kv) {
      layer.kv_layer = kv_layer_of(keys, windowed, i, n_own_kv);
    } else {
      check_kv(keys, i, layer.ops);
    }
    layer.index_layer = index_layer_of(keys, config, i, layer.ops);
    if (!has_layers_without_feed_forward(architecture)) check_dense(keys, i, layer.ops);
    check_attention(keys, heads, i, layer.ops);
    check_feed_forward(keys, config, i, layer.ops);
    if (!linear.empty()) check_linear(keys, i, linear[static_cast<size_t>(i)], layer.ops);
    if (has_window) check_window(keys, architecture, i, layer);
    if (adds_whole) add_whole_shared_expert(layer.ops);
    if (config.clip == 0.0F) layer.ops = without_clips(layer.ops);
    if (!cutoffs.empty()) set_cutoff(keys, cutoffs[static_cast<size_t>(i)], layer);
    const bool is_rotated = rotated[static_cast<size_t>(i)];
    if (!is_rotated) layer.ops = without_rotation(layer.ops);
    if (!is_rotated || !normed) layer.ops = without_plain_qk_norms(layer.ops);
    if (!config.ssm_normed) layer.ops = without_plain_ssm_norms(layer.ops);
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
void read_yarn(const ConfigKeys& keys, double factor, ModelConfig& config) {
  constexpr std::string_view kLog = hyperparameter::kYarnLogMultiplier;
  const double stretch = factor > 1.0 ? std::log(factor) : 0.0;
  double turned_factor = 0.1 * stretch + 1.0;
  if (keys.number(kLog, 0.0) == 0.0) {
  } else if (scales_scores(config.architecture->yarn_log_multiplier)) {
    const double of_scores = 1.0 + keys.positive(kLog) * stretch;
    config.yarn_score_factor = std::pow(of_scores, 2.0);
    turned_factor = config.architecture->yarn_log_multiplier == YarnLog::kOfBoth
                        ? turned_factor / of_scores
                        : 1.0;
  } else {
    turned_factor /= 0.1 * keys.positive(kLog) * stretch + 1.0;
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

// What positions are divided by. A file with a factor and no type scales linearly; older files call
// the factor scale_linear. 0 stands for no factor.
double rope_factor(const ConfigKeys& keys) {
  const std::string_view key = keys.has(hyperparameter::kRopeFactor)
                                   ? hyperparameter::kRopeFactor
                                   : hyperparameter::kOldRopeFactor;
  return keys.number(key, 0.0) == 0.0 ? 1.0 : keys.positive(key);
}

// It multiplies cos and sin of all layers. llama.cpp has it in the scores of DeepSeek's latent
// attention, too, and of layers with a local base in one of two architectures: no model is
// published with it.
void read_attention_factor(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kKey = hyperparameter::kRopeAttentionFactor;
  config.rope_attn_factor = keys.positive(kKey, 1.0);
  const bool two_bases = config.architecture->local_rope && config.sliding_window > 0;
  const bool in_scores = config.kv_lora_rank > 0 && !config.architecture->rope_long_short;
  if (two_bases || in_scores) keys.reject_unless(kKey, 1.0, kNotDone);
}

void read_rope(const ConfigKeys& keys, ModelConfig& config) {
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
  config.rope_divisors =
      divisors_of_sections(keys, config.architecture->rope_sections, config.rotary_dim);
  config.rope_freq_base =
      keys.positive(hyperparameter::kRopeBase, hyperparameter::kDefaultRopeBase);
  if (config.architecture->rope_alpha && keys.number(hyperparameter::kRopeAlpha, 0.0) != 0.0) {
    const double alpha = keys.positive(hyperparameter::kRopeAlpha);
    config.rope_freq_base = stretched_base(config.rope_freq_base, alpha, config.head_dim);
    if (!std::isfinite(config.rope_freq_base) || config.rope_freq_base <= 0.0) {
      keys.reject(hyperparameter::kRopeAlpha,
                  fmt::format("is {}, which gives heads of {} no base", alpha, config.head_dim));
    }
  }
  const std::string_view scaling = keys.text(hyperparameter::kRopeScaling, "linear");
  const double factor = rope_factor(keys);
  read_attention_factor(keys, config);
  config.rope_original_context_length =
      keys.count(hyperparameter::kRopeOriginalContext, kMaxPositions, config.context_length);
  read_temperature(keys, config);
  if (scaling == "linear") {
    config.rope_freq_scale = 1.0 / factor;
  } else if (scaling == "longrope") {
    if (!config.architecture->rope_long_short || factor != 1.0) {
      keys.reject(hyperparameter::kRopeScaling, "is 'longrope', with what does not belong to it",
                  "Assay computes it for phi3 from the tensors rope_factors_long and _short");
    }
  } else if (scaling == "yarn") {
    read_yarn(keys, factor, config);
  } else if (scaling != "none") {
    keys.reject(hyperparameter::kRopeScaling, fmt::format("is '{}'", scaling),
                "Assay computes none, linear, yarn and longrope");
  }
}

}  // namespace

ModelConfig ModelConfig::from_gguf(const Gguf& gguf) {
  ModelConfig config;
  reject_part(gguf);
  config.architecture = &read_architecture(gguf);
  const std::string& path = gguf.path();
  config.name = gguf.get_string("general.name", path.substr(path.find_last_of('/') + 1));
  const ConfigKeys keys(gguf, config.architecture->name);
  config.n_layers = keys.count(hyperparameter::kBlockCount, kMaxLayers);
  if (keys.integer(hyperparameter::kNextnLayers, 0) != 0) {
    config.n_ignored_layers = keys.count(hyperparameter::kNextnLayers, config.n_layers - 1);
    config.n_layers -= config.n_ignored_layers;
  }
  config.embedding_length = keys.count(hyperparameter::kEmbeddingLength, kMaxModelWidth);
  if (has_checkpoint(*config.architecture, Checkpoint::kPleInput)) {
    config.ple_length = keys.count_or(hyperparameter::kLayerEmbeddingLength, kMaxModelWidth, 0);
  }
  constexpr std::string_view kWidth = hyperparameter::kFeedForwardLength;
  const std::vector<int64_t> lengths = feed_forward_lengths(keys, config);
  config.feed_forward_length = !lengths.empty() ? *std::ranges::max_element(lengths)
                               : has_layers_without_feed_forward(*config.architecture)
                                   ? width_of_some_layers(keys)
                               : has_dense_feed_forward(*config.architecture)
                                   ? keys.count_of_layers(kWidth, kMaxModelWidth)
                                   : keys.count_of_layers(kWidth, kMaxModelWidth, 0);
  config.context_length = keys.count(hyperparameter::kContextLength, kMaxPositions);
  read_routing(keys, config);
  read_heads(keys, config);
  read_linear_attention(keys, config);
  read_streams(keys, config);
  read_norm(keys, config);
  reject_other_computations(keys, *config.architecture);
  read_activation(gguf, config);
  read_multipliers(keys, config);
  read_clip(keys, config);
  read_soft_caps(keys, config);
  read_value_scale(keys, config);
  read_window(keys, config);
  const bool attends = has_checkpoint(*config.architecture, Checkpoint::kAttn);
  if (attends && config.architecture->position == PositionKind::kRotary) read_rope(keys, config);
  if (config.architecture->position == PositionKind::kAlibi) read_alibi(keys, config);
  read_index(keys, config);
  config.yarn_whole_pairs = keys.gguf().get_bool(hyperparameter::own::kYarnWholePairs,
                                                 config.architecture->yarn_whole_pairs);
  read_layers(keys, config);
  if (config.activation == ActivationKind::kXielu) read_xielu(gguf, config);
  return config;
}

const OpSpec* ModelConfig::find(Checkpoint checkpoint) const {
  for (const LayerConfig& layer : layers) {
    if (const OpSpec* op = find_spec(layer.ops, checkpoint)) return op;
  }
  return nullptr;
}

double ModelConfig::multiplier(Multiplier which) const {
  if (which == Multiplier::kAttention) return attention_scale(heads());
  const double stated = multipliers[static_cast<size_t>(which)];
  if (stated > 0.0) return stated;
  const bool root = which == Multiplier::kEmbedding && architecture->embedding_root;
  return root ? std::sqrt(static_cast<double>(embedding_length)) : 1.0;
}

double ModelConfig::attention_scale(const HeadSizes& sizes) const {
  const double stated = multipliers[static_cast<size_t>(Multiplier::kAttention)];
  if (stated > 0.0) return stated;
  if (!architecture->attention_root) return 1.0;
  const bool wide = architecture->wide_scale_layers == n_layers;
  return 1.0 / std::sqrt(static_cast<double>(wide ? embedding_length / n_heads : sizes.head_dim));
}

}  // namespace assay
