#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "assay/cli/commands.h"
#include "assay/cli/flags.h"
#include "assay/cli/output.h"
#include "assay/cli/report_flags.h"
#include "assay/cli/selection_flags.h"
#include "assay/compare/matrix.h"
#include "assay/golden/floors.h"
#include "assay/golden/manifest.h"
#include "assay/log/log_reader.h"
#include "assay/report/matrix_report.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

struct MatrixArguments {
  explicit MatrixArguments(CLI::App& command) : flags(command) {}

  Flags flags;
  std::vector<std::string> paths;
  std::string policy;
  MatrixOptions options;
  ReportFlags report;
};

// The manifest of the golden that the reference belongs to; empty if it is of none.
std::string manifest_beside(const std::string& ref_path) {
  const std::string path =
      (std::filesystem::path(ref_path).parent_path() / "manifest.json").string();
  std::error_code none;
  return std::filesystem::exists(path, none) ? path : "";
}

// The floors of that golden, or the built-in tolerance, which is wider: not for a manifest that is
// damaged.
Policy floors_beside(const std::string& ref_path, const std::string& got_path) {
  const std::string manifest_path = manifest_beside(ref_path);
  if (manifest_path.empty()) return Policy();
  if (!is_golden_manifest(manifest_path)) {
    throw Error("is beside the reference, and is not a golden's manifest", manifest_path,
                "repair it, or give the tolerances with --policy");
  }
  return policy_for_logs(manifest_path, "", ref_path, got_path);
}

// The error of the first such log, and how many more the report names.
std::string text_of_first(const std::string& error, size_t logs) {
  return logs == 1 ? error : error + "; the report names " + count_of(logs - 1, "more such log");
}

// All that the matrix is made of, logs in folders among it.
std::vector<Input> inputs_of(const MatrixArguments& arguments, const RunMatrix& matrix) {
  std::vector<Input> inputs = arguments.flags.inputs();
  inputs.insert(inputs.end(), matrix.left_out.begin(), matrix.left_out.end());
  for (const UnreadableLog& log : matrix.unreadable) inputs.emplace_back(log.log);
  for (const MatrixRow& row : matrix.rows) {
    for (const MatrixCell& cell : row.cells) inputs.emplace_back(cell.log);
  }
  return inputs;
}

int run(MatrixArguments& arguments) {
  arguments.flags.apply();
  MatrixOptions options = arguments.options;
  if (arguments.policy.empty()) {
    options.policy_for = floors_beside;
    options.whole_for = [](const std::string& path) { return !manifest_beside(path).empty(); };
  } else {
    options.policy_for = [&](const std::string& ref_path, const std::string& got_path) {
      return policy_for_logs(arguments.policy, "", ref_path, got_path);
    };
    options.compare.whole_required = requires_whole_records(arguments.policy);
  }
  const RunMatrix matrix = compare_matrix(arguments.paths, options);
  arguments.report.check_output(inputs_of(arguments, matrix));
  for (const MatrixRow& row : matrix.rows) {
    for (const MatrixCell& cell : row.cells) {
      for (const std::string& warning : cell.warnings) print_warning(warning);
    }
  }
  show_report(matrix_reports(), matrix, arguments.report);
  if (matrix.pass) return kInParity;
  for (const MatrixRow& row : matrix.rows) {
    for (const MatrixCell& cell : row.cells) {
      const bool judged = cell.pair && cell.pair->verdict < Verdict::kInconclusive;
      if (judged && !cell.pair->pass) return kDiverged;
    }
  }
  if (!matrix.unreadable.empty()) {
    print_error(text_of_first(matrix.unreadable.front().problem.what(), matrix.unreadable.size()));
    return kNotComparable;
  }
  if (!matrix.left_out.empty()) {
    const Error error("has no header that names its model, so it was not compared",
                      matrix.left_out.front(),
                      "write one (docs/add-an-engine.md), or leave it out");
    print_error(text_of_first(error.what(), matrix.left_out.size()));
    return kNotComparable;
  }
  print_error(
      "what could be compared is in parity, but not all runs could be; the table says which: log "
      "the reference with their model and prompt, or leave them out");
  return kNotComparable;
}

}  // namespace

void add_matrix(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "matrix", "Hold the runs of many engines, models and types against their references");
  auto arguments = std::make_shared<MatrixArguments>(*command);
  Flags& flags = arguments->flags;
  CompareOptions& compare = arguments->options.compare;
  flags.add("PATH", arguments->paths, "Logs, and folders of logs (*.jsonl)", {.is_input = true})
      ->required();
  flags.add("--reference", arguments->options.reference,
            "Part of the reference's engine, backend and math (default: math float64)");
  flags.add("--policy", arguments->policy,
            "File with the tolerances, or a golden's manifest (default: the floors of the "
            "manifest.json beside the reference, or the built-in ones)",
            {.is_input = true});
  add_selection_flags(flags, compare.selection, "Only these positions, as in assay compare");
  flags.add_values("--map", "Names of another engine, as in assay compare",
                   load_into({&compare.ref_map, &compare.got_map}), {.is_input = true});
  arguments->report.add_output(*command);
  arguments->report.add_json(*command, "One JSON object");
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace assay
