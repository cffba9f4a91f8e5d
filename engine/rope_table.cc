#include "engine/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace assay {

const std::vector<float>& rope_factors_for(const Model& model, int64_t n_positions) {
  return n_positions > model.config().rope_original_context_length ? model.rope_factors_long
                                                                   : model.rope_factors_short;
}

namespace {

// The share of each pair's own frequency: 1 where it turns more often than beta_fast in the
// original context, 0 where less often than beta_slow, and falling from pair to pair between them.
double own_share(const ModelConfig& config, size_t pair) {
  const auto pair_with_turns = [&](double turns) {
    const double wavelength = static_cast<double>(config.rope_original_context_length) / turns;
    return static_cast<double>(config.rotary_dim) *
           std::log(wavelength / (2.0 * std::numbers::pi)) /
           (2.0 * std::log(config.rope_freq_base));
  };
  double low = pair_with_turns(config.yarn->beta_fast);
  double high = pair_with_turns(config.yarn->beta_slow);
  if (config.yarn_whole_pairs) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.rotary_dim - 1));
  const double ramp = (static_cast<double>(pair) - low) / std::max(0.001, high - low);
  return (1.0 - std::clamp(ramp, 0.0, 1.0)) * config.yarn->extrapolation;
}

}  // namespace

std::vector<double> rotary_frequencies(const ModelConfig& config, const std::vector<float>& factors,
                                       bool local) {
  const int64_t rotary_dim = local ? config.local_rotary_dim() : config.rotary_dim;
  std::vector<double> frequencies(static_cast<size_t>(rotary_dim / 2));
  const double base = local ? config.local_rope_freq_base : config.rope_freq_base;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim);
    const double divisor = factors.empty() ? 1.0 : static_cast<double>(factors[i]);
    const double inverse = std::pow(base, exponent) * divisor;
    frequencies[i] = (local ? 1.0 : config.rope_freq_scale) / inverse;
    if (!config.yarn || local) continue;
    const double share = own_share(config, i);
    frequencies[i] = frequencies[i] * (1.0 - share) + share / inverse;
  }
  return frequencies;
}

std::vector<float> rope_table(const ModelConfig& config, const std::vector<float>& factors,
                              int64_t first_position, int64_t n_tokens, bool local) {
  const std::vector<double> frequencies = rotary_frequencies(config, factors, local);
  const double factor = local ? 1.0 : config.rope_attn_factor;
  const double direction = config.architecture->rope_backwards ? -1.0 : 1.0;
  std::vector<float> table;
  table.reserve(static_cast<size_t>(n_tokens) * frequencies.size() * 2);
  for (int64_t t = 0; t < n_tokens; ++t) {
    for (const double frequency : frequencies) {
      const double angle = direction * static_cast<double>(first_position + t) * frequency;
      table.push_back(static_cast<float>(std::cos(angle) * factor));
      table.push_back(static_cast<float>(std::sin(angle) * factor));
    }
  }
  return table;
}

}  // namespace assay
