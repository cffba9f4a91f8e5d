#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/output.h"
#include "assay/convert/convert.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr const char* kHint = "the endings are .jsonl, .npz, .safetensors and .parquet";

struct ConvertArguments {
  std::string input;
  std::string output;
};

std::string ending_of(const std::string& path) {
  std::string ending = std::filesystem::path(path).extension().string();
  if (ending != ".jsonl" && ending != ".npz" && ending != ".safetensors" && ending != ".parquet") {
    throw Error(fmt::format("'{}' is the ending of no known format", printable(ending, 40)), path,
                kHint);
  }
  return ending;
}

void warn(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) print_warning(warning);
}

int run(const ConvertArguments& arguments) {
  std::error_code none;
  if (std::filesystem::is_directory(arguments.input, none)) {
    throw Error("is a folder", arguments.input, "convert the files in it one by one");
  }
  const std::string from = ending_of(arguments.input);
  const std::string to = ending_of(arguments.output);
  refuse_to_overwrite({arguments.input}, arguments.output, "the output", "file");
  if ((from == ".jsonl") == (to == ".jsonl")) {
    throw Error(fmt::format("cannot convert {} to {}", from, to), arguments.output,
                "one of the two must be a log, .jsonl");
  }
  if (to == ".parquet") {
    warn(log_to_parquet(arguments.input, arguments.output));
  } else if (to != ".jsonl") {
    warn(log_to_arrays(arguments.input, arguments.output));
  } else {
    write_output(arguments.output, [&](const TextSink& sink) {
      if (from == ".parquet") {
        parquet_to_log(arguments.input, arguments.output, sink);
      } else {
        arrays_to_log(arguments.input, sink);
      }
    });
  }
  return kInParity;
}

}  // namespace

void add_convert(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ConvertArguments>();
  CLI::App* command = app.add_subcommand(
      "convert", "Turn a log into NPZ, safetensors or Parquet, or one of these into a log");
  command->add_option("INPUT", arguments->input, "A .jsonl, .npz, .safetensors or .parquet file")
      ->required();
  command->add_option("OUTPUT", arguments->output, "Likewise; one of the two is .jsonl")
      ->required();
  command->footer(
      "What docs/add-an-engine.md names is kept on the way there and back, values as 32-bit\n"
      "floats; other keys, and some of another type, are left out, which a warning tells, as it\n"
      "does where a value is too small for a float and becomes 0. Parquet needs python3 with\n"
      "pyarrow.");
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace assay
