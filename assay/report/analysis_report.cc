#include "assay/report/analysis_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "assay/report/analysis_findings.h"
#include "assay/report/garbage_group.h"
#include "assay/report/json_object.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr size_t kPositionsShown = 8;

const std::string& name_of(const Analysis& analysis, int32_t checkpoint) {
  return analysis.stats[static_cast<size_t>(checkpoint)].checkpoint.name;
}

std::string model_of(const Analysis& analysis) {
  if (!analysis.header || analysis.header->model.name.empty()) return "-";
  return printable(analysis.header->model.name, 40);
}

std::string engine_of(const Analysis& analysis) {
  if (!analysis.header || analysis.header->engine.empty()) return "-";
  return printable(analysis.header->engine, 20);
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

// "0 (13), 1 (13), 2 (2)": indices and how often, the most frequent first.
std::string positions_text(const Analysis& analysis) {
  std::vector<std::pair<int64_t, int64_t>> places(analysis.positions.begin(),
                                                  analysis.positions.end());
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (size_t i = 0; i < std::min(kPositionsShown, places.size()); ++i) {
    text += fmt::format("{}{} ({})", i > 0 ? ", " : "", places[i].first, places[i].second);
  }
  if (places.size() > kPositionsShown) {
    text += fmt::format(", and {} more", places.size() - kPositionsShown);
  }
  return text;
}

std::string header_lines(const Analysis& analysis) {
  std::string text = printable(analysis.path) + "\n";
  if (analysis.header) {
    const LogHeader& header = *analysis.header;
    const auto line = [&](const char* title, std::initializer_list<std::string> parts) {
      std::string joined;
      for (const std::string& part : parts) {
        if (!part.empty()) joined += (joined.empty() ? "" : ", ") + printable(part, 60);
      }
      if (!joined.empty()) text += fmt::format("  {:<11}{}\n", title, joined);
    };
    line("model", {header.model.name, header.model.arch, header.model.type});
    line("engine", {header.engine, header.backend, header.math});
  }
  return text + fmt::format("  records    {} of {} at {}\n", analysis.records,
                            count_of(analysis.stats.size(), "checkpoint"),
                            count_of(analysis.tokens, "token"));
}

std::string garbage_lines(const Analysis& analysis, const TextStyle& style) {
  std::string text =
      colored(fmt::format("  garbage    {} at {} of {} ({})",
                          count_of(analysis.garbage_values, "value"), analysis.garbage_tokens,
                          count_of(analysis.tokens, "token"), percent(analysis.garbage_rate)),
              analysis.garbage_values > 0 ? Color::kCaution : Color::kGood, style) +
      "\n";
  std::map<GarbageReason, GarbageGroup> groups;
  for (const ListedGarbage& listed : analysis.garbage) {
    groups[listed.garbage.reason].add(listed.token_idx);
  }
  for (const auto& [reason, group] : groups) {
    text += fmt::format("             {}: {}\n", garbage_reason_name(reason),
                        group.text(analysis.garbage_by_reason.at(reason)));
  }
  if (!analysis.positions.empty()) {
    text += fmt::format("  positions  {}\n", positions_text(analysis));
  }
  if (analysis.out_of_scale_tokens > 0) {
    text += fmt::format("  by size    {} of {} ({}) hold values far out of scale",
                        analysis.out_of_scale_tokens, count_of(analysis.tokens, "token"),
                        percent(analysis.out_of_scale_rate));
    if (analysis.largest_out_of_scale > 0) {
      text += fmt::format(", {} to {}", short_number(analysis.smallest_out_of_scale),
                          short_number(analysis.largest_out_of_scale));
    }
    text += '\n';
  }
  return text;
}

std::string findings_lines(const Analysis& analysis, const TextStyle& style) {
  std::string text;
  for (const std::string& finding : findings_of(analysis)) {
    text += colored(fmt::format("  finding    {}", finding), Color::kCaution, style) + "\n";
  }
  return text;
}

std::string stats_table(const Analysis& analysis, const TextStyle& style) {
  TextTable table({"checkpoint", "records", "values", "min", "max", "mean", "rms", "median", "mad",
                   "p1", "p99", "zeros", "nonfinite", "garbage"});
  for (const CheckpointStats& row : analysis.stats) {
    table.add({printable(row.checkpoint.name, 40), fmt::format("{}", row.records),
               fmt::format("{}", row.values), short_number(row.min), short_number(row.max),
               short_number(row.mean), short_number(row.rms), short_number(row.median),
               short_number(row.mad), short_number(row.p01), short_number(row.p99),
               fmt::format("{}", row.zeros), fmt::format("{}", row.nonfinite),
               fmt::format("{}", row.garbage)},
              row.garbage + row.nonfinite > 0 ? Color::kCaution : Color::kNone);
  }
  return fmt::format("\n{}", table.text(style));
}

std::string rates_table(std::span<const Analysis> logs, const TextStyle& style) {
  TextTable table(
      {"log", "model", "engine", "garbage tokens", "rate", "by size", "largest", "positions"});
  for (const Analysis& log : logs) {
    const size_t slash = log.path.rfind('/');
    table.add({printable(log.path.substr(slash == std::string::npos ? 0 : slash + 1), 40),
               model_of(log), engine_of(log), fmt::format("{}/{}", log.garbage_tokens, log.tokens),
               percent(log.garbage_rate),
               fmt::format("{}/{} ({})", log.out_of_scale_tokens, log.tokens,
                           percent(log.out_of_scale_rate)),
               log.largest_out_of_scale > 0 ? short_number(log.largest_out_of_scale) : "-",
               log.positions.empty() ? "none" : positions_text(log)},
              log.garbage_tokens > 0 ? Color::kCaution : Color::kNone);
  }
  return table.text(style);
}

// Both logs' statistics of each checkpoint, where the ratio of the sizes is what tells.
std::string beside_table(const Analysis& a, const Analysis& b, const TextStyle& style) {
  std::map<std::string, const CheckpointStats*> others;
  for (const CheckpointStats& stats : b.stats) others[stats.checkpoint.name] = &stats;
  TextTable table({"checkpoint", "records", "rms", "rms of the other", "ratio", "median",
                   "median of the other", "garbage", "of the other"});
  size_t only_here = 0;
  for (const CheckpointStats& stats : a.stats) {
    const auto found = others.find(stats.checkpoint.name);
    if (found == others.end()) {
      ++only_here;
      continue;
    }
    const CheckpointStats& other = *found->second;
    others.erase(found);
    table.add({printable(stats.checkpoint.name, 40),
               fmt::format("{}/{}", stats.records, other.records), short_number(stats.rms),
               short_number(other.rms), short_number(other.rms / stats.rms),
               short_number(stats.median), short_number(other.median),
               fmt::format("{}", stats.garbage), fmt::format("{}", other.garbage)});
  }
  std::string text = fmt::format("\n{}", table.text(style));
  if (only_here + others.size() > 0) {
    text += fmt::format("  checkpoints only in the first: {}, only in the other: {}\n", only_here,
                        others.size());
  }
  return text;
}

std::string table_of(const Analysis& analysis, bool stats, const TextStyle& style) {
  std::string text =
      header_lines(analysis) + garbage_lines(analysis, style) + findings_lines(analysis, style);
  if (stats) text += stats_table(analysis, style);
  return text;
}

void append_stats(JsonObject& object, const CheckpointStats& stats) {
  object.member("checkpoint", stats.checkpoint.name);
  object.member("records", stats.records);
  object.member("values", stats.values);
  object.member("min", stats.min);
  object.member("max", stats.max);
  object.member("mean", stats.mean);
  object.member("rms", stats.rms);
  object.member("median", stats.median);
  object.member("mad", stats.mad);
  object.member("p01", stats.p01);
  object.member("p99", stats.p99);
  object.member("sampled", stats.sampled);
  object.member("nonfinite", stats.nonfinite);
  object.member("zeros", stats.zeros);
  object.member("garbage", stats.garbage);
}

void append_suspicion(const Analysis& analysis, const Suspicion& suspicion, JsonObject& object) {
  object.member("kind", suspicion_name(suspicion.kind));
  object.member("checkpoint",
                suspicion.name.empty() ? name_of(analysis, suspicion.checkpoint) : suspicion.name);
  object.member("token_idx", suspicion.token_idx);
  object.member("index", suspicion.index);
  object.member("count", suspicion.count);
  if (suspicion.of_checkpoint < 0) return;
  object.object("of", [&](JsonObject& of) {
    of.member("checkpoint", name_of(analysis, suspicion.of_checkpoint));
    of.member("token_idx", suspicion.of_token_idx);
  });
}

void append_analysis(const Analysis& analysis, const TextSink& sink, JsonObject& object) {
  object.member("log", analysis.path);
  object.new_line();
  if (analysis.header) {
    object.member("model", analysis.header->model.name);
    object.member("type", analysis.header->model.type);
    object.member("engine", analysis.header->engine);
  }
  object.member("records", analysis.records);
  object.member("tokens", analysis.tokens);
  object.member("checkpoints", analysis.stats.size());
  object.member("garbage_values", analysis.garbage_values);
  object.member("garbage_tokens", analysis.garbage_tokens);
  object.member("garbage_rate", analysis.garbage_rate);
  object.member("out_of_scale_tokens", analysis.out_of_scale_tokens);
  object.member("out_of_scale_rate", analysis.out_of_scale_rate);
  object.lines("findings", findings_of(analysis), sink);
  object.lines("garbage", analysis.garbage, sink,
               [&](JsonObject& element, const ListedGarbage& listed) {
                 append_garbage(name_of(analysis, listed.checkpoint), listed.token_idx,
                                listed.garbage, element);
               });
  object.lines("positions", analysis.positions, sink,
               [](JsonObject& element, const auto& position) {
                 element.member("index", position.first);
                 element.member("count", position.second);
               });
  object.lines("suspicions", analysis.suspicions, sink,
               [&](JsonObject& element, const Suspicion& suspicion) {
                 append_suspicion(analysis, suspicion, element);
               });
  object.lines("stats", analysis.stats, sink, append_stats);
}

class AnalysisTable : public Report<Analyses> {
 public:
  std::string_view name() const override { return "table"; }
  void write(const Analyses& analyses, const ReportContext& context,
             const TextSink& sink) const override;
};

class AnalysisJson : public Report<Analyses> {
 public:
  std::string_view name() const override { return "json"; }
  void write(const Analyses& analyses, const ReportContext& context,
             const TextSink& sink) const override;
};

}  // namespace

void AnalysisTable::write(const Analyses& analyses, const ReportContext& context,
                          const TextSink& sink) const {
  const auto& [logs, other, stats] = analyses;
  const TextStyle& style = context.style;
  std::string text;
  if (logs.size() > 1) text += rates_table(logs, style) + "\n";
  for (const Analysis& log : logs) {
    if (&log != logs.data()) text += '\n';
    text += table_of(log, stats, style);
  }
  if (other != nullptr) {
    text += fmt::format("\n{}{}", table_of(*other, stats, style),
                        beside_table(logs.front(), *other, style));
  }
  sink(text);
}

void AnalysisJson::write(const Analyses& analyses, const ReportContext&,
                         const TextSink& sink) const {
  const auto append = [&](JsonObject& object, const Analysis& analysis) {
    append_analysis(analysis, sink, object);
  };
  write_json_line(sink, [&](JsonObject& object) {
    if (analyses.logs.size() > 1) {
      object.key("logs");
      object.elements(analyses.logs, append, "\n", sink);
    } else {
      append(object, analyses.logs.front());
    }
    if (analyses.other == nullptr) return;
    object.new_line();
    object.object_or_null("compare", analyses.other, append);
  });
}

Reports<Analyses> analysis_reports() {
  return reports_of<Analyses, AnalysisTable, AnalysisJson>();
}

}  // namespace assay
