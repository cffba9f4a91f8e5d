#include <fmt/format.h>

#include <memory>
#include <string>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/output.h"
#include "assay/perf/perf_comparison.h"
#include "assay/perf/perf_report.h"
#include "base/error.h"

namespace assay {
namespace {

struct PerfArguments {
  std::string base;
  std::string head;
  std::string format = "table";
  std::string output;
  PerfOptions options;
};

int run(const PerfArguments& arguments) {
  const PerfOptions& options = arguments.options;
  if (!(options.min_effect > 0 && options.min_effect < 1)) {
    throw Error(fmt::format("{} is not above 0 and below 1", options.min_effect), "--min-effect",
                "0.02 takes less than 2 % for the same");
  }
  if (!(options.alpha > 0 && options.alpha < 0.5)) {
    throw Error(fmt::format("{} is not above 0 and below 0.5", options.alpha), "--alpha",
                "it is the chance of a false alarm, such as 0.01");
  }
  const PerfComparison comparison =
      compare_benches(read_bench_file(arguments.base), read_bench_file(arguments.head), options);
  write_output(arguments.output, [&](const TextSink& sink) {
    if (arguments.format == "json") {
      write_json(comparison, sink);
    } else if (arguments.format == "github") {
      write_github(comparison, sink);
    } else {
      write_table(comparison, output_style(arguments.output), sink);
    }
  });
  return comparison.verdict == PerfVerdict::kSlow ? kDiverged : kInParity;
}

}  // namespace

void add_perf(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<PerfArguments>();
  CLI::App* command = app.add_subcommand(
      "perf",
      "Say which benchmarks are slower, from two runs of assay_bench (see scripts/perf.sh)");
  command->add_option("BASE", arguments->base, "JSON of assay_bench before the change")->required();
  command->add_option("HEAD", arguments->head, "JSON of assay_bench after it")->required();
  command
      ->add_option("--min-effect", arguments->options.min_effect,
                   "Changes smaller than this share are the same")
      ->capture_default_str();
  command
      ->add_option("--alpha", arguments->options.alpha,
                   "Chance of any false SLOW or FAST among all benchmarks")
      ->capture_default_str();
  command->add_option("--format", arguments->format, "table, json or github")
      ->check(CLI::IsMember({"table", "json", "github"}))
      ->capture_default_str();
  command->add_option("-o", arguments->output, "Write to this file");
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace assay
