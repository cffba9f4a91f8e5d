#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/failed_report.h"
#include "assay/cli/log_flags.h"
#include "assay/cli/output.h"
#include "assay/cli/report_flags.h"
#include "assay/mutate/catalogue.h"
#include "assay/mutate/mutant_log.h"
#include "assay/mutate/power_report.h"
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
  LogFlags log = {.defaults = {.checkpoints = "ops", .values = "all"}};
  PowerOptions power;
  bool small_only = false;
  bool exact_only = false;
  ReportFlags report;
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
  find_fault(*flags.fault);  // a wrong name before what is missing
  if (!flags.model) throw Error("no model is given", "--fault", "give a model file (GGUF) too");
  if (!flags.log.path) {
    throw Error("there is nowhere to write the faulty log to", "--fault", "give a file with --log");
  }
  refuse_model_as_log(*flags.model, *flags.log.path, "--log");
  if (!flags.prompt && !flags.tokens) {
    throw Error("the model is given nothing to read", "--fault", "give --prompt or --tokens");
  }
  MutantLogOptions options{.model_path = *flags.model,
                           .fault = *flags.fault,
                           .layer = flags.layer,
                           .prompt = flags.prompt,
                           .n_predict = flags.n_predict,
                           .log = flags.log.request().value()};
  if (!flags.log.team) options.log.options.team = *flags.fault;
  if (flags.tokens) options.tokens = parse_token_ids(*flags.tokens, "--tokens");
  const MutantLog result = write_mutant_log(options);
  if (result.changes_nothing) {
    print_warning(fmt::format(
        "'{}' changes nothing at {} with these tokens: {} is the log of a sound engine; give other "
        "or more tokens",
        *flags.fault, result.found_at.name(), printable(*flags.log.path)));
    return kInParity;
  }
  print_status(fmt::format("log with the fault {}: {}; to be found at {}\n", *flags.fault,
                           printable(*flags.log.path), result.found_at.name()));
  return kInParity;
}

int try_catalogue(MutateFlags& flags) {
  if (flags.model)
    throw Error("a model is given without a fault", *flags.model, "give --fault too");
  flags.power.real = !flags.small_only;
  flags.power.fast = !flags.exact_only;
  flags.power.omissions = flags.power.faults == "*";
  if (isatty(STDERR_FILENO) == 1) {
    flags.power.progress = [](const std::string& what, int64_t done, int64_t total) {
      print_status(fmt::format("\r{} {} of {}{}", what, done, total, done == total ? "\n" : ""));
    };
  }
  const Power power = measure_power(flags.power);
  const std::string& format = flags.report.format;
  write_output(flags.report.output, [&](const TextSink& out) {
    if (format == "json") return write_power_json(power, out);
    if (format == "markdown") return write_power_markdown(power, out);
    write_power_table(power, output_style(flags.report.output), out);
  });
  return power.passes() ? kInParity : kDiverged;
}

int mutate_command(MutateFlags& flags) {
  if (flags.list) return list_faults();
  if (flags.fault) return write_log(flags);
  return try_catalogue(flags);
}

}  // namespace

void add_mutate(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<MutateFlags>();
  CLI::App* command =
      app.add_subcommand("mutate",
                         "Put known faults into the engine and see what catches them; without "
                         "--fault all of them, which takes minutes");
  command->add_option("MODEL", flags->model, "GGUF file or Hugging Face folder");
  command->add_flag("--list", flags->list, "List all faults");
  auto* fault =
      command->add_option("--fault", flags->fault, "Write the log of an engine with this");
  command->add_option("--layer", flags->layer, "Layer of the fault; the middle one if not given")
      ->check(whole_number(0, 1U << 30U))
      ->needs(fault);
  auto* prompt = command->add_option("--prompt", flags->prompt, "Text")->needs(fault);
  command->add_option("--tokens", flags->tokens, "Token ids, comma-separated")
      ->needs(fault)
      ->excludes(prompt);
  command->add_option("-n", flags->n_predict, "Tokens to generate")
      ->needs(fault)
      ->capture_default_str()
      ->check(whole_number(0, 1U << 30U));
  add_log_flags(*command, flags->log, "Write the faulty log (JSONL) here")->needs(fault);
  PowerOptions& power = flags->power;
  auto* whole = command->add_option_group("catalogue", "Without --fault: all faults are tried");
  whole->add_option("--folder", power.golden_folder, "Folder of the goldens")
      ->capture_default_str();
  whole
      ->add_option("--vectors", power.vectors_folder,
                   "Folder of the goldens of blocks and sampling")
      ->capture_default_str();
  whole
      ->add_option("--faults", power.faults,
                   "Only faults of these names (glob), and no logs that leave something out")
      ->capture_default_str();
  whole->add_option("--prompts", power.prompts, "Only these prompts of the small models")
      ->delimiter(',');
  whole->add_flag("--small-only", flags->small_only, "Leave real weights out");
  whole->add_flag("--exact-only", flags->exact_only, "Leave fast math out");
  whole->add_option("--noise-runs", power.noise_runs, "Runs with noise at the floor")
      ->capture_default_str()
      ->check(whole_number(0, 1U << 30U));
  add_threads_flag(*whole, power.n_threads);
  flags->report.add(*whole, "How to show the results", "Write the results here")
      ->check(CLI::IsMember({"table", "json", "markdown"}))
      ->capture_default_str();
  whole->get_option("--output")->type_name(kKeptType);
  for (CLI::Option* option : whole->get_options()) {
    if (option != whole->get_help_ptr()) option->excludes(fault);
  }
  command->callback([flags, &exit_code] { exit_code = mutate_command(*flags); });
}

}  // namespace assay
