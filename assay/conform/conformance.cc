#include "assay/conform/conformance.h"

#include <fmt/format.h>

#include <chrono>
#include <set>
#include <utility>

#include "assay/compare/log_probabilities.h"
#include "assay/conform/engine_process.h"
#include "assay/conform/feature.h"
#include "assay/conform/judge.h"
#include "assay/conform/logged_output.h"
#include "assay/conform/work_folder.h"
#include "assay/log/log_reader.h"
#include "base/error.h"

namespace assay {
namespace {

TableCell cell_of(const Feature& feature, const SuiteModel& model, const EngineDeclaration& engine,
                  EngineProcess& process, const std::string& log) {
  TableCell cell;
  cell.log = log;
  const auto start = std::chrono::steady_clock::now();
  const EngineAnswer answer = process.run({.model_dir = model.folder,
                                           .gguf = model.gguf,
                                           .tokens = feature.tokens,
                                           .surface = "alone",
                                           .log = log});
  cell.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (answer.outcome == EngineAnswer::Outcome::kLogged) {
    judge(feature, precision_of(engine, feature), model.folder, cell);
    cell.cut_line = cut_line_of(log);
    if (!cell.cut_line.empty()) cell.add_text("the last line of its log is cut off");
  } else {
    cell.finding = finding_of(answer);
    cell.text = answer.message;
  }
  return cell;
}

// What a reference lacks would not be judged.
void check_reference(const Feature& feature) {
  std::set<int64_t> positions;
  LogReader log(feature.reference, Depth::kKeys);
  while (const Record* record = log.next()) {
    if (record->checkpoint == kLogitsName) positions.insert(record->token_idx);
  }
  for (int64_t i = 0; i < std::ssize(feature.tokens); ++i) {
    if (positions.contains(i)) continue;
    throw Error(fmt::format("has no logits at token {} of {}", i, feature.tokens.size()),
                feature.reference, "restore the suite, or generate it again (conform/README.md)");
  }
}

}  // namespace

std::vector<TableRow> rows_of(const std::vector<Feature>& features) {
  std::vector<TableRow> rows;
  for (const Feature& each : features) {
    rows.push_back({each.name, each.group, each.title, each.states, each.digest});
  }
  return rows;
}

EngineTable conform(const std::vector<EngineDeclaration>& engines, const SuiteOptions& options) {
  const std::vector<Feature> features = read_suite(options.suite, options.features);
  for (const Feature& feature : features) check_reference(feature);
  EngineTable table;
  table.rows = rows_of(features);
  const WorkFolder work(options.work);
  const auto total = static_cast<int64_t>(features.size() * engines.size());
  int64_t done = 0;
  for (const EngineDeclaration& engine : engines) {
    const std::string logs = work.logs_of(engine);
    EngineProcess process(engine.command, engine.serves, logs + "/stderr.txt", options.timeout);
    TableColumn column{.engine = engine, .cells = {}};
    for (const Feature& feature : features) {
      column.cells.push_back(cell_of(feature, work.write_model(feature), engine, process,
                                     logs + "/" + feature.name + ".jsonl"));
      column.cells.back().command = fmt::format("assay conform {} --features {}{}", engine.typed,
                                                feature.name, options.flags);
      if (options.progress) options.progress(++done, total);
    }
    table.columns.push_back(std::move(column));
  }
  return table;
}

}  // namespace assay
