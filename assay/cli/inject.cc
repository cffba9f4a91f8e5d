#include "assay/cli/inject.h"

#include <fmt/format.h>

#include "assay/cli/output.h"
#include "assay/report/json_array.h"
#include "assay/report/text_table.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

std::string as_json(const InjectOptions& options, const InjectedRun& run) {
  std::string out;
  JsonObject object(out);
  object.member("reference", options.reference_path);
  object.member("backend", run.backend);
  object.member("math", options.math);
  object.member("tokens", run.tokens);
  write_array("steps", run.steps, out, print_text, [&](const StepError& step) {
    JsonObject element(out);
    element.member("checkpoint", step.checkpoint);
    element.member("own", step.own_max);
    element.member("own_median", step.own_median);
    element.member("token_idx", step.token_idx);
    element.member("total", step.total_max);
    element.end();
  });
  object.end();
  return out + "\n";
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
  print_text(json ? as_json(options, run) : as_table(options, run));
}

}  // namespace assay
