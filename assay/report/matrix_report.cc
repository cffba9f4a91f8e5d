#include "assay/report/matrix_report.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "assay/report/json_array.h"
#include "assay/report/run_pair.h"
#include "base/error.h"

namespace assay {
namespace {

std::string cell_text(const MatrixCell& cell) {
  if (cell.is_reference) return "reference";
  if (!cell.problem.empty()) return "not comparable";
  if (!cell.pair) return "no reference";
  std::string text =
      fmt::format("{} {}", verdict_name(cell.pair->verdict), short_number(cell.pair->worst_rel_l2));
  if (!cell.pair->pass && cell.pair->first_divergence) {
    text += fmt::format(" {}", divergence_place(cell.pair->first_divergence));
  }
  return text;
}

Color color_of(const MatrixRow& row) {
  for (const MatrixCell& cell : row.cells) {
    if (!cell.problem.empty() || (cell.pair && !cell.pair->pass)) return Color::kBad;
  }
  return row.reference.empty() ? Color::kCaution : Color::kNone;
}

}  // namespace

void write_table(const RunMatrix& matrix, const TextStyle& style, const TextSink& sink) {
  std::vector<std::string> header = {"model", "type", "prompt"};
  for (const std::string& engine : matrix.engines) header.push_back(printable(engine, 40));
  TextTable table(header);
  std::string problems;
  for (const MatrixRow& row : matrix.rows) {
    std::vector<std::string> cells = {printable(row.model, 30), printable(row.type, 12),
                                      printable(row.prompt, 24)};
    for (const std::string& engine : matrix.engines) {
      std::string text;
      for (const MatrixCell& cell : row.cells) {
        if (cell.engine != engine) continue;
        // However many logs the reference's engine left.
        if (cell.is_reference && !text.empty()) continue;
        text += fmt::format("{}{}", text.empty() ? "" : "; ", cell_text(cell));
        if (!cell.problem.empty()) problems += fmt::format("  {}\n", cell.problem);
      }
      cells.push_back(text.empty() ? "-" : text);
    }
    table.add(cells, color_of(row));
  }
  std::string text = fmt::format("{}{}", table.text(style), problems);
  if (!matrix.left_out.empty()) {
    text += fmt::format("  {} logs without a header that names their model were left out: {}{}\n",
                        matrix.left_out.size(), printable(matrix.left_out.front(), 60),
                        matrix.left_out.size() > 1 ? ", ..." : "");
  }
  sink(text);
}

void write_json(const RunMatrix& matrix, const TextSink& sink) {
  std::string out;
  JsonObject object(out);
  object.member("pass", matrix.pass);
  const auto append_text = [&](const std::string& text) { append_json_string(out, text); };
  write_array("engines", matrix.engines, out, sink, append_text);
  write_array("rows", matrix.rows, out, sink, [&](const MatrixRow& row) {
    JsonObject element(out);
    element.member("model", row.model);
    element.member("type", row.type);
    element.member("prompt", row.prompt);
    element.member("reference", row.reference);
    write_array("cells", row.cells, out, sink, [&](const MatrixCell& cell) {
      JsonObject inner(out);
      inner.member("engine", cell.engine);
      inner.member("log", cell.log);
      inner.member("is_reference", cell.is_reference);
      if (!cell.reference.empty()) inner.member("reference", cell.reference);
      if (cell.pair) append_pair(*cell.pair, inner, out);
      if (!cell.problem.empty()) inner.member("problem", cell.problem);
      inner.end();
    });
    element.end();
  });
  write_array("left_out", matrix.left_out, out, sink, append_text);
  out += "}\n";
  sink(out);
}

}  // namespace assay
