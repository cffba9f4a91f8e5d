#include "assay/perf/perf_report.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "assay/perf/perf_page.h"
#include "assay/perf/perf_text.h"
#include "assay/report/github_report.h"
#include "assay/report/json_object.h"
#include "assay/report/markdown.h"
#include "base/error.h"

namespace assay {
namespace {

Color color_of(PerfVerdict verdict) {
  switch (verdict) {
    case PerfVerdict::kSlow:
      return Color::kBad;
    case PerfVerdict::kFast:
      return Color::kGood;
    case PerfVerdict::kUnsure:
      return Color::kCaution;
    case PerfVerdict::kSame:
      break;
  }
  return Color::kNone;
}

std::string title_of(const ModelKey& key) {
  return key.model + " " + key.type + " " + key.math;
}

std::string refusal(const ModelVerdict& model) {
  return title_of(model.key) + " is refused: " + model.reason;
}

// "-3.1 % FAST".
std::string speed_cell(const std::optional<PerfResult>& result) {
  if (!result) return "-";
  return fmt::format("{} ({}) {}", change_text(result->ratio), interval_text(*result),
                     perf_verdict_name(result->verdict));
}

// "1.2 -> 1.3 of 3": multiples of the floor, and how many are allowed.
std::string accuracy_cell(const ModelVerdict& model) {
  if (!model.base && !model.head) return "-";
  const auto side = [](const std::optional<Accuracy>& accuracy) {
    return accuracy ? times_text(accuracy->x_floor) : std::string("-");
  };
  return fmt::format("{} -> {} of {}", side(model.base), side(model.head),
                     times_text((model.head ? model.head : model.base)->allowed));
}

std::string_view model_verdict_name(const ModelVerdict& model) {
  if (model.refused) return "REFUSED";
  return model.head ? "ok" : "not held to a golden";
}

std::vector<std::string> speed_cells(const PerfResult& result) {
  return {printable(result.name),
          duration_text(result.base_ns),
          duration_text(result.head_ns),
          change_text(result.ratio),
          interval_text(result),
          fmt::format("{}", result.pairs),
          std::string(perf_verdict_name(result.verdict))};
}

std::vector<std::string> model_cells(const ModelVerdict& model) {
  return {printable(title_of(model.key)), speed_cell(model.decode), speed_cell(model.prefill),
          accuracy_cell(model), std::string(model_verdict_name(model))};
}

const std::vector<std::string> kSpeedHeader = {"benchmark",     "base",  "head",   "change",
                                               "95 % interval", "pairs", "verdict"};
const std::vector<std::string> kModelHeader = {"model", "decode", "prefill", "error in floors",
                                               "verdict"};

// The rows of a Markdown table whose first column is text and the others figures.
std::string markdown_head(const std::vector<std::string>& header) {
  std::string text = "|";
  for (const std::string& cell : header) text += fmt::format(" {} |", cell);
  text += "\n|---|";
  for (size_t i = 1; i < header.size(); ++i) text += "--:|";
  return text + "\n";
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += fmt::format(" {} |", markdown(cell));
  return text + "\n";
}

void append_accuracy(JsonObject& object, const Accuracy& accuracy) {
  object.member("x_floor", accuracy.x_floor);
  object.member("allowed", accuracy.allowed);
  object.member("pass", accuracy.pass);
  object.member("place", accuracy.place);
}

void append_result(JsonObject& item, const PerfResult& result) {
  item.member("name", result.name);
  item.member("verdict", perf_verdict_name(result.verdict));
  item.member("ratio", result.ratio);
  item.member("low", result.low);
  item.member("high", result.high);
  item.member("p", result.p);
  item.member("pairs", result.pairs);
  item.member("base_ns", result.base_ns);
  item.member("head_ns", result.head_ns);
}

void append_model(JsonObject& item, const ModelVerdict& model) {
  // The figures stand among the benchmarks.
  const auto name_of = [](const std::optional<PerfResult>& result) {
    return result ? std::optional(result->name) : std::nullopt;
  };
  item.member("model", model.key.model);
  item.member("type", model.key.type);
  item.member("math", model.key.math);
  item.member("decode", name_of(model.decode));
  item.member("prefill", name_of(model.prefill));
  item.object_or_null("base", model.base, append_accuracy);
  item.object_or_null("head", model.head, append_accuracy);
  item.member("refused", model.refused);
  item.member("reason", model.reason);
}

class PerfTable : public Report<SpeedAndAccuracy> {
 public:
  std::string_view name() const override { return "table"; }
  void write(const SpeedAndAccuracy& judged, const ReportContext& context,
             const TextSink& sink) const override;
};

class PerfJson : public Report<SpeedAndAccuracy> {
 public:
  std::string_view name() const override { return "json"; }
  void write(const SpeedAndAccuracy& judged, const ReportContext& context,
             const TextSink& sink) const override;
};

class PerfSummary : public Report<SpeedAndAccuracy> {
 public:
  std::string_view name() const override { return "github"; }
  void write(const SpeedAndAccuracy& judged, const ReportContext& context,
             const TextSink& sink) const override;
  bool is_step_summary() const override { return true; }
  void write_annotations(const SpeedAndAccuracy& judged, const TextSink& sink) const override;
};

}  // namespace

void PerfTable::write(const SpeedAndAccuracy& judged, const ReportContext& context,
                      const TextSink& sink) const {
  const TextStyle& style = context.style;
  const PerfComparison& speed = judged.speed;
  const Color color = judged.refused() > 0 ? Color::kBad : color_of(speed.verdict);
  sink(fmt::format("{}  {}\n", colored(judged.name(), color, style), counts_text(speed)));
  for (const ModelVerdict& model : judged.models) {
    if (model.refused) sink(colored(printable(refusal(model), 1000), Color::kBad, style) + "\n");
  }
  for (const std::string& line : remarks(speed)) {
    sink(colored(printable(line), Color::kCaution, style) + "\n");
  }
  sink("\n");
  TextTable table(kSpeedHeader);
  for (const PerfResult& result : speed.results) {
    table.add(speed_cells(result), color_of(result.verdict));
  }
  sink(table.text(style));
  if (judged.models.empty()) return;
  TextTable models(kModelHeader);
  for (const ModelVerdict& model : judged.models) {
    models.add(model_cells(model), model.refused ? Color::kBad : Color::kNone);
  }
  sink("\n");
  sink(models.text(style));
}

void PerfJson::write(const SpeedAndAccuracy& judged, const ReportContext&,
                     const TextSink& sink) const {
  const PerfComparison& speed = judged.speed;
  write_json_line(sink, [&](JsonObject& top) {
    top.member("verdict", judged.name());
    top.member("pass", judged.pass());
    top.member("base", speed.base_path);
    top.member("head", speed.head_path);
    top.member("min_effect", speed.options.min_effect);
    top.member("alpha", speed.options.alpha);
    top.member("pairs_needed", speed.pairs_needed);
    top.member("too_few_pairs", speed.too_few_pairs());
    top.member("unsure", unsure_text(speed));
    top.array("benchmarks", speed.results, append_result);
    top.array("models", judged.models, append_model);
    top.array("skipped", speed.skipped);
    top.array("only_base", speed.only_base);
    top.array("missing", speed.missing);
    top.array("unpaired", speed.unpaired);
    top.array("only_head", speed.only_head);
    top.array("notes", speed.notes);
  });
}

void PerfSummary::write_annotations(const SpeedAndAccuracy& judged, const TextSink& sink) const {
  std::vector<GithubError> errors;
  for (const ModelVerdict& model : judged.models) {
    if (!model.refused) continue;
    errors.push_back({"", fmt::format("{} is refused", title_of(model.key)), refusal(model)});
  }
  for (const PerfResult& result : judged.speed.results) {
    if (result.verdict != PerfVerdict::kSlow) continue;
    errors.push_back({"", fmt::format("{} is slower", result.name),
                      fmt::format("{}: {} to {}, {} ({})", result.name,
                                  duration_text(result.base_ns), duration_text(result.head_ns),
                                  change_text(result.ratio), interval_text(result))});
  }
  write_github_errors(errors, "more finding", "more findings", sink);
}

void PerfSummary::write(const SpeedAndAccuracy& judged, const ReportContext& context,
                        const TextSink& sink) const {
  const size_t max_bytes = context.max_bytes;
  const PerfComparison& speed = judged.speed;
  std::string text = fmt::format("### Speed: {}\n\n{}\n\n", judged.name(), counts_text(speed));
  std::vector<std::string> lines;
  for (const ModelVerdict& model : judged.models) {
    if (model.refused) lines.push_back(refusal(model));
  }
  for (const std::string& line : remarks(speed)) lines.push_back(line);
  append_markdown_rows(lines.size(), "remark", max_bytes / 2, text,
                       [&](size_t i) { return "> " + markdown(lines[i], 1000) + "\n\n"; });
  if (!judged.models.empty()) {
    text += markdown_head(kModelHeader);
    append_markdown_rows(judged.models.size(), "model", max_bytes, text,
                         [&](size_t i) { return markdown_row(model_cells(judged.models[i])); });
    text += "\n";
  }
  text += markdown_head(kSpeedHeader);
  append_markdown_rows(speed.results.size(), "benchmark", max_bytes, text,
                       [&](size_t i) { return markdown_row(speed_cells(speed.results[i])); });
  if (text.size() <= max_bytes) sink(text);
}

Reports<SpeedAndAccuracy> perf_reports() {
  return reports_of<SpeedAndAccuracy, PerfTable, PerfJson, PerfPage, PerfSummary>();
}

}  // namespace assay
