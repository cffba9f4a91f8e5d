#include "assay/report/several_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "assay/report/json_array.h"
#include "base/error.h"

namespace assay {
namespace {

std::string number(double value) {
  return fmt::format("{:.3g}", value);
}

std::string place_of(const std::optional<FirstDivergence>& first) {
  if (!first) return "-";
  return fmt::format("{} at {}", printable(first->checkpoint.name, 40), first->token_idx);
}

Color color_of(const RunPair& pair) {
  if (pair.pass) return Color::kNone;
  return pair.verdict == Verdict::kInconclusive ? Color::kCaution : Color::kBad;
}

void append_first(const std::optional<FirstDivergence>& first, JsonObject& object,
                  std::string& out) {
  object.key("first_divergence");
  if (!first) {
    out += "null";
    return;
  }
  JsonObject place(out);
  place.member("checkpoint", first->checkpoint.name);
  place.member("token_idx", first->token_idx);
  place.member("metric", first->metric);
  place.member("value", first->value);
  place.member("tolerance", first->tolerance);
  place.end();
}

void append_pair(const RunPair& pair, JsonObject& object, std::string& out) {
  object.member("verdict", verdict_name(pair.verdict));
  object.member("pass", pair.pass);
  object.member("compared", pair.compared);
  object.member("failed", pair.failed);
  object.member("median_rel_l2", pair.median_rel_l2);
  object.member("worst_rel_l2", pair.worst_rel_l2);
  object.member("worst_of_tolerance", pair.worst_of_tolerance);
  append_first(pair.first_divergence, object, out);
}

bool is_outlier(const SeveralComparison& several, size_t run) {
  return std::find(several.outliers.begin(), several.outliers.end(), run) != several.outliers.end();
}

std::string cell_text(const MatrixCell& cell) {
  if (cell.is_reference) return "reference";
  if (!cell.problem.empty()) return "not comparable";
  if (!cell.pair) return "no reference";
  std::string text =
      fmt::format("{} {}", verdict_name(cell.pair->verdict), number(cell.pair->worst_rel_l2));
  if (!cell.pair->pass && cell.pair->first_divergence) {
    text += fmt::format(" {}", place_of(cell.pair->first_divergence));
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

void write_table(const SeveralComparison& several, const TextStyle& style, const TextSink& sink) {
  const bool agree = several.consensus == Consensus::kAgree;
  static constexpr std::string_view kWords[] = {"AGREE", "OUTLIER", "CANNOT TELL"};
  std::string text = fmt::format("{}  {}\n\n",
                                 colored(kWords[static_cast<size_t>(several.consensus)],
                                         agree ? Color::kGood : Color::kBad, style),
                                 several.why);
  const std::vector<std::string> names = short_names(several.runs);
  TextTable runs({"run", "log", "model", "type"});
  for (size_t i = 0; i < names.size(); ++i) {
    const RunLabel& run = several.runs[i];
    runs.add({names[i], printable(run.path, 60), run.model.empty() ? "-" : printable(run.model, 30),
              run.type.empty() ? "-" : printable(run.type, 12)},
             is_outlier(several, i) ? Color::kBad : Color::kNone);
  }
  text += fmt::format("{}\n", runs.text(style));
  TextTable pairs({"reference", "other", "first divergence", "median rel l2", "worst rel l2",
                   "x tolerance", "failed", "verdict"});
  for (const RunPair& pair : several.pairs) {
    pairs.add(
        {names[pair.a], names[pair.b], place_of(pair.first_divergence), number(pair.median_rel_l2),
         number(pair.worst_rel_l2), number(pair.worst_of_tolerance),
         fmt::format("{}/{}", pair.failed, pair.compared), std::string(verdict_name(pair.verdict))},
        color_of(pair));
  }
  text += pairs.text(style);
  sink(text);
}

void write_json(const SeveralComparison& several, const TextSink& sink) {
  std::string out;
  JsonObject object(out);
  object.member("consensus", consensus_name(several.consensus));
  object.member("pass", several.consensus == Consensus::kAgree);
  object.member("why", several.why);
  write_array("runs", several.runs, out, sink, [&](const RunLabel& run) {
    const auto index = static_cast<size_t>(&run - several.runs.data());
    JsonObject element(out);
    element.member("log", run.path);
    element.member("engine", run.engine);
    element.member("model", run.model);
    element.member("type", run.type);
    element.member("outlier", is_outlier(several, index));
    element.end();
  });
  write_array("pairs", several.pairs, out, sink, [&](const RunPair& pair) {
    JsonObject element(out);
    element.member("ref", several.runs[pair.a].path);
    element.member("got", several.runs[pair.b].path);
    append_pair(pair, element, out);
    element.end();
  });
  out += "}\n";
  sink(out);
}

void write_table(const Matrix& matrix, const TextStyle& style, const TextSink& sink) {
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

void write_json(const Matrix& matrix, const TextSink& sink) {
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
