#include "assay/report/html_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "assay/compare/drift.h"
#include "assay/compare/log_index.h"
#include "assay/report/checkpoint_groups.h"
#include "assay/report/error_origin.h"
#include "assay/report/failure_text.h"
#include "assay/report/incomplete_text.h"
#include "assay/report/json_object.h"
#include "assay/report/log_details.h"
#include "assay/report/page_records.h"
#include "assay/report/state_text.h"
#include "base/error.h"

namespace assay {
namespace {

// Four digits are more than a screen shows.
RawJson rounded(double value) {
  return {std::isfinite(value) ? fmt::format("{:.4g}", value) : json_decimal(value)};
}

void append_course(JsonObject& object, const Drift::Course& course) {
  object.member("from", course.from);
  object.member("to", course.to);
  object.member("first", course.first);
  object.member("last", course.last);
  if (const auto& jump = course.jump) {
    object.member("jump", jump->at);
    object.member("before", jump->before);
    object.member("after", jump->after);
  }
}

// What a log's header says of it: "smollm2, Q4_1, transformers, float64".
std::string run_of(const std::shared_ptr<const LogIndex>& log) {
  if (!log || !log->header()) return "";
  const LogHeader& header = *log->header();
  std::vector<std::string> parts;
  for (const std::string& part :
       {header.model.name, header.model.type, header.engine, header.math}) {
    if (!part.empty()) parts.push_back(part);
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void append_summary(const Comparison& comparison, const ReportContext& context, JsonObject& data) {
  const Comparison& lead =
      comparison.sequences.empty() ? comparison : comparison.sequences[comparison.leading];
  data.member("version", context.version);
  data.member("time", context.time);
  data.member("command", context.command);
  data.member("ref", comparison.ref_path);
  data.member("got", comparison.got_path);
  data.member("ref_run", run_of(lead.ref_log));
  data.member("got_run", run_of(lead.got_log));
  data.member("verdict", verdict_name(comparison.verdict));
  data.member("outcome", outcome_name(comparison));
  data.member("meaning", verdict_meaning(comparison));
  data.member("evidence", evidence_text(comparison));
  data.member("unproven", comparison.evidence.unproven);
  data.member("unproven_reason", reason_of_all(comparison, Evidence::kUnproven));
  data.member("excused", comparison.evidence.excused);
  data.member("excused_reason", reason_of_all(comparison, Evidence::kExcused));
  data.object_or_null("first_unproven", comparison.evidence.first_unproven,
                      [&](JsonObject& object, const auto& first) {
                        object.member("checkpoint", first.checkpoint.title());
                        object.member("token", first.token_idx);
                        object.member("reason", first.reason);
                        object.member("advice", incomplete_advice(comparison));
                      });
  data.member("passing_tolerance", passing_tolerance(comparison));
  data.member("compared", comparison.compared);
  data.member("failed", comparison.failed);
  data.member("quarantined", comparison.quarantined);
  data.member("unmatched_ref", comparison.unmatched_ref);
  data.member("unmatched_got", comparison.unmatched_got);
  data.member("argmax_agree", comparison.argmax_agree);
  data.member("argmax_total", comparison.argmax_total);
  data.member("offset", comparison.alignment.offset);
  data.member("confidence", comparison.alignment.confidence);
  data.member("trend", trend_name(comparison.drift.trend));
  data.object_or_null("drift", comparison.drift.layers, append_course);
  data.object_or_null("first", comparison.first_divergence,
                      [&](JsonObject& object, const FirstDivergence& first) {
                        object.member("checkpoint", first.checkpoint.title());
                        object.member("token", first.token_idx);
                        object.member("metric", metric_name(first.metric));
                        object.member("value", first.value);
                        object.member("tolerance", first.tolerance);
                        object.member("text", first_failure_reason(comparison));
                      });
  data.array("origins", error_origins(comparison),
             [](JsonObject& object, const ErrorOrigin& origin) {
               object.member("what", origin.what);
               object.member("text", origin.text);
             });
  data.array("causes", comparison.causes, [](JsonObject& object, const Cause& cause) {
    object.member("name", cause.name);
    object.member("checkpoint", cause.checkpoint.title());
    object.member("token", cause.token_idx);
    object.member("explained", cause.explained);
    object.member("confidence", cause.confidence);
    object.member("sentence", cause.sentence);
  });
  data.member("cause_hint", cause_hint(comparison));
  data.member("causes_not_tried", causes_not_tried(comparison));
  if (const auto& split = comparison.split) {
    data.object("split", [&](JsonObject& object) {
      object.member("token", split->token_idx);
      object.member("ref_token", split->ref_token);
      object.member("got_token", split->got_token);
      object.member("after", after_split_text(comparison));
    });
  }
  data.member("flips", flips_text(comparison));
  data.array("warnings", comparison.warnings);
}

// Of each checkpoint its place on the page.
std::vector<int64_t> rows_of(const Comparison& comparison, const PageRecords& kept) {
  std::vector<int64_t> row(comparison.checkpoints.size(), -1);
  for (size_t i = 0; i < kept.groups.size(); ++i) {
    row[static_cast<size_t>(kept.groups[i].checkpoint)] = static_cast<int64_t>(i);
  }
  return row;
}

void append_columns(const Comparison& comparison, const PageRecords& kept, JsonObject& columns) {
  const auto column = [&](std::string_view name, const auto& value_of) {
    columns.array(name, kept.records,
                  [&](const RecordResult* result) { return value_of(*result); });
  };
  const std::vector<int64_t> row = rows_of(comparison, kept);
  column("checkpoint",
         [&](const RecordResult& r) { return row[static_cast<size_t>(r.checkpoint)]; });
  column("token", [](const RecordResult& r) { return r.token_idx; });
  column("status", [](const RecordResult& r) { return static_cast<int64_t>(r.status); });
  column("evidence", [](const RecordResult& r) { return static_cast<int64_t>(r.evidence); });
  column("tolerance", [](const RecordResult& r) { return rounded(r.tolerance); });
  column("rel_l2", [](const RecordResult& r) { return rounded(r.metrics.rel_l2); });
  column("max_abs", [](const RecordResult& r) { return rounded(r.metrics.max_abs); });
  column("rms", [](const RecordResult& r) { return rounded(r.metrics.rms); });
  column("ref_rms", [](const RecordResult& r) { return rounded(r.metrics.ref_rms); });
  if (has_floors(comparison)) {
    column("floor",
           [](const RecordResult& r) { return r.floor ? rounded(*r.floor) : RawJson{"null"}; });
  }
  column("cosine", [](const RecordResult& r) { return std::round(r.metrics.cosine * 1e6) / 1e6; });
}

void append_records(const Comparison& comparison, const PageRecords& kept, JsonObject& data) {
  data.array("checkpoints", kept.groups, [&](const CheckpointGroup& group) {
    const CheckpointName& name = name_of(comparison, group.checkpoint);
    return std::tuple(name.title(), name.layer, std::string_view(name.op), group.records,
                      group.failures.size(), group.unproven, group.excused, group.first_unproven,
                      group.reason, state_name(group),
                      group.worst == nullptr ? std::string() : sizes_text(*group.worst), name.name,
                      name.sequence);
  });
  data.array("bins", kept.bins, [](const auto& bin) { return std::tuple(bin.first, bin.second); });
  data.object("records", [&](JsonObject& columns) { append_columns(comparison, kept, columns); });
}

void append_gaps(const Comparison& comparison, const PageRecords& kept, JsonObject& data) {
  std::map<std::string_view, int64_t> places;  // of each reason in the list of them
  std::vector<std::string_view> reasons;
  for (const PageGap& gap : kept.gaps) {
    if (places.try_emplace(gap.reason, std::ssize(reasons)).second) reasons.push_back(gap.reason);
  }
  data.array("reasons", reasons);
  const std::vector<int64_t> row = rows_of(comparison, kept);
  data.object("gaps", [&](JsonObject& columns) {
    columns.array("checkpoint", kept.gaps,
                  [&](const PageGap& g) { return row[static_cast<size_t>(g.checkpoint)]; });
    columns.array("token", kept.gaps, &PageGap::token_idx);
    columns.array("excused", kept.gaps, [](const PageGap& g) { return int64_t{g.excused}; });
    columns.array("reason", kept.gaps, [&](const PageGap& g) { return places.at(g.reason); });
    columns.array("records", kept.gaps, &PageGap::records);
  });
}

void append_garbage(const Comparison& comparison, JsonObject& data) {
  const size_t count = std::min(comparison.quarantine.size(), kMaxPageGarbage);
  const std::span<const QuarantinedValue> shown(comparison.quarantine.data(), count);
  using Value = const QuarantinedValue&;
  data.object("garbage", [&](JsonObject& columns) {
    columns.array("in_ref", shown, [](Value v) { return int64_t{v.in_ref}; });
    columns.array("checkpoint", shown,
                  [&](Value v) { return name_of(comparison, v.checkpoint).title(); });
    columns.array("token", shown, &QuarantinedValue::token_idx);
    columns.array("index", shown, [](Value v) { return v.garbage.index; });
    columns.array("value", shown, [](Value v) { return v.garbage.value; });
    columns.array("reason", shown, [](Value v) { return garbage_reason_name(v.garbage.reason); });
  });
}

void append_logits(const Comparison& comparison, const ReportContext& context, JsonObject& data) {
  const std::vector<TopLogits> all = top_logits(comparison, kMaxPageLogits);
  std::set<int64_t> ids;
  const auto pair_of = [&](const TopValue& value) {
    ids.insert(value.index);
    return std::tuple(value.index, value.value);
  };
  data.array("logits", all, [&](JsonObject& object, const TopLogits& top) {
    object.member("token", top.token_idx);
    object.array("ref", top.ref, pair_of);
    object.array("got", top.got, pair_of);
  });
  const auto header = comparison.ref_log ? comparison.ref_log->header() : std::nullopt;
  std::vector<int64_t> prompt = header ? header->tokens : std::vector<int64_t>();
  prompt.resize(std::min(prompt.size(), static_cast<size_t>(kMaxPageRecords)));
  data.array("prompt", prompt);
  if (!context.token_text) return;
  ids.insert(prompt.begin(), prompt.end());
  data.object("vocabulary", [&](JsonObject& vocabulary) {
    for (const int64_t id : ids) {
      vocabulary.member(std::to_string(id), printable(context.token_text(id)));
    }
  });
}

void append_figure(JsonObject& object, const SpeedFigure& figure) {
  object.member("name", figure.name);
  object.member("value", figure.value);
  object.member("unit", figure.unit);
  object.member("more_is_faster", figure.more_is_faster);
}

void append_speed(const Comparison& comparison, const ReportContext& context, JsonObject& data) {
  data.array("ref_speed", context.ref_speed, append_figure);
  data.array("got_speed", context.got_speed, append_figure);
  const auto times = [&](std::string_view name, const std::shared_ptr<const LogIndex>& log) {
    const auto all = log ? decode_times(*log, kMaxPageTimes) : std::vector<TokenTime>();
    data.array(name, all, [&](const TokenTime& time) {
      const double since = time.seconds - all.front().seconds;
      return std::tuple(time.token_idx, RawJson{fmt::format("{:.6f}", since)});
    });
  };
  times("ref_times", comparison.ref_log);
  times("got_times", comparison.got_log);
}

}  // namespace

std::string html_data(const Comparison& comparison, const ReportContext& context) {
  const PageRecords kept = page_records(comparison);
  return json_of([&](JsonObject& data) {
    append_summary(comparison, context, data);
    append_records(comparison, kept, data);
    append_gaps(comparison, kept, data);
    append_garbage(comparison, data);
    append_logits(comparison, context, data);
    append_speed(comparison, context, data);
  });
}

}  // namespace assay
