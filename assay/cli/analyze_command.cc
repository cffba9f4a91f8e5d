#include <memory>
#include <optional>
#include <string>

#include "assay/cli/commands.h"
#include "assay/cli/output.h"
#include "assay/compare/analysis.h"
#include "assay/report/json_report.h"
#include "assay/report/table_report.h"
#include "base/error.h"

namespace assay {
namespace {

struct AnalyzeArguments {
  std::string log;
  bool stats = false;
  std::string numpy;
  std::string compare;
  bool json = false;
};

int run(const AnalyzeArguments& arguments) {
  if (!arguments.numpy.empty()) {
    throw Error("not available yet", "--numpy", "read the values from the log itself");
  }
  const Analysis analysis = analyze_log(arguments.log);
  std::optional<Analysis> other;
  if (!arguments.compare.empty()) other = analyze_log(arguments.compare);
  for (const std::string& warning : analysis.warnings) print_warning(warning);
  if (other) {
    for (const std::string& warning : other->warnings) print_warning(warning);
  }
  write_output("", [&](const TextSink& sink) {
    if (arguments.json) {
      write_json(analysis, other ? &*other : nullptr, sink);
      return;
    }
    const TextStyle style = output_style("");
    write_table(analysis, arguments.stats, style, sink);
    if (!other) return;
    sink("\n");
    write_table(*other, arguments.stats, style, sink);
  });
  return kInParity;
}

}  // namespace

void add_analyze(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<AnalyzeArguments>();
  CLI::App* command =
      app.add_subcommand("analyze", "Say what a log holds and what of it is garbage");
  command->add_option("LOG", arguments->log, "The log")->required();
  command->add_flag("--stats", arguments->stats, "Statistics of each checkpoint");
  command->add_option("--numpy", arguments->numpy, "Not available yet");
  command->add_option("--compare", arguments->compare, "Another log, to be shown beside it");
  command->add_flag("--json", arguments->json, "One JSON object, statistics included");
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace assay
