#include "assay/report/matrix_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "assay/report/json_object.h"
#include "assay/report/run_pair.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

// What a pass does not show; empty where it shows all.
std::string partial_text(const RunPair& pair) {
  std::string text;
  if (pair.partial > 0) {
    text = fmt::format("{} of {} partial", pair.partial, count_of(pair.compared, "record"));
  }
  if (pair.without_argmax > 0) {
    text += fmt::format("{}argmax not known at {}", text.empty() ? "" : ", ",
                        count_of(pair.without_argmax, "token"));
  }
  return text.empty() ? text : fmt::format(" ({})", text);
}

std::string cell_text(const MatrixCell& cell) {
  if (cell.is_reference) return "reference";
  if (!cell.problem.empty()) return "not comparable";
  if (!cell.pair) return "no reference";
  std::string text =
      fmt::format("{} {}", verdict_name(cell.pair->verdict), short_number(cell.pair->worst_rel_l2));
  if (!cell.pair->pass && cell.pair->first_divergence) {
    text += fmt::format(" {}", divergence_place(cell.pair->first_divergence));
  }
  return text + partial_text(*cell.pair);
}

bool is_bad(const MatrixCell& cell) {
  return !cell.problem.empty() || (cell.pair && !cell.pair->pass);
}

Color color_of(const MatrixRow& row) {
  if (std::any_of(row.cells.begin(), row.cells.end(), is_bad)) return Color::kBad;
  return row.reference.empty() ? Color::kCaution : Color::kNone;
}

Color color_of(const MatrixCell& cell) {
  if (is_bad(cell)) return Color::kBad;
  return cell.is_reference || cell.pair ? Color::kNone : Color::kCaution;
}

std::vector<std::string> keys_of(const MatrixRow& row) {
  return {printable(row.model, 30), printable(row.type, 12), printable(row.prompt, 24)};
}

// The runs of one engine, and of the reference's only one, however many logs it left.
std::vector<const MatrixCell*> runs_of(const MatrixRow& row, const std::string& engine) {
  std::vector<const MatrixCell*> runs;
  for (const MatrixCell& cell : row.cells) {
    if (cell.engine != engine || (cell.is_reference && !runs.empty())) continue;
    runs.push_back(&cell);
  }
  return runs;
}

// A column an engine.
TextTable engines_table(const RunMatrix& matrix) {
  std::vector<std::string> header = {"model", "type", "prompt"};
  for (const std::string& engine : matrix.engines) header.push_back(printable(engine, 40));
  TextTable table(header, header.size());
  for (const MatrixRow& row : matrix.rows) {
    std::vector<std::string> cells = keys_of(row);
    for (const std::string& engine : matrix.engines) {
      std::string text;
      for (const MatrixCell* run : runs_of(row, engine)) {
        text += fmt::format("{}{}", text.empty() ? "" : "; ", cell_text(*run));
      }
      cells.push_back(text.empty() ? "-" : text);
    }
    table.add(cells, color_of(row));
  }
  return table;
}

// A line a run.
TextTable runs_table(const RunMatrix& matrix) {
  const std::vector<std::string> header = {"model", "type", "prompt", "engine", "verdict"};
  TextTable table(header, header.size());
  for (const MatrixRow& row : matrix.rows) {
    for (const std::string& engine : matrix.engines) {
      for (const MatrixCell* run : runs_of(row, engine)) {
        std::vector<std::string> cells = keys_of(row);
        cells.push_back(printable(engine, 40));
        cells.push_back(cell_text(*run));
        table.add(cells, color_of(*run));
      }
    }
  }
  return table;
}

std::string problem_lines(const RunMatrix& matrix) {
  std::string text;
  for (const MatrixRow& row : matrix.rows) {
    for (const MatrixCell& cell : row.cells) {
      if (!cell.problem.empty()) text += fmt::format("  {}\n", cell.problem);
    }
  }
  for (const UnreadableLog& log : matrix.unreadable)
    text += fmt::format("  {}\n", log.problem.what());
  return text;
}

void append_cell(JsonObject& object, const MatrixCell& cell) {
  object.member("engine", cell.engine);
  object.member("log", cell.log);
  object.member("is_reference", cell.is_reference);
  if (!cell.reference.empty()) object.member("reference", cell.reference);
  if (cell.pair) append_pair(*cell.pair, object);
  if (!cell.problem.empty()) object.member("problem", cell.problem);
  if (!cell.warnings.empty()) object.array("warnings", cell.warnings);
}

class MatrixTable : public Report<RunMatrix> {
 public:
  std::string_view name() const override { return "table"; }
  void write(const RunMatrix& matrix, const ReportContext& context,
             const TextSink& sink) const override;
};

class MatrixJson : public Report<RunMatrix> {
 public:
  std::string_view name() const override { return "json"; }
  void write(const RunMatrix& matrix, const ReportContext& context,
             const TextSink& sink) const override;
};

}  // namespace

void MatrixTable::write(const RunMatrix& matrix, const ReportContext& context,
                        const TextSink& sink) const {
  const TextStyle& style = context.style;
  TextTable table = engines_table(matrix);
  if (!table.fits(style)) table = runs_table(matrix);
  std::string text = table.text(style) + problem_lines(matrix);
  if (!matrix.left_out.empty()) {
    text += fmt::format(
        "  {} left out: {}{}\n",
        count_of(matrix.left_out.size(), "log without a header that names its model was",
                 "logs without a header that names their model were"),
        printable(matrix.left_out.front(), 60), matrix.left_out.size() > 1 ? ", ..." : "");
  }
  sink(text);
}

void MatrixJson::write(const RunMatrix& matrix, const ReportContext&, const TextSink& sink) const {
  write_json_line(sink, [&](JsonObject& object) {
    object.member("pass", matrix.pass);
    object.lines("engines", matrix.engines, sink);
    object.lines("rows", matrix.rows, sink, [&](JsonObject& element, const MatrixRow& row) {
      element.member("model", row.model);
      element.member("type", row.type);
      element.member("prompt", row.prompt);
      element.member("reference", row.reference);
      element.lines("cells", row.cells, sink, append_cell);
    });
    object.lines("left_out", matrix.left_out, sink);
    object.lines("unreadable", matrix.unreadable, sink,
                 [](JsonObject& element, const UnreadableLog& log) {
                   element.member("log", log.log);
                   element.member("problem", log.problem.what());
                 });
  });
}

Reports<RunMatrix> matrix_reports() {
  return reports_of<RunMatrix, MatrixTable, MatrixJson>();
}

}  // namespace assay
