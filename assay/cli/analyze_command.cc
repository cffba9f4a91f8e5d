#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/output.h"
#include "assay/cli/show_report.h"
#include "assay/cli/spooled_inputs.h"
#include "assay/compare/analysis.h"
#include "assay/convert/log_arrays.h"
#include "assay/report/analysis_report.h"
#include "base/error.h"

namespace assay {
namespace {

struct AnalyzeArguments {
  std::vector<std::string> logs;
  bool stats = false;
  std::string numpy;
  std::string compare;
  bool json = false;
};

int run(const AnalyzeArguments& arguments, SpooledInputs& spooled) {
  if (!arguments.numpy.empty() && arguments.logs.size() > 1) {
    throw Error("an archive is of one log", "--numpy", "give one LOG with it");
  }
  std::vector<std::string> inputs = arguments.logs;
  inputs.push_back(arguments.compare);
  refuse_to_overwrite(inputs, arguments.numpy, "the archive", "--numpy");
  const auto analyze = [&](const std::string& log, const std::string& path) {
    Analysis analysis = analyze_log(path);
    analysis.path = log;
    for (std::string& warning : analysis.warnings) {
      warning = spooled.named(warning);
      print_warning(warning);
    }
    return analysis;
  };
  std::vector<Analysis> logs;
  std::vector<std::string> paths;
  for (const std::string& log : arguments.logs) {
    paths.push_back(spooled.path_of(log));
    logs.push_back(analyze(log, paths.back()));
  }
  std::optional<Analysis> other;
  if (!arguments.compare.empty()) {
    other = analyze(arguments.compare, spooled.path_of(arguments.compare));
  }
  if (!arguments.numpy.empty()) write_log_as_npz(paths.front(), arguments.numpy);
  const Analyses analyses{logs, other ? &*other : nullptr, arguments.stats};
  show_report(*find_report(analysis_reports(), arguments.json ? "json" : "table"), analyses, {},
              "");
  return kInParity;
}

}  // namespace

void add_analyze(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<AnalyzeArguments>();
  CLI::App* command =
      app.add_subcommand("analyze", "Say what a log holds and what of it is garbage");
  command->add_option("LOG", arguments->logs, "The log; of several, their rates side by side")
      ->required();
  command->add_flag("--stats", arguments->stats, "Statistics of each checkpoint");
  command
      ->add_option("--numpy", arguments->numpy,
                   "Write the values to this file (NPZ): one array [records, values] for each "
                   "checkpoint, and token_idx")
      ->type_name("OUT.npz");
  command->add_option("--compare", arguments->compare, "Another log, to be shown beside it");
  command->add_flag("--json", arguments->json, "One JSON object, statistics included");
  command->callback([arguments, &exit_code] {
    exit_code =
        with_spooled_inputs([&](SpooledInputs& spooled) { return run(*arguments, spooled); });
  });
}

}  // namespace assay
