#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/flags.h"
#include "assay/cli/output.h"
#include "assay/cli/report_flags.h"
#include "assay/cli/spooled_inputs.h"
#include "assay/compare/analysis.h"
#include "assay/compare/coverage.h"
#include "assay/convert/log_arrays.h"
#include "assay/report/analysis_findings.h"
#include "assay/report/analysis_report.h"
#include "base/error.h"

namespace assay {
namespace {

struct AnalyzeArguments {
  explicit AnalyzeArguments(CLI::App& command) : flags(command) {}

  Flags flags;
  std::vector<std::string> logs;
  bool stats = false;
  bool strict = false;
  std::string numpy;
  std::string compare;
  ReportFlags report;
};

// Warns of a log that is given twice: it would count twice, or differ from itself in nothing.
void warn_of_copies(const std::vector<std::string>& names, const std::vector<std::string>& paths) {
  for (size_t b = 0; b < paths.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      if (!is_same_file(paths[a], paths[b])) continue;
      print_warning(printable(names[b]) + " is the same file as " + printable(names[a]));
    }
  }
}

int run(const AnalyzeArguments& arguments, SpooledInputs& spooled) {
  if (!arguments.numpy.empty() && arguments.logs.size() > 1) {
    throw Error("an archive is of one log", "--numpy", "give one LOG with it");
  }
  refuse_to_overwrite(arguments.flags.inputs(), arguments.numpy, "the archive", "--numpy");
  std::vector<Analysis> logs;
  std::vector<std::string> paths;
  for (const std::string& log : arguments.logs) {
    paths.push_back(spooled.path_of(log));
    // Of a folder each file, which is of a rank, a sequence or a process.
    for (Analysis& file : analyze_run(paths.back())) {
      if (file.path == paths.back()) file.path = log;
      spooled.print_warnings(file.warnings);
      logs.push_back(std::move(file));
    }
  }
  std::optional<Analysis> other;
  if (!arguments.compare.empty()) {
    paths.push_back(spooled.path_of(arguments.compare));
    other = analyze_log(paths.back());
    other->path = arguments.compare;
    spooled.print_warnings(other->warnings);
    for (const Analysis& log : logs) {
      if (const std::string text = other_model(log.header, other->header); !text.empty()) {
        print_warning(text);
      }
    }
  }
  std::vector<std::string> names = arguments.logs;
  if (other) names.push_back(arguments.compare);
  warn_of_copies(names, paths);
  if (!arguments.numpy.empty()) write_log_as_npz(paths.front(), arguments.numpy);
  const Analyses analyses{logs, other ? &*other : nullptr, arguments.stats};
  show_report(analysis_reports(), analyses, arguments.report);
  const bool suspect =
      std::ranges::any_of(logs, is_suspect) || (other.has_value() && is_suspect(*other));
  return arguments.strict && suspect ? kDiverged : kInParity;
}

}  // namespace

void add_analyze(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("analyze", "Say what a log holds and what of it is garbage");
  auto arguments = std::make_shared<AnalyzeArguments>(*command);
  Flags& flags = arguments->flags;
  flags
      .add("LOG", arguments->logs, "The log; of several, their rates side by side",
           {.is_input = true})
      ->required();
  flags.add("--stats", arguments->stats, "Statistics of each checkpoint");
  flags.add("--strict", arguments->strict,
            "Exit code 1 where a log holds garbage or a finding, other than a padded vocabulary; "
            "without it 0 whatever is found");
  flags
      .add("--numpy", arguments->numpy,
           "Write the values to this file (NPZ): one array [records, values] for each "
           "checkpoint, and token_idx")
      ->type_name("OUT.npz");
  flags.add("--compare", arguments->compare, "Another log, to be shown beside it",
            {.is_input = true});
  arguments->report.add_json(*command, "One JSON object, statistics included");
  command->callback([arguments, &exit_code] {
    exit_code =
        with_spooled_inputs([&](SpooledInputs& spooled) { return run(*arguments, spooled); });
  });
}

}  // namespace assay
