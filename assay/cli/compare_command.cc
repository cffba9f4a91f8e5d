#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "assay/causes/find_causes.h"
#include "assay/causes/model_fit.h"
#include "assay/causes/own_errors.h"
#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/flags.h"
#include "assay/cli/output.h"
#include "assay/cli/report_flags.h"
#include "assay/cli/selection_flags.h"
#include "assay/cli/several_command.h"
#include "assay/cli/spooled_inputs.h"
#include "assay/compare/compare_logs.h"
#include "assay/compare/log_index.h"
#include "assay/compare/policy.h"
#include "assay/compare/several.h"
#include "assay/golden/floors.h"
#include "assay/log/log_reader.h"
#include "assay/perf/speed_file.h"
#include "assay/report/comparison_reports.h"
#include "assay/report/incomplete_text.h"
#include "base/error.h"
#include "engine/tokenizer/tokenizer.h"

namespace assay {
namespace {

struct CompareArguments {
  explicit CompareArguments(CLI::App& command) : flags(command) {}

  Flags flags;
  std::string ref;
  std::string got;
  std::vector<std::string> more;
  std::string policy;
  std::string floor;
  std::string model;
  std::optional<double> own_error;
  std::string ref_speed;
  std::string got_speed;
  std::optional<bool> whole_required;
  NameMap map_of_both;
  CompareOptions options;
  ReportFlags report;
};

void set_alignment(const std::string& text, CompareOptions& options) {
  options.align = text == "auto"    ? AlignMode::kAuto
                  : text == "index" ? AlignMode::kIndex
                                    : AlignMode::kFixed;
  if (options.align != AlignMode::kFixed) return;
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, options.offset);
  if (error != std::errc() || stop != end) {
    throw Error(fmt::format("'{}' is not an alignment", text), "--align",
                "give auto, index, or what to add to the reference's token_idx, as in --align=-1");
  }
}

double own_error_of(const std::string& text) {
  double limit = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, limit);
  if (error != std::errc() || stop != end || !std::isfinite(limit) || !(limit > 0)) {
    throw Error(fmt::format("'{}' is no error that an op may have", text), "--own-error",
                "give a number above 0, such as 1e-6 for 32-bit floats");
  }
  if (!(limit < kRelL2Bound)) {
    throw Error(fmt::format("{} lets anything pass: zeros are off by {}", text, kRelL2Bound),
                "--own-error", "give less, such as 1e-6 for 32-bit floats");
  }
  return limit;
}

// What several flags decide together.
CompareOptions options_of(const CompareArguments& arguments, const std::string& ref,
                          const std::string& got) {
  if (arguments.report.format != "html" && !(arguments.ref_speed + arguments.got_speed).empty()) {
    throw Error("only the html report shows how fast the engines were",
                arguments.ref_speed.empty() ? "--got-speed" : "--ref-speed",
                "give --format html, or leave it out");
  }
  if (arguments.own_error && arguments.model.empty()) {
    throw Error("own errors are held to a model, and none is given", "--own-error",
                "add --model M.gguf, the model that the judged log is of");
  }
  CompareOptions options = arguments.options;
  options.whole_required =
      arguments.whole_required.value_or(requires_whole_records(arguments.policy));
  options.ref_map.add(arguments.map_of_both);
  options.got_map.add(arguments.map_of_both);
  options.policy = policy_for_logs(arguments.policy, arguments.floor, ref, got);
  options.progress = progress_line("comparing", Work::kBytes);
  return options;
}

std::vector<std::string> logs_of(const CompareArguments& arguments) {
  std::vector<std::string> logs = {arguments.ref, arguments.got};
  logs.insert(logs.end(), arguments.more.begin(), arguments.more.end());
  return logs;
}

// The words of the tokens and the speeds, as far as they were given.
void add_page_details(const CompareArguments& arguments, ReportContext& context) {
  if (!arguments.model.empty()) {
    std::string unknown;  // then the page shows ids
    const std::shared_ptr<const Tokenizer> tokenizer =
        Tokenizer::from_gguf(Gguf(arguments.model), &unknown);
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
  const std::string hash = model.gguf().sha256();
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

int run_several(const CompareArguments& arguments, const std::vector<std::string>& paths,
                const CompareOptions& options, const SpooledInputs& spooled) {
  if (arguments.own_error) {
    throw Error("several logs are held to each other alone", "--own-error",
                "give two logs, or one of them twice");
  }
  for (const char* of_one : {"--map-ref", "--map-got"}) {
    if (arguments.flags.is_given(of_one)) {
      throw Error("of several logs none is the reference", of_one,
                  "give --map, which is for all of them");
    }
  }
  return run_several(logs_of(arguments), paths, spooled, options, arguments.report);
}

int run(CompareArguments& arguments, SpooledInputs& spooled) {
  arguments.report.check_output(arguments.flags.inputs());
  std::vector<std::string> paths;
  for (const std::string& log : logs_of(arguments)) paths.push_back(spooled.path_of(log));
  arguments.flags.apply();
  if (find_report(comparison_reports(), arguments.report.format) == nullptr) {
    throw Error(fmt::format("'{}' is not known", arguments.report.format), "--format",
                fmt::format("give one of {}", fmt::join(format_names(comparison_reports()), ", ")));
  }
  const CompareOptions options = options_of(arguments, paths[0], paths[1]);
  if (!arguments.more.empty()) return run_several(arguments, paths, options, spooled);
  std::unique_ptr<const Model> model;
  if (!arguments.model.empty()) {
    model = std::make_unique<Model>(std::make_shared<Gguf>(arguments.model));
  }
  Comparison comparison = compare_logs(paths[0], paths[1], options);
  if (model) causes::check_architecture(*model, comparison);
  if (arguments.own_error) {
    judge_own_errors(
        *model, options,
        {.limit = *arguments.own_error,
         .is_alone = is_same_file(paths[0], paths[1]) || has_same_bytes(paths[0], paths[1]),
         .progress = progress_line("computing each op", Work::kSteps)},
        comparison);
  } else if (is_same_file(paths[0], paths[1]) || is_log_below(paths[0], paths[1]) ||
             is_log_below(paths[1], paths[0])) {
    comparison.warnings.push_back(
        paths[1] + " is compared with itself, which shows nothing: give the log that is judged");
  }
  comparison.ref_path = arguments.ref;
  comparison.got_path = arguments.got;
  find_causes(model.get(), comparison, progress_line("looking for the cause", Work::kSteps));
  if (model && (!comparison.pass || arguments.own_error)) check_hash(*model, comparison);
  spooled.print_warnings(comparison.warnings);
  ReportContext context{.command = "assay compare" + arguments.flags.typed()};
  if (arguments.report.format == "html") add_page_details(arguments, context);
  show_report(comparison_reports(), comparison, arguments.report, context);
  if (comparison.pass) return kInParity;
  if (comparison.failed > 0) return kDiverged;
  print_error(incomplete_text(comparison));
  return kNotComparable;
}

void add_tolerances(CompareArguments& arguments) {
  Flags& flags = arguments.flags;
  CompareOptions& options = arguments.options;
  flags.add("--policy", arguments.policy,
            "File with the tolerances, or a golden's manifest.json: k times the measured floors",
            {.is_input = true});
  flags.add("--floor", arguments.floor,
            "With a manifest: hold to this one of its floors, such as bf16_vs_f64");
  flags.add_value("--align",
                  "auto, index, or what to add to the reference's token_idx (default auto)",
                  [&](const std::string& text) { set_alignment(text, options); },
                  {.default_value = "auto", .separator = '='});
  flags.add_value("--quarantine",
                  "exclude, fail or off: what to do with garbage values (default exclude)",
                  choice<QuarantineMode>("--quarantine",
                                         {{"exclude", QuarantineMode::kExclude},
                                          {"fail", QuarantineMode::kFail},
                                          {"off", QuarantineMode::kOff}},
                                         options.quarantine),
                  {.default_value = "exclude"});
}

void add_model(CompareArguments& arguments) {
  const FlagTraits traits{.is_input = true, .part = FlagPart::kModel};
  Flags& flags = arguments.flags;
  flags.add(
      "--model", arguments.model,
      "The model that both ran (GGUF file or Hugging Face folder): its weights let more causes "
      "be found, and its vocabulary tells the words of tokens",
      traits);
  flags.add_value(
      "--own-error",
      "With --model: each op of GOT, computed from the inputs that GOT itself holds, may "
      "be off by no more than this (rel_l2), whatever REF is; GOT twice judges it alone",
      [&](const std::string& text) { arguments.own_error = own_error_of(text); },
      {.part = FlagPart::kModel});
  flags.add("--ref-speed", arguments.ref_speed,
            "For html, how fast the reference was: what assay run --json or a benchmark with "
            "--benchmark_format=json wrote",
            traits);
  flags.add("--got-speed", arguments.got_speed, "The same for the other", traits);
}

void add_evidence(CompareArguments& arguments) {
  Flags& flags = arguments.flags;
  CompareOptions& options = arguments.options;
  flags.add(
      "--strict-argmax", options.strict_argmax,
      "Fail where the argmax or the experts differ, even between candidates tied within the error");
  flags.add_value("--evidence",
                  "any: a head of the values or a summary shows a record; whole: all values or a "
                  "sketch on both sides (default any, whole with a manifest)",
                  choice<std::optional<bool>>("--evidence", {{"any", false}, {"whole", true}},
                                              arguments.whole_required));
  flags
      .add("--allow-missing", options.allow_missing,
           "Glob of checkpoints of the reference that may be missing in the other log")
      ->allow_extra_args(false);
}

void add_maps(CompareArguments& arguments) {
  const FlagTraits traits{.is_input = true, .part = FlagPart::kSelection};
  Flags& flags = arguments.flags;
  flags.add_values("--map",
                   "Names of another engine: llama.cpp, transformers, published, or a file (JSON); "
                   "parameters after a colon, as in transformers:arch=llama,head_dim=64",
                   load_into({&arguments.map_of_both}), traits);
  flags.add_values("--map-ref", "The same for the reference's log alone",
                   load_into({&arguments.options.ref_map}), traits);
  flags.add_values("--map-got", "The same for the other log alone",
                   load_into({&arguments.options.got_map}), traits);
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("compare", "Hold a log against a reference log");
  auto arguments = std::make_shared<CompareArguments>(*command);
  Flags& flags = arguments->flags;
  flags.add("REF", arguments->ref, "The reference's log; - is standard input", {.is_input = true})
      ->required();
  flags.add("GOT", arguments->got, "The log to judge", {.is_input = true})->required();
  flags.add("MORE", arguments->more,
            "Further logs: then each is held against each, and the outlier is named",
            {.is_input = true});
  add_tolerances(*arguments);
  add_model(*arguments);
  add_evidence(*arguments);
  add_selection_flags(flags, arguments->options.selection,
                      "Only these positions of the reference: 5, 5..20, 5.., ..20, with commas");
  add_maps(*arguments);
  arguments->report.add(*command,
                        alternatives(format_names(comparison_reports())) + " (default table)");
  command->callback([arguments, &exit_code] {
    exit_code =
        with_spooled_inputs([&](SpooledInputs& spooled) { return run(*arguments, spooled); });
  });
}

}  // namespace assay
