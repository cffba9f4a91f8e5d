#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/flags.h"
#include "assay/cli/output.h"
#include "assay/cli/report_flags.h"
#include "assay/conform/conformance.h"
#include "assay/conform/conformance_report.h"
#include "base/environment.h"
#include "base/error.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

struct ConformArguments {
  explicit ConformArguments(CLI::App& app) : flags(app) {}

  Flags flags;
  std::vector<std::string> engines;
  std::string command;
  std::string precision;
  std::string list;
  int64_t timeout = 120;
  ConformOptions options;
  ReportFlags report;
};

// A folder of Assay's sources, or where it was installed.
std::string data_place(const std::string& name) {
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  const fs::path installed = program.parent_path() / "../share/assay" / name;
  if (fs::exists(installed, none)) return installed.lexically_normal().string();
  return (fs::path(ASSAY_SOURCE_DIR) / name).string();
}

std::string default_work() {
  const std::string cache = environment("XDG_CACHE_HOME");
  const std::string home = environment("HOME");
  if (!cache.empty()) return cache + "/assay/conform";
  return (home.empty() ? std::string("/tmp") : home + "/.cache") + "/assay/conform";
}

std::vector<EngineDeclaration> engines_of(const ConformArguments& arguments) {
  if (arguments.engines.empty() == arguments.command.empty()) {
    throw Error("takes engines of the list, or --command", "assay conform",
                "give one of them; see engines/README.md");
  }
  const std::string list =
      arguments.list.empty() ? data_place("engines/engines.json") : arguments.list;
  std::vector<EngineDeclaration> engines;
  for (const std::string& name : arguments.engines) engines.push_back(find_engine(list, name));
  if (!arguments.command.empty()) engines.push_back(engine_of_command(arguments.command));
  for (EngineDeclaration& engine : engines) {
    if (!arguments.precision.empty()) {
      engine.precision = find_precision(arguments.precision, "--precision").name;
    }
  }
  return engines;
}

int run(ConformArguments& arguments) {
  arguments.flags.apply();
  arguments.report.check_output(arguments.flags.inputs());
  ConformOptions options = arguments.options;
  if (options.suite.empty()) options.suite = data_place("conform/suite");
  if (options.work.empty()) options.work = default_work();
  options.timeout = std::chrono::seconds(arguments.timeout);
  options.progress = progress_line("running the suite", Work::kSteps);
  if (find_report(conformance_reports(), arguments.report.format) == nullptr) {
    throw Error(fmt::format("'{}' is not known", arguments.report.format), "--format",
                "give " + alternatives(format_names(conformance_reports())));
  }
  const Conformance conformance = conform(engines_of(arguments), options);
  show_report(conformance_reports(), conformance, arguments.report,
              {.command = "assay conform" + arguments.flags.typed()});
  if (conformance.pass()) return kInParity;
  for (const EngineVerdicts& each : conformance.engines) {
    if (each.count(Conformity::kUnsupported) < std::ssize(each.features)) return kDiverged;
  }
  const FeatureVerdict& first = conformance.engines.front().features.front();
  print_error(fmt::format("{}: supports none of the features, so nothing is shown: {}",
                          printable(conformance.engines.front().engine.name),
                          printable(first.text, 300)));
  return kNotComparable;
}

}  // namespace

void add_conform(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "conform", "Find out which features of networks an engine honours, ignores or misreads");
  auto arguments = std::make_shared<ConformArguments>(*command);
  Flags& flags = arguments->flags;
  ConformOptions& options = arguments->options;
  flags.add("ENGINE", arguments->engines,
            "Engines of engines/engines.json, which engines/install.py installs");
  flags.add("--command", arguments->command,
            "Another engine: a command for the shell, which finds a case in its environment and "
            "logs it (docs/conform.md)");
  flags.add("--precision", arguments->precision,
            "float32, mixed, float16 or bfloat16: how near to float64 it can come (default: as the "
            "list says; float32 of a command)");
  flags.add("--features", options.features, "Globs of features (default: all)")
      ->allow_extra_args(false);
  flags.add("--suite", options.suite, "The folder of the features (default: Assay's own)",
            {.is_input = true});
  flags.add("--engines", arguments->list, "Another list of engines", {.is_input = true});
  flags.add("--work", options.work,
            "Where models and logs are written and stay (default: the user's cache)");
  flags.add("--timeout", arguments->timeout, "Seconds for each case")
      ->check(whole_number(1, 86400))
      ->capture_default_str();
  arguments->report.add(*command,
                        alternatives(format_names(conformance_reports())) + " (default table)");
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace assay
