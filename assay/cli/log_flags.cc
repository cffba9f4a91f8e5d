#include "assay/cli/log_flags.h"

#include "base/error.h"

namespace assay {

LogRequest LogFlags::request() const {
  if (path->empty()) throw Error("the path is empty", "--log", "give a file to write");
  return {.path = *path,
          .options = {.team = team,
                      .head_values = parse_head_values(values, "--values"),
                      .summary = true,
                      .sketch = sketch},
          .checkpoints = CheckpointSet(checkpoints)};
}

CLI::Option* add_log_flags(CLI::App& command, LogFlags& flags, const std::string& log_help) {
  auto* log = command.add_option("--log", flags.path, log_help);
  command
      .add_option("--checkpoints", flags.checkpoints,
                  "logits, layers, ops, or comma-separated globs")
      ->capture_default_str()
      ->needs(log);
  command.add_option("--values", flags.values, "Leading values in each record, or all")
      ->capture_default_str()
      ->needs(log);
  command.add_flag("--sketch", flags.sketch, "Add a sketch of the whole tensor to each record")
      ->needs(log);
  auto* team =
      command.add_option("--team", flags.team, "Name of the team in each record")->needs(log);
  if (!flags.team.empty()) team->capture_default_str();
  return log;
}

}  // namespace assay
