#pragma once

#include <cmath>
#include <string>

#include "assay/compare/comparison.h"
#include "assay/compare/evidence.h"
#include "assay/report/report.h"

namespace assay {

// A comparison with something in each of its parts.
inline Comparison example_comparison() {
  Comparison comparison;
  comparison.ref_path = "ref.jsonl";
  comparison.got_path = "got.jsonl";
  comparison.checkpoints = {parse_checkpoint_name("layer_3_q"), parse_checkpoint_name("logits")};
  comparison.order = {0, 1};
  comparison.teams = {"ours, \"the\" team"};
  RecordResult q;
  q.checkpoint = 0;
  q.token_idx = 7;
  q.metrics.n = 4;
  q.metrics.compared = 4;
  q.metrics.max_abs = 1009864046716911616.0;
  q.metrics.rel_l2 = 0.0251;
  q.status = Verdict::kWrong;
  q.evidence = Evidence::kFailed;
  q.tolerance = q.failing_tolerance = 0.01;
  q.failing_metric = Metric::kRelL2;
  q.failing_value = 0.0251;
  RecordResult logits;
  logits.checkpoint = 1;
  logits.ref_team = 0;
  logits.token_idx = 7;
  logits.metrics.rel_l2 = logits.metrics.max_abs = std::nan("");
  logits.metrics.argmax_ref = logits.metrics.argmax_got = 3;
  logits.metrics.regret = 0;
  logits.metrics.kl = 0.125;
  logits.status = Verdict::kNoise;
  logits.evidence = Evidence::kPartial;
  comparison.results = {q, logits};
  comparison.verdict = Verdict::kWrong;
  comparison.compared = 2;
  comparison.failed = 1;
  comparison.first_divergence =
      FirstDivergence{comparison.checkpoints[0], 7, Metric::kRelL2, 0.0251, 0.01};
  comparison.evidence = count_evidence(comparison);
  comparison.argmax_agree = comparison.argmax_total = 1;
  comparison.quarantined = 1;
  comparison.quarantined_by_reason = {{{true, GarbageReason::kHeapMetadata}, 1}};
  comparison.quarantine = {{true, 1, 7, {2, -1e18F, GarbageReason::kHeapMetadata}}};
  return comparison;
}

// Nothing but zeros on both sides.
inline Comparison zeros_example() {
  Comparison comparison = example_comparison();
  comparison.results.erase(comparison.results.begin());
  comparison.results[0].status = comparison.verdict = Verdict::kInconclusive;
  comparison.results[0].evidence = Evidence::kWhole;
  comparison.results[0].metrics.all_zero = true;
  comparison.compared = 1;
  comparison.failed = 0;
  comparison.first_divergence.reset();
  comparison.evidence = count_evidence(comparison);
  return comparison;
}

// Nothing failed, and layer_4_q is missing altogether, as layer_3_q is at token 8. Of the logits at
// token 9 the gap is excused.
inline Comparison incomplete_example() {
  Comparison comparison = example_comparison();
  comparison.checkpoints.push_back(parse_checkpoint_name("layer_4_q"));
  comparison.order = {0, 2, 1};
  RecordResult& q = comparison.results[0];
  q.metrics.rel_l2 = 0.001;
  q.metrics.max_abs = 0.5;
  q.status = Verdict::kNoise;
  q.evidence = Evidence::kWhole;
  q.failing_metric = Metric::kNone;
  comparison.results[1].metrics.rel_l2 = comparison.results[1].metrics.max_abs = 0.002;
  comparison.first_divergence.reset();
  comparison.failed = 0;
  comparison.gaps = {{2, 7, Evidence::kUnproven, kMissing},
                     {0, 8, Evidence::kUnproven, kMissing},
                     {2, 8, Evidence::kUnproven, kMissing},
                     {1, 9, Evidence::kExcused, kAllowedMissing}};
  comparison.unmatched_ref = 3;
  comparison.evidence = count_evidence(comparison);
  comparison.verdict = Verdict::kIncomplete;
  return comparison;
}

inline ReportContext example_context() {
  return {"assay compare ref.jsonl got.jsonl", "1.2.3", "2026-01-31T12:00:00"};
}

// All that `write` gives to its sink.
template <typename Write>
std::string text_of(const Write& write) {
  std::string text;
  write([&](std::string_view piece) { text += piece; });
  return text;
}

// `subject` as `report` shows it.
template <class Subject>
std::string text_of(const Report<Subject>& report, const Subject& subject,
                    const ReportContext& context = example_context()) {
  return text_of([&](const TextSink& sink) { report.write(subject, context, sink); });
}

}  // namespace assay
