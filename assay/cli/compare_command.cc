#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/causes/find_causes.h"
#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/output.h"
#include "assay/cli/several_command.h"
#include "assay/cli/show_report.h"
#include "assay/cli/spooled_inputs.h"
#include "assay/compare/compare_logs.h"
#include "assay/compare/log_index.h"
#include "assay/golden/floors.h"
#include "assay/golden/manifest.h"
#include "assay/log/log_reader.h"
#include "assay/perf/speed_file.h"
#include "assay/report/comparison_reports.h"
#include "assay/report/incomplete_text.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/shell.h"
#include "engine/tokenizer/tokenizer.h"

namespace assay {
namespace {

struct CompareArguments {
  std::string ref;
  std::string got;
  std::vector<std::string> more;
  std::string policy;
  std::string floor;
  std::string align = "auto";
  std::string quarantine = "exclude";
  std::string evidence;
  std::vector<std::string> allow_missing;
  bool strict_argmax = false;
  std::optional<std::string> tokens;
  std::optional<std::string> checkpoints;
  std::vector<std::string> maps;
  std::vector<std::string> ref_maps;
  std::vector<std::string> got_maps;
  std::string format = "table";
  std::string output;
  std::string model;
  std::string ref_speed;
  std::string got_speed;
};

void set_alignment(const std::string& text, CompareOptions& options) {
  if (text == "auto") return;
  options.align = text == "index" ? AlignMode::kIndex : AlignMode::kFixed;
  if (text == "index") return;
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, options.offset);
  if (error != std::errc() || stop != end) {
    throw Error(fmt::format("'{}' is not an alignment", text), "--align",
                "give auto, index, or what to add to the reference's token_idx, as in --align=-1");
  }
}

void add_maps(const std::vector<std::string>& names, NameMap& map) {
  for (const std::string& name : names) map.add(NameMap::load(name));
}

CompareOptions options_of(const CompareArguments& arguments) {
  CompareOptions options;
  set_alignment(arguments.align, options);
  if (arguments.quarantine == "fail") {
    options.quarantine = QuarantineMode::kFail;
  } else if (arguments.quarantine == "off") {
    options.quarantine = QuarantineMode::kOff;
  } else if (arguments.quarantine != "exclude") {
    throw Error(fmt::format("'{}' is not known", arguments.quarantine), "--quarantine",
                "give exclude, fail or off");
  }
  if (find_report(comparison_reports(), arguments.format) == nullptr) {
    throw Error(fmt::format("'{}' is not known", arguments.format), "--format",
                fmt::format("give one of {}", fmt::join(format_names(comparison_reports()), ", ")));
  }
  if (arguments.format != "html" && !(arguments.ref_speed + arguments.got_speed).empty()) {
    throw Error("only the html report shows how fast the engines were",
                arguments.ref_speed.empty() ? "--got-speed" : "--ref-speed",
                "give --format html, or leave it out");
  }
  options.strict_argmax = arguments.strict_argmax;
  options.allow_missing = arguments.allow_missing;
  if (!arguments.evidence.empty() && arguments.evidence != "any" && arguments.evidence != "whole") {
    throw Error(fmt::format("'{}' is not known", arguments.evidence), "--evidence",
                "give any or whole");
  }
  options.whole_required = arguments.evidence.empty()
                               ? !arguments.policy.empty() && is_golden_manifest(arguments.policy)
                               : arguments.evidence == "whole";
  if (arguments.tokens) options.selection.set_tokens(*arguments.tokens, "--tokens");
  if (arguments.checkpoints) {
    options.selection.set_checkpoints(*arguments.checkpoints, "--checkpoints");
  }
  add_maps(arguments.ref_maps, options.ref_map);
  add_maps(arguments.got_maps, options.got_map);
  add_maps(arguments.maps, options.ref_map);
  add_maps(arguments.maps, options.got_map);
  options.policy = policy_for_logs(arguments.policy, arguments.floor, arguments.ref, arguments.got);
  options.progress = progress_line("comparing", Work::kBytes);
  return options;
}

// What to type to compare again.
std::string command_of(const CompareArguments& arguments) {
  std::string command =
      "assay compare " + shell_quoted(arguments.ref) + " " + shell_quoted(arguments.got);
  if (!arguments.policy.empty()) command += " --policy " + shell_quoted(arguments.policy);
  if (!arguments.floor.empty()) command += " --floor " + shell_quoted(arguments.floor);
  if (arguments.align != "auto") command += " --align=" + shell_quoted(arguments.align);
  if (arguments.quarantine != "exclude") command += " --quarantine " + arguments.quarantine;
  if (arguments.strict_argmax) command += " --strict-argmax";
  if (!arguments.evidence.empty()) command += " --evidence " + arguments.evidence;
  for (const std::string& glob : arguments.allow_missing) {
    command += " --allow-missing " + shell_quoted(glob);
  }
  if (!arguments.model.empty()) command += " --model " + shell_quoted(arguments.model);
  if (!arguments.ref_speed.empty()) command += " --ref-speed " + shell_quoted(arguments.ref_speed);
  if (!arguments.got_speed.empty()) command += " --got-speed " + shell_quoted(arguments.got_speed);
  if (arguments.tokens) command += " --tokens " + shell_quoted(*arguments.tokens);
  if (arguments.checkpoints) command += " --checkpoints " + shell_quoted(*arguments.checkpoints);
  for (const std::string& map : arguments.maps) command += " --map " + shell_quoted(map);
  for (const std::string& map : arguments.ref_maps) command += " --map-ref " + shell_quoted(map);
  for (const std::string& map : arguments.got_maps) command += " --map-got " + shell_quoted(map);
  return command;
}

std::vector<std::string> inputs_of(const CompareArguments& arguments) {
  std::vector<std::string> inputs = {arguments.ref,   arguments.got,       arguments.policy,
                                     arguments.model, arguments.ref_speed, arguments.got_speed};
  for (const auto* more :
       {&arguments.more, &arguments.maps, &arguments.ref_maps, &arguments.got_maps}) {
    inputs.insert(inputs.end(), more->begin(), more->end());
  }
  return inputs;
}

std::vector<std::string> logs_of(const CompareArguments& arguments) {
  std::vector<std::string> logs = {arguments.ref, arguments.got};
  logs.insert(logs.end(), arguments.more.begin(), arguments.more.end());
  return logs;
}

// The words of the tokens and the speeds, as far as they were given.
void add_page_details(const CompareArguments& arguments, ReportContext& context) {
  if (!arguments.model.empty()) {
    const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::from_gguf(Gguf(arguments.model));
    if (tokenizer) {
      context.token_text = [tokenizer](int64_t id) {
        return id < tokenizer->n_tokens() ? tokenizer->token_bytes(static_cast<int32_t>(id)) : "";
      };
    }
  }
  if (!arguments.ref_speed.empty()) context.ref_speed = read_speed_file(arguments.ref_speed);
  if (!arguments.got_speed.empty()) context.got_speed = read_speed_file(arguments.got_speed);
}

// Whether the file is the one that the logs are of, where they say.
void check_hash(const Model& model, const Comparison& comparison) {
  const LogHeader* stated = nullptr;
  const std::string hash = sha256_hex(model.gguf().bytes());
  for (const auto* log : {comparison.ref_log.get(), comparison.got_log.get()}) {
    if (!log->header() || log->header()->model.sha256.empty()) continue;
    if (log->header()->model.sha256 == hash) return;
    stated = &*log->header();
  }
  if (stated == nullptr) return;
  print_warning(fmt::format(
      "{} is not the file that the logs are of ({} {}, SHA-256 {}): a cause may be missed, or be "
      "that of its other weights",
      printable(model.gguf().path()), printable(stated->model.name, 40),
      printable(stated->model.type, 20), printable(stated->model.sha256, 64)));
}

int run(const CompareArguments& given, SpooledInputs& spooled) {
  CompareArguments arguments = given;
  refuse_to_overwrite(inputs_of(given), given.output);
  refuse_to_append_summary(inputs_of(given), given.format, given.output);
  arguments.ref = spooled.path_of(given.ref);
  arguments.got = spooled.path_of(given.got);
  for (std::string& path : arguments.more) path = spooled.path_of(path);
  const CompareOptions options = options_of(arguments);
  if (!arguments.more.empty()) {
    if (!arguments.ref_maps.empty() || !arguments.got_maps.empty()) {
      throw Error("of several logs none is the reference",
                  arguments.ref_maps.empty() ? "--map-got" : "--map-ref",
                  "give --map, which is for all of them");
    }
    return run_several(logs_of(given), logs_of(arguments), spooled, options, arguments.format,
                       arguments.output);
  }
  std::unique_ptr<const Model> model;
  if (!arguments.model.empty()) {
    model = std::make_unique<Model>(std::make_shared<Gguf>(arguments.model));
  }
  Comparison comparison = compare_logs(arguments.ref, arguments.got, options);
  comparison.ref_path = given.ref;
  comparison.got_path = given.got;
  find_causes(model.get(), comparison, progress_line("looking for the cause", Work::kSteps));
  if (model && !comparison.pass) check_hash(*model, comparison);
  for (std::string& warning : comparison.warnings) {
    warning = spooled.named(warning);
    print_warning(warning);
  }
  ReportContext context{.command = command_of(given)};
  if (given.format == "html") add_page_details(given, context);
  show_report(*find_report(comparison_reports(), given.format), comparison, context, given.output);
  if (comparison.pass) return kInParity;
  if (comparison.failed > 0) return kDiverged;
  print_error(comparison.verdict == Verdict::kInconclusive ? nothing_proved(given.ref, given.got)
                                                           : incomplete_text(comparison));
  return kNotComparable;
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand("compare", "Hold a log against a reference log");
  command->add_option("REF", arguments->ref, "The reference's log; - is standard input")
      ->required();
  command->add_option("GOT", arguments->got, "The log to judge")->required();
  command->add_option("MORE", arguments->more,
                      "Further logs: then each is held against each, and the outlier is named");
  command->add_option(
      "--policy", arguments->policy,
      "File with the tolerances, or a golden's manifest.json: k times the measured floors");
  command->add_option("--floor", arguments->floor,
                      "With a manifest: hold to this one of its floors, such as bf16_vs_f64");
  command->add_option("--align", arguments->align,
                      "auto, index, or what to add to the reference's token_idx (default auto)");
  command->add_option("--quarantine", arguments->quarantine,
                      "exclude, fail or off: what to do with garbage values (default exclude)");
  command->add_option("--model", arguments->model,
                      "The model that both ran (GGUF): its weights let more causes be found, and "
                      "its vocabulary tells the words of tokens");
  command->add_option("--ref-speed", arguments->ref_speed,
                      "For html, how fast the reference was: what assay run --json or a benchmark "
                      "with --benchmark_format=json wrote");
  command->add_option("--got-speed", arguments->got_speed, "The same for the other");
  command->add_flag("--strict-argmax", arguments->strict_argmax,
                    "Fail where the argmax differs, even between level candidates");
  command->add_option("--evidence", arguments->evidence,
                      "any: a head of the values or a summary shows a record; whole: all values or "
                      "a sketch on both sides (default any, whole with a manifest)");
  command
      ->add_option("--allow-missing", arguments->allow_missing,
                   "Glob of checkpoints of the reference that may be missing in the other log")
      ->allow_extra_args(false);
  command->add_option("--tokens", arguments->tokens,
                      "Only these positions of the reference: 5, 5..20, 5.., ..20, with commas");
  command->add_option("--checkpoints", arguments->checkpoints,
                      "Only these: logits, layers, ops, or globs with commas");
  command
      ->add_option("--map", arguments->maps,
                   "Names of another engine: llama.cpp, transformers, published, or a file (JSON); "
                   "parameters after a colon, as in transformers:arch=llama,head_dim=64")
      ->allow_extra_args(false);
  command->add_option("--map-ref", arguments->ref_maps, "The same for the reference's log alone")
      ->allow_extra_args(false);
  command->add_option("--map-got", arguments->got_maps, "The same for the other log alone")
      ->allow_extra_args(false);
  auto* format =
      command->add_option("--format", arguments->format,
                          "table, json, csv, html, junit, sarif or github (default table)");
  add_json_flag(*command, *format, arguments->format);
  command->add_option("-o,--output", arguments->output, "Write to this file");
  command->callback([arguments, &exit_code] {
    exit_code =
        with_spooled_inputs([&](SpooledInputs& spooled) { return run(*arguments, spooled); });
  });
}

}  // namespace assay
