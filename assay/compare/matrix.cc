#include "assay/compare/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>

#include "assay/log/log_reader.h"
#include "base/error.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOracleMath = "float64";

// Sorted, so that the same folder gives the same matrix.
std::vector<std::string> logs_in(const std::vector<std::string>& paths) {
  std::vector<std::string> logs;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      logs.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (auto at = fs::recursive_directory_iterator(path, error);
         !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
      if (at->path().extension() == ".jsonl" && at->is_regular_file(error)) {
        found.push_back(at->path().string());
      }
    }
    if (error) throw Error("cannot read the folder: " + error.message(), path);
    if (found.empty()) throw Error("the folder holds no *.jsonl", path, "give a folder of logs");
    std::sort(found.begin(), found.end());
    logs.insert(logs.end(), found.begin(), found.end());
  }
  return logs;
}

struct Run {
  RunLabel label;
  std::string prompt;
  std::string math;
  std::vector<int64_t> tokens;
  int64_t bytes = 0;
};

std::optional<Run> run_of(const std::string& path) {
  LogReader log(path, Depth::kKeys);
  log.next();
  if (!log.header() || log.header()->model.name.empty()) return std::nullopt;
  const LogHeader& header = *log.header();
  Run run{label_of(path), header.prompt.value_or(""), header.math, header.tokens,
          log.file()->size()};
  if (!header.prompt) run.prompt = fmt::format("{} tokens", header.tokens.size());
  return run;
}

bool is_reference(const Run& run, const std::string& wanted) {
  if (wanted.empty()) return run.math == kOracleMath;
  return run.label.engine.find(wanted) != std::string::npos;
}

MatrixCell compare_run(const Run& reference, const Run& run, const MatrixOptions& options) {
  MatrixCell cell{run.label.engine, run.label.path, {}, {}, false};
  const std::string& ref_path = reference.label.path;
  try {
    CompareOptions compare = options.compare;
    if (options.policy_for) compare.policy = options.policy_for(ref_path, cell.log);
    const Comparison comparison = compare_logs(ref_path, cell.log, compare);
    cell.pair = pair_of(comparison, 0, 1);
  } catch (const Error& error) {
    cell.problem = error.what();
  }
  return cell;
}

// Of several logs of the reference the largest: it holds the most checkpoints.
const Run* reference_of(const std::vector<Run>& runs, const std::string& wanted) {
  const Run* best = nullptr;
  for (const Run& run : runs) {
    if (is_reference(run, wanted) && (best == nullptr || run.bytes > best->bytes)) best = &run;
  }
  return best;
}

}  // namespace

Matrix compare_matrix(const std::vector<std::string>& paths, const MatrixOptions& options) {
  Matrix matrix;
  std::map<std::tuple<std::string, std::string, std::vector<int64_t>, std::string>,
           std::vector<Run>>
      groups;
  for (const std::string& path : logs_in(paths)) {
    const auto run = run_of(path);
    if (!run) {
      matrix.left_out.push_back(path);
      continue;
    }
    groups[{run->label.model, run->label.type, run->tokens, run->prompt}].push_back(*run);
  }
  if (groups.empty()) {
    throw Error("no log has a header that names its model", paths.front(),
                "log with a first line {\"assay\":1,\"model\":{\"name\":...},\"engine\":...}");
  }
  std::set<std::string> references;
  std::set<std::string> engines;
  size_t compared = 0;
  for (const auto& [key, runs] : groups) {
    MatrixRow row{std::get<0>(key), std::get<1>(key), runs.front().prompt, {}, {}};
    const Run* reference = reference_of(runs, options.reference);
    if (reference != nullptr) row.reference = reference->label.path;
    for (const Run& run : runs) {
      MatrixCell cell{run.label.engine, run.label.path, {}, {}, &run == reference};
      if (reference != nullptr && &run != reference) {
        cell = compare_run(*reference, run, options);
        matrix.pass = matrix.pass && cell.pair && cell.pair->pass;
        ++compared;
      }
      (cell.is_reference ? references : engines).insert(cell.engine);
      row.cells.push_back(std::move(cell));
    }
    matrix.rows.push_back(std::move(row));
  }
  if (compared == 0) {
    throw Error("no model, type and prompt has a run of the reference and another one",
                paths.front(),
                options.reference.empty()
                    ? "name the reference's engine with --reference"
                    : fmt::format("check --reference {}", printable(options.reference, 40)));
  }
  matrix.engines.assign(references.begin(), references.end());
  for (const std::string& engine : engines) {
    if (!references.contains(engine)) matrix.engines.push_back(engine);
  }
  return matrix;
}

}  // namespace assay
