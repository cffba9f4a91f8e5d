#include "assay/compare/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "assay/compare/drift.h"
#include "assay/compare/evidence.h"
#include "assay/compare/log_probabilities.h"

namespace assay {
namespace {

constexpr double kSuddenGrowth = 10;
constexpr double kFirstDriftRelL2 = 0.1;
constexpr double kDeviations = 4;  // of an error's root mean square: the largest of 20,000

void judge_argmax(const Tolerance& tolerance, bool strict, RecordResult& result) {
  const Metrics& metrics = result.metrics;
  const double margin =
      metrics.level ? most_of_one(tolerance, metrics) : tie_margin(tolerance, metrics);
  const double regret = metrics.regret.value_or(
      metrics.min_regret.value_or(std::numeric_limits<double>::quiet_NaN()));
  if (metrics.argmax_ref && *metrics.argmax_ref >= metrics.n) {
    fail_record(Metric::kArgmax, regret, margin, result);
    return;
  }
  if (!metrics.argmax_ref || !metrics.argmax_got || metrics.argmax_ref == metrics.argmax_got) {
    return;
  }
  const bool within = regret <= margin;
  if (!within || strict) fail_record(Metric::kArgmax, regret, strict ? 0 : margin, result);
  // Within by the least that the regret can be, a part proves nothing: see evidence_of().
  const bool is_bounded = metrics.facts.sketch || metrics.facts.all_values;
  const bool level = within && (metrics.regret || is_bounded);
  if (level && (!result.failed() || result.failing_metric == Metric::kArgmax)) {
    result.status = Verdict::kTieFlip;
  }
}

bool is_gradual(const RecordResult& result, const CheckpointName& name,
                const RecordResult* before) {
  const double rel_l2 = result.metrics.rel_l2;
  if (result.failing_metric == Metric::kNonfinite || !(rel_l2 <= kLargeRelL2)) return false;
  if (result.failing_metric == Metric::kContradiction) return false;
  if (result.failing_metric == Metric::kMargin) return false;
  if (result.failing_metric == Metric::kOwnError) return false;
  if (result.failing_metric == Metric::kReplica) return false;
  if (std::isnan(result.failing_value) && result.failing_metric != Metric::kArgmax) return false;
  if (before == nullptr) return name.op != "embedding" && rel_l2 <= kFirstDriftRelL2;
  if (before->failed() && before->status == Verdict::kWrong) return false;
  const double limit = result.rel_l2_limit.value_or(kDefaultRelL2);
  const double ground = std::max(before->metrics.rel_l2, limit / 4);
  return rel_l2 <= kSuddenGrowth * ground;
}

void note_failure(const CheckpointName& name, const RecordResult& result, Comparison& comparison) {
  ++comparison.failed;
  if (comparison.first_divergence) return;
  comparison.first_divergence =
      FirstDivergence{name,
                      result.token_idx,
                      result.failing_metric,
                      result.failing_value,
                      result.failing_tolerance,
                      result.ranks,
                      result.failing_metric == Metric::kRelL2 ? result.floor : std::nullopt};
}

// Whether zeros are all that was compared, and nothing is missing.
bool is_all_zero(const Comparison& comparison) {
  const bool any_gap = std::any_of(comparison.gaps.begin(), comparison.gaps.end(),
                                   [](const Gap& g) { return g.evidence == Evidence::kUnproven; });
  return !any_gap && std::all_of(comparison.results.begin(), comparison.results.end(),
                                 [](const RecordResult& result) {
                                   return result.status == Verdict::kInconclusive;
                                 });
}

// The worse of two verdicts, where kInconclusive counts least.
Verdict worse(Verdict a, Verdict b) {
  if (a == Verdict::kInconclusive) return b;
  if (b == Verdict::kInconclusive) return a;
  return std::max(a, b);
}

}  // namespace

double most_of_one(const Tolerance& tolerance, const Metrics& metrics) {
  const double rel_l2 = tolerance.rel_l2.value_or(metrics.rel_l2);
  const double most = tolerance.max_abs.value_or(kDeviations * rel_l2 * metrics.ref_rms);
  return std::isnan(most) ? 0 : most;
}

double tie_margin(const Tolerance& tolerance, const Metrics& metrics) {
  const double measured = kDeviations * metrics.rel_l2 * metrics.ref_rms;
  double error = metrics.observed_error;
  if (metrics.compared < metrics.n && measured > error) error = measured;
  return std::min(error, most_of_one(tolerance, metrics));
}

void fail_record(Metric metric, double value, double tolerance, RecordResult& result) {
  if (result.failed()) return;  // the first failing metric is the one that is reported
  result.evidence = Evidence::kFailed;
  result.status = Verdict::kWrong;
  result.failing_metric = metric;
  result.failing_value = value;
  result.failing_tolerance = tolerance;
}

RecordResult failed_result(Metric metric, double value, double tolerance) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  RecordResult result;
  Metrics& metrics = result.metrics;
  metrics.max_abs = metrics.mean_abs = metrics.rms = metrics.rel_l2 = metrics.cosine = kNaN;
  metrics.nmse = metrics.observed_error = metrics.max_abs_lower_bound = kNaN;
  fail_record(metric, value, tolerance, result);
  return result;
}

void judge_record(const Tolerance& tolerance, const CompareOptions& options,
                  const SelfConsistency& soundness, RecordResult& result) {
  const Metrics& metrics = result.metrics;
  const auto limit = tolerance.rel_l2    ? tolerance.rel_l2
                     : tolerance.max_abs ? tolerance.max_abs
                                         : tolerance.kl;
  result.tolerance = limit.value_or(0);
  result.rel_l2_limit = tolerance.rel_l2;
  result.floor = tolerance.floor;
  result.status = metrics.identical ? Verdict::kMatch : Verdict::kNoise;
  if (metrics.nonfinite > 0) {
    fail_record(Metric::kNonfinite, static_cast<double>(metrics.nonfinite), 0, result);
    return;
  }
  if (!soundness.ref) {
    result.reason = kReferenceUnsound;
    result.status = Verdict::kIncomplete;
    return;
  }
  if (metrics.cut && !metrics.facts.any()) {
    fail_record(Metric::kRelL2, std::numeric_limits<double>::quiet_NaN(), result.tolerance, result);
    return;
  }
  const auto hold = [&](Metric metric, double value, const std::optional<double>& most) {
    if (most && !(value <= *most)) fail_record(metric, value, *most, result);
  };
  hold(Metric::kRelL2, metrics.rel_l2, tolerance.rel_l2);
  hold(Metric::kMaxAbs, metrics.max_abs_lower_bound, tolerance.max_abs);
  if (metrics.kl) hold(Metric::kKl, *metrics.kl, tolerance.kl);
  judge_argmax(tolerance, options.strict_argmax, result);
  if (!soundness.got_contradiction.empty()) {
    result.contradicts_itself = true;
    result.reason = soundness.got_contradiction;
    fail_record(Metric::kContradiction, std::numeric_limits<double>::quiet_NaN(), 0, result);
  }
  if (result.failed()) return;
  result.evidence = evidence_of(
      metrics, tolerance, {options.whole_required, options.whole_required || options.strict_argmax},
      result.reason);
  if (result.evidence == Evidence::kUnproven) result.status = Verdict::kIncomplete;
  if (metrics.all_zero) result.status = Verdict::kInconclusive;
}

void judge_comparison(Comparison& comparison) {
  comparison.compared = comparison.failed = 0;
  comparison.argmax_total = comparison.argmax_agree = 0;
  comparison.first_divergence.reset();
  const RecordResult* before = nullptr;
  Verdict worst = Verdict::kInconclusive;
  for (RecordResult& result : comparison.results) {
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
    if (before != nullptr && before->token_idx != result.token_idx) before = nullptr;
    if (result.status == Verdict::kWrong && result.failing_metric != Metric::kQuarantine &&
        is_gradual(result, name, before)) {
      result.status = Verdict::kDrift;
    }
    if (result.status < Verdict::kInconclusive) {
      if (!holds_ids(name)) before = &result;
      worst = worse(worst, result.status);
    }
    comparison.compared += result.of_ref ? 1 : 0;
    if (result.failed()) note_failure(name, result, comparison);
    if (result.of_ref && is_logits_name(name.name) && result.metrics.argmax_ref &&
        result.metrics.argmax_got) {
      ++comparison.argmax_total;
      comparison.argmax_agree += result.metrics.argmax_ref == result.metrics.argmax_got ? 1 : 0;
    }
  }
  comparison.evidence = count_evidence(comparison);
  comparison.verdict = worst;
  if (comparison.failed == 0 && comparison.evidence.unproven > 0 && !is_all_zero(comparison)) {
    comparison.verdict = Verdict::kIncomplete;
  }
  comparison.pass = comparison.failed == 0 && comparison.verdict < Verdict::kInconclusive;
  comparison.drift = measure_drift(comparison);
}

}  // namespace assay
