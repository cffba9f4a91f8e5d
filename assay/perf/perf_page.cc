#include "assay/perf/perf_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/perf/perf_report.h"
#include "assay/perf/perf_text.h"
#include "assay/report/html_page.h"
#include "assay/report/json_object.h"

namespace assay {

extern const std::string_view kPerfScript;  // files of page/, embedded by CMake

namespace {

// A page holds at most this many benchmarks; the worst verdicts come first.
constexpr size_t kMaxPageBenchmarks = 2000;

void append_row(JsonObject& item, const PerfResult& result) {
  item.member("name", result.name);
  item.member("verdict", perf_verdict_name(result.verdict));
  item.member("ratio", result.ratio);
  item.member("low", result.low);
  item.member("high", result.high);
  item.member("pairs", result.pairs);
  item.member("base", duration_text(result.base_ns));
  item.member("head", duration_text(result.head_ns));
}

void append_model_row(JsonObject& item, const ModelVerdict& model) {
  const auto times = [](const std::optional<Accuracy>& accuracy) {
    return accuracy ? std::optional<double>(accuracy->x_floor) : std::nullopt;
  };
  const auto& held = model.head ? model.head : model.base;
  item.member("model", model.key.model);
  item.member("type", model.key.type);
  item.member("math", model.key.math);
  item.object_or_null("decode", model.decode, append_row);
  item.object_or_null("prefill", model.prefill, append_row);
  item.member("base", times(model.base));
  item.member("head", times(model.head));
  item.member("allowed", held ? std::optional<double>(held->allowed) : std::nullopt);
  item.member("place", held ? held->place : "");
  item.member("refused", model.refused);
  item.member("reason", model.reason);
}

void append_data(const SpeedAndAccuracy& judged, const ReportContext& context, JsonObject& data) {
  const PerfComparison& speed = judged.speed;
  data.member("version", context.version);
  data.member("time", context.time);
  data.member("verdict", judged.name());
  data.member("pass", judged.pass());
  data.member("base", speed.base_path);
  data.member("head", speed.head_path);
  data.member("min_effect", speed.options.min_effect);
  data.member("alpha", speed.options.alpha);
  data.member("total", speed.results.size());
  const std::span<const PerfResult> shown(speed.results.data(),
                                          std::min(speed.results.size(), kMaxPageBenchmarks));
  data.array("benchmarks", shown, append_row);
  data.array("models", judged.models, append_model_row);
  std::vector<std::string> notes = remarks(speed);
  notes.resize(std::min(notes.size(), kMaxPageBenchmarks));
  data.array("notes", notes);
}

}  // namespace

void PerfPage::write(const SpeedAndAccuracy& judged, const ReportContext& context,
                     const TextSink& sink) const {
  write_page(
      {.title = fmt::format("{}: {}", judged.name(), judged.speed.head_path),
       .kind = "verdict",
       .script = kPerfScript,
       .data = json_of([&](JsonObject& data) { append_data(judged, context, data); }),
       .text = [&](const TextSink& text) { perf_reports().front()->write(judged, {}, text); }},
      sink);
}

}  // namespace assay
