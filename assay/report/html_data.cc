#include "assay/report/html_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/compare/drift.h"
#include "assay/compare/log_index.h"
#include "assay/report/checkpoint_groups.h"
#include "assay/report/failure_text.h"
#include "assay/report/incomplete_text.h"
#include "assay/report/json_array.h"
#include "assay/report/json_object.h"
#include "assay/report/log_details.h"
#include "assay/report/page_records.h"
#include "base/error.h"

namespace assay {
namespace {

// Four digits are more than a screen shows.
void append_rounded(std::string& out, double value) {
  if (std::isfinite(value)) {
    fmt::format_to(std::back_inserter(out), "{:.4g}", value);
  } else {
    append_json_number(out, value);
  }
}

void append_course(std::string_view name, const std::optional<Drift::Course>& course,
                   JsonObject& data, std::string& out) {
  data.key(name);
  if (!course) {
    out += "null";
    return;
  }
  JsonObject object(out);
  object.member("from", course->from);
  object.member("to", course->to);
  object.member("first", course->first);
  object.member("last", course->last);
  if (const auto& jump = course->jump) {
    object.member("jump", jump->at);
    object.member("before", jump->before);
    object.member("after", jump->after);
  }
  object.end();
}

void append_first_unproven(const Comparison& comparison, JsonObject& data, std::string& out) {
  data.key("first_unproven");
  const auto& first = comparison.evidence.first_unproven;
  if (!first) {
    out += "null";
    return;
  }
  JsonObject object(out);
  object.member("checkpoint", std::string_view(first->checkpoint.name));
  object.member("token", first->token_idx);
  object.member("reason", std::string_view(first->reason));
  object.member("advice", std::string_view(incomplete_advice(comparison)));
  object.end();
}

void append_summary(const Comparison& comparison, const ReportContext& context, JsonObject& data,
                    std::string& out) {
  data.member("version", std::string_view(context.version));
  data.member("time", std::string_view(context.time));
  data.member("command", std::string_view(context.command));
  data.member("ref", std::string_view(comparison.ref_path));
  data.member("got", std::string_view(comparison.got_path));
  data.member("verdict", verdict_name(comparison.verdict));
  data.member("outcome", outcome_name(comparison));
  data.member("meaning", std::string_view(verdict_meaning(comparison)));
  data.member("evidence", std::string_view(evidence_text(comparison)));
  data.member("unproven", comparison.evidence.unproven);
  data.member("excused", comparison.evidence.excused);
  append_first_unproven(comparison, data, out);
  data.member("passing_tolerance", std::string_view(passing_tolerance(comparison)));
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
  append_course("drift", comparison.drift.layers, data, out);
  data.key("first");
  if (const auto& first = comparison.first_divergence) {
    JsonObject object(out);
    object.member("checkpoint", std::string_view(first->checkpoint.name));
    object.member("token", first->token_idx);
    object.member("metric", metric_name(first->metric));
    object.member("value", first->value);
    object.member("tolerance", first->tolerance);
    object.member("text", std::string_view(first_failure_reason(comparison)));
    object.end();
  } else {
    out += "null";
  }
  append_array(data, "causes", comparison.causes, out, [&](const Cause& cause) {
    JsonObject object(out);
    object.member("name", std::string_view(cause.name));
    object.member("checkpoint", std::string_view(cause.checkpoint.name));
    object.member("token", cause.token_idx);
    object.member("explained", cause.explained);
    object.member("confidence", cause.confidence);
    object.member("sentence", std::string_view(cause.sentence));
    object.end();
  });
  data.member("cause_hint", std::string_view(cause_hint(comparison)));
  if (const auto& split = comparison.split) {
    data.key("split");
    JsonObject object(out);
    object.member("token", split->token_idx);
    object.member("ref_token", split->ref_token);
    object.member("got_token", split->got_token);
    object.member("left_out", split->left_out);
    object.end();
  }
  append_array(data, "warnings", comparison.warnings, out,
               [&](const std::string& warning) { append_json_string(out, warning); });
}

// Of each checkpoint its place on the page.
std::vector<int64_t> rows_of(const Comparison& comparison, const PageRecords& kept) {
  std::vector<int64_t> row(comparison.checkpoints.size(), -1);
  for (size_t i = 0; i < kept.groups.size(); ++i) {
    row[static_cast<size_t>(kept.groups[i].checkpoint)] = static_cast<int64_t>(i);
  }
  return row;
}

void append_records(const Comparison& comparison, const PageRecords& kept, JsonObject& data,
                    std::string& out) {
  append_array(data, "checkpoints", kept.groups, out, [&](const CheckpointGroup& group) {
    const CheckpointName& name = name_of(comparison, group.checkpoint);
    out += '[';
    append_json_string(out, name.name);
    fmt::format_to(std::back_inserter(out), ",{},", name.layer);
    append_json_string(out, name.op);
    fmt::format_to(std::back_inserter(out), ",{},{},{},{},{},", group.records,
                   group.failures.size(), group.unproven, group.excused, group.first_unproven);
    append_json_string(out, group.reason);
    out += ']';
  });
  append_array(data, "bins", kept.bins, out, [&](const std::pair<int64_t, int64_t>& bin) {
    fmt::format_to(std::back_inserter(out), "[{},{}]", bin.first, bin.second);
  });
  const std::vector<int64_t> row = rows_of(comparison, kept);
  data.key("records");
  JsonObject columns(out);
  const auto column = [&](std::string_view name, const auto& append) {
    append_array(columns, name, kept.records, out,
                 [&](const RecordResult* result) { append(*result); });
  };
  const auto whole = [&](int64_t value) { append_json_number(out, value); };
  column("checkpoint",
         [&](const RecordResult& r) { whole(row[static_cast<size_t>(r.checkpoint)]); });
  column("token", [&](const RecordResult& r) { whole(r.token_idx); });
  column("status", [&](const RecordResult& r) { whole(static_cast<int64_t>(r.status)); });
  column("evidence", [&](const RecordResult& r) { whole(static_cast<int64_t>(r.evidence)); });
  column("tolerance", [&](const RecordResult& r) { append_rounded(out, r.tolerance); });
  column("rel_l2", [&](const RecordResult& r) { append_rounded(out, r.metrics.rel_l2); });
  column("max_abs", [&](const RecordResult& r) { append_rounded(out, r.metrics.max_abs); });
  column("rms", [&](const RecordResult& r) { append_rounded(out, r.metrics.rms); });
  column("ref_rms", [&](const RecordResult& r) { append_rounded(out, r.metrics.ref_rms); });
  if (has_floors(comparison)) {
    column("floor", [&](const RecordResult& r) {
      if (r.floor) {
        append_rounded(out, *r.floor);
      } else {
        out += "null";
      }
    });
  }
  column("cosine", [&](const RecordResult& r) {
    append_json_number(out, std::round(r.metrics.cosine * 1e6) / 1e6);
  });
  columns.end();
}

void append_gaps(const Comparison& comparison, const PageRecords& kept, JsonObject& data,
                 std::string& out) {
  std::map<std::string_view, int64_t> places;  // of each reason in the list of them
  std::vector<std::string_view> reasons;
  for (const PageGap& gap : kept.gaps) {
    if (places.try_emplace(gap.reason, std::ssize(reasons)).second) reasons.push_back(gap.reason);
  }
  append_array(data, "reasons", reasons, out,
               [&](std::string_view reason) { append_json_string(out, reason); });
  const std::vector<int64_t> row = rows_of(comparison, kept);
  data.key("gaps");
  JsonObject columns(out);
  const auto column = [&](std::string_view name, const auto& value_of) {
    append_array(columns, name, kept.gaps, out,
                 [&](const PageGap& gap) { append_json_number(out, value_of(gap)); });
  };
  column("checkpoint", [&](const PageGap& g) { return row[static_cast<size_t>(g.checkpoint)]; });
  column("token", [](const PageGap& g) { return g.token_idx; });
  column("excused", [](const PageGap& g) { return int64_t{g.excused}; });
  column("reason", [&](const PageGap& g) { return places.at(g.reason); });
  column("records", [](const PageGap& g) { return g.records; });
  columns.end();
}

void append_garbage(const Comparison& comparison, JsonObject& data, std::string& out) {
  data.key("garbage");
  JsonObject columns(out);
  const size_t count = std::min(comparison.quarantine.size(), kMaxPageGarbage);
  const std::span<const QuarantinedValue> shown(comparison.quarantine.data(), count);
  const auto column = [&](std::string_view name, const auto& append) {
    append_array(columns, name, shown, out, append);
  };
  column("in_ref", [&](const QuarantinedValue& v) { out += v.in_ref ? '1' : '0'; });
  column("checkpoint", [&](const QuarantinedValue& v) {
    append_json_string(out, name_of(comparison, v.checkpoint).name);
  });
  column("token", [&](const QuarantinedValue& v) { append_json_number(out, v.token_idx); });
  column("index", [&](const QuarantinedValue& v) { append_json_number(out, v.garbage.index); });
  column("value", [&](const QuarantinedValue& v) { append_json_number(out, v.garbage.value); });
  column("reason", [&](const QuarantinedValue& v) {
    append_json_string(out, garbage_reason_name(v.garbage.reason));
  });
  columns.end();
}

// [[index, value] ...].
void append_top(JsonObject& object, std::string_view name, const std::vector<TopValue>& top,
                std::string& out) {
  append_array(object, name, top, out, [&](const TopValue& value) {
    fmt::format_to(std::back_inserter(out), "[{},", value.index);
    append_json_number(out, value.value);
    out += ']';
  });
}

void append_logits(const Comparison& comparison, const ReportContext& context, JsonObject& data,
                   std::string& out) {
  const std::vector<TopLogits> all = top_logits(comparison, kMaxPageLogits);
  std::set<int64_t> ids;
  append_array(data, "logits", all, out, [&](const TopLogits& top) {
    JsonObject object(out);
    object.member("token", top.token_idx);
    append_top(object, "ref", top.ref, out);
    append_top(object, "got", top.got, out);
    object.end();
    for (const auto* side : {&top.ref, &top.got}) {
      for (const TopValue& value : *side) ids.insert(value.index);
    }
  });
  const auto header = comparison.ref_log ? comparison.ref_log->header() : std::nullopt;
  std::vector<int64_t> prompt = header ? header->tokens : std::vector<int64_t>();
  prompt.resize(std::min(prompt.size(), static_cast<size_t>(kMaxPageRecords)));
  append_array(data, "prompt", prompt, out, [&](int64_t id) { append_json_number(out, id); });
  if (!context.token_text) return;
  ids.insert(prompt.begin(), prompt.end());
  data.key("vocabulary");
  JsonObject vocabulary(out);
  for (const int64_t id : ids) {
    vocabulary.member(std::to_string(id), printable(context.token_text(id)));
  }
  vocabulary.end();
}

void append_speed(const Comparison& comparison, const ReportContext& context, JsonObject& data,
                  std::string& out) {
  const auto figures = [&](std::string_view name, const std::vector<SpeedFigure>& speed) {
    append_array(data, name, speed, out, [&](const SpeedFigure& figure) {
      JsonObject object(out);
      object.member("name", std::string_view(figure.name));
      object.member("value", figure.value);
      object.member("unit", std::string_view(figure.unit));
      object.member("more_is_faster", figure.more_is_faster);
      object.end();
    });
  };
  figures("ref_speed", context.ref_speed);
  figures("got_speed", context.got_speed);
  const auto times = [&](std::string_view name, const std::shared_ptr<const LogIndex>& log) {
    const auto all = log ? token_times(*log, kMaxPageTimes) : std::vector<TokenTime>();
    append_array(data, name, all, out, [&](const TokenTime& time) {
      fmt::format_to(std::back_inserter(out), "[{},{:.6f}]", time.token_idx,
                     time.seconds - all.front().seconds);
    });
  };
  times("ref_times", comparison.ref_log);
  times("got_times", comparison.got_log);
}

}  // namespace

std::string html_data(const Comparison& comparison, const ReportContext& context) {
  std::string out;
  JsonObject data(out);
  const PageRecords kept = page_records(comparison);
  append_summary(comparison, context, data, out);
  append_records(comparison, kept, data, out);
  append_gaps(comparison, kept, data, out);
  append_garbage(comparison, data, out);
  append_logits(comparison, context, data, out);
  append_speed(comparison, context, data, out);
  data.end();
  return out;
}

}  // namespace assay
