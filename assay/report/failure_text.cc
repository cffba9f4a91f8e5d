#include "assay/report/failure_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/expert_flips.h"
#include "assay/compare/log_probabilities.h"
#include "assay/report/checkpoint_groups.h"
#include "assay/report/text_table.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/shell.h"

namespace assay {
namespace {

std::string argmax_reason(const RecordResult& result) {
  const Metrics& metrics = result.metrics;
  const auto beyond = [&](std::string_view whose, int64_t argmax) {
    return fmt::format("{} argmax is element {}, the two have {} in common", whose, argmax,
                       metrics.n);
  };
  if (metrics.argmax_ref >= metrics.n) return beyond("the reference's", *metrics.argmax_ref);
  if (metrics.argmax_got >= metrics.n) return beyond("the other's", *metrics.argmax_got);
  if (std::isnan(result.failing_value)) {
    return fmt::format(
        "the argmax is element {} in the reference and {} in the other; what the "
        "reference has there is not in its log",
        *metrics.argmax_ref, *metrics.argmax_got);
  }
  const std::string differs =
      fmt::format("the argmax differs by {} in the reference", short_number(result.failing_value));
  // Only --strict-argmax lets such a record fail.
  if (result.status == Verdict::kTieFlip) {
    return differs + ", which the errors allow, but --strict-argmax does not";
  }
  if (result.failing_tolerance == 0) return differs + ", more than the errors explain";
  return fmt::format("{}, errors reach {}", differs, short_number(result.failing_tolerance));
}

std::string margin_reason(const RecordResult& result) {
  if (!result.reason.empty()) return fmt::format("other experts: {}", result.reason);
  const std::string differs = fmt::format("other experts, {} apart in the reference's router",
                                          short_number(result.failing_value));
  // Only --strict-argmax lets such a record fail.
  if (result.status == Verdict::kTieFlip) {
    return differs + ", which the errors allow, but --strict-argmax does not";
  }
  return fmt::format("{}, errors reach {}", differs, short_number(result.failing_tolerance));
}

std::string replica_reason(const RecordResult& result) {
  const std::string text =
      fmt::format("rank {} does not hold what the other ranks hold", result.ranks);
  if (std::isnan(result.failing_value)) return text;
  return fmt::format("{}: values differ by up to {}", text, short_number(result.failing_value));
}

// What the argmax, or experts, or both do in a verdict of kTieFlip.
std::string_view flips(const Comparison& comparison) {
  const auto any = [&](bool is_logits) {
    return std::ranges::any_of(comparison.results, [&](const RecordResult& result) {
      return result.status == Verdict::kTieFlip && result.metrics.is_logits == is_logits;
    });
  };
  if (!any(false)) return "the argmax flips";
  return any(true) ? "the argmax and experts flip" : "experts flip";
}

// The first divergence, and what was computed before it at its token; null where there is none.
struct FirstFailure {
  const RecordResult* result = nullptr;
  const RecordResult* before = nullptr;
};

FirstFailure first_failure(const Comparison& comparison) {
  const auto found = std::ranges::find_if(comparison.results, &RecordResult::failed);
  if (found == comparison.results.end()) return {};
  FirstFailure first{&*found, nullptr};
  const std::string& sequence = name_of(comparison, found->checkpoint).sequence;
  for (auto before = found; before != comparison.results.begin();) {
    --before;
    if (before->token_idx != found->token_idx) break;
    if (name_of(comparison, before->checkpoint).sequence != sequence) continue;
    first.before = &*before;
    break;
  }
  return first;
}

// Whether each record that makes the verdict what it is fails in `metric`.
bool is_all(Metric metric, const Comparison& comparison) {
  bool any = false;
  for (const RecordResult& result : comparison.results) {
    if (!result.failed() || result.status != comparison.verdict) continue;
    any = true;
    if (result.failing_metric != metric) return false;
  }
  return any;
}

std::string nonfinite_text(const Comparison& comparison) {
  const auto has = [&](bool in_ref) {
    return comparison.quarantined_by_reason.contains({in_ref, GarbageReason::kNonfinite});
  };
  const bool in_ref = has(true);
  const bool in_got = has(false);
  return fmt::format("not a number, or infinite, in {}", in_ref && in_got ? "both logs"
                                                         : in_ref         ? "the reference"
                                                         : in_got         ? "the judged log"
                                                                          : "one of the two");
}

// To three digits.
double rounded_up(double value) {
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 2);
  return std::ceil(value / unit) * unit;
}

std::string own_error_reason(const RecordResult& result) {
  std::string text = result.reason.empty() ? fmt::format("own error {} is over {}",
                                                         short_number(result.failing_value),
                                                         short_number(result.failing_tolerance))
                                           : fmt::format("held to the model, {}", result.reason);
  if (result.reason.empty()) {
    text += ": not what the model gives for its inputs as they are logged";
  }
  return result.of_ref ? text : text + ", in a record that the reference does not have";
}

std::string contradiction_in(const RecordResult& result) {
  return fmt::format("the log contradicts itself: {} do not agree", result.reason);
}

std::string size_reason(int64_t n, int64_t ref_n) {
  std::string text = fmt::format("{} elements, {} in the reference: not the same tensor", n, ref_n);
  const int64_t more = std::max(n, ref_n);
  const int64_t less = std::min(n, ref_n);
  if (less < 2 || more % less != 0) return text;
  return fmt::format(
      "{} ({} times as many: if these are tokens, the shape is [{}, {}], and dims, "
      "where given, begins with t)",
      text, more / less, more / less, less);
}

std::string failure_of(const RecordResult& result) {
  const double value = result.failing_value;
  const double tolerance = result.failing_tolerance;
  switch (result.failing_metric) {
    case Metric::kNonfinite:
      return count_of(std::llround(value), "value that is not finite",
                      "values that are not finite") +
             (!result.selected ? " in a record that --checkpoints, --tokens or the map leaves out"
              : result.of_ref  ? ""
                               : " in a record that the reference does not have");
    case Metric::kQuarantine:
      return count_of(std::llround(value), "garbage value");
    case Metric::kSize:
      return size_reason(std::llround(value), std::llround(tolerance));
    case Metric::kContradiction:
      return contradiction_in(result);
    case Metric::kReplica:
      return replica_reason(result);
    case Metric::kArgmax:
      return argmax_reason(result);
    case Metric::kMargin:
      return margin_reason(result);
    case Metric::kOwnError:
      return own_error_reason(result);
    default:
      break;
  }
  std::string text = fmt::format("{} {} is over {}", metric_name(result.failing_metric),
                                 short_number(value), short_number(tolerance));
  if (result.failing_metric == Metric::kMaxAbs && value > result.metrics.max_abs) {
    text += ", by what sketch or summary tells of the values that are not logged";
  }
  if (result.failing_metric == Metric::kRelL2 && result.floor) {
    text += fmt::format(": {} x the floor, {} x is allowed", short_number(value / *result.floor),
                        short_number(tolerance / *result.floor));
  }
  return text;
}

}  // namespace

std::string failure_text(const RecordResult& result) {
  std::string text = failure_of(result);
  const bool tells_itself = result.failing_metric == Metric::kContradiction ||
                            result.failing_metric == Metric::kMargin ||
                            result.failing_metric == Metric::kReplica;
  if (result.contradicts_itself && !tells_itself && !result.reason.empty()) {
    text += "; " + contradiction_in(result);
  }
  if (result.ranks.empty() || result.failing_metric == Metric::kReplica) return text;
  return fmt::format("{}; the difference is in the part of rank {}", text, result.ranks);
}

std::string sequence_title(const Comparison& sequence) {
  const std::string ref = printable(sequence.ref_sequence, 40);
  const std::string got = printable(sequence.got_sequence, 40);
  if (ref.empty()) return fmt::format("{} (only in the other log)", got);
  if (got.empty()) return fmt::format("{} (missing in the other log)", ref);
  return ref == got ? ref : fmt::format("{} ({} in the other log)", ref, got);
}

std::string first_failure_reason(const Comparison& comparison) {
  return failure_text(*first_failure(comparison).result);
}

std::string first_failure_text(const Comparison& comparison) {
  const RecordResult& first = *first_failure(comparison).result;
  return fmt::format("{} at token {}: {}",
                     printable(name_of(comparison, first.checkpoint).title(), 80), first.token_idx,
                     failure_text(first));
}

std::string cause_hint(const Comparison& comparison) {
  const FirstFailure first = first_failure(comparison);
  if (!comparison.causes.empty() || first.result == nullptr ||
      first.result->failing_metric != Metric::kNonfinite) {
    return comparison.cause_hint;
  }
  if (first.before == nullptr) return "the first values that are not finite: look at the inputs";
  return fmt::format(
      "the first values that are not finite: look at the step before, from {}, which is finite, to "
      "here",
      name_of(comparison, first.before->checkpoint).title());
}

std::string causes_not_tried(const Comparison& comparison) {
  const std::vector<std::string>& names = comparison.causes_not_tried;
  if (names.empty()) return {};
  return fmt::format(
      "everywhere, as the work is bounded: {}; logs of more checkpoints (--checkpoints ops) or "
      "of a shorter prompt take less",
      fmt::join(names, ", "));
}

std::string passing_tolerance(const Comparison& comparison) {
  double least = 0;
  double times_floor = 0;
  for (const RecordResult& result : comparison.results) {
    if (!result.failed()) continue;
    if (result.failing_metric != Metric::kRelL2 || !std::isfinite(result.failing_value)) return "";
    least = std::max(least, result.failing_value);
    times_floor = std::max(times_floor, result.times_floor().value_or(0));
  }
  constexpr double kPointless = 0.5;  // such a tolerance would let everything pass
  if (least == 0 || least > kPointless) return "";
  if (times_floor > 0) return fmt::format("{:.3g} x the floor", rounded_up(times_floor));
  return fmt::format("rel_l2 {:.3g}", rounded_up(least));
}

std::string_view unproven_text(const RecordResult& result) {
  return result.evidence == Evidence::kUnproven && result.metrics.compared == 0 ? result.reason
         : result.metrics.all_zero ? "all zeros on both sides"
                                   : result.reason;
}

namespace {

// Of the records of the reference.
std::string states_text(const Comparison& comparison) {
  const EvidenceCounts& counts = comparison.evidence;
  int64_t of_ref = 0;
  for (const RecordResult& result : comparison.results) {
    of_ref += result.of_ref && result.failed() ? 1 : 0;
  }
  const int64_t total = counts.whole + counts.partial + counts.excused + counts.unproven + of_ref;
  const std::pair<std::string_view, int64_t> states[] = {{"whole", counts.whole},
                                                         {"partial", counts.partial},
                                                         {"excused", counts.excused},
                                                         {"unproven", counts.unproven},
                                                         {"failed", comparison.failed}};
  std::string text;
  std::vector<std::string> parts;
  for (const auto& [state, count] : states) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, state));
    if (count == total && comparison.failed == 0) {
      text = fmt::format("{} of {} {}", total, count_of(total, "record"), state);
    }
  }
  if (text.empty()) {
    text =
        fmt::format("{} of the reference: {}", count_of(total, "record"), fmt::join(parts, ", "));
  }
  if (counts.argmax_total == 0) return text;
  if (counts.argmax_known == 0) return text + ", argmax not known";
  text += fmt::format(", argmax {} of {}", comparison.argmax_agree, counts.argmax_total);
  if (counts.argmax_known < counts.argmax_total) {
    text += fmt::format(" (not known at {})", counts.argmax_total - counts.argmax_known);
  }
  const auto excused = std::ranges::count_if(comparison.gaps, [&](const Gap& gap) {
    return gap.evidence == Evidence::kExcused &&
           is_logits_name(name_of(comparison, gap.checkpoint).name);
  });
  if (excused > 0) text += fmt::format(" ({} excused)", excused);
  return text;
}

// "; own errors: 812 of 820 records held, largest 3.2e-07 at layer_3_attn token 5".
std::string own_errors_text(const OwnErrors& own) {
  const int64_t total = own.held + own.not_held;
  std::string text =
      fmt::format("; own errors: {} of {} {} held", own.held, total, plural(total == 1, "record"));
  if (own.excused > 0) {
    text += fmt::format(" ({} of {} excused ones)", own.excused_held, own.excused);
  }
  if (own.failed > 0) text += fmt::format(", {} failed", own.failed);
  if (own.largest) {
    text += fmt::format(", largest {} at {} token {}", short_number(own.largest->value),
                        printable(own.largest->checkpoint.title(), 80), own.largest->token_idx);
  }
  return text;
}

}  // namespace

std::string evidence_text(const Comparison& comparison) {
  std::string text = states_text(comparison);
  if (comparison.own_errors) text += own_errors_text(*comparison.own_errors);
  return text;
}

std::string flips_text(const Comparison& comparison) {
  if (comparison.flips.empty()) return {};
  const ExpertFlip& first = comparison.flips.front();
  const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(first.checkpoint)];
  const bool of_positions = is_positions(name);
  std::string text = fmt::format(
      "{}: {} at token {} has {}",
      of_positions
          ? count_of(comparison.flips.size(), "flip of chosen positions", "flips, the first one")
          : count_of(comparison.flips.size(), "flip of experts", "flips of experts, the first"),
      printable(name.title(), 80), first.token_idx,
      first.same_experts
          ? "the same experts in another order"
          : fmt::format("{} {} in place of {}, {} apart in the reference's {}, where "
                        "errors reach {}",
                        of_positions ? "position" : "expert", first.got_expert, first.ref_expert,
                        short_number(first.margin), of_positions ? "scores" : "router",
                        short_number(first.error)));
  const int64_t excused = count_after_flips(comparison);
  if (excused == 0) return text;
  return fmt::format("{}; {} from there {}", text,
                     count_of(excused, "record that follows", "records that follow"),
                     comparison.whole_required ? plural(excused == 1, "is unproven", "are unproven")
                                               : plural(excused == 1, "is excused", "are excused"));
}

std::string replay_command(const Comparison& comparison) {
  const std::string ref = shell_quoted(comparison.ref_path);
  return fmt::format("assay run MODEL --follow {} --replay-routing {} --sketch --log {}", ref, ref,
                     shell_quoted(followed_path(comparison.got_path)));
}

std::string followed_path(std::string_view path) {
  constexpr std::string_view kEnding = ".jsonl";
  if (path.ends_with(kEnding)) path.remove_suffix(kEnding.size());
  return fmt::format("{}.followed{}", path, kEnding);
}

std::string verdict_meaning(const Comparison& comparison) {
  switch (comparison.verdict) {
    case Verdict::kMatch:
      return "everything that was compared is equal";
    case Verdict::kNoise:
      return "the two differ within the tolerance";
    case Verdict::kTieFlip:
      return fmt::format("{} between candidates that are level within the error{}",
                         flips(comparison),
                         comparison.failed == 0 ? "" : ", which --strict-argmax does not allow");
    case Verdict::kInconclusive:
      return "the records in common hold nothing but zeros, which proves nothing";
    case Verdict::kIncomplete:
      return fmt::format("nothing failed, but {} of the reference {} not shown",
                         count_of(comparison.evidence.unproven, "record"),
                         plural(comparison.evidence.unproven == 1, "was", "were"));
    case Verdict::kDrift:
    case Verdict::kWrong:
      break;
  }
  if (is_all(Metric::kArgmax, comparison)) {
    return "the argmax differs by more than the error explains";
  }
  if (is_all(Metric::kMargin, comparison)) {
    return "other experts than the errors of the router explain";
  }
  if (is_all(Metric::kNonfinite, comparison)) return nonfinite_text(comparison);
  if (is_all(Metric::kQuarantine, comparison)) return "garbage where numbers should be";
  if (is_all(Metric::kSize, comparison)) return "tensors of other sizes than the reference's";
  if (is_all(Metric::kContradiction, comparison)) return "the judged log contradicts itself";
  if (is_all(Metric::kOwnError, comparison)) {
    return "an op is not what the model gives for its own inputs";
  }
  if (is_all(Metric::kReplica, comparison)) return "ranks that should hold the same do not";
  if (comparison.verdict == Verdict::kWrong) {
    return "the error jumps beyond the tolerance, or is as large as the values";
  }
  constexpr double kGrew = 0.01;  // of the error, at least, that was there before
  const FirstFailure first = first_failure(comparison);
  if (first.before == nullptr ||
      first.before->metrics.rel_l2 < kGrew * first.result->metrics.rel_l2) {
    return "the error is beyond the tolerance, but small beside the values";
  }
  return "the error grew little by little beyond the tolerance";
}

std::string_view outcome_name(const Comparison& comparison) {
  if (comparison.verdict == Verdict::kInconclusive) return "INCONCLUSIVE";
  if (comparison.verdict == Verdict::kIncomplete) return "INCOMPLETE";
  return comparison.pass ? "IN PARITY" : "DIVERGED";
}

}  // namespace assay
