#include "engine/linear_config.h"

#include <fmt/format.h>

#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

bool has_linear_attention(const ModelConfig& config) {
  return has_checkpoint(*config.architecture, Checkpoint::kDelta);
}

bool has_state_space(const ModelConfig& config) {
  return has_checkpoint(*config.architecture, Checkpoint::kSsm);
}

float ssm_norm_eps(const Gguf& gguf) {
  constexpr std::string_view kKey = hyperparameter::own::kSsmNormEps;
  const double eps = gguf.get_float(kKey, hyperparameter::kDefaultSsmNormEps);
  if (is_in_float_range(eps)) return static_cast<float>(eps);
  throw Error(fmt::format("key '{}' is {}, which is not a number above 0", kKey, eps), gguf.path());
}

}  // namespace

void read_linear_attention(const ConfigKeys& keys, ModelConfig& config) {
  using namespace hyperparameter;
  if (has_checkpoint(*config.architecture, Checkpoint::kConv)) {
    config.conv_taps = keys.count(kConvTaps, kMaxConvTaps);
  }
  if (!has_linear_attention(config) && !has_state_space(config)) return;
  config.conv_taps = keys.count(kLinearTaps, kMaxConvTaps);
  DeltaShape& shape = config.delta;
  if (has_checkpoint(*config.architecture, Checkpoint::kSsmStep)) {
    shape = mamba_shape(keys.count(kLinearValues, kMaxLinearWidth),
                        keys.count(kLinearKeyLength, kMaxLinearHead));
    config.ssm_rank = keys.count(kSsmRank, kMaxLinearWidth);
    config.ssm_normed = keys.flag(kSsmNorms, false);
    config.ssm_norm_eps = ssm_norm_eps(keys.gguf());
    return;
  }
  shape.n_key_heads = keys.count(kLinearKeyHeads, kMaxHeads);
  shape.n_value_heads = keys.count(kLinearValueHeads, kMaxHeads);
  shape.key_dim = keys.count(kLinearKeyLength, kMaxLinearHead);
  const int64_t values = keys.count(kLinearValues, kMaxLinearWidth);
  if (shape.n_value_heads % shape.n_key_heads != 0) {
    keys.reject(kLinearKeyHeads, fmt::format("is {}, which does not divide the {} value heads",
                                             shape.n_key_heads, shape.n_value_heads));
  }
  if (values % shape.n_value_heads != 0) {
    keys.reject(kLinearValues, fmt::format("is {}, which is not a multiple of the {} value heads",
                                           values, shape.n_value_heads));
  }
  shape.value_dim = values / shape.n_value_heads;
  shape.grouped = config.architecture->grouped_value_heads;
}

std::vector<int64_t> rows_by_key_head(const DeltaShape& shape, Checkpoint part) {
  const int64_t values = shape.value_width() / shape.n_key_heads;
  const int64_t of_head = 2 * (shape.key_dim + values);
  std::vector<int64_t> rows;
  const auto add = [&](int64_t first, int64_t count) {
    for (int64_t head = 0; head < shape.n_key_heads; ++head) {
      for (int64_t i = 0; i < count; ++i) rows.push_back(head * of_head + first + i);
    }
  };
  if (part == Checkpoint::kLinearZ) {
    add(2 * shape.key_dim + values, values);
    return rows;
  }
  add(0, shape.key_dim);
  add(shape.key_dim, shape.key_dim);
  add(2 * shape.key_dim, values);
  return rows;
}

std::vector<bool> linear_layers(const ConfigKeys& keys, const ModelConfig& config) {
  using namespace hyperparameter;
  if (!has_linear_attention(config)) return {};
  const std::vector<int64_t> stated = keys.array_of_layers(kLinearLayers);
  if (!stated.empty()) return {stated.begin(), stated.end()};
  const auto count = static_cast<size_t>(config.n_layers);
  if (keys.has(kLinearLayers)) return std::vector<bool>(count, keys.flag(kLinearLayers, true));
  const int64_t period =
      keys.count(kAttentionPeriod, kMaxAttentionPeriod, config.architecture->attention_period);
  std::vector<bool> linear(count);
  for (size_t i = 0; i < count; ++i) linear[i] = static_cast<int64_t>(i + 1) % period != 0;
  return linear;
}

void check_linear(const ConfigKeys& keys, int64_t number, bool is_linear,
                  std::span<const OpSpec> layer) {
  using namespace hyperparameter;
  const bool has_linear = find_spec(layer, Checkpoint::kDelta) != nullptr;
  if (is_linear == has_linear) return;
  keys.reject(keys.has(kLinearLayers) ? kLinearLayers : kAttentionPeriod,
              fmt::format("gives layer {} {} attention, and its tensors are those of {}", number,
                          is_linear ? "linear" : "full", has_linear ? "linear" : "full"));
}

}  // namespace assay
