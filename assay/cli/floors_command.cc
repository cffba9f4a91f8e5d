#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "assay/cli/commands.h"
#include "assay/cli/failed_report.h"
#include "assay/cli/flags.h"
#include "assay/cli/output.h"
#include "assay/cli/report_flags.h"
#include "assay/cli/selection_flags.h"
#include "assay/cli/spooled_inputs.h"
#include "assay/golden/files.h"
#include "assay/golden/measure_floors.h"
#include "assay/log/log_reader.h"
#include "assay/report/json_object.h"
#include "assay/report/text_table.h"
#include "base/count_of.h"
#include "base/error.h"
#include "model/architecture.h"

namespace assay {
namespace {

struct FloorsArguments {
  explicit FloorsArguments(CLI::App& command) : flags(command) {}

  Flags flags;
  std::string ref;
  std::vector<std::string> runs;
  FloorOptions options;
  ReportFlags report;
};

double k_of(const std::string& text) {
  double k = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), k);
  if (error == std::errc() && stop == text.data() + text.size() && k >= kLeastK && k <= kMostK) {
    return k;
  }
  throw Error(
      fmt::format("'{}' is not a number from {} to {}", printable(text, 40), kLeastK, kMostK),
      "--k", "more than that is no multiple of noise, less fails the runs measured");
}

// What a policy states of a log that its floors were measured on.
struct FloorSource {
  std::string given;
  std::string sha256;
  std::optional<LogHeader> header;
};

// The hash is that of the file that was given, or of the bytes of a pipe, or of the log that a
// folder became.
FloorSource source_of(const std::string& given, const std::string& path) {
  std::error_code none;
  const bool is_file = std::filesystem::is_regular_file(given, none);
  return {given, file_sha256(is_file ? given : path), read_log_header(path)};
}

// Only among architectures that Assay has: of others, two tools may have two names.
void refuse_other_architecture(const FloorSource& ref, const FloorSource& run) {
  if (!ref.header || !run.header) return;
  const std::string& a = ref.header->model.arch;
  const std::string& b = run.header->model.arch;
  if (a == b || find_architecture(a) == nullptr || find_architecture(b) == nullptr) return;
  throw Error(fmt::format("is of the architecture {}, and {} of {}", b, printable(ref.given), a),
              run.given, "runs of another network are no noise: give runs of one model");
}

std::vector<FloorSource> sources_of(const std::vector<std::string>& logs,
                                    const std::vector<std::string>& paths) {
  std::vector<FloorSource> sources;
  for (size_t i = 0; i < logs.size(); ++i) {
    sources.push_back(source_of(logs[i], paths[i]));
    refuse_other_architecture(sources.front(), sources.back());
    for (size_t before = 0; before < i; ++before) {
      if (sources[before].sha256 != sources[i].sha256) continue;
      throw Error(fmt::format("has the bytes of {}", printable(logs[before])), logs[i],
                  "a run is not noise to itself: give logs of several runs");
    }
  }
  return sources;
}

void append_source(JsonObject& object, const FloorSource& source) {
  object.member("log", source.given);
  object.member("sha256", source.sha256);
  const LogHeader header = source.header.value_or(LogHeader());
  const auto append = [&](const char* name, const std::string& value) {
    if (!value.empty()) object.member(name, value);
  };
  append("engine", header.engine);
  append("backend", header.backend);
  append("math", header.math);
  append("model", header.model.name);
  append("type", header.model.type);
  const std::string& hash = header.model.sha256;
  object.member("model_sha256", hash.empty() ? std::nullopt : std::optional(hash));
}

// The file that Policy::from_file() reads.
void write_policy(const MeasuredFloors& measured, const std::vector<FloorSource>& sources,
                  const std::string& command, const TextSink& sink) {
  write_json_line(sink, [&](JsonObject& policy) {
    policy.object("measured", [&](JsonObject& object) {
      object.member("program", "assay " ASSAY_VERSION);
      object.member("command", command);
      object.member("reference", 0);
      object.lines("runs", sources, sink, append_source);
      object.array("warnings", measured.warnings);
    });
    policy.new_line();
    policy.member("k", measured.k);
    policy.new_line();
    policy.object("checkpoints", [&](JsonObject& object) {
      for (const MeasuredFloor& floor : measured.floors) {
        object.new_line();
        object.object(floor.checkpoint, [&](JsonObject& members) {
          members.member("floor", floor.rel_l2);
          members.member("run", floor.run);
          members.member("token_idx", floor.token_idx);
          members.member("records", floor.records);
        });
      }
    });
  });
}

// How far each run is from the reference, for the terminal: one that is much further off than the
// others sets all floors.
std::string summary(const MeasuredFloors& measured) {
  TextTable table({"run", "records", "argmax", "median rel l2", "worst rel l2"});
  for (const FloorRun& run : measured.runs) {
    table.add({printable(run.path, 60), std::to_string(run.records),
               fmt::format("{}/{}", run.argmax_agree, run.argmax_total),
               short_number(run.median_rel_l2), short_number(run.worst_rel_l2)});
  }
  const auto by_size = [](const MeasuredFloor& a, const MeasuredFloor& b) {
    return a.rel_l2 < b.rel_l2;
  };
  const auto [least, most] =
      std::minmax_element(measured.floors.begin(), measured.floors.end(), by_size);
  return fmt::format(
      "{}\n{} over {}: from {} ({}) to {} ({}, token {}); an error may be {} times "
      "its floor, which counts as 2^-24 at least\n",
      table.text({}), count_of(measured.floors.size(), "floor"), count_of(measured.tokens, "token"),
      short_number(least->rel_l2), printable(least->checkpoint, 80), short_number(most->rel_l2),
      printable(most->checkpoint, 80), most->token_idx, measured.k);
}

int run(FloorsArguments& arguments, SpooledInputs& spooled) {
  arguments.report.check_output(arguments.flags.inputs());
  std::vector<std::string> logs = {arguments.ref};
  logs.insert(logs.end(), arguments.runs.begin(), arguments.runs.end());
  std::vector<std::string> paths;
  for (const std::string& log : logs) paths.push_back(spooled.path_of(log));
  arguments.flags.apply();
  arguments.options.compare.progress = progress_line("measuring", Work::kBytes);
  const std::vector<FloorSource> sources = sources_of(logs, paths);
  MeasuredFloors measured = measure_floors(paths, arguments.options);
  for (size_t i = 0; i < measured.runs.size(); ++i) measured.runs[i].path = logs[i + 1];
  spooled.print_warnings(measured.warnings);
  const std::string command = "assay floors" + arguments.flags.typed();
  write_output(arguments.report.output,
               [&](const TextSink& sink) { write_policy(measured, sources, command, sink); });
  print_status(summary(measured));
  return kInParity;
}

}  // namespace

void add_floors(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "floors", "Measure the noise between honest runs, as a policy for assay compare");
  auto arguments = std::make_shared<FloorsArguments>(*command);
  Flags& flags = arguments->flags;
  CompareOptions& compare = arguments->options.compare;
  flags
      .add("REF", arguments->ref, "The log that the others, and later ones, are compared with",
           {.is_input = true})
      ->required();
  flags
      .add("RUN", arguments->runs,
           "Logs of the same tokens by other engines, arithmetics or batches that are right",
           {.is_input = true})
      ->required();
  flags.add_value("--k", "How many times its floor an error may be (default 3)",
                  [&k = arguments->options.k](const std::string& text) { k = k_of(text); },
                  {.default_value = "3"});
  flags.add("--accept-jumps", arguments->options.accept_jumps,
            "Take an error that jumps from one layer to the next, or at a token, for noise");
  add_selection_flags(flags, compare.selection,
                      "Only these positions: 5, 5..20, 5.., ..20, with commas");
  flags.add_values("--map",
                   "Names of another engine: llama.cpp, transformers, published, or a file (JSON)",
                   load_into({&compare.ref_map, &compare.got_map}),
                   {.is_input = true, .part = FlagPart::kSelection});
  arguments->report.add_output(*command, "Write the policy to this file")->type_name(kKeptType);
  command->footer(
      "The policy holds each checkpoint to k times the greatest rel_l2 that it has between the "
      "first log\nand the others: assay compare REF GOT --policy FILE. docs/tolerances.md says "
      "what it refuses.");
  command->callback([arguments, &exit_code] {
    exit_code =
        with_spooled_inputs([&](SpooledInputs& spooled) { return run(*arguments, spooled); });
  });
}

}  // namespace assay
