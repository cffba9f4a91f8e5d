#include "assay/compare/evidence.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "assay/compare/log_probabilities.h"

namespace assay {
namespace {

constexpr std::string_view kOnlyZeros =
    "the values in common are all zero, and nothing else is in common";
constexpr std::string_view kOnlyPart =
    "only a part of it was compared, and whole evidence is required";
constexpr std::string_view kNoArgmax[] = {
    "neither log tells which element it chooses",
    "the other log does not tell which element it chooses",
    "the reference does not tell which element it chooses",
};

// What the facts show if each limit of the policy is held to what it can be held to: a norm to
// values, sketches and summaries, the largest difference to values, KL to all values.
Evidence shown_by(const Metrics& metrics, const Tolerance& tolerance) {
  const SharedFacts& facts = metrics.facts;
  if (facts.all_values) {
    const bool any = tolerance.rel_l2 || tolerance.max_abs || (tolerance.kl && metrics.kl);
    return any ? Evidence::kWhole : Evidence::kUnproven;
  }
  if (tolerance.rel_l2 && facts.any()) {
    return facts.sketch ? Evidence::kWhole : Evidence::kPartial;
  }
  if (tolerance.max_abs && (facts.head || facts.top)) return Evidence::kPartial;
  return tolerance.kl && metrics.kl ? Evidence::kPartial : Evidence::kUnproven;
}

std::string_view missing_fact(const Metrics& metrics) {
  if (metrics.facts.any()) return kNoLimit;
  if (metrics.compared == 0) return kNoFact;
  return metrics.all_zero ? kOnlyZeros : kOnlyInfinite;
}

// Whether only max_abs holds the record, and let it be as far from the reference as zeros are. No
// rel_l2 may be as wide (kRelL2Bound), and how wide a max_abs is shows at the values alone.
bool is_held_too_loosely(const Metrics& metrics, const Tolerance& tolerance) {
  const bool only_max_abs = tolerance.max_abs && !tolerance.rel_l2 && !(tolerance.kl && metrics.kl);
  return only_max_abs && metrics.ref_rms > 0 && !(metrics.rel_l2 < kRelL2Bound);
}

bool comes_before(int64_t token_a, int64_t order_a, int64_t token_b, int64_t order_b) {
  return std::pair(token_a, order_a) < std::pair(token_b, order_b);
}

}  // namespace

Evidence evidence_of(const Metrics& metrics, const Tolerance& tolerance, EvidenceRequired required,
                     std::string_view& reason) {
  if (metrics.n == 0) {
    reason = kNoElements;
    return Evidence::kUnproven;
  }
  if (metrics.unclear_nonfinite) {
    reason = kUnclearNonfinite;
    return Evidence::kUnproven;
  }
  if (tolerance.rel_l2 && !(metrics.unclear_rel_l2 <= *tolerance.rel_l2)) {
    reason = kSwampedSums;
    return Evidence::kUnproven;
  }
  if (is_held_too_loosely(metrics, tolerance)) {
    reason = kWideMaxAbs;
    return Evidence::kUnproven;
  }
  if (tolerance.kl && metrics.is_logits && !metrics.kl && !metrics.facts.all_values) {
    reason = kNoKl;
    return Evidence::kUnproven;
  }
  if (metrics.is_logits && metrics.all_zero) {
    reason = kZeroLogits;
    return Evidence::kUnproven;
  }
  Evidence shown = shown_by(metrics, tolerance);
  // Of the whole tensor the difference bounds the regret: at most two elements of it are in there.
  const bool other_choice =
      metrics.argmax_ref && metrics.argmax_got && metrics.argmax_ref != metrics.argmax_got;
  if (metrics.is_logits && other_choice && !metrics.regret && shown != Evidence::kWhole) {
    reason = kUnknownRegret;
    return Evidence::kUnproven;
  }
  if (metrics.fitted_constant && shown == Evidence::kWhole) shown = Evidence::kPartial;
  if (shown == Evidence::kUnproven) {
    reason = missing_fact(metrics);
    return shown;
  }
  if (required.whole && shown != Evidence::kWhole) {
    reason = metrics.fitted_constant ? kFittedConstant : kOnlyPart;
    return Evidence::kUnproven;
  }
  if (required.argmax && metrics.is_logits && !(metrics.argmax_ref && metrics.argmax_got)) {
    reason = kNoArgmax[metrics.argmax_ref ? 1 : metrics.argmax_got ? 2 : 0];
    return Evidence::kUnproven;
  }
  return shown;
}

bool lacks_argmax(std::string_view reason) {
  return std::ranges::find(kNoArgmax, reason) != std::end(kNoArgmax);
}

EvidenceCounts count_evidence(const Comparison& comparison) {
  EvidenceCounts counts;
  int64_t first_token = 0;
  int64_t first_order = 0;
  const auto count = [&](int32_t checkpoint, int64_t token_idx, Evidence evidence,
                         std::string_view reason) {
    counts.whole += evidence == Evidence::kWhole ? 1 : 0;
    counts.partial += evidence == Evidence::kPartial ? 1 : 0;
    counts.excused += evidence == Evidence::kExcused ? 1 : 0;
    if (evidence != Evidence::kUnproven) return;
    ++counts.unproven;
    const int64_t order = comparison.order[static_cast<size_t>(checkpoint)];
    if (counts.first_unproven && !comes_before(token_idx, order, first_token, first_order)) return;
    first_token = token_idx;
    first_order = order;
    counts.first_unproven = EvidenceCounts::Place{
        comparison.checkpoints[static_cast<size_t>(checkpoint)], token_idx, std::string(reason)};
  };
  const auto is_logits = [&](int32_t checkpoint) {
    return is_logits_name(comparison.checkpoints[static_cast<size_t>(checkpoint)].name);
  };
  for (const RecordResult& result : comparison.results) {
    if (!result.of_ref) continue;
    count(result.checkpoint, result.token_idx, result.evidence, result.reason);
    if (!is_logits(result.checkpoint)) continue;
    ++counts.argmax_total;
    counts.argmax_known += result.metrics.argmax_ref && result.metrics.argmax_got ? 1 : 0;
  }
  for (const Gap& gap : comparison.gaps) {
    count(gap.checkpoint, gap.token_idx, gap.evidence, gap.reason);
    const bool counted = gap.evidence != Evidence::kExcused && is_logits(gap.checkpoint);
    counts.argmax_total += counted ? 1 : 0;
  }
  return counts;
}

}  // namespace assay
