#include "assay/report/failure_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "assay/report/text_table.h"
#include "base/error.h"

namespace assay {

namespace {

std::string reason(std::string_view metric, double value, double tolerance,
                   const std::optional<double>& floor) {
  if (metric == "nonfinite") return fmt::format("{:.0f} values that are not finite", value);
  if (metric == "quarantine") return fmt::format("{:.0f} garbage values", value);
  if (metric == "argmax") {
    return fmt::format("the argmax differs by {} in the reference, errors reach {}",
                       short_number(value), short_number(tolerance));
  }
  std::string text =
      fmt::format("{} {} is over {}", metric, short_number(value), short_number(tolerance));
  if (metric == "rel_l2" && floor) {
    text += fmt::format(": {} x the floor, {} x is allowed", short_number(value / *floor),
                        short_number(tolerance / *floor));
  }
  return text;
}

// To three digits.
double rounded_up(double value) {
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 2);
  return std::ceil(value / unit) * unit;
}

}  // namespace

std::string failure_text(const RecordResult& result) {
  return reason(result.failing_metric, result.failing_value, result.failing_tolerance,
                result.floor);
}

std::string failure_reason(const FirstDivergence& first) {
  return reason(first.metric, first.value, first.tolerance, first.floor);
}

std::string failure_text(const FirstDivergence& first) {
  return fmt::format("{} at token {}: {}", printable(first.checkpoint.name, 60), first.token_idx,
                     failure_reason(first));
}

std::string passing_tolerance(const Comparison& comparison) {
  double least = 0;
  double times_floor = 0;
  for (const RecordResult& result : comparison.results) {
    if (result.pass) continue;
    if (result.failing_metric != "rel_l2" || !std::isfinite(result.failing_value)) return "";
    least = std::max(least, result.failing_value);
    times_floor = std::max(times_floor, result.times_floor().value_or(0));
  }
  constexpr double kPointless = 0.5;  // such a tolerance would let everything pass
  if (least == 0 || least > kPointless) return "";
  if (times_floor > 0) return fmt::format("{:.3g} x the floor", rounded_up(times_floor));
  return fmt::format("rel_l2 {:.3g}", rounded_up(least));
}

std::string_view verdict_meaning(Verdict verdict) {
  static constexpr std::string_view kMeanings[] = {
      "everything that both logs hold is equal",
      "the two differ within the tolerance",
      "the argmax flips between candidates that are level within the error",
      "the error grew little by little beyond the tolerance",
      "the error jumps beyond the tolerance, or is as large as the values",
      "the records in common hold zeros, or too little to compare, which proves nothing",
  };
  return kMeanings[static_cast<size_t>(verdict)];
}

std::string_view outcome_name(const Comparison& comparison) {
  if (comparison.verdict == Verdict::kInconclusive) return "INCONCLUSIVE";
  return comparison.pass ? "IN PARITY" : "DIVERGED";
}

}  // namespace assay
