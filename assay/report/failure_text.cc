#include "assay/report/failure_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace assay {

std::string short_number(double value) {
  return fmt::format("{:.3g}", value);
}
std::string short_number(const std::optional<double>& value) {
  return value ? short_number(*value) : "-";
}

std::string failure_text(std::string_view metric, double value, double tolerance) {
  if (metric == "nonfinite") return fmt::format("{:.0f} values that are not finite", value);
  if (metric == "quarantine") return fmt::format("{:.0f} garbage values", value);
  if (metric == "argmax") {
    return fmt::format("the argmax differs by {} in the reference, errors reach {}",
                       short_number(value), short_number(tolerance));
  }
  return fmt::format("{} {} is over {}", metric, short_number(value), short_number(tolerance));
}

std::string failure_text(const FirstDivergence& first) {
  return fmt::format("{} at token {}: {}", printable(first.checkpoint.name, 60), first.token_idx,
                     failure_text(first.metric, first.value, first.tolerance));
}

std::optional<double> passing_rel_l2(const Comparison& comparison) {
  double least = 0;
  for (const RecordResult& result : comparison.results) {
    if (result.pass) continue;
    if (result.failing_metric != "rel_l2" || !std::isfinite(result.failing_value)) return {};
    least = std::max(least, result.failing_value);
  }
  constexpr double kPointless = 0.5;  // such a tolerance would let everything pass
  if (least == 0 || least > kPointless) return {};
  const double unit = std::pow(10.0, std::floor(std::log10(least)) - 2);
  return std::ceil(least / unit) * unit;
}

std::string_view verdict_meaning(Verdict verdict) {
  static constexpr std::string_view kMeanings[] = {
      "everything that both logs hold is equal",
      "the two differ within the tolerance",
      "the argmax flips between candidates that are level within the error",
      "the error grew little by little beyond the tolerance",
      "the error jumps beyond the tolerance, or is as large as the values",
      "the records in common hold nothing but zeros, which proves nothing",
  };
  return kMeanings[static_cast<size_t>(verdict)];
}

std::string_view outcome_name(const Comparison& comparison) {
  if (comparison.verdict == Verdict::kInconclusive) return "INCONCLUSIVE";
  return comparison.pass ? "IN PARITY" : "DIVERGED";
}

}  // namespace assay
