#include "assay/report/html_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "assay/compare/drift.h"
#include "assay/compare/log_index.h"
#include "assay/report/checkpoint_groups.h"
#include "assay/report/failure_text.h"
#include "assay/report/json_array.h"
#include "assay/report/json_object.h"
#include "assay/report/log_details.h"
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

struct Kept {
  std::vector<CheckpointGroup> groups;            // in the order of the network
  std::vector<const RecordResult*> records;       // by token, then in that order
  std::vector<std::pair<int64_t, int64_t>> bins;  // of tokens; empty where every token is shown
};

std::vector<int64_t> distinct_tokens(const Comparison& comparison) {
  std::vector<int64_t> tokens;
  for (const RecordResult& result : comparison.results) tokens.push_back(result.token_idx);
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

bool is_worse(const RecordResult& a, const RecordResult& b) {
  if (a.pass != b.pass) return !a.pass;
  return !(a.metrics.rel_l2 <= b.metrics.rel_l2);
}

// All records or, where these are too many, the worst of each checkpoint in each bin of tokens.
Kept keep(const Comparison& comparison) {
  Kept kept;
  kept.groups = group_by_checkpoint(comparison);
  if (std::ssize(comparison.results) <= kMaxPageRecords) {
    for (const RecordResult& result : comparison.results) kept.records.push_back(&result);
    return kept;
  }
  if (std::ssize(kept.groups) > kMaxPageRecords) {  // those that fail stay
    std::stable_partition(kept.groups.begin(), kept.groups.end(),
                          [](const CheckpointGroup& group) { return !group.failures.empty(); });
    kept.groups.resize(static_cast<size_t>(kMaxPageRecords));
  }
  const std::vector<int64_t> tokens = distinct_tokens(comparison);
  const int64_t n_bins = std::min(std::ssize(tokens), kMaxPageRecords / std::ssize(kept.groups));
  const auto bin_of = [&](int64_t token) {
    const auto place = std::lower_bound(tokens.begin(), tokens.end(), token) - tokens.begin();
    return place * n_bins / std::ssize(tokens);
  };
  kept.bins.resize(static_cast<size_t>(n_bins));
  for (size_t i = tokens.size(); i-- > 0;) {
    auto& bin = kept.bins[static_cast<size_t>(bin_of(tokens[i]))];
    if (bin == std::pair<int64_t, int64_t>()) bin.second = tokens[i];
    bin.first = tokens[i];
  }
  std::vector<int64_t> row(comparison.checkpoints.size(), -1);
  for (int64_t i = 0; i < std::ssize(kept.groups); ++i) {
    row[static_cast<size_t>(kept.groups[static_cast<size_t>(i)].checkpoint)] = i;
  }
  std::vector<const RecordResult*> worst(kept.groups.size() * static_cast<size_t>(n_bins));
  for (const RecordResult& result : comparison.results) {
    const int64_t group = row[static_cast<size_t>(result.checkpoint)];
    if (group < 0) continue;
    const int64_t cell = bin_of(result.token_idx) * std::ssize(kept.groups) + group;
    const RecordResult*& held = worst[static_cast<size_t>(cell)];
    if (held == nullptr || is_worse(result, *held)) held = &result;
  }
  std::erase(worst, nullptr);
  kept.records = std::move(worst);
  return kept;
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

void append_summary(const Comparison& comparison, const ReportContext& context, JsonObject& data,
                    std::string& out) {
  data.member("version", std::string_view(context.version));
  data.member("time", std::string_view(context.time));
  data.member("command", std::string_view(context.command));
  data.member("ref", std::string_view(comparison.ref_path));
  data.member("got", std::string_view(comparison.got_path));
  data.member("verdict", verdict_name(comparison.verdict));
  data.member("outcome", outcome_name(comparison));
  data.member("meaning", verdict_meaning(comparison));
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
    object.member("metric", std::string_view(first->metric));
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

void append_records(const Comparison& comparison, const Kept& kept, JsonObject& data,
                    std::string& out) {
  append_array(data, "checkpoints", kept.groups, out, [&](const CheckpointGroup& group) {
    const CheckpointName& name = name_of(comparison, group.checkpoint);
    out += '[';
    append_json_string(out, name.name);
    fmt::format_to(std::back_inserter(out), ",{},", name.layer);
    append_json_string(out, name.op);
    fmt::format_to(std::back_inserter(out), ",{},{}]", group.records, group.failures.size());
  });
  append_array(data, "bins", kept.bins, out, [&](const std::pair<int64_t, int64_t>& bin) {
    fmt::format_to(std::back_inserter(out), "[{},{}]", bin.first, bin.second);
  });
  std::vector<int64_t> row(comparison.checkpoints.size(), -1);
  for (size_t i = 0; i < kept.groups.size(); ++i) {
    row[static_cast<size_t>(kept.groups[i].checkpoint)] = static_cast<int64_t>(i);
  }
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
  column("pass", [&](const RecordResult& r) { out += r.pass ? '1' : '0'; });
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
  const Kept kept = keep(comparison);
  append_summary(comparison, context, data, out);
  append_records(comparison, kept, data, out);
  append_garbage(comparison, data, out);
  append_logits(comparison, context, data, out);
  append_speed(comparison, context, data, out);
  data.end();
  return out;
}

}  // namespace assay
