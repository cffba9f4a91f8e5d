#include "assay/compare/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/drift.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr double kWrongRelL2 = 0.5;
constexpr double kSuddenGrowth = 10;
constexpr double kFirstDriftRelL2 = 0.1;
constexpr double kDeviations = 4;  // of an error's root mean square: the largest of 20,000

void fail(std::string_view metric, double value, double tolerance, RecordResult& result) {
  if (!result.pass) return;  // the first failing metric is the one that is told
  result.pass = false;
  result.status = Verdict::kWrong;
  result.failing_metric = metric;
  result.failing_value = value;
  result.failing_tolerance = tolerance;
}

// How far apart two candidates may be in the reference for a flip between them to be noise: as far
// as values are off, but no further than the tolerance, or where it has no say the root mean square
// of the errors, leaves to one of all elements. An error of a few is not that of the candidates;
// and where only a few elements are logged, theirs is not the largest.
double tie_margin(const Tolerance& tolerance, const Metrics& metrics) {
  const double measured = kDeviations * metrics.rel_l2 * metrics.ref_rms;
  const double most = tolerance.max_abs.value_or(
      tolerance.rel_l2 ? kDeviations * *tolerance.rel_l2 * metrics.ref_rms : measured);
  double error = metrics.observed_error;
  if (metrics.compared < metrics.n && measured > error) error = measured;
  return std::isnan(most) ? 0 : std::min(error, most);
}

void judge_argmax(const Tolerance& tolerance, bool strict, RecordResult& result) {
  const Metrics& metrics = result.metrics;
  const double margin = tie_margin(tolerance, metrics);
  if (metrics.argmax_ref && *metrics.argmax_ref >= metrics.n) {
    fail("argmax", metrics.regret.value_or(std::numeric_limits<double>::quiet_NaN()), margin,
         result);
    return;
  }
  if (!metrics.argmax_ref || !metrics.argmax_got || metrics.argmax_ref == metrics.argmax_got) {
    return;
  }
  const double regret = metrics.regret.value_or(std::numeric_limits<double>::quiet_NaN());
  const bool level = regret <= margin;
  if (!level || strict) fail("argmax", regret, strict ? 0 : margin, result);
  if (level && (result.pass || result.failing_metric == "argmax")) {
    result.status = Verdict::kTieFlip;
  }
}

bool is_gradual(const RecordResult& result, const CheckpointName& name,
                const RecordResult* before) {
  const double rel_l2 = result.metrics.rel_l2;
  if (result.failing_metric == "nonfinite" || !(rel_l2 <= kWrongRelL2)) return false;
  if (std::isnan(result.failing_value) && result.failing_metric != "argmax") return false;
  if (before == nullptr) return name.op != "embedding" && rel_l2 <= kFirstDriftRelL2;
  if (!before->pass && before->status == Verdict::kWrong) return false;
  const double limit = result.rel_l2_limit.value_or(kDefaultRelL2);
  const double ground = std::max(before->metrics.rel_l2, limit / 4);
  return rel_l2 <= kSuddenGrowth * ground;
}

// The worse of two verdicts, where kInconclusive counts least.
Verdict worse(Verdict a, Verdict b) {
  if (a == Verdict::kInconclusive) return b;
  if (b == Verdict::kInconclusive) return a;
  return std::max(a, b);
}

// Of checkpoints with records that could not be held to anything, those that cannot be said to be
// in parity: the logits, each of which chooses a token, and those of which no other record was
// held. Tells of all such records in a warning.
bool misses_checkpoints(Comparison& comparison) {
  struct Counts {
    int64_t held = 0;
    int64_t unheld = 0;
  };
  std::vector<Counts> counts(comparison.checkpoints.size());
  const RecordResult* first = nullptr;
  int64_t unheld = 0;
  for (const RecordResult& result : comparison.results) {
    Counts& count = counts[static_cast<size_t>(result.checkpoint)];
    count.held += result.status == Verdict::kInconclusive ? 0 : 1;  // not where all is zero
    if (result.held) continue;
    ++count.unheld;
    if (first == nullptr) first = &result;
    ++unheld;
  }
  if (first == nullptr) return false;
  comparison.warnings.push_back(fmt::format(
      "{} of {} could not be judged, the first {} at token {}: {}", count_of(unheld, "record"),
      comparison.got_path,
      printable(comparison.checkpoints[static_cast<size_t>(first->checkpoint)].name, 60),
      first->token_idx, first->why_unheld));
  bool misses = false;
  for (size_t id = 0; id < counts.size(); ++id) {
    const bool is_logits = comparison.checkpoints[id].name == "logits";
    misses = misses || (counts[id].unheld > 0 && (is_logits || counts[id].held == 0));
  }
  return misses;
}

// A log of few values and no summary does not say which token its engine chose. Of two such logs
// nobody expects it.
void tell_of_unknown_choices(Comparison& comparison) {
  const auto tell = [&](const std::string& path, auto told, auto untold) {
    const auto count = std::count_if(
        comparison.results.begin(), comparison.results.end(), [&](const RecordResult& result) {
          return result.held && result.metrics.*told && !(result.metrics.*untold);
        });
    if (count == 0) return;
    comparison.warnings.push_back(
        fmt::format("{} of logits of {} {} not tell which element {}: the argmax was not compared "
                    "there",
                    count_of(count, "record"), path, plural(count == 1, "does", "do"),
                    plural(count == 1, "it chooses", "they choose")));
  };
  tell(comparison.got_path, &Metrics::argmax_ref, &Metrics::argmax_got);
  tell(comparison.ref_path, &Metrics::argmax_got, &Metrics::argmax_ref);
}

void tell_of_padding(Comparison& comparison) {
  const auto count = std::count_if(
      comparison.results.begin(), comparison.results.end(),
      [](const RecordResult& result) { return result.held && result.metrics.padded; });
  if (count == 0) return;
  comparison.warnings.push_back(fmt::format(
      "the sketches and summaries of {} of logits tell of their padding alone: only the values "
      "logged and the largest were compared; log all values",
      count_of(count, "record")));
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  static constexpr std::string_view kNames[] = {"match", "noise", "tie_flip",
                                                "drift", "wrong", "inconclusive"};
  return kNames[static_cast<size_t>(verdict)];
}

void judge_record(const Tolerance& tolerance, bool strict_argmax, RecordResult& result) {
  const Metrics& metrics = result.metrics;
  const auto limit = tolerance.rel_l2    ? tolerance.rel_l2
                     : tolerance.max_abs ? tolerance.max_abs
                                         : tolerance.kl;
  result.tolerance = limit.value_or(0);
  result.rel_l2_limit = tolerance.rel_l2;
  result.floor = tolerance.floor;
  result.pass = true;
  if (metrics.nonfinite > 0) {
    fail("nonfinite", static_cast<double>(metrics.nonfinite), 0, result);
    return;
  }
  if (metrics.cut && !metrics.comparable) {
    fail("rel_l2", std::numeric_limits<double>::quiet_NaN(), result.tolerance, result);
    return;
  }
  const bool held = (tolerance.rel_l2 && metrics.comparable) ||
                    (tolerance.max_abs && metrics.compared > 0) || (tolerance.kl && metrics.kl);
  if (metrics.all_zero && metrics.comparable) {
    result.status = Verdict::kInconclusive;
    return;
  }
  result.status = metrics.identical ? Verdict::kMatch : Verdict::kNoise;
  const auto hold = [&](std::string_view name, double value, const std::optional<double>& most) {
    if (most && !(value <= *most)) fail(name, value, *most, result);
  };
  hold("rel_l2", metrics.rel_l2, tolerance.rel_l2);
  hold("max_abs", metrics.least_max_abs, tolerance.max_abs);
  if (metrics.kl) hold("kl", *metrics.kl, tolerance.kl);
  judge_argmax(tolerance, strict_argmax, result);
  if (!held) {
    leave_unheld(metrics.comparable ? "no limit of the policy can be held there; give rel_l2"
                                    : "the logs have no value, sketch or summary of it in common",
                 result);
  }
  if (strict_argmax && metrics.is_logits && !(metrics.argmax_ref && metrics.argmax_got)) {
    leave_unheld(metrics.argmax_got   ? "the reference does not tell which element it chooses"
                 : metrics.argmax_ref ? "the other log does not tell which element it chooses"
                                      : "neither log tells which element it chooses",
                 result);
  }
}

void leave_unheld(std::string_view why, RecordResult& result) {
  if (!result.pass) return;
  result.held = false;
  result.why_unheld = why;
  result.status = Verdict::kInconclusive;
}

void judge_comparison(Comparison& comparison) {
  const RecordResult* before = nullptr;
  Verdict verdict = Verdict::kInconclusive;
  for (RecordResult& result : comparison.results) {
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
    if (before != nullptr && before->token_idx != result.token_idx) before = nullptr;
    if (result.status == Verdict::kWrong && result.failing_metric != "quarantine" &&
        is_gradual(result, name, before)) {
      result.status = Verdict::kDrift;
    }
    if (result.status != Verdict::kInconclusive) before = &result;
    if (!result.pass) {
      ++comparison.failed;
      if (!comparison.first_divergence) {
        comparison.first_divergence =
            FirstDivergence{name,
                            result.token_idx,
                            std::string(result.failing_metric),
                            result.failing_value,
                            result.failing_tolerance,
                            result.failing_metric == "rel_l2" ? result.floor : std::nullopt};
      }
    }
    if (name.name == "logits" && result.metrics.argmax_ref && result.metrics.argmax_got) {
      ++comparison.argmax_total;
      comparison.argmax_agree += result.metrics.argmax_ref == result.metrics.argmax_got ? 1 : 0;
    }
    verdict = worse(verdict, result.status);
  }
  tell_of_unknown_choices(comparison);
  tell_of_padding(comparison);
  comparison.compared = static_cast<int64_t>(comparison.results.size());
  const bool misses = misses_checkpoints(comparison);
  if (misses && comparison.failed == 0) verdict = Verdict::kInconclusive;
  comparison.verdict = verdict;
  comparison.pass = comparison.failed == 0 && verdict != Verdict::kInconclusive;
  comparison.drift = measure_drift(comparison);
}

}  // namespace assay
