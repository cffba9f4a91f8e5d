#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "assay/causes/mistakes.h"

namespace assay::causes {
namespace {

std::vector<double> positions_of(const Inputs& inputs) {
  return {inputs.positions.begin(), inputs.positions.end()};
}

std::vector<double> times(double by, std::vector<double> positions) {
  for (double& position : positions) position *= by;
  return positions;
}

// Whose cosines and sines have a factor (phi3's): what is left out leaves that out, too, and what
// is done twice has it twice.
void add_factor_counts(const RopeSettings& right, std::vector<BoundMistake>& mistakes) {
  for (const int count : {0, 2}) {
    RopeSettings counted = right;
    counted.factor = std::pow(right.factor, count);
    mistakes.push_back(
        plain_mistake("rope_position",
                      count == 0 ? "neither rotates nor multiplies by the factor of the rotation"
                                 : "rotates twice, with the factor of the rotation each time",
                      [counted, count](Op, const Inputs& in) {
                        return rope(*in.rows[0], counted, times(count, positions_of(in)));
                      }));
  }
}

std::vector<double> base_grid() {
  std::vector<double> grid = ratios(100, 1e8, 400);
  for (const double value : {1e4, 1e5, 2.5e5, 5e5, 1e6, 1e7}) grid.push_back(value);
  std::sort(grid.begin(), grid.end());
  return grid;
}

std::string rounded(double value) {
  const double nice = std::round(value / std::pow(10, std::floor(std::log10(value)) - 2)) *
                      std::pow(10, std::floor(std::log10(value)) - 2);
  return std::abs(value / nice - 1) < 1e-3 ? fmt::format("{:.15g}", nice)
                                           : fmt::format("{:.4g}", value);
}

// Of frequencies that are divided by factors, which the model's file gives beside the base.
void add_factor_mistakes(const RopeSettings& right, std::vector<BoundMistake>& mistakes) {
  const size_t pairs = right.frequencies.size();
  const std::vector<double> plain = rope_frequencies(right.base, pairs);
  std::vector<double> factors(pairs);
  bool any = false;
  for (size_t i = 0; i < pairs; ++i) {
    factors[i] = plain[i] / right.frequencies[i];
    any = any || std::abs(factors[i] - 1) > 1e-6;
  }
  if (!any) return;
  RopeSettings multiplied = right;
  for (size_t i = 0; i < pairs; ++i) multiplied.frequencies[i] = plain[i] * factors[i];
  mistakes.push_back(plain_mistake("rope_base", "multiplies the frequencies by their factors",
                                   [multiplied](Op, const Inputs& in) {
                                     return rope(*in.rows[0], multiplied, positions_of(in));
                                   }));
  BoundMistake base;
  base.name = "rope_base";
  base.text = [known = right.base](double value) {
    return fmt::format("rotates with the frequency base {} in place of {}", rounded(value),
                       rounded(known));
  };
  base.grid = base_grid();
  base.refine = true;
  base.compute = [right, factors](Op, const Inputs& in, double value) {
    RopeSettings settings = right;
    settings.frequencies = rope_frequencies(value, factors.size());
    for (size_t i = 0; i < factors.size(); ++i) settings.frequencies[i] /= factors[i];
    return rope(*in.rows[0], settings, positions_of(in));
  };
  mistakes.push_back(std::move(base));
}

}  // namespace

void add_rope_mistakes(const Network& network, std::vector<BoundMistake>& mistakes) {
  if (!network.rope) return;
  const RopeSettings right = *network.rope;
  const bool adjacent = right.pairing == RopePairing::kAdjacent;
  RopeSettings other = right;
  other.pairing = adjacent ? RopePairing::kHalves : RopePairing::kAdjacent;
  mistakes.push_back(plain_mistake(
      "rope_pairing",
      adjacent ? "rotates the halves of a head against each other where adjacent elements are pairs"
               : "rotates adjacent elements where the halves of a head are pairs",
      [other](Op, const Inputs& in) { return rope(*in.rows[0], other, positions_of(in)); }));

  BoundMistake shift;
  shift.name = "rope_position";
  shift.text = [](double by) { return fmt::format("rotates by position {:+.0f}", by); };
  for (int by = -16; by <= 16; ++by) {
    if (by != 0) shift.grid.push_back(by);
  }
  shift.compute = [right](Op, const Inputs& in, double by) {
    std::vector<double> positions = positions_of(in);
    for (double& position : positions) position += by;
    return rope(*in.rows[0], right, positions);
  };
  mistakes.push_back(std::move(shift));

  BoundMistake multiple;
  multiple.name = "rope_position";
  multiple.text = [](double by) -> std::string {
    if (by == 0) return "does not rotate";
    if (by == -1) return "rotates backwards";
    return fmt::format("rotates by {:.4g} times the position", by);
  };
  multiple.grid = {-1, 0, 1.0 / 32, 1.0 / 16, 0.125, 0.25, 0.5, 2, 4, 8, 16, 32};
  multiple.compute = [right](Op, const Inputs& in, double by) {
    return rope(*in.rows[0], right, times(by, positions_of(in)));
  };
  mistakes.push_back(std::move(multiple));
  if (right.factor != 1) add_factor_counts(right, mistakes);

  RopeSettings swapped = right;
  swapped.sine_for_cosine = true;
  mistakes.push_back(plain_mistake(
      "rope_position", "takes sines for cosines and cosines for sines",
      [swapped](Op, const Inputs& in) { return rope(*in.rows[0], swapped, positions_of(in)); }));

  BoundMistake restart;
  restart.name = "rope_position";
  restart.text = [](double from) {
    return fmt::format("counts from position 0 again at position {:.0f} and after", from);
  };
  for (int from = 1; from <= 64; ++from) restart.grid.push_back(from);
  restart.compute = [right](Op, const Inputs& in, double from) {
    std::vector<double> positions = positions_of(in);
    for (double& position : positions) position = position >= from ? 0 : position;
    return rope(*in.rows[0], right, positions);
  };
  mistakes.push_back(std::move(restart));

  for (const Rounding rounding : kRoundings) {
    RopeSettings settings = right;
    settings.round = rounding.round;
    mistakes.push_back(
        plain_mistake("rounding", fmt::format("rounds the cosines and sines to {}", rounding.type),
                      [settings](Op, const Inputs& in) {
                        return rope(*in.rows[0], settings, positions_of(in));
                      }));
  }

  BoundMistake base;
  base.name = "rope_base";
  const std::optional<double> known = rope_base(right.frequencies);
  base.text = [known](double value) {
    return fmt::format("rotates with the frequency base {}{}", rounded(value),
                       known ? fmt::format(" in place of {}", rounded(*known))
                             : std::string(" and no frequency factors"));
  };
  base.grid = base_grid();
  base.refine = true;
  base.compute = [right](Op, const Inputs& in, double value) {
    RopeSettings settings = right;
    settings.frequencies = rope_frequencies(value, right.frequencies.size());
    return rope(*in.rows[0], settings, positions_of(in));
  };
  mistakes.push_back(std::move(base));
  if (right.base > 0) add_factor_mistakes(right, mistakes);
}

}  // namespace assay::causes
