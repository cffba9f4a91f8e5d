#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "assay/cli/commands.h"
#include "assay/cli/output.h"
#include "assay/compare/comparison.h"
#include "assay/report/csv_report.h"
#include "assay/report/json_report.h"
#include "assay/report/table_report.h"
#include "base/error.h"

namespace assay {
namespace {

struct CompareArguments {
  std::string ref;
  std::string got;
  std::string policy;
  std::string align = "auto";
  std::string quarantine = "exclude";
  bool strict_argmax = false;
  std::string format = "table";
  std::string output;
};

void set_alignment(const std::string& text, CompareOptions& options) {
  if (text == "auto") return;
  options.align = text == "index" ? AlignMode::kIndex : AlignMode::kFixed;
  if (text == "index") return;
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, options.offset);
  if (error != std::errc() || stop != end) {
    throw Error(fmt::format("'{}' is no alignment", text), "--align",
                "give auto, index, or what to add to the reference's token_idx, as in --align=-1");
  }
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
  const std::string& format = arguments.format;
  if (format == "junit" || format == "html" || format == "github") {
    throw Error(fmt::format("'{}' is not available yet", format), "--format",
                "give table, json or csv");
  }
  if (format != "table" && format != "json" && format != "csv") {
    throw Error(fmt::format("'{}' is not known", format), "--format", "give table, json or csv");
  }
  options.strict_argmax = arguments.strict_argmax;
  if (!arguments.policy.empty()) options.policy = Policy::from_file(arguments.policy);
  options.progress = progress_line("comparing");
  return options;
}

// What to type to compare again.
std::string command_of(const CompareArguments& arguments) {
  std::string command =
      "assay compare " + shell_quoted(arguments.ref) + " " + shell_quoted(arguments.got);
  if (!arguments.policy.empty()) command += " --policy " + shell_quoted(arguments.policy);
  if (arguments.align != "auto") command += " --align=" + shell_quoted(arguments.align);
  if (arguments.quarantine != "exclude") command += " --quarantine " + arguments.quarantine;
  if (arguments.strict_argmax) command += " --strict-argmax";
  return command;
}

void refuse_to_overwrite(const CompareArguments& arguments) {
  for (const std::string* input : {&arguments.ref, &arguments.got, &arguments.policy}) {
    std::error_code none;
    if (std::filesystem::equivalent(*input, arguments.output, none)) {
      throw Error("the report would overwrite its input", arguments.output, "give another -o");
    }
  }
}

int run(const CompareArguments& arguments) {
  const CompareOptions options = options_of(arguments);
  refuse_to_overwrite(arguments);
  const Comparison comparison = compare_logs(arguments.ref, arguments.got, options);
  for (const std::string& warning : comparison.warnings) print_warning(warning);
  write_output(arguments.output, [&](const TextSink& sink) {
    if (arguments.format == "json") {
      write_json(comparison, sink);
    } else if (arguments.format == "csv") {
      write_csv(comparison, sink);
    } else {
      write_table(comparison, command_of(arguments), output_style(arguments.output), sink);
    }
  });
  if (comparison.pass) return kInParity;
  if (comparison.verdict != Verdict::kInconclusive) return kDiverged;
  print_error(
      fmt::format("{}: nothing is proved: the records in common with {} hold nothing but "
                  "zeros; check that both engines ran",
                  printable(arguments.got), printable(arguments.ref)));
  return kNotComparable;
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand("compare", "Hold a log against a reference log");
  command->add_option("REF", arguments->ref, "The reference's log")->required();
  command->add_option("GOT", arguments->got, "The log to judge")->required();
  command->add_option("--policy", arguments->policy, "File with the tolerances (JSON)");
  command->add_option("--align", arguments->align,
                      "auto, index, or what to add to the reference's token_idx (default auto)");
  command->add_option("--quarantine", arguments->quarantine,
                      "exclude, fail or off: what to do with garbage values (default exclude)");
  command->add_flag("--strict-argmax", arguments->strict_argmax,
                    "Fail where the argmax differs, even between level candidates");
  command->add_option("--format", arguments->format, "table, json or csv (default table)");
  command->add_option("-o,--output", arguments->output, "Write to this file");
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace assay
