#include "assay/report/state_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "assay/compare/evidence.h"
#include "assay/report/failure_text.h"
#include "base/count_of.h"

namespace assay {

std::string_view state_name(const RecordResult& result) {
  const bool decided = result.evidence != Evidence::kUnproven ||
                       result.status == Verdict::kInconclusive;  // nothing but zeros
  return decided ? verdict_name(result.status) : evidence_name(result.evidence);
}

std::string_view state_name(const CheckpointGroup& group) {
  if (group.worst != nullptr && group.worst->failed()) return state_name(*group.worst);
  const bool only_zeros = group.zeros > 0 && group.zeros == group.records;
  if (group.unproven > (only_zeros ? group.zeros : 0)) return evidence_name(Evidence::kUnproven);
  return group.worst == nullptr ? evidence_name(Evidence::kExcused) : state_name(*group.worst);
}

std::string sizes_text(const RecordResult& result) {
  if (result.failing_metric != Metric::kSize) return "";
  return fmt::format("{} in the reference, {} in the other",
                     count_of(std::llround(result.failing_tolerance), "value"),
                     std::llround(result.failing_value));
}

std::string after_split_text(const Comparison& comparison) {
  const int64_t count = comparison.split->left_out;
  const auto gap = std::ranges::find(comparison.gaps, kAfterSplit, &Gap::reason);
  const Evidence state = gap == comparison.gaps.end() ? Evidence::kExcused : gap->evidence;
  return fmt::format("{} of the reference from there on {} {}", count_of(count, "record"),
                     plural(count == 1, "is", "are"), evidence_name(state));
}

std::string reason_of_all(const Comparison& comparison, Evidence state) {
  std::map<std::string_view, int64_t> counts;
  for (const RecordResult& result : comparison.results) {
    if (result.evidence == state) ++counts[unproven_text(result)];
  }
  for (const Gap& gap : comparison.gaps) {
    if (gap.evidence == state) ++counts[gap.reason];
  }
  if (counts.empty()) return "";
  const auto& [reason, count] =
      *std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
  if (counts.size() == 1) return std::string(reason);
  return fmt::format("{} of them: {}", count, reason);
}

}  // namespace assay
