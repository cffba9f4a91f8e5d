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
#include "assay/report/json_array.h"
#include "assay/report/json_object.h"

namespace assay {

extern const std::string_view kPerfScript;  // files of page/, embedded by CMake

namespace {

// A page holds at most this many benchmarks; the worst verdicts come first.
constexpr size_t kMaxPageBenchmarks = 2000;

void append_result(const PerfResult& result, std::string& out) {
  JsonObject item(out);
  item.member("name", std::string_view(result.name));
  item.member("verdict", perf_verdict_name(result.verdict));
  item.member("ratio", result.ratio);
  item.member("low", result.low);
  item.member("high", result.high);
  item.member("pairs", result.pairs);
  item.member("base", duration_text(result.base_ns));
  item.member("head", duration_text(result.head_ns));
  item.end();
}

void append_speed(JsonObject& model, std::string_view name, const std::optional<PerfResult>& result,
                  std::string& out) {
  model.key(name);
  if (result) {
    append_result(*result, out);
  } else {
    out += "null";
  }
}

void append_model(const ModelVerdict& model, std::string& out) {
  const auto times = [](const std::optional<Accuracy>& accuracy) {
    return accuracy ? std::optional<double>(accuracy->x_floor) : std::nullopt;
  };
  const auto& held = model.head ? model.head : model.base;
  JsonObject item(out);
  item.member("model", std::string_view(model.key.model));
  item.member("type", std::string_view(model.key.type));
  item.member("math", std::string_view(model.key.math));
  append_speed(item, "decode", model.decode, out);
  append_speed(item, "prefill", model.prefill, out);
  item.member("base", times(model.base));
  item.member("head", times(model.head));
  item.member("allowed", held ? std::optional<double>(held->allowed) : std::nullopt);
  item.member("place", std::string_view(held ? held->place : ""));
  item.member("refused", model.refused);
  item.member("reason", std::string_view(model.reason));
  item.end();
}

std::string data_of(const SpeedAndAccuracy& judged, const ReportContext& context) {
  const PerfComparison& speed = judged.speed;
  std::string out;
  JsonObject data(out);
  data.member("version", std::string_view(context.version));
  data.member("time", std::string_view(context.time));
  data.member("verdict", judged.name());
  data.member("pass", judged.pass());
  data.member("base", std::string_view(speed.base_path));
  data.member("head", std::string_view(speed.head_path));
  data.member("min_effect", speed.options.min_effect);
  data.member("alpha", speed.options.alpha);
  data.member("total", static_cast<int64_t>(speed.results.size()));
  const std::span<const PerfResult> shown(speed.results.data(),
                                          std::min(speed.results.size(), kMaxPageBenchmarks));
  append_array(data, "benchmarks", shown, out,
               [&](const PerfResult& result) { append_result(result, out); });
  append_array(data, "models", judged.models, out,
               [&](const ModelVerdict& model) { append_model(model, out); });
  std::vector<std::string> notes = remarks(speed);
  notes.resize(std::min(notes.size(), kMaxPageBenchmarks));
  append_array(data, "notes", notes, out,
               [&](const std::string& note) { append_json_string(out, note); });
  data.end();
  return out;
}

}  // namespace

void PerfPage::write(const SpeedAndAccuracy& judged, const ReportContext& context,
                     const TextSink& sink) const {
  write_page(
      {.title = fmt::format("{}: {}", judged.name(), judged.speed.head_path),
       .kind = "verdict",
       .script = kPerfScript,
       .data = data_of(judged, context),
       .text = [&](const TextSink& text) { perf_reports().front()->write(judged, {}, text); }},
      sink);
}

}  // namespace assay
