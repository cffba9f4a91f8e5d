#include "engine/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

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

void read_heads(const Keys& keys, ModelConfig& config) {
  config.n_heads = keys.count(hyperparameter::kHeadCount, kMaxHeads);
  config.n_kv_heads = keys.count(hyperparameter::kHeadCountKv, kMaxHeads, config.n_heads);
  if (config.n_heads % config.n_kv_heads != 0) {
    keys.reject(hyperparameter::kHeadCountKv,
                fmt::format("is {}, which does not divide the {} query heads", config.n_kv_heads,
                            config.n_heads));
  }
  if (!keys.has(hyperparameter::kKeyLength) && config.embedding_length % config.n_heads != 0) {
    keys.reject(hyperparameter::kHeadCount, fmt::format("is {}, which does not divide the width {}",
                                                        config.n_heads, config.embedding_length));
  }
  config.head_dim = keys.count(hyperparameter::kKeyLength, 65536,
                               std::max<int64_t>(1, config.embedding_length / config.n_heads));
  const int64_t value_length = keys.count(hyperparameter::kValueLength, 65536, config.head_dim);
  if (value_length != config.head_dim) {
    keys.reject(hyperparameter::kValueLength,
                fmt::format("is {} and the key length {}; Assay runs models where they are equal",
                            value_length, config.head_dim));
  }
}

void reject_unless(const Gguf& gguf, const Keys& keys, std::string_view key, double neutral) {
  const double value = gguf.get_float(keys.full(key), 0.0);
  // Files hold 32-bit floats.
  if (value == 0.0 || std::abs(value - neutral) <= 1e-6 * neutral) return;
  keys.reject(key, fmt::format("is {}", value), "Assay does not compute what it asks for");
}

// Keys that other architectures have: with another value than these the file asks for a computation
// that Assay does not do. A file of these architectures may hold any of them, switched off.
void reject_other_computations(const Gguf& gguf, const Keys& keys) {
  if (!gguf.get_bool(keys.full(hyperparameter::kCausal), true)) {
    keys.reject(hyperparameter::kCausal, "is false", "Assay runs models whose attention is causal");
  }
  for (const std::string_view key : hyperparameter::kNotComputed) {
    reject_unless(gguf, keys, key, 0.0);
  }
}

// Of an architecture without multipliers, files may state those that change nothing.
void read_multipliers(const Gguf& gguf, const Keys& keys, ModelConfig& config) {
  for (size_t i = 0; i < kMultiplierKeys.size(); ++i) {
    const std::string_view key = kMultiplierKeys[i];
    if (!config.architecture->multipliers) {
      reject_unless(gguf, keys, key, config.multiplier(static_cast<Multiplier>(i)));
    } else if (gguf.get_float(keys.full(key), 0.0) != 0.0) {
      config.multipliers[i] = keys.positive(key);
    }
  }
}

void read_rope(const Gguf& gguf, const Keys& keys, ModelConfig& config) {
  if (config.architecture->rope_switch &&
      !gguf.get_bool(keys.full(hyperparameter::kRopeSwitch), true)) {
    keys.reject(hyperparameter::kRopeSwitch, "is false, so positions are not rotated",
                "Assay does not run such models");
  }
  config.rotary_dim = keys.count(hyperparameter::kRopeDimensions, config.head_dim, config.head_dim);
  if (config.rotary_dim % 2 != 0) {
    keys.reject(hyperparameter::kRopeDimensions,
                fmt::format("is {}, which is odd", config.rotary_dim));
  }
  config.rope_freq_base =
      keys.positive(hyperparameter::kRopeBase, hyperparameter::kDefaultRopeBase);
  // A file with a factor and no type scales linearly; older files call the factor scale_linear.
  const std::string_view scaling = keys.text(hyperparameter::kRopeScaling, "linear");
  const double factor = keys.positive(hyperparameter::kRopeFactor,
                                      keys.positive(hyperparameter::kOldRopeFactor, 1.0));
  if (scaling == "linear") {
    config.rope_freq_scale = 1.0 / factor;
  } else if (scaling == "longrope") {
    if (!config.architecture->rope_long_short || factor != 1.0) {
      keys.reject(hyperparameter::kRopeScaling, "is 'longrope', with what does not belong to it",
                  "Assay computes it for phi3 from the tensors rope_factors_long and _short");
    }
  } else if (scaling != "none") {
    keys.reject(hyperparameter::kRopeScaling, fmt::format("is '{}'", scaling),
                "Assay computes none, linear and longrope");
  }
  config.rope_attn_factor = keys.positive(hyperparameter::kRopeAttentionFactor, 1.0);
  config.rope_original_context_length =
      keys.count(hyperparameter::kRopeOriginalContext, kMaxPositions, config.context_length);
}

}  // namespace

bool is_in_float_range(double value) {
  return value >= static_cast<double>(std::numeric_limits<float>::min()) &&
         value <= static_cast<double>(std::numeric_limits<float>::max());
}

ModelConfig ModelConfig::from_gguf(const Gguf& gguf) {
  ModelConfig config;
  config.architecture = &read_architecture(gguf);
  const std::string& path = gguf.path();
  config.name = gguf.get_string("general.name", path.substr(path.find_last_of('/') + 1));
  const Keys keys(gguf, config.architecture->name);
  if (keys.has(hyperparameter::kExpertCount)) {
    if (gguf.get_int(keys.full(hyperparameter::kExpertCount)) > 0) {
      keys.reject(hyperparameter::kExpertCount,
                  "is above 0; Assay does not run mixtures of experts");
    }
  }
  config.n_layers = keys.count(hyperparameter::kBlockCount, kMaxLayers);
  config.embedding_length = keys.count(hyperparameter::kEmbeddingLength, kMaxWidth);
  config.feed_forward_length = keys.count(hyperparameter::kFeedForwardLength, kMaxWidth);
  config.context_length = keys.count(hyperparameter::kContextLength, kMaxPositions);
  read_heads(keys, config);
  config.norm_eps =
      static_cast<float>(keys.positive(hyperparameter::norm_eps(config.architecture->norm)));
  reject_other_computations(gguf, keys);
  read_multipliers(gguf, keys, config);
  if (config.architecture->position == PositionKind::kRotary) read_rope(gguf, keys, config);
  if (config.architecture->sliding_window != SlidingWindow::kIgnored) {
    constexpr std::string_view kKey = hyperparameter::kSlidingWindow;
    config.sliding_window = gguf.get_int(keys.full(kKey), 0);  // 0 says that there is no window
    if (config.sliding_window < 0) keys.reject(kKey, "is negative");
    if (config.sliding_window > 0 &&
        config.architecture->sliding_window == SlidingWindow::kRejected) {
      keys.reject(kKey, "is above 0", "Assay does not run models with a window in some layers");
    }
  }
  return config;
}

}  // namespace assay
