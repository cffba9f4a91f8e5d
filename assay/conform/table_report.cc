#include "assay/conform/table_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "assay/conform/table_json.h"
#include "assay/report/github_report.h"
#include "assay/report/markdown.h"
#include "assay/report/text_table.h"
#include "assay/report/xml_text.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr size_t kMaxText = 300;

std::string engine_name(const TableColumn& column) {
  const EngineDeclaration& engine = column.engine;
  return engine.version.empty() ? engine.name : fmt::format("{} {}", engine.name, engine.version);
}

// "; since known.json: 2 worse, 1 better".
std::string changes_text(const EngineTable& table, const TableColumn& column) {
  if (table.baseline.empty()) return {};
  std::string text;
  for (const Change each : {Change::kWorse, Change::kBetter, Change::kNew}) {
    const int64_t count = column.count(each);
    if (count == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, change_name(each));
  }
  return fmt::format("; since {}: {}", printable(table.baseline),
                     text.empty() ? "nothing has changed" : text);
}

std::string counts_text(const EngineTable& table, const TableColumn& column) {
  std::string text;
  for (const Finding each : table.findings()) {
    const int64_t count = column.count(each);
    if (count == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, finding_name(each));
    if (!is_right(each)) continue;
    const auto count_where = [&](const auto& is_so) {
      return std::ranges::count_if(column.cells, [&](const TableCell& cell) {
        return cell.finding == each && cell.error && is_so(*cell.error);
      });
    };
    const auto at_some =
        count_where([](const OutputError& error) { return error.positions < error.total; });
    if (at_some > 0) text += fmt::format(" ({} at some positions only)", at_some);
    if (table.kind != EngineTable::Kind::kConformance) continue;
    const auto by_parts =
        count_where([](const OutputError& error) { return error.whole < error.positions; });
    if (by_parts > 0) text += fmt::format(" ({} by a part of the output only)", by_parts);
  }
  return text + changes_text(table, column);
}

// "misread (rope_base): takes 10000; 2.3e-01 from float64, 6.9e-07 from that".
std::string detail(const EngineTable& table, const TableCell& cell) {
  std::string text(finding_name(cell.finding));
  if (!cell.cause.empty()) text += fmt::format(" ({})", cell.cause);
  if (!cell.text.empty()) text += ": " + printable(cell.text, kMaxText);
  if (cell.error && std::isfinite(cell.error->rel_l2)) {
    text += "; " + table.distance_text(*cell.error);
  }
  if (cell.from_explained) {
    text += fmt::format(", {} from that", short_number(*cell.from_explained));
  }
  if (!cell.first_divergence.empty()) {
    text += fmt::format("; first at {}", printable(cell.first_divergence, 60));
  }
  if (!cell.change) return text;
  if (*cell.change == Change::kSame) return text + "; so it is in the baseline";
  return text + fmt::format("; in the baseline {}", printable(cell.before, kMaxText));
}

// "ignored", and what has become of it: "honoured (better)", "ignored (as before)".
std::string verdict_text(const TableCell& cell) {
  std::string text(finding_name(cell.finding));
  if (!cell.change || (*cell.change == Change::kSame && is_right(cell.finding))) return text;
  return text + fmt::format(" ({})", *cell.change == Change::kSame ? "as before"
                                                                   : change_name(*cell.change));
}

// Where there is a baseline: what fails, and what is better. Otherwise all that is bad.
bool is_worth_a_line(const TableCell& cell) {
  return cell.fails() || cell.change == Change::kBetter;
}

std::string table_text(const EngineTable& table, const TextStyle& style) {
  std::vector<std::string> header = {row_word(table.kind), "group"};
  for (const TableColumn& each : table.columns) header.push_back(each.engine.name);
  TextTable text_table(header, header.size());
  for (size_t i = 0; i < table.rows.size(); ++i) {
    std::vector<std::string> texts = {table.rows[i].name, table.rows[i].group};
    bool bad = false;
    for (const TableColumn& each : table.columns) {
      texts.push_back(verdict_text(each.cells[i]));
      bad = bad || each.cells[i].fails();
    }
    text_table.add(texts, bad ? Color::kBad : Color::kNone);
  }
  std::string text = text_table.text(style);
  for (const TableColumn& each : table.columns) {
    text += fmt::format("\n{}: {}\n", printable(engine_name(each), 80), counts_text(table, each));
    std::string better;
    for (size_t i = 0; i < table.rows.size(); ++i) {
      const TableCell& cell = each.cells[i];
      const std::string line = fmt::format("  {}: {}\n", table.rows[i].name, detail(table, cell));
      if (cell.change == Change::kBetter) better += line;
      if (!cell.fails()) continue;
      text += fmt::format("{}    {}\n", line, cell.command);
      if (!cell.compare.empty()) text += fmt::format("    {}\n", cell.compare);
    }
    text += better;
  }
  return text;
}

class EngineTableText : public Report<EngineTable> {
 public:
  std::string_view name() const override { return "table"; }
  void write(const EngineTable& table, const ReportContext& context,
             const TextSink& sink) const override {
    sink(table_text(table, context.style));
  }
};

class EngineTableJson : public Report<EngineTable> {
 public:
  std::string_view name() const override { return "json"; }
  void write(const EngineTable& table, const ReportContext& context,
             const TextSink& sink) const override {
    sink(engine_table_json(table, context) + "\n");
  }
};

// A file to be kept, and given to --baseline.
class EngineTableBaseline : public Report<EngineTable> {
 public:
  std::string_view name() const override { return "baseline"; }
  void write(const EngineTable& table, const ReportContext& context,
             const TextSink& sink) const override {
    write_engine_table_baseline(table, context, sink);
  }
};

class EngineTableHtml : public Report<EngineTable> {
 public:
  std::string_view name() const override { return "html"; }
  void write(const EngineTable& table, const ReportContext& context,
             const TextSink& sink) const override {
    write_engine_table_page(table, context, sink);
  }
};

// Skipped cases alone would read as a suite that passed.
constexpr std::string_view kSupportsNothing = "supports nothing of this, so nothing is shown";

class EngineTableJunit : public Report<EngineTable> {
 public:
  std::string_view name() const override { return "junit"; }
  void write(const EngineTable& table, const ReportContext& context,
             const TextSink& sink) const override {
    sink("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for (const TableColumn& each : table.columns) {
      const bool nothing = each.supports_nothing();
      sink(fmt::format(
          "  <testsuite name=\"{}\" timestamp=\"{}\" tests=\"{}\" failures=\"{}\" "
          "errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\">\n",
          xml_attribute(engine_name(each)), context.time, each.cells.size() + (nothing ? 1 : 0),
          std::ranges::count_if(each.cells, &TableCell::fails), nothing ? 1 : 0,
          std::ranges::count_if(each.cells, is_skipped), each.seconds()));
      if (nothing) {
        sink(
            fmt::format("    <testcase classname=\"engine\" name=\"supports something\">\n"
                        "      <error message=\"{}\"/>\n    </testcase>\n",
                        kSupportsNothing));
      }
      for (size_t i = 0; i < table.rows.size(); ++i) {
        sink(test_case(table, table.rows[i], each.cells[i]));
      }
      sink("  </testsuite>\n");
    }
    sink("</testsuites>\n");
  }

 private:
  static bool is_skipped(const TableCell& cell) { return !cell.fails() && !is_right(cell.finding); }

  static std::string test_case(const EngineTable& table, const TableRow& row,
                               const TableCell& cell) {
    std::string text = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
                                   xml_attribute(row.group), xml_attribute(row.name), cell.seconds);
    if (!cell.fails() && is_right(cell.finding)) return text + "/>\n";
    const std::string message = xml_attribute(detail(table, cell));
    if (is_skipped(cell)) {
      return text + fmt::format(">\n      <skipped message=\"{}\"/>\n    </testcase>\n", message);
    }
    return text + fmt::format(
                      ">\n      <failure type=\"{}\" message=\"{}\">{}</failure>\n"
                      "    </testcase>\n",
                      finding_name(cell.finding), message, xml_text(cell.command));
  }
};

class EngineTableGithub : public Report<EngineTable> {
 public:
  std::string_view name() const override { return "github"; }
  bool is_step_summary() const override { return true; }
  void write_annotations(const EngineTable& table, const TextSink& sink) const override {
    std::vector<GithubError> errors;
    for (const TableColumn& each : table.columns) {
      for (size_t i = 0; i < table.rows.size(); ++i) {
        const TableCell& cell = each.cells[i];
        if (!cell.fails()) continue;
        errors.push_back({"",
                          fmt::format("{}, {}: {}", engine_name(each), table.rows[i].name,
                                      finding_name(cell.finding)),
                          detail(table, cell)});
      }
      if (each.supports_nothing()) {
        errors.push_back({"", engine_name(each), std::string(kSupportsNothing)});
      }
    }
    const std::string more = fmt::format("more {}", row_word(table.kind));
    write_github_errors(errors, more, more + "s", sink);
  }
  void write(const EngineTable& table, const ReportContext& context,
             const TextSink& sink) const override {
    std::string text = table.kind == EngineTable::Kind::kConformance ? "### Assay: conformance\n\n"
                                                                     : "### Assay: invariance\n\n";
    for (const TableColumn& each : table.columns) {
      text += fmt::format("- **{}**: {}\n", markdown(engine_name(each)), counts_text(table, each));
    }
    std::vector<std::string> rows;
    for (const TableColumn& each : table.columns) {
      for (size_t i = 0; i < table.rows.size(); ++i) {
        if (is_right(each.cells[i].finding) && !is_worth_a_line(each.cells[i])) continue;
        rows.push_back(fmt::format("| {} | {} | {} |\n", markdown(each.engine.name),
                                   markdown(table.rows[i].name),
                                   markdown(detail(table, each.cells[i]), 1000)));
      }
    }
    if (!rows.empty()) {
      text += fmt::format("\n| engine | {} | verdict |\n|---|---|---|\n", row_word(table.kind));
    }
    append_markdown_rows(rows.size(), row_word(table.kind), context.max_bytes, text,
                         [&](size_t i) { return rows[i]; });
    if (text.size() <= context.max_bytes) sink(text);
  }
};

class EngineTableMarkdown : public Report<EngineTable> {
 public:
  std::string_view name() const override { return "markdown"; }
  void write(const EngineTable& table, const ReportContext& context,
             const TextSink& sink) const override {
    const bool conformance = table.kind == EngineTable::Kind::kConformance;
    std::string text = fmt::format("# {} of engines\nWritten by Assay {}{}\n\n",
                                   conformance ? "Conformance" : "Invariance", context.version,
                                   origin(table, context));
    text += conformance ? "✓: honoured; –: the engine says that it does not support it, or does "
                          "not show it.\n\n"
                        : "✓: the same bits as of the tokens alone; ≈: no further than these are "
                          "from themselves; –: the engine says that it does not support it.\n\n";
    for (const TableColumn& each : table.columns) {
      text += fmt::format("- {}: {}\n", markdown(engine_name(each)), counts_text(table, each));
    }
    std::string group;
    for (size_t i = 0; i < table.rows.size(); ++i) {
      if (i == 0 || table.rows[i].group != group) text += heading(table, table.rows[i].group);
      group = table.rows[i].group;
      text += fmt::format("| {} |", markdown(table.rows[i].title));
      for (const TableColumn& each : table.columns) {
        text += fmt::format(" {} |", mark(each.cells[i]));
      }
      text += "\n";
    }
    for (const TableColumn& each : table.columns) {
      if (std::ranges::none_of(each.cells, has_row)) continue;
      text += fmt::format("\n## {}\n", markdown(engine_name(each)));
      text += fmt::format("| {} | what was found |\n|---|---|\n", row_word(table.kind));
      for (size_t i = 0; i < table.rows.size(); ++i) {
        if (!has_row(each.cells[i])) continue;
        text += fmt::format("| `{}` | {} |\n", table.rows[i].name,
                            markdown(detail(table, each.cells[i]), 1000));
      }
    }
    sink(text);
  }

 private:
  // The command, or those of the runs of which the table was put together.
  static std::string origin(const EngineTable& table, const ReportContext& context) {
    if (table.runs.empty()) return fmt::format(": `{}`", printable(context.command, 1000));
    const auto [first, last] = std::ranges::minmax(table.runs, {}, &TableRun::time);
    std::string text =
        fmt::format(" from {} between {} and {} UTC, with the same suite and adapters:\n",
                    count_of(table.runs.size(), "run"), first.time, last.time);
    for (const TableRun& run : table.runs) {
      text += fmt::format("\n- `{}`", printable(run.command, 1000));
    }
    return text;
  }

  static std::string heading(const EngineTable& table, const std::string& group) {
    std::string text = fmt::format("\n## {}\n| |", markdown(group));
    for (const TableColumn& each : table.columns)
      text += fmt::format(" {} |", markdown(each.engine.name));
    text += "\n|---|";
    for (size_t i = 0; i < table.columns.size(); ++i) text += "---|";
    return text + "\n";
  }

  static bool has_row(const TableCell& cell) {
    return is_bad(cell.finding) || is_worth_a_line(cell);
  }

  static std::string mark(const TableCell& cell) {
    if (cell.change && *cell.change != Change::kSame)
      return fmt::format("**{}**", verdict_text(cell));
    if (is_right(cell.finding)) return cell.finding == Finding::kWithinNoise ? "≈" : "✓";
    if (!is_bad(cell.finding)) return "–";
    return cell.fails() ? fmt::format("**{}**", finding_name(cell.finding)) : verdict_text(cell);
  }
};

}  // namespace

Reports<EngineTable> engine_table_reports() {
  return reports_of<EngineTable, EngineTableText, EngineTableJson, EngineTableHtml,
                    EngineTableMarkdown, EngineTableJunit, EngineTableGithub,
                    EngineTableBaseline>();
}

}  // namespace assay
