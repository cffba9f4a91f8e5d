#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/show_report.h"
#include "assay/perf/model_verdict.h"
#include "assay/perf/perf_report.h"
#include "assay/perf/perf_text.h"
#include "base/error.h"

namespace assay {
namespace {

struct PerfArguments {
  std::string base;
  std::string head;
  std::string format = "table";
  std::string output;
  std::vector<std::string> accuracy;
  PerfOptions options;
};

SpeedAndAccuracy judge(const PerfArguments& arguments) {
  SpeedAndAccuracy judged{compare_benches(read_bench_file(arguments.base),
                                          read_bench_file(arguments.head), arguments.options),
                          {}};
  if (!arguments.accuracy.empty()) {
    judged.models = judge_models(judged.speed, read_accuracy(arguments.accuracy[0]),
                                 read_accuracy(arguments.accuracy[1]));
  }
  return judged;
}

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
  std::vector<std::string> inputs = {arguments.base, arguments.head};
  inputs.insert(inputs.end(), arguments.accuracy.begin(), arguments.accuracy.end());
  refuse_to_overwrite(inputs, arguments.output);
  refuse_to_append_summary(inputs, arguments.format, arguments.output);
  const SpeedAndAccuracy judged = judge(arguments);
  show_report(*find_report(perf_reports(), arguments.format), judged, {}, arguments.output);
  if (judged.fails()) return kDiverged;
  if (judged.speed.too_few_pairs()) {
    throw Error(too_few_pairs_text(judged.speed), arguments.head);
  }
  return kInParity;
}

}  // namespace

void add_perf(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<PerfArguments>();
  CLI::App* command =
      app.add_subcommand("perf",
                         "Say which benchmarks are slower, from two runs of assay_bench, and which "
                         "models less exact (see scripts/perf.sh)");
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
  command
      ->add_option("--accuracy", arguments->accuracy,
                   "Two folders of comparisons with the goldens, before and after (see "
                   "bench/accuracy.py): a model beyond its floor is refused, however fast")
      ->expected(2);
  auto* format = command->add_option("--format", arguments->format, "table, json, html or github")
                     ->check(CLI::IsMember(format_names(perf_reports())))
                     ->capture_default_str();
  add_json_flag(*command, *format, arguments->format);
  command->add_option("-o,--output", arguments->output, "Write to this file");
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace assay
