#include "assay/perf/perf_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "assay/report/json_object.h"
#include "base/error.h"

namespace assay {
namespace {

std::string duration(double ns) {
  static constexpr struct {
    double least;
    double divisor;
    const char* unit;
  } kUnits[] = {{1e9, 1e9, "s"}, {1e6, 1e6, "ms"}, {1e3, 1e3, "us"}, {0, 1, "ns"}};
  const auto* unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                  [&](const auto& candidate) { return ns >= candidate.least; });
  return fmt::format("{:.3g} {}", ns / unit->divisor, unit->unit);
}

std::string change(double ratio) {
  return std::isfinite(ratio) && ratio > 0 ? fmt::format("{:+.1f} %", (ratio - 1) * 100) : "?";
}

std::string interval(const PerfResult& result) {
  return change(result.low) + " to " + change(result.high);
}

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

int64_t count(const PerfComparison& comparison, PerfVerdict verdict) {
  return std::count_if(comparison.results.begin(), comparison.results.end(),
                       [&](const PerfResult& result) { return result.verdict == verdict; });
}

std::string counts(const PerfComparison& comparison) {
  return fmt::format("{} slower, {} faster, {} the same, {} unsure",
                     count(comparison, PerfVerdict::kSlow), count(comparison, PerfVerdict::kFast),
                     count(comparison, PerfVerdict::kSame),
                     count(comparison, PerfVerdict::kUnsure));
}

// What a reader must know besides the table; empty where there is nothing.
std::vector<std::string> remarks(const PerfComparison& comparison) {
  std::vector<std::string> lines;
  int64_t fewest = comparison.results.front().pairs;
  for (const PerfResult& result : comparison.results) fewest = std::min(fewest, result.pairs);
  if (fewest < comparison.pairs_needed) {
    lines.push_back(fmt::format(
        "{} pairs of repetitions are too few to confirm anything for {} benchmarks at a chance of "
        "{:g} of a false alarm: take {} or more",
        fewest, comparison.results.size(), comparison.options.alpha, comparison.pairs_needed));
  }
  for (const std::string& name : comparison.only_base) {
    lines.push_back("only in the base: " + printable(name));
  }
  for (const std::string& name : comparison.only_head) {
    lines.push_back("only in the head: " + printable(name));
  }
  return lines;
}

// A Markdown table's cell: no pipe, no markup.
std::string markdown(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (std::string_view("|`*_<>[]\\&").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

void append_names(std::string& out, const std::vector<std::string>& names) {
  out += '[';
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, names[i]);
  }
  out += ']';
}

}  // namespace

void write_table(const PerfComparison& comparison, const TextStyle& style, const TextSink& sink) {
  sink(fmt::format("{}  {}\n",
                   colored(std::string(perf_verdict_name(comparison.verdict)),
                           color_of(comparison.verdict), style),
                   counts(comparison)));
  for (const std::string& line : remarks(comparison)) {
    sink(colored(line, Color::kCaution, style) + "\n");
  }
  sink("\n");
  TextTable table({"benchmark", "base", "head", "change", "95 % interval", "pairs", "verdict"});
  for (const PerfResult& result : comparison.results) {
    table.add({printable(result.name), duration(result.base_ns), duration(result.head_ns),
               change(result.ratio), interval(result), fmt::format("{}", result.pairs),
               std::string(perf_verdict_name(result.verdict))},
              color_of(result.verdict));
  }
  sink(table.text(style));
}

void write_json(const PerfComparison& comparison, const TextSink& sink) {
  std::string out;
  JsonObject top(out);
  top.member("verdict", perf_verdict_name(comparison.verdict));
  top.member("pass", comparison.verdict != PerfVerdict::kSlow);
  top.member("base", std::string_view(comparison.base_path));
  top.member("head", std::string_view(comparison.head_path));
  top.member("min_effect", comparison.options.min_effect);
  top.member("alpha", comparison.options.alpha);
  top.member("pairs_needed", comparison.pairs_needed);
  top.key("benchmarks");
  out += '[';
  for (size_t i = 0; i < comparison.results.size(); ++i) {
    const PerfResult& result = comparison.results[i];
    if (i > 0) out += ',';
    JsonObject item(out);
    item.member("name", std::string_view(result.name));
    item.member("verdict", perf_verdict_name(result.verdict));
    item.member("ratio", result.ratio);
    item.member("low", result.low);
    item.member("high", result.high);
    item.member("p", result.p);
    item.member("pairs", result.pairs);
    item.member("base_ns", result.base_ns);
    item.member("head_ns", result.head_ns);
    item.end();
  }
  out += ']';
  top.key("only_base");
  append_names(out, comparison.only_base);
  top.key("only_head");
  append_names(out, comparison.only_head);
  top.end();
  sink(out + "\n");
}

void write_github(const PerfComparison& comparison, const TextSink& sink) {
  sink(fmt::format("### Speed: {}\n\n{}\n\n", perf_verdict_name(comparison.verdict),
                   counts(comparison)));
  for (const std::string& line : remarks(comparison)) sink("> " + markdown(line) + "\n\n");
  sink(
      "| benchmark | base | head | change | 95 % interval | pairs | verdict |\n"
      "|---|--:|--:|--:|--:|--:|---|\n");
  for (const PerfResult& result : comparison.results) {
    sink(fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", markdown(result.name),
                     duration(result.base_ns), duration(result.head_ns), change(result.ratio),
                     interval(result), result.pairs, perf_verdict_name(result.verdict)));
  }
}

}  // namespace assay
