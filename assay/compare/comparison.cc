#include "assay/compare/comparison.h"

#include <algorithm>
#include <cmath>

namespace assay {

std::string_view verdict_name(Verdict verdict) {
  static constexpr std::string_view kNames[] = {"match", "noise",        "tie_flip",  "drift",
                                                "wrong", "inconclusive", "incomplete"};
  return kNames[static_cast<size_t>(verdict)];
}

std::string_view evidence_name(Evidence evidence) {
  static constexpr std::string_view kNames[] = {"whole", "partial", "excused", "unproven",
                                                "failed"};
  return kNames[static_cast<size_t>(evidence)];
}

std::string_view metric_name(Metric metric) {
  static constexpr std::string_view kNames[] = {
      "none",       "rel_l2", "max_abs",       "kl",      "argmax", "nonfinite",
      "quarantine", "size",   "contradiction", "replica", "margin", "own_error"};
  return kNames[static_cast<size_t>(metric)];
}

bool is_larger(const OwnErrors::Place& a, const OwnErrors::Place& b) {
  return !std::isnan(b.value) && !(a.value <= b.value);
}

bool has_floors(const Comparison& comparison) {
  return std::any_of(comparison.results.begin(), comparison.results.end(),
                     [](const RecordResult& result) { return result.floor.has_value(); });
}

}  // namespace assay
