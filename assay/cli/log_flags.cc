#include "assay/cli/log_flags.h"

#include "assay/log/log_environment.h"
#include "base/environment.h"
#include "base/error.h"

namespace assay {

std::optional<LogRequest> LogFlags::request() const {
  if (path && path->empty()) throw Error("the path is empty", "--log", "give a file to write");
  if (path == "-") {
    throw Error("a log is not written to standard output", "--log",
                "give a file, ./- for one of that name");
  }
  // The environment asks for the same of every engine: the logits, where it does not say which.
  std::optional<LogRequest> request =
      LogRequest{.path = path.value_or(""),
                 .options = {.team = defaults.team,
                             .head_values = parse_head_values(defaults.values, "--values"),
                             .summary = true,
                             .sketch = sketch},
                 .checkpoints = CheckpointSet(path ? defaults.checkpoints : "logits")};
  if (defaults.environment) request = log_request_from_environment(std::move(*request));
  if (!request || request->path.empty()) return std::nullopt;
  if (team) request->options.team = *team;
  if (values) request->options.head_values = parse_head_values(*values, "--values");
  if (checkpoints) request->checkpoints = CheckpointSet(*checkpoints);
  return request;
}

CLI::Option* add_log_flags(CLI::App& command, LogFlags& flags, const std::string& log_help) {
  const bool asked = flags.defaults.environment && !environment("ORCH_LOG_FILE").empty();
  const auto help = [&](const std::string& text, const char* variable) {
    return flags.defaults.environment ? text + " (environment: " + variable + ")" : text;
  };
  auto* log = command.add_option("--log", flags.path, help(log_help, "ORCH_LOG_FILE"));
  const auto add = [&](CLI::Option* option, const std::string& value) {
    if (!asked) option->needs(log);
    if (!value.empty()) option->default_str(value);
  };
  add(command.add_option(
          "--checkpoints", flags.checkpoints,
          help(flags.defaults.environment ? "logits, layers, ops, or comma-separated globs; logits "
                                            "where only ORCH_LOG_FILE asks for a log"
                                          : "logits, layers, ops, or comma-separated globs",
               "ASSAY_LOG_CHECKPOINTS")),
      flags.defaults.checkpoints);
  add(command.add_option("--values", flags.values,
                         help("Leading values in each record, or all", "ORCH_LOG_VALUES")),
      flags.defaults.values);
  add(command.add_flag("--sketch", flags.sketch, "Add a sketch of the whole tensor to each record"),
      "");
  add(command.add_option("--team", flags.team,
                         help("Name of the team in each record", "ORCH_LOG_TEAM")),
      flags.defaults.team);
  return log;
}

}  // namespace assay
