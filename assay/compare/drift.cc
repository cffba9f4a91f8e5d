#include "assay/compare/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/compare/median.h"

namespace assay {
namespace {

constexpr double kStableChange = 1.5;
constexpr double kSuddenLayerGrowth = 10;

// Medians by place, in order of the places. An error of 0 is one, too.
using Medians = std::vector<std::pair<int64_t, double>>;

Medians medians_of(std::map<int64_t, std::vector<double>>& errors) {
  Medians medians;
  for (auto& [place, of_place] : errors) medians.emplace_back(place, upper_median(of_place));
  return medians;
}

// exp of the slope of a line through log(error) by least squares. Zeros have no logarithm.
double fitted_growth(const Medians& medians) {
  double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (const auto& [place, error] : medians) {
    if (error == 0) continue;
    const auto x = static_cast<double>(place - medians.front().first);
    const double y = std::log(error);
    n += 1;
    sum_x += x;
    sum_y += y;
    sum_xx += x * x;
    sum_xy += x * y;
  }
  if (n < 2) return 1;
  return std::exp((n * sum_xy - sum_x * sum_y) / (n * sum_xx - sum_x * sum_x));
}

// What `a` has to be multiplied by to give `b`.
double factor(double a, double b) {
  if (a == b) return 1;
  return a == 0 ? std::numeric_limits<double>::infinity() : b / a;
}

std::optional<Drift::Jump> jump_in(const Medians& medians) {
  std::optional<Drift::Jump> jump;
  double largest = kSuddenLayerGrowth;
  for (size_t i = 1; i < medians.size(); ++i) {
    const double step = factor(medians[i - 1].second, medians[i].second);
    if (!(step > largest)) continue;
    largest = step;
    jump = Drift::Jump{medians[i].first, medians[i - 1].second, medians[i].second};
  }
  const double growth = factor(medians.front().second, medians.back().second);
  const bool carries =
      growth > kSuddenLayerGrowth && (std::isinf(largest) || largest * largest >= growth);
  return carries && medians.size() > 2 ? jump : std::nullopt;
}

std::optional<Drift::Course> course_of(const Medians& medians) {
  const bool any = std::any_of(medians.begin(), medians.end(),
                               [](const auto& median) { return median.second > 0; });
  if (medians.size() < 2 || !any) return std::nullopt;
  return Drift::Course{medians.front().first, medians.back().first, medians.front().second,
                       medians.back().second, jump_in(medians)};
}

Drift::Trend trend_of(const Drift::Course& course) {
  const double growth = factor(course.first, course.last);
  if (growth >= kStableChange) return Drift::Trend::kIncreasing;
  if (growth <= 1 / kStableChange) return Drift::Trend::kDecreasing;
  return Drift::Trend::kStable;
}

std::string words(const Drift::Course& course, std::string_view what) {
  static constexpr std::string_view kVerbs[] = {"grows from", "is stable,", "shrinks from"};
  const Drift::Trend trend = trend_of(course);
  std::string text =
      fmt::format("error {} {:.3g} at {} {} {} {:.3g} at {} {}", kVerbs[static_cast<size_t>(trend)],
                  course.first, what, course.from, trend == Drift::Trend::kStable ? "and" : "to",
                  course.last, what, course.to);
  if (const auto& jump = course.jump) {
    text += fmt::format(", with a jump at {} {}, from {:.3g} to {:.3g}", what, jump->at,
                        jump->before, jump->after);
  }
  return text;
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
  const auto rank = [&](int32_t id) { return comparison.order[static_cast<size_t>(id)]; };
  for (const RecordResult& result : comparison.results) {
    if (last < 0 || rank(last) < rank(result.checkpoint)) last = result.checkpoint;
  }
  for (const RecordResult& result : comparison.results) {
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
    const double rel_l2 = result.metrics.rel_l2;
    if (!std::isfinite(rel_l2) || !result.metrics.facts.any() || result.metrics.all_zero) continue;
    if (name.op == "output" && name.layer >= 0) by_layer[name.layer].push_back(rel_l2);
    if (result.checkpoint == last) by_token[result.token_idx].push_back(rel_l2);
  }
  Drift drift;
  const Medians of_layers = medians_of(by_layer);
  const Medians of_tokens = medians_of(by_token);
  drift.layers = course_of(of_layers);
  drift.tokens = course_of(of_tokens);
  if (drift.layers) {
    drift.growth_per_layer = fitted_growth(of_layers);
    drift.trend = trend_of(*drift.layers);
    std::string sentence = words(*drift.layers, "layer");
    if (drift.trend == Drift::Trend::kDecreasing) {
      sentence += ": check that both logs are of the same run";
    }
    drift.sentences.push_back(std::move(sentence));
  }
  if (drift.tokens) {
    drift.growth_per_token = fitted_growth(of_tokens);
    drift.position_trend = trend_of(*drift.tokens);
    drift.sentences.push_back(words(*drift.tokens, "token"));
  }
  return drift;
}

std::string Drift::sentence() const {
  return fmt::format("{}", fmt::join(sentences, "; "));
}

}  // namespace assay
