#include "assay/mistakes/llama3_mistake.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "assay/mistakes/rotation.h"
#include "engine/rope_table.h"

namespace assay::mistakes {
namespace {

// The factors of Llama 3.1: 1 for short wavelengths, `factor` for long ones, and between them
// 1 / ((1 - share) / factor + share), whose share is linear in the inverse of the wavelength.
struct Llama3Factors {
  double factor = 1.0;
  double slope = 0.0;
  double offset = 0.0;

  double at(double frequency) const {
    const double share = std::clamp(slope * frequency + offset, 0.0, 1.0);
    return 1.0 / ((1.0 - share) / factor + share);
  }
};

// What gives these factors for the frequencies of the base, from those between; from a single one
// with the published borders, of which one is four times the other. Nothing if they are others.
std::optional<Llama3Factors> llama3_factors(const std::vector<float>& factors, double base) {
  constexpr double kTolerance = 1e-5;
  if (factors.empty()) return {};
  Llama3Factors found{.factor = static_cast<double>(std::ranges::max(factors))};
  if (!(found.factor > 1.0 + kTolerance)) return {};
  const std::vector<double> frequencies = rope_frequencies(base, factors.size());
  std::vector<std::pair<double, double>> between;  // frequency, share
  for (size_t i = 0; i < factors.size(); ++i) {
    const auto factor = static_cast<double>(factors[i]);
    const double share = (1.0 / factor - 1.0 / found.factor) / (1.0 - 1.0 / found.factor);
    if (share > kTolerance && share < 1.0 - kTolerance) between.emplace_back(frequencies[i], share);
  }
  if (between.empty()) return {};
  const auto [frequency, share] = between.front();
  if (between.size() > 1) {
    found.slope = (share - between.back().second) / (frequency - between.back().first);
    found.offset = share - found.slope * frequency;
  } else {
    found.offset = -1.0 / 3.0;
    found.slope = (share - found.offset) / frequency;
  }
  for (size_t i = 0; i < factors.size(); ++i) {
    const double ratio = found.at(frequencies[i]) / static_cast<double>(factors[i]);
    if (!(std::abs(ratio - 1.0) <= kTolerance)) return {};
  }
  return found;
}

}  // namespace

std::vector<double> usual_bases(const Network&) {
  return {1e4, 5e4, 1e5, 5e5, 1e6, 1e7};
}

Mistake llama3_base_mistake() {
  return {.cause = "rope_base",
          .text =
              [](const Network& network, double base) {
                const double right = network.model->config().rope_freq_base;
                return fmt::format("rotates with the frequency base {} in place of {}",
                                   rounded_unlike(base, right), rounded_unlike(right, base));
              },
          .edit = rotated([](Rotation& rotation, const OpContext& context) {
            const Network& network = context.network;
            const auto factors =
                llama3_factors(network.rope_factors, network.model->config().rope_freq_base);
            std::vector<double>& frequencies = rotation.settings.frequencies;
            frequencies = rope_frequencies(context.parameter, frequencies.size());
            for (double& frequency : frequencies) frequency /= factors->at(frequency);
          }),
          .possible =
              [](const Network& network, Op op) {
                return network.model != nullptr &&
                       !network.model->config().layer(op.layer).local_rope &&
                       llama3_factors(network.rope_factors, network.model->config().rope_freq_base);
              },
          .grid = usual_bases};
}

}  // namespace assay::mistakes
