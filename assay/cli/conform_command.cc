#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/data_place.h"
#include "assay/cli/flags.h"
#include "assay/cli/output.h"
#include "assay/cli/report_flags.h"
#include "assay/conform/baseline.h"
#include "assay/conform/conformance.h"
#include "assay/conform/feature.h"
#include "assay/conform/invariance.h"
#include "assay/conform/judge.h"
#include "assay/conform/table_json.h"
#include "assay/conform/table_report.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/shell.h"
#include "engine/gguf.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr char kOwnEngine[] = "assay";

// What conform and invariance have in common.
struct EngineArguments {
  explicit EngineArguments(CLI::App& app) : flags(app) {}

  Flags flags;
  std::vector<std::string> engines;
  std::string command;
  std::string precision;
  std::string list;
  std::vector<std::string> parts;
  std::string baseline;
  int64_t timeout = 120;
  SuiteOptions options;
  ReportFlags report;
};

struct InvarianceArguments : EngineArguments {
  using EngineArguments::EngineArguments;

  InvarianceOptions invariance;
  std::optional<std::string> tokens;
};

// This program, whose subcommand `engine` follows the protocol.
EngineDeclaration own_engine() {
  return {.name = kOwnEngine,
          .version = ASSAY_VERSION,
          .typed = kOwnEngine,
          .command = {"/proc/self/exe", "engine"}};
}

std::string list_of(const EngineArguments& arguments) {
  return arguments.list.empty() ? data_place("engines/engines.json") : arguments.list;
}

std::vector<EngineDeclaration> engines_of(const EngineArguments& arguments) {
  if (arguments.engines.empty() == arguments.command.empty()) {
    throw Error(arguments.engines.empty() ? "no engine is given"
                                          : fmt::format("'{}' and --command are both given",
                                                        printable(arguments.engines.front(), 60)),
                {}, "give engines of the list (engines/README.md), or --command");
  }
  const std::string list = list_of(arguments);
  if (!arguments.list.empty()) listed_engine(list, {});  // also where no engine of it is asked for
  std::vector<EngineDeclaration> engines;
  for (const std::string& name : arguments.engines) {
    engines.push_back(name == kOwnEngine ? own_engine() : find_engine(list, name));
  }
  if (!arguments.command.empty()) engines.push_back(engine_of_command(arguments.command));
  for (EngineDeclaration& engine : engines) {
    if (!arguments.precision.empty()) {
      engine.precision = find_precision(arguments.precision, "--precision").name;
    }
  }
  return engines;
}

// With what was not given.
SuiteOptions suite_options(const EngineArguments& arguments) {
  if (find_report(engine_table_reports(), arguments.report.format) == nullptr) {
    throw Error(fmt::format("'{}' is not known", arguments.report.format), "--format",
                "give " + alternatives(format_names(engine_table_reports())));
  }
  SuiteOptions options = arguments.options;
  if (options.suite.empty()) options.suite = default_suite();
  std::vector<Input> inputs = arguments.flags.inputs();
  inputs.emplace_back(options.suite, true);
  arguments.report.check_output(inputs);
  if (options.work.empty()) options.work = cache_folder() + "/conform";
  options.timeout = std::chrono::seconds(arguments.timeout);
  const auto typed = [&](const char* flag, const std::string& value) {
    if (!value.empty()) options.flags += fmt::format(" {} {}", flag, shell_quoted(value));
  };
  typed("--precision", arguments.precision);
  typed("--suite", arguments.options.suite);
  typed("--engines", arguments.list);
  typed("--work", arguments.options.work);
  typed("--timeout",
        arguments.flags.is_given("--timeout") ? std::to_string(arguments.timeout) : "");
  options.progress = progress_line("running the suite", Work::kSteps);
  return options;
}

int show(const EngineTable& table, EngineArguments& arguments, const std::string& command) {
  show_report(engine_table_reports(), table, arguments.report,
              {.command = "assay " + command + arguments.flags.typed()});
  if (const std::string cut = table.cut_lines(); !cut.empty()) print_warning(cut);
  if (table.pass()) return kInParity;
  for (const TableColumn& each : table.columns) {
    if (!each.supports_nothing()) return kDiverged;
  }
  const TableColumn& first = table.columns.front();
  print_error(fmt::format("{}: supports nothing of this, so nothing is shown: {}",
                          printable(first.engine.name), printable(first.cells.front().text, 300)));
  return kNotComparable;
}

// The engine of this name as it is now; nothing of one that only its command made known.
std::optional<EngineDeclaration> present_engine(const EngineDeclaration& engine,
                                                const std::string& list) {
  if (engine.name == kOwnEngine) return own_engine();
  if (!engine.digest.empty()) return find_engine(list, engine.name);
  return listed_engine(list, engine.name);
}

// What an earlier run found of Assay or an engine of the list is stale if that has changed.
void check_adapter(const TablePart& part, const EngineDeclaration& engine,
                   const std::optional<EngineDeclaration>& present) {
  if (!present) return;
  if (engine.digest == present->digest && engine.version == present->version) return;
  throw Error(fmt::format("{} was run with another version or adapter", printable(engine.name, 60)),
              part.path, "run it again");
}

// How near to float64 an engine has to come is not for its file to say.
void check_precision(const TablePart& part, const EngineDeclaration& engine,
                     const std::string& declared, const std::string& given) {
  const std::string& precision = find_precision(engine.precision, part.path).name;
  if (precision == declared || precision == given) return;
  throw Error(
      fmt::format("{} was run as {}, and is {}", printable(engine.name, 60), precision, declared),
      part.path, fmt::format("run it again, or give --precision {}", precision));
}

// Another version may run the cases, and log the references, otherwise.
void check_version(const TablePart& part) {
  for (const auto& run : part.runs) {
    if (run.version == ASSAY_VERSION) continue;
    throw Error(fmt::format("was written by Assay {}, and this is {}", printable(run.version, 40),
                            ASSAY_VERSION),
                part.path, "run it again");
  }
}

void check_engines(const TablePart& part, const EngineArguments& arguments) {
  for (const TablePart::Column& each : part.columns) {
    const auto present = present_engine(each.engine, list_of(arguments));
    check_adapter(part, each.engine, present);
    check_precision(part, each.engine, present.value_or(EngineDeclaration()).precision,
                    arguments.precision);
  }
}

std::set<std::string> names_of(const std::vector<Feature>& features) {
  std::set<std::string> names;
  for (const Feature& each : features) names.insert(each.name);
  return names;
}

// A file of another suite may show what this one does not ask.
void check_features(const TablePart& part, const std::set<std::string>& known) {
  for (const TablePart::Column& column : part.columns) {
    for (const TableRow& row : column.rows) {
      if (known.contains(row.name)) continue;
      throw Error(fmt::format("'{}' is no feature of the suite", printable(row.name, 60)),
                  part.path, "give --suite of the run, or run it again");
    }
  }
}

// What a file says is believed as far as its figures show it.
void judge_figures(const std::vector<Feature>& features, TableColumn& column) {
  for (size_t i = 0; i < features.size(); ++i) {
    try {
      judge_figures(features[i], precision_of(column.engine, features[i]), column.cells[i]);
    } catch (const Error& error) {
      throw Error(fmt::format("'{}' of {} {}", features[i].name, printable(column.engine.name, 60),
                              error.what()),
                  "--from", "run it again");
    }
  }
}

EngineTable from_parts(const EngineArguments& arguments, const SuiteOptions& options) {
  if (!arguments.engines.empty() || !arguments.command.empty()) {
    throw Error("takes what was run before, and an engine is given, too", "--from",
                "give --from or engines");
  }
  const std::vector<Feature> features = read_suite(options.suite, options.features);
  const std::set<std::string> known = names_of(read_suite(options.suite, {}));
  std::vector<TablePart> parts;
  for (const std::string& path : arguments.parts) {
    parts.push_back(read_table_part(path, TableDetail::kAll, EngineTable::Kind::kConformance));
    check_version(parts.back());
    check_engines(parts.back(), arguments);
    check_features(parts.back(), known);
  }
  EngineTable table = combined(parts, rows_of(features));
  for (TableColumn& column : table.columns) judge_figures(features, column);
  return table;
}

// Read before anything is run, which may take long. It may be of another version of Assay, or of
// the engine: that is what it is for.
std::optional<TablePart> read_baseline(const EngineArguments& arguments, EngineTable::Kind kind) {
  if (arguments.baseline.empty()) return std::nullopt;
  return read_table_part(arguments.baseline, TableDetail::kVerdicts, kind);
}

int run_conform(EngineArguments& arguments) {
  arguments.flags.apply();
  const SuiteOptions options = suite_options(arguments);
  const auto baseline = read_baseline(arguments, EngineTable::Kind::kConformance);
  if (baseline) check_features(*baseline, names_of(read_suite(options.suite, {})));
  EngineTable table = arguments.parts.empty() ? conform(engines_of(arguments), options)
                                              : from_parts(arguments, options);
  if (baseline) hold_to(*baseline, table);
  return show(table, arguments, "conform");
}

// Throws Error if the model does not have one of the tokens, where Assay can read how many it has.
void check_tokens(const std::vector<int32_t>& tokens, const std::string& model) {
  if (model.empty()) return;
  int64_t n_vocab = 0;
  try {
    const Gguf file(model);
    const GgufTensor* embedding = file.find_tensor("token_embd.weight");
    if (embedding == nullptr || embedding->dims.size() != 2) return;
    n_vocab = embedding->dims[1];
  } catch (const Error&) {
    return;  // engines may read what Assay does not
  }
  for (const int32_t token : tokens) {
    if (token < n_vocab) continue;
    throw Error(fmt::format("{} is not in the vocabulary of {}", token, model), "--tokens",
                fmt::format("give ids from 0 to {}", n_vocab - 1));
  }
}

int run_invariance(InvarianceArguments& arguments) {
  arguments.flags.apply();
  InvarianceOptions options = arguments.invariance;
  options.suite = suite_options(arguments);
  const bool own_model = !options.model_dir.empty() || !options.gguf.empty();
  if (own_model != arguments.tokens.has_value()) {
    throw Error(own_model ? "needs --tokens" : "needs --model or --gguf",
                !own_model                  ? "--tokens"
                : options.model_dir.empty() ? "--gguf"
                                            : "--model",
                "give both, or neither for the suite's models");
  }
  if (own_model && !options.suite.features.empty()) {
    throw Error("chooses of the suite's models", "--features", "leave it out, or the model");
  }
  if (arguments.tokens) options.tokens = parse_token_ids(*arguments.tokens, "--tokens");
  if (!options.model_dir.empty() && !fs::exists(fs::path(options.model_dir) / "config.json")) {
    throw Error("is no folder with a config.json", options.model_dir,
                "give a model's Hugging Face folder; --gguf takes a file");
  }
  if (!options.gguf.empty()) const Gguf readable(options.gguf);
  for (const std::string& model : {options.model_dir, options.gguf}) {
    check_tokens(options.tokens, model);
  }
  if (options.suite.features.empty()) options.suite.features = {"family_*"};
  const auto baseline = read_baseline(arguments, EngineTable::Kind::kInvariance);
  EngineTable table = invariance(engines_of(arguments), options);
  if (baseline) hold_to(*baseline, table);
  return show(table, arguments, "invariance");
}

void add_engine_flags(CLI::App& command, EngineArguments& arguments) {
  Flags& flags = arguments.flags;
  SuiteOptions& options = arguments.options;
  flags.add(
      "ENGINE", arguments.engines,
      "Engines of engines/engines.json, which engines/install.py installs, or assay: its own");
  flags.add("--command", arguments.command,
            "Another engine: a command for the shell, which finds a case in its environment and "
            "logs it (docs/conform.md); its logs go to WORK/logs/command, where those of another "
            "command take their place");
  flags.add("--features", options.features, "Globs of features (default: all)")
      ->allow_extra_args(false);
  flags.add("--suite", options.suite, "The folder of the features (default: Assay's own)",
            {.reads_all = true});
  flags.add("--engines", arguments.list, "Another list of engines", {.is_input = true});
  flags.add("--work", options.work,
            "Where models and logs are written and stay (default: the user's cache)");
  flags.add("--timeout", arguments.timeout, "Seconds for each case")
      ->check(whole_number(1, 86400))
      ->capture_default_str();
  flags.add("--baseline", arguments.baseline,
            "What an earlier run of the engine wrote with --format baseline, or json: what is as "
            "bad as it was there does not fail, what has become worse does",
            {.is_input = true});
  arguments.report.add(command,
                       alternatives(format_names(engine_table_reports())) + " (default table)");
}

}  // namespace

void add_conform(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "conform", "Find out which features of networks an engine honours, ignores or misreads");
  auto arguments = std::make_shared<EngineArguments>(*command);
  add_engine_flags(*command, *arguments);
  arguments->flags.add("--precision", arguments->precision,
                       "float32, mixed, float16, bfloat16 or int8: how near to float64 it can come "
                       "(default: as the list "
                       "says; float32 of a command)");
  arguments->flags
      .add("--from", arguments->parts,
           "Run nothing: one table of what earlier runs wrote with --format json, all "
           "parts of it, of the suite, adapters, precisions and version of Assay that are "
           "there now; no ENGINE with it",
           {.is_input = true})
      ->allow_extra_args(false);
  command->callback([arguments, &exit_code] { exit_code = run_conform(*arguments); });
}

void add_invariance(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "invariance", "Find out whether what an engine computes depends on how it is asked");
  auto arguments = std::make_shared<InvarianceArguments>(*command);
  add_engine_flags(*command, *arguments);
  Flags& flags = arguments->flags;
  InvarianceOptions& options = arguments->invariance;
  flags.add("--model", options.model_dir,
            "Hugging Face folder, in place of the models of the suite's families",
            {.is_input = true});
  flags.add("--gguf", options.gguf, "The same, or another model, as GGUF file", {.is_input = true});
  flags.add("--tokens", arguments->tokens, "The tokens to evaluate: ids with commas between them");
  flags
      .add("--surfaces", options.surfaces,
           "again, after, batch:K, chunks:K, steps, cached (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->callback([arguments, &exit_code] { exit_code = run_invariance(*arguments); });
}

}  // namespace assay
