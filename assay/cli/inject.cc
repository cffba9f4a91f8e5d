#include "assay/cli/inject.h"

#include <fmt/format.h>

#include "assay/cli/output.h"
#include "assay/report/json_object.h"
#include "assay/report/text_table.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

void append_step(JsonObject& object, const StepError& step) {
  object.member("checkpoint", step.checkpoint);
  object.member("own", step.own_max);
  object.member("own_median", step.own_median);
  object.member("token_idx", step.token_idx);
  object.member("total", step.total_max);
}

void print_json(const InjectOptions& options, const InjectedRun& run) {
  write_json_line(print_text, [&](JsonObject& object) {
    object.member("reference", options.reference_path);
    object.member("backend", run.backend);
    object.member("math", options.math);
    object.member("tokens", run.tokens);
    object.lines("steps", run.steps, print_text, append_step);
  });
}

std::string as_table(const InjectOptions& options, const InjectedRun& run) {
  TextTable table({"step", "own error", "median", "at token", "with its own input"});
  for (const StepError& step : run.steps) {
    table.add({step.checkpoint, fmt::format("{:.3g}", step.own_max),
               fmt::format("{:.3g}", step.own_median), fmt::format("{}", step.token_idx),
               step.total_max ? fmt::format("{:.3g}", *step.total_max) : "-"});
  }
  return fmt::format(
      "Each step reads what {} has before it, at {}; errors are relative L2, the largest "
      "of the tokens'.\n\n{}",
      printable(options.reference_path), count_of(run.tokens, "token"),
      table.text(output_style({})));
}

}  // namespace

void show_injected_run(const InjectOptions& options, bool json) {
  const InjectedRun run = run_injected(options);
  for (const std::string& warning : run.warnings) print_warning(warning);
  if (json) return print_json(options, run);
  print_text(as_table(options, run));
}

}  // namespace assay
