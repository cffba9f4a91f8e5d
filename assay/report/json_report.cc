#include "assay/report/json_report.h"

#include <string>

#include "assay/compare/drift.h"
#include "assay/report/failure_text.h"
#include "assay/report/garbage_group.h"
#include "assay/report/json_array.h"
#include "assay/report/json_object.h"

namespace assay {
namespace {

void append_place(const CheckpointName& name, JsonObject& object) {
  object.member("checkpoint", name.name);
  object.member("layer", name.layer < 0 ? std::nullopt : std::optional<int64_t>(name.layer));
}

void append_first_divergence(const Comparison& comparison, std::string& out) {
  out += ",\n\"first_divergence\":";
  if (!comparison.first_divergence) {
    out += "null";
    return;
  }
  const FirstDivergence& first = *comparison.first_divergence;
  JsonObject object(out);
  append_place(first.checkpoint, object);
  object.member("op", first.checkpoint.op);
  object.member("token_idx", first.token_idx);
  object.member("metric", metric_name(first.metric));
  object.member("value", first.value);
  object.member("tolerance", first.tolerance);
  if (first.floor) {
    object.member("floor", first.floor);
    object.member("x_floor", first.value / *first.floor);
  }
  object.end();
}

void append_evidence(const Comparison& comparison, std::string& out) {
  const EvidenceCounts& counts = comparison.evidence;
  out += ",\n\"evidence\":";
  JsonObject object(out);
  object.member("whole", counts.whole);
  object.member("partial", counts.partial);
  object.member("excused", counts.excused);
  object.member("unproven", counts.unproven);
  object.member("argmax_known", counts.argmax_known);
  object.member("argmax_total", counts.argmax_total);
  object.key("first_unproven");
  if (counts.first_unproven) {
    JsonObject first(out);
    first.member("checkpoint", counts.first_unproven->checkpoint.name);
    first.member("token_idx", counts.first_unproven->token_idx);
    first.member("reason", counts.first_unproven->reason);
    first.end();
  } else {
    out += "null";
  }
  object.end();
}

void append_head(const Comparison& comparison, std::string& out) {
  static constexpr std::string_view kModes[] = {"auto", "index", "fixed"};
  out += "{\"verdict\":\"";
  out += verdict_name(comparison.verdict);
  out += comparison.pass ? "\",\n\"pass\":true" : "\",\n\"pass\":false";
  append_evidence(comparison, out);
  append_first_divergence(comparison, out);
  out += ",\n\"summary\":";
  JsonObject summary(out);
  summary.member("compared", comparison.compared);
  summary.member("failed", comparison.failed);
  summary.member("quarantined", comparison.quarantined);
  summary.member("unmatched_ref", comparison.unmatched_ref);
  summary.member("unmatched_got", comparison.unmatched_got);
  summary.member("argmax_agree", comparison.argmax_agree);
  summary.member("argmax_total", comparison.argmax_total);
  summary.end();
  out += ",\n\"alignment\":";
  JsonObject alignment(out);
  alignment.member("mode", kModes[static_cast<size_t>(comparison.alignment.mode)]);
  alignment.member("offset", comparison.alignment.offset);
  alignment.member("confidence", comparison.alignment.confidence);
  if (comparison.split) {
    alignment.key("split");
    JsonObject split(out);
    split.member("token_idx", comparison.split->token_idx);
    split.member("ref_token", comparison.split->ref_token);
    split.member("got_token", comparison.split->got_token);
    split.member("left_out", comparison.split->left_out);
    split.end();
  }
  alignment.end();
  out += ",\n\"drift\":";
  JsonObject drift(out);
  drift.member("trend", trend_name(comparison.drift.trend));
  drift.member("growth_per_layer", comparison.drift.growth_per_layer);
  drift.member("position_trend", trend_name(comparison.drift.position_trend));
  drift.member("growth_per_token", comparison.drift.growth_per_token);
  drift.member("sentence", comparison.drift.sentence());
  drift.end();
}

void append_result(const Comparison& comparison, const RecordResult& result, std::string& out) {
  const Metrics& metrics = result.metrics;
  JsonObject object(out);
  object.member("checkpoint", comparison.checkpoints[static_cast<size_t>(result.checkpoint)].name);
  object.member("token_idx", result.token_idx);
  object.member("n", metrics.n);
  object.member("max_abs", metrics.max_abs);
  object.member("mean_abs", metrics.mean_abs);
  object.member("rms", metrics.rms);
  object.member("rel_l2", metrics.rel_l2);
  object.member("cosine", metrics.cosine);
  object.member("nmse", metrics.nmse);
  object.member("max_ulp", metrics.max_ulp);
  object.member("sign_flips", metrics.sign_flips);
  object.member("argmax_ref", metrics.argmax_ref);
  object.member("argmax_got", metrics.argmax_got);
  object.member("regret", metrics.regret);
  object.member("kl", metrics.kl);
  object.member("topk_overlap", metrics.topk_overlap);
  object.member("status", verdict_name(result.status));
  object.member("evidence", evidence_name(result.evidence));
  if (!result.reason.empty()) object.member("reason", result.reason);
  object.member("tolerance", result.tolerance);
  if (result.floor) {
    object.member("floor", result.floor);
    object.member("x_floor", result.times_floor());
  }
  object.end();
}

}  // namespace

void JsonReport::write(const Comparison& comparison, const ReportContext&,
                       const TextSink& sink) const {
  std::string out;
  append_head(comparison, out);
  write_array("results", comparison.results, out, sink,
              [&](const RecordResult& result) { append_result(comparison, result, out); });
  write_array("gaps", comparison.gaps, out, sink, [&](const Gap& gap) {
    JsonObject object(out);
    object.member("checkpoint", comparison.checkpoints[static_cast<size_t>(gap.checkpoint)].name);
    object.member("token_idx", gap.token_idx);
    object.member("evidence", evidence_name(gap.evidence));
    object.member("reason", gap.reason);
    object.end();
  });
  write_array("causes", comparison.causes, out, sink, [&](const Cause& cause) {
    JsonObject object(out);
    object.member("name", cause.name);
    append_place(cause.checkpoint, object);
    object.member("token_idx", cause.token_idx);
    object.member("explained", cause.explained);
    object.member("confidence", cause.confidence);
    object.member("sentence", cause.sentence);
    object.end();
  });
  write_array("error_sources", comparison.error_sources, out, sink, [&](const ErrorSource& source) {
    JsonObject object(out);
    append_place(source.checkpoint, object);
    object.member("token_idx", source.token_idx);
    object.member("failed", source.failed);
    object.member("rel_l2", source.rel_l2);
    object.member("own", source.own);
    object.member("inherited", source.inherited);
    object.member("input_rel_l2", source.input_rel_l2);
    object.end();
  });
  out += ",\n\"cause_hint\":";
  append_json_string(out, cause_hint(comparison));
  write_array("quarantine", comparison.quarantine, out, sink, [&](const QuarantinedValue& value) {
    JsonObject object(out);
    object.member("log", std::string_view(value.in_ref ? "ref" : "got"));
    append_garbage(comparison.checkpoints[static_cast<size_t>(value.checkpoint)].name,
                   value.token_idx, value.garbage, object, out);
  });
  write_array("warnings", comparison.warnings, out, sink,
              [&](const std::string& warning) { append_json_string(out, warning); });
  out += "}\n";
  sink(out);
}

}  // namespace assay
