#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/output.h"
#include "assay/mutate/catalogue.h"
#include "assay/mutate/mutant_log.h"
#include "base/error.h"

namespace assay {
namespace {

struct MutateFlags {
  std::optional<std::string> model;
  bool list = false;
  std::optional<std::string> fault;
  std::optional<int> layer;
  std::optional<std::string> prompt;
  std::optional<std::string> tokens;
  int64_t n_predict = 0;
  std::string log_path;
  std::string checkpoints = "ops";
  std::string values = "all";
  std::string team;
  bool sketch = false;
};

int list_faults() {
  size_t width = 0;
  for (const Fault& fault : fault_catalogue()) width = std::max(width, fault.name.size());
  std::string text;
  FaultGroup group{};
  for (const Fault& fault : fault_catalogue()) {
    if (text.empty() || fault.group != group) {
      text += fmt::format("{}{}\n", text.empty() ? "" : "\n", group_name(fault.group));
      group = fault.group;
    }
    text += fmt::format("  {:{}}  {}{}\n", fault.name, width, fault.what,
                        fault.cause.empty() ? "" : fmt::format(" [{}]", fault.cause));
  }
  print_text(text + fmt::format("\n{} faults; in brackets the cause that a comparison names\n",
                                fault_catalogue().size()));
  return kInParity;
}

int write_log(const MutateFlags& flags) {
  if (!flags.model) throw Error("no model is given", "--fault", "give a model file (GGUF) too");
  if (flags.log_path.empty()) {
    throw Error("there is nowhere to write the faulty log to", "--fault", "give a file with --log");
  }
  if (!flags.prompt && !flags.tokens) {
    throw Error("the model is given nothing to read", "--fault", "give --prompt or --tokens");
  }
  MutantLogOptions options{
      .model_path = *flags.model,
      .fault = *flags.fault,
      .layer = flags.layer,
      .prompt = flags.prompt,
      .n_predict = flags.n_predict,
      .log = {.path = flags.log_path,
              .options = {.team = flags.team.empty() ? *flags.fault : flags.team,
                          .head_values = parse_head_values(flags.values, "--values"),
                          .summary = true,
                          .sketch = flags.sketch},
              .checkpoints = CheckpointSet(flags.checkpoints)}};
  if (flags.tokens) options.tokens = parse_token_ids(*flags.tokens, "--tokens");
  const MutantLog result = write_mutant_log(options);
  print_status(fmt::format("log with the fault {}: {}; to be found at {}\n", *flags.fault,
                           flags.log_path, result.found_at.name()));
  return kInParity;
}

int mutate_command(const MutateFlags& flags) {
  if (flags.list) return list_faults();
  if (flags.fault) return write_log(flags);
  throw Error("nothing to do", {}, "give --list, or a model with --fault and --log");
}

}  // namespace

void add_mutate(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<MutateFlags>();
  CLI::App* command =
      app.add_subcommand("mutate", "Put known faults into the engine and see what catches them");
  command->add_option("model", flags->model, "Model file (GGUF)");
  command->add_flag("--list", flags->list, "List all faults");
  auto* fault =
      command->add_option("--fault", flags->fault, "Write the log of an engine with this");
  command->add_option("--layer", flags->layer, "Layer of the fault; the middle one if not given")
      ->needs(fault);
  auto* prompt = command->add_option("--prompt", flags->prompt, "Text")->needs(fault);
  command->add_option("--tokens", flags->tokens, "Token ids, comma-separated")
      ->needs(fault)
      ->excludes(prompt);
  command->add_option("-n", flags->n_predict, "Tokens to generate")
      ->needs(fault)
      ->capture_default_str()
      ->check(whole_number(0, 1U << 30U));
  auto* log = command->add_option("--log", flags->log_path, "Write the faulty log (JSONL) here");
  log->needs(fault);
  command
      ->add_option("--checkpoints", flags->checkpoints,
                   "logits, layers, ops, or comma-separated globs")
      ->capture_default_str()
      ->needs(log);
  command->add_option("--values", flags->values, "Leading values in each record, or all")
      ->capture_default_str()
      ->needs(log);
  command->add_flag("--sketch", flags->sketch, "Add a sketch of the whole tensor to each record")
      ->needs(log);
  command->add_option("--team", flags->team, "Name of the team in each record; the fault's")
      ->needs(log);
  command->callback([flags, &exit_code] { exit_code = mutate_command(*flags); });
}

}  // namespace assay
