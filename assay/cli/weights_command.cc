#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/flags.h"
#include "assay/cli/output.h"
#include "assay/cli/report_flags.h"
#include "assay/compare/policy.h"
#include "assay/weights/compare_weights.h"
#include "assay/weights/weights_report.h"
#include "base/error.h"
#include "engine/gguf.h"

namespace assay {
namespace {

struct WeightsArguments {
  explicit WeightsArguments(CLI::App& command) : flags(command) {}

  Flags flags;
  std::string ref;
  std::string got;
  WeightsOptions options;
  ReportFlags report;
};

void check_above_zero(const std::string& flag, double value) {
  if (std::isfinite(value) && value > 0.0) return;
  throw Error(fmt::format("{} is not a number above 0", value), flag,
              "an error may be so many times what storing a tensor as its type costs, such as 1.5");
}

// Zeros are off by 1: that would let anything pass.
void check_limit(const std::string& flag, double value) {
  if (value > 0.0 && value < kRelL2Bound) return;  // false for NaN
  throw Error(fmt::format("{} is not a number above 0 and below 1", value), flag,
              "zeros are off by 1; give the largest rel_l2 of a tensor, such as 0.1");
}

int run(WeightsArguments& arguments) {
  arguments.flags.apply();
  arguments.report.check_output(arguments.flags.inputs());
  refuse_same_file(arguments.ref, arguments.got);
  const Gguf ref(arguments.ref);
  const Gguf got(arguments.got);
  const WeightsComparison comparison =
      compare_weights(ref, got, arguments.options, progress_line("comparing", Work::kSteps));
  for (const std::string& warning : comparison.warnings) print_warning(warning);
  show_report(weights_reports(), comparison, arguments.report,
              {.command = "assay weights" + arguments.flags.typed()});
  switch (comparison.verdict) {
    case WeightsVerdict::kMatch:
      return kInParity;
    case WeightsVerdict::kMismatch:
      return kDiverged;
    case WeightsVerdict::kIncomplete:
      break;
  }
  if (!comparison.part.empty()) {
    print_error(comparison.part +
                "; put the parts together, or compare what is there with --tensors '*'");
    return kNotComparable;
  }
  print_error(
      "not all tensors could be judged; the report says which and why: give the file before it was "
      "rounded as the reference, or a limit with --max-rel-l2");
  return kNotComparable;
}

}  // namespace

void add_weights(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "weights", "Compare two files of one model: tensors, hyperparameters, vocabulary");
  auto arguments = std::make_shared<WeightsArguments>(*command);
  Flags& flags = arguments->flags;
  WeightsOptions& options = arguments->options;
  flags
      .add("REF", arguments->ref, "GGUF file or Hugging Face folder, before it was rounded",
           {.is_input = true})
      ->required();
  flags.add("GOT", arguments->got, "The file that is judged", {.is_input = true})->required();
  flags.add<double>("--k", options.k,
                    "An error may be so many times what storing a tensor as its type costs "
                    "(default: 1.5)",
                    {.default_value = "1.5"},
                    [](const double& value) { check_above_zero("--k", value); });
  flags.add<double>("--max-rel-l2", options.max_rel_l2,
                    "The largest error of tensors for which nothing else gives a limit", {},
                    [&flags](const double& value) {
                      if (flags.is_given("--max-rel-l2")) check_limit("--max-rel-l2", value);
                    });
  flags.add("--tensors", options.tensors, "Only tensors of these names (shell globs)");
  const std::vector<std::string> formats = format_names(weights_reports());
  arguments->report.add(*command, alternatives(formats))->check(CLI::IsMember(formats));
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace assay
