#pragma once

#include <cmath>
#include <string>

#include "assay/compare/comparison.h"
#include "assay/report/report_context.h"
#include "assay/report/text_sink.h"

namespace assay {

// A comparison with something in each of its parts.
inline Comparison example_comparison() {
  Comparison comparison;
  comparison.ref_path = "ref.jsonl";
  comparison.got_path = "got.jsonl";
  comparison.checkpoints = {parse_checkpoint_name("layer_3_q"), parse_checkpoint_name("logits")};
  comparison.teams = {"ours, \"the\" team"};
  RecordResult q;
  q.checkpoint = 0;
  q.token_idx = 7;
  q.metrics.n = 4;
  q.metrics.compared = 4;
  q.metrics.max_abs = 1009864046716911616.0;
  q.metrics.rel_l2 = 0.0251;
  q.status = Verdict::kWrong;
  q.pass = false;
  q.tolerance = q.failing_tolerance = 0.01;
  q.failing_metric = "rel_l2";
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
  comparison.results = {q, logits};
  comparison.verdict = Verdict::kWrong;
  comparison.compared = 2;
  comparison.failed = 1;
  comparison.first_divergence =
      FirstDivergence{comparison.checkpoints[0], 7, "rel_l2", 0.0251, 0.01};
  comparison.quarantined = 1;
  comparison.quarantined_by_reason = {{{true, GarbageReason::kHeapMetadata}, 1}};
  comparison.quarantine = {{true, 1, 7, {2, -1e18F, GarbageReason::kHeapMetadata}}};
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

}  // namespace assay
