#include "assay/compare/drift.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/median.h"

namespace assay {
namespace {

constexpr double kStableChange = 1.5;

// A line through log(error) by least squares.
struct Line {
  double slope = 0;
  double from = 0;  // where it begins and ends
  double to = 0;
  double change() const { return slope * (to - from); }
};

std::optional<Line> fit_line(std::map<int64_t, std::vector<double>>& errors) {
  if (errors.size() < 2) return std::nullopt;
  double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (auto& [place, of_place] : errors) {
    const auto x = static_cast<double>(place);
    const double y = std::log(upper_median(of_place));
    n += 1;
    sum_x += x;
    sum_y += y;
    sum_xx += x * x;
    sum_xy += x * y;
  }
  return Line{(n * sum_xy - sum_x * sum_y) / (n * sum_xx - sum_x * sum_x),
              static_cast<double>(errors.begin()->first),
              static_cast<double>(errors.rbegin()->first)};
}

Drift::Trend trend_of(const Line& line) {
  if (line.change() >= std::log(kStableChange)) return Drift::Trend::kIncreasing;
  if (line.change() <= -std::log(kStableChange)) return Drift::Trend::kDecreasing;
  return Drift::Trend::kStable;
}

std::string words(const Line& line, const char* what) {
  const double factor = std::exp(std::abs(line.change()));
  switch (trend_of(line)) {
    case Drift::Trend::kIncreasing:
      return fmt::format("error grew by {:.3g} from {} {:.0f} to {:.0f}", factor, what, line.from,
                         line.to);
    case Drift::Trend::kDecreasing:
      return fmt::format("error shrank by {:.3g} from {} {:.0f} to {:.0f}", factor, what, line.from,
                         line.to);
    case Drift::Trend::kStable:
      break;
  }
  return fmt::format("error is stable from {} {:.0f} to {:.0f}", what, line.from, line.to);
}

}  // namespace

std::string_view trend_name(Drift::Trend trend) {
  static constexpr std::string_view kNames[] = {"increasing", "stable", "decreasing"};
  return kNames[static_cast<size_t>(trend)];
}

Drift measure_drift(const Comparison& comparison) {
  std::map<int64_t, std::vector<double>> by_layer;
  std::map<int64_t, std::vector<double>> by_token;
  int32_t last = -1;
  for (const RecordResult& result : comparison.results) {
    const auto order = [&](int32_t id) {
      return compute_order(comparison.checkpoints[static_cast<size_t>(id)], id);
    };
    if (last < 0 || order(last) < order(result.checkpoint)) last = result.checkpoint;
  }
  for (const RecordResult& result : comparison.results) {
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
    const double rel_l2 = result.metrics.rel_l2;
    if (!(rel_l2 > 0) || !std::isfinite(rel_l2)) continue;
    if (name.op == "output" && name.layer >= 0) by_layer[name.layer].push_back(rel_l2);
    if (result.checkpoint == last) by_token[result.token_idx].push_back(rel_l2);
  }
  Drift drift;
  const auto depth = fit_line(by_layer);
  const auto position = fit_line(by_token);
  if (depth) {
    drift.growth_per_layer = std::exp(depth->slope);
    drift.trend = trend_of(*depth);
    drift.sentence = words(*depth, "layer");
    if (drift.trend == Drift::Trend::kDecreasing) {
      drift.sentence += ": check that both logs are of the same run";
    }
  }
  if (position) {
    drift.growth_per_token = std::exp(position->slope);
    drift.position_trend = trend_of(*position);
    drift.sentence += (depth ? "; " : "") + words(*position, "token");
  }
  return drift;
}

}  // namespace assay
