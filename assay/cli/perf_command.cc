#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/flags.h"
#include "assay/cli/output.h"
#include "assay/cli/report_flags.h"
#include "assay/perf/bench_file.h"
#include "assay/perf/model_verdict.h"
#include "assay/perf/perf_report.h"
#include "assay/perf/perf_text.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

struct PerfArguments {
  explicit PerfArguments(CLI::App& command) : flags(command) {}

  Flags flags;
  std::string base;
  std::string head;
  std::vector<std::string> accuracy;
  PerfOptions options;
  ReportFlags report;
};

// A copy of the base, also one that was written anew or lacks some benchmarks, would be as fast as
// it, whatever the head is. A single time may be the same by chance, and shows nothing either way.
void refuse_copy(const BenchFile& base, const BenchFile& head) {
  size_t n_same = 0;
  const bool is_copy = std::ranges::all_of(head.times, [&](const auto& entry) {
    const auto found = base.times.find(entry.first);
    if (found == base.times.end()) return true;
    n_same += entry.second.size();
    return found->second == entry.second;
  });
  if (!is_copy || n_same == 1) return;
  throw Error(fmt::format("has the times of {}", printable(base.path)), head.path,
              "no two runs measure the same times: give what the head measured");
}

SpeedAndAccuracy judge(const PerfArguments& arguments) {
  const BenchFile base = read_bench_file(arguments.base);
  const BenchFile head = read_bench_file(arguments.head);
  SpeedAndAccuracy judged{compare_benches(base, head, arguments.options), {}};
  refuse_copy(base, head);
  if (!arguments.accuracy.empty()) {
    judged.models = judge_models(judged.speed, read_accuracy(arguments.accuracy[0]),
                                 read_accuracy(arguments.accuracy[1]));
  }
  return judged;
}

void check_min_effect(double value) {
  if (value > 0 && value < 1) return;
  throw Error(fmt::format("{} is not above 0 and below 1", value), "--min-effect",
              "0.02 takes less than 2 % for the same");
}

void check_alpha(double value) {
  if (value > 0 && value < 0.5) return;
  throw Error(fmt::format("{} is not above 0 and below 0.5", value), "--alpha",
              "it is the chance of a false alarm, such as 0.01");
}

// After the report, which an exception would take back.
int refuse(const Error& error) {
  print_error(error.what());
  return kNotComparable;
}

int run(const PerfArguments& arguments) {
  arguments.flags.apply();
  arguments.report.check_output(arguments.flags.inputs());
  refuse_same_file(arguments.base, arguments.head);
  const std::vector<std::string>& accuracy = arguments.accuracy;
  if (!accuracy.empty()) refuse_same_file(accuracy[0], accuracy[1]);
  const SpeedAndAccuracy judged = judge(arguments);
  show_report(perf_reports(), judged, arguments.report);
  if (judged.fails()) return kDiverged;
  if (const size_t skipped = judged.speed.skipped.size(); skipped > 0) {
    return refuse(Error(fmt::format("skips {} that the base measured, such as {}",
                                    count_of(skipped, "benchmark"), judged.speed.skipped.front()),
                        arguments.head,
                        "mend it, or leave it out of both with --benchmark_filter"));
  }
  if (const size_t missing = judged.speed.missing.size(); missing > 0) {
    return refuse(Error(fmt::format("lacks {} that the base measured, such as {}",
                                    count_of(missing, "benchmark"), judged.speed.missing.front()),
                        arguments.head,
                        "measure it, or accept that it is gone with --allow-missing GLOB"));
  }
  if (judged.speed.too_few_pairs()) {
    return refuse(Error(too_few_pairs_text(judged.speed), arguments.head));
  }
  if (const size_t unpaired = judged.speed.unpaired.size(); unpaired > 0) {
    return refuse(Error(fmt::format("has more or fewer repetitions than the base of {}, such as "
                                    "{}: those without a partner may be slower",
                                    count_of(unpaired, "benchmark"), judged.speed.unpaired.front()),
                        arguments.head, "run both with the same --benchmark_repetitions"));
  }
  const std::string unsure = unsure_text(judged.speed);
  if (!unsure.empty()) print_warning(arguments.head + ": " + unsure);
  return kInParity;
}

}  // namespace

void add_perf(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "perf",
      "Say which benchmarks are slower, from two runs of assay_bench or any other "
      "Google Benchmark, and which models less exact (see scripts/perf.sh)");
  auto arguments = std::make_shared<PerfArguments>(*command);
  Flags& flags = arguments->flags;
  flags
      .add("BASE", arguments->base, "JSON of a Google Benchmark before the change",
           {.is_input = true})
      ->required();
  flags.add("HEAD", arguments->head, "JSON of the same after it", {.is_input = true})->required();
  flags
      .add<double>("--min-effect", arguments->options.min_effect,
                   "Changes smaller than this share are the same", {}, check_min_effect)
      ->capture_default_str();
  flags
      .add<double>("--alpha", arguments->options.alpha,
                   "Chance of any false SLOW or FAST among all benchmarks", {}, check_alpha)
      ->capture_default_str();
  flags.add("--any-machine", arguments->options.any_machine,
            "Compare times also where host_name, processor, num_cpus or mhz_per_cpu differ");
  flags
      .add("--allow-missing", arguments->options.allow_missing,
           "Glob of benchmarks of the base that the head may lack")
      ->allow_extra_args(false);
  flags
      .add("--accuracy", arguments->accuracy,
           "Two folders of comparisons with the goldens, before and after (see "
           "bench/accuracy.py): a model beyond its floor is refused, however fast",
           {.reads_all = true})
      ->expected(2);
  const std::vector<std::string> formats = format_names(perf_reports());
  arguments->report.add(*command, alternatives(formats))
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace assay
