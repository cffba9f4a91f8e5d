#include "assay/report/json_report.h"

#include <string>

#include "assay/compare/drift.h"
#include "assay/report/checkpoint_groups.h"
#include "assay/report/failure_text.h"
#include "assay/report/garbage_group.h"
#include "assay/report/json_object.h"

namespace assay {
namespace {

// Where the logs have several.
void append_sequence(const CheckpointName& name, JsonObject& object) {
  if (!name.sequence.empty()) object.member("sequence", name.sequence);
}

void append_place(const CheckpointName& name, JsonObject& object) {
  append_sequence(name, object);
  object.member("checkpoint", name.name);
  object.member("layer", name.layer < 0 ? std::nullopt : std::optional<int64_t>(name.layer));
}

void append_first_divergence(const FirstDivergence& first, JsonObject& object) {
  append_place(first.checkpoint, object);
  object.member("op", first.checkpoint.op);
  object.member("token_idx", first.token_idx);
  object.member("metric", metric_name(first.metric));
  object.member("value", first.value);
  object.member("tolerance", first.tolerance);
  if (!first.ranks.empty()) object.member("rank", first.ranks);
  if (first.floor) {
    object.member("floor", first.floor);
    object.member("x_floor", first.value / *first.floor);
  }
}

void append_unproven(JsonObject& object, const EvidenceCounts::Place& place) {
  append_sequence(place.checkpoint, object);
  object.member("checkpoint", place.checkpoint.name);
  object.member("token_idx", place.token_idx);
  object.member("reason", place.reason);
}

void append_evidence(const EvidenceCounts& counts, JsonObject& object) {
  object.member("whole", counts.whole);
  object.member("partial", counts.partial);
  object.member("excused", counts.excused);
  object.member("unproven", counts.unproven);
  object.member("argmax_known", counts.argmax_known);
  object.member("argmax_total", counts.argmax_total);
  object.object_or_null("first_unproven", counts.first_unproven, append_unproven);
}

void append_own_place(JsonObject& object, const OwnErrors::Place& place) {
  append_sequence(place.checkpoint, object);
  object.member("checkpoint", place.checkpoint.name);
  object.member("token_idx", place.token_idx);
  object.member("value", place.value);
}

void append_own_errors(const OwnErrors& own, JsonObject& object) {
  object.member("limit", own.limit);
  object.member("held", own.held);
  object.member("not_held", own.not_held);
  object.member("failed", own.failed);
  object.member("excused", own.excused);
  object.member("excused_held", own.excused_held);
  object.object_or_null("largest", own.largest, append_own_place);
  object.object_or_null("first_failed", own.first_failed, append_own_place);
  object.object_or_null("first_not_held", own.first_not_held, append_unproven);
}

void append_summary(const Comparison& comparison, JsonObject& summary) {
  summary.member("compared", comparison.compared);
  summary.member("failed", comparison.failed);
  summary.member("quarantined", comparison.quarantined);
  summary.member("unmatched_ref", comparison.unmatched_ref);
  summary.member("unmatched_got", comparison.unmatched_got);
  summary.member("argmax_agree", comparison.argmax_agree);
  summary.member("argmax_total", comparison.argmax_total);
}

void append_alignment(const Comparison& comparison, JsonObject& alignment) {
  static constexpr std::string_view kModes[] = {"auto", "index", "fixed"};
  alignment.member("mode", kModes[static_cast<size_t>(comparison.alignment.mode)]);
  alignment.member("offset", comparison.alignment.offset);
  alignment.member("confidence", comparison.alignment.confidence);
  if (!comparison.split) return;
  alignment.object("split", [&](JsonObject& split) {
    split.member("token_idx", comparison.split->token_idx);
    split.member("ref_token", comparison.split->ref_token);
    split.member("got_token", comparison.split->got_token);
    split.member("left_out", comparison.split->left_out);
  });
}

void append_drift(const Drift& drift, JsonObject& object) {
  object.member("trend", trend_name(drift.trend));
  object.member("growth_per_layer", drift.growth_per_layer);
  object.member("position_trend", trend_name(drift.position_trend));
  object.member("growth_per_token", drift.growth_per_token);
  object.member("sentence", drift.sentence());
}

// One of several sequences; of one that a log lacks, its name there is null.
void append_compared_sequence(JsonObject& object, const Comparison& sequence) {
  const auto name = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional<std::string>(text);
  };
  object.member("ref", name(sequence.ref_sequence));
  object.member("got", name(sequence.got_sequence));
  object.member("verdict", verdict_name(sequence.verdict));
  object.member("pass", sequence.pass);
  object.member("failed", sequence.failed);
  object.object("evidence",
                [&](JsonObject& evidence) { append_evidence(sequence.evidence, evidence); });
  object.object("alignment", [&](JsonObject& alignment) { append_alignment(sequence, alignment); });
}

// Each on a line of its own.
void append_head(const Comparison& comparison, JsonObject& head) {
  head.member("verdict", verdict_name(comparison.verdict));
  head.new_line();
  head.member("pass", comparison.pass);
  head.new_line();
  head.object("evidence",
              [&](JsonObject& object) { append_evidence(comparison.evidence, object); });
  head.new_line();
  if (comparison.own_errors) {
    head.object("own_errors",
                [&](JsonObject& object) { append_own_errors(*comparison.own_errors, object); });
    head.new_line();
  }
  head.object_or_null("first_divergence", comparison.first_divergence,
                      [](JsonObject& object, const FirstDivergence& first) {
                        append_first_divergence(first, object);
                      });
  head.new_line();
  head.object("summary", [&](JsonObject& object) { append_summary(comparison, object); });
  head.new_line();
  head.object("alignment", [&](JsonObject& object) { append_alignment(comparison, object); });
  if (!comparison.sequences.empty()) {
    head.new_line();
    head.array("sequences", comparison.sequences, append_compared_sequence);
  }
  head.new_line();
  head.array("flips", comparison.flips, [&](JsonObject& object, const ExpertFlip& flip) {
    append_sequence(name_of(comparison, flip.checkpoint), object);
    object.member("checkpoint", name_of(comparison, flip.checkpoint).name);
    object.member("token_idx", flip.token_idx);
    object.member("ref_expert", flip.ref_expert);
    object.member("got_expert", flip.got_expert);
    object.member("margin", flip.margin);
    object.member("error", flip.error);
    object.member("same_experts", flip.same_experts);
  });
  head.new_line();
  head.object("drift", [&](JsonObject& object) { append_drift(comparison.drift, object); });
}

void append_result(const Comparison& comparison, const RecordResult& result, JsonObject& object) {
  const Metrics& metrics = result.metrics;
  append_sequence(name_of(comparison, result.checkpoint), object);
  object.member("checkpoint", name_of(comparison, result.checkpoint).name);
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
  if (result.contradicts_itself) object.member("contradicts_itself", true);
  if (!result.reason.empty()) object.member("reason", result.reason);
  if (!result.ranks.empty()) object.member("rank", result.ranks);
  if (result.own_error) object.member("own_error", result.own_error);
  object.member("tolerance", result.tolerance);
  if (result.floor) {
    object.member("floor", result.floor);
    object.member("x_floor", result.times_floor());
  }
}

}  // namespace

void JsonReport::write(const Comparison& comparison, const ReportContext&,
                       const TextSink& sink) const {
  const auto name = [&](int32_t checkpoint) -> const std::string& {
    return name_of(comparison, checkpoint).name;
  };
  write_json_line(sink, [&](JsonObject& report) {
    append_head(comparison, report);
    report.lines("results", comparison.results, sink,
                 [&](JsonObject& object, const RecordResult& result) {
                   append_result(comparison, result, object);
                 });
    report.lines("gaps", comparison.gaps, sink, [&](JsonObject& object, const Gap& gap) {
      append_sequence(name_of(comparison, gap.checkpoint), object);
      object.member("checkpoint", name(gap.checkpoint));
      object.member("token_idx", gap.token_idx);
      object.member("evidence", evidence_name(gap.evidence));
      object.member("reason", gap.reason);
    });
    report.lines("causes", comparison.causes, sink, [](JsonObject& object, const Cause& cause) {
      object.member("name", cause.name);
      append_place(cause.checkpoint, object);
      object.member("token_idx", cause.token_idx);
      object.member("explained", cause.explained);
      object.member("confidence", cause.confidence);
      object.member("sentence", cause.sentence);
    });
    report.lines("error_sources", comparison.error_sources, sink,
                 [](JsonObject& object, const ErrorSource& source) {
                   append_place(source.checkpoint, object);
                   object.member("token_idx", source.token_idx);
                   object.member("failed", source.failed);
                   object.member("rel_l2", source.rel_l2);
                   object.member("own", source.own);
                   object.member("inherited", source.inherited);
                   object.member("input_rel_l2", source.input_rel_l2);
                 });
    report.new_line();
    report.member("cause_hint", cause_hint(comparison));
    report.array("causes_not_tried", comparison.causes_not_tried);
    report.lines("quarantine", comparison.quarantine, sink,
                 [&](JsonObject& object, const QuarantinedValue& value) {
                   append_sequence(name_of(comparison, value.checkpoint), object);
                   object.member("log", value.in_ref ? "ref" : "got");
                   append_garbage(name(value.checkpoint), value.token_idx, value.garbage, object);
                 });
    report.lines("warnings", comparison.warnings, sink);
  });
}

}  // namespace assay
