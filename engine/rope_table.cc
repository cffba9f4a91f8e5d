#include "engine/rope_table.h"

#include <cmath>

namespace assay {

const std::vector<float>& rope_factors_for(const Model& model, int64_t n_positions) {
  return n_positions > model.config().rope_original_context_length ? model.rope_factors_long
                                                                   : model.rope_factors_short;
}

std::vector<double> rotary_frequencies(const ModelConfig& config,
                                       const std::vector<float>& factors) {
  std::vector<double> frequencies(static_cast<size_t>(config.rotary_dim / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(config.rotary_dim);
    const double divisor = factors.empty() ? 1.0 : static_cast<double>(factors[i]);
    frequencies[i] = config.rope_freq_scale / (std::pow(config.rope_freq_base, exponent) * divisor);
  }
  return frequencies;
}

std::vector<float> rope_table(const ModelConfig& config, const std::vector<float>& factors,
                              int64_t first_position, int64_t n_tokens) {
  const std::vector<double> frequencies = rotary_frequencies(config, factors);
  std::vector<float> table;
  table.reserve(static_cast<size_t>(n_tokens) * frequencies.size() * 2);
  for (int64_t t = 0; t < n_tokens; ++t) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(first_position + t) * frequency;
      table.push_back(static_cast<float>(std::cos(angle) * config.rope_attn_factor));
      table.push_back(static_cast<float>(std::sin(angle) * config.rope_attn_factor));
    }
  }
  return table;
}

}  // namespace assay
