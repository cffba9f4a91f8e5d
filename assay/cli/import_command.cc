#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/flags.h"
#include "assay/cli/output.h"
#include "assay/cli/spooled_inputs.h"
#include "assay/compare/name_map.h"
#include "assay/dump/dump_log.h"
#include "assay/dump/suggest_map.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

struct ImportArguments {
  explicit ImportArguments(CLI::App& command) : flags(command) {}

  Flags flags;
  std::string input;
  std::string output;
  std::string map;
  DumpOptions options;
};

std::vector<int64_t> layers_of(const std::string& text) {
  std::vector<int64_t> layers;
  for (const int32_t layer : parse_token_ids(text, "--layers", "layer id")) {
    if (!layers.empty() && layers.back() >= layer) {
      throw Error(fmt::format("'{}' is no ascending list of layers", printable(text, 80)),
                  "--layers", "give the ids that vLLM was asked for, which it sorts, as in 1,9,17");
    }
    layers.push_back(layer);
  }
  return layers;
}

int64_t bos_of(const std::string& text) {
  const std::vector<int32_t> ids = parse_token_ids(text, "--bos");
  if (ids.size() == 1) return ids.front();
  throw Error(fmt::format("'{}' is no token id", printable(text, 80)), "--bos",
              "give the model's id of BOS, or none");
}

std::vector<std::string> texts_of(const std::vector<DumpedName>& names) {
  std::vector<std::string> texts;
  for (const DumpedName& name : names) texts.push_back(name.name);
  return texts;
}

void write_map(const std::string& path, const std::vector<DumpedName>& names) {
  const SuggestedMap map = suggest_map(names);
  if (map.known == 0 && map.unknown.empty()) {
    print_status(fmt::format("{} is not written: all names are checkpoints\n", printable(path)));
    return;
  }
  write_output(path, [&](const TextSink& sink) { sink(map.json); });
  print_status(fmt::format("{}: {} guessed from names and widths\n", printable(path),
                           count_of(map.known, "checkpoint is", "checkpoints are")));
  if (map.unknown.empty()) return;
  print_warning(
      fmt::format("{}: {} left out, the first '{}': put the checkpoint in the place of "
                  "null",
                  printable(path), count_of(map.unknown.size(), "name is", "names are"),
                  printable(map.unknown.front(), 80)));
}

int run(ImportArguments& arguments) {
  arguments.flags.apply();
  refuse_to_overwrite({arguments.input}, arguments.output, "the log");
  refuse_to_overwrite({arguments.input}, arguments.map, "the map", "--suggest-map");
  if (is_same_place(arguments.map, arguments.output)) {
    throw Error("the map would overwrite the log", arguments.map, "give another --suggest-map");
  }
  arguments.options.work = temporary_folder();
  ImportedDump dump;
  write_output(arguments.output, [&](const TextSink& sink) {
    dump = dump_to_log(arguments.input, arguments.options, sink);
  });
  for (const std::string& warning : dump.warnings) print_warning(warning);
  if (!arguments.map.empty()) write_map(arguments.map, dump.names);
  const std::string ready = NameMap::suggest(texts_of(dump.names));
  if (!ready.empty() && arguments.map.empty()) {
    print_status(
        fmt::format("the names look like those of {}: compare with --map {}\n", ready, ready));
  }
  return kInParity;
}

}  // namespace

void add_import(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("import", "Turn what another tool saved of a run into a log");
  auto arguments = std::make_shared<ImportArguments>(*command);
  Flags& flags = arguments->flags;
  flags
      .add("DUMP", arguments->input,
           "A .npy, .npz, .safetensors (or the index of its shards), .parquet, .pt, .pth or .bin "
           "file, a folder of SGLang's dumper, msprobe, vLLM's hidden states, or one tensor a "
           "file, the text of llama-eval-callback, a server's response with log-probabilities, or "
           "what llama-perplexity --kl-divergence-base wrote",
           {.is_input = true})
      ->required();
  flags.add("-o,--output", arguments->output, "The log; standard output by default");
  flags.add_value("--layers", "Of vLLM's hidden states: the layer ids that it was asked for",
                  [&options = arguments->options](const std::string& text) {
                    options.vllm_layers = layers_of(text);
                  });
  flags.add("--vocabulary", arguments->options.vocabulary,
            "Of a server's response: how many tokens there are, the rows of the output matrix");
  flags.add_value("--bos",
                  "Of llama-perplexity's log-probabilities: the token that each chunk begins with, "
                  "or none where the model adds none",
                  [&options = arguments->options](const std::string& text) {
                    options.bos = text == "none" ? -1 : bos_of(text);
                  });
  flags
      .add("--skip", arguments->options.skip,
           "Glob of tensors to leave out, by their names in the dump")
      ->allow_extra_args(false);
  flags.add("--team", arguments->options.team, "Name of the engine, in each record");
  flags.add("--suggest-map", arguments->map,
            "Write a map (JSON) from the names found to checkpoints, to be checked and given to "
            "assay compare --map");
  command->footer(
      "assay compare and analyze read the same files and folders themselves; docs/dumps.md says "
      "what is\nknown of each tool. Pickles (.pt) are opened by torch.load(weights_only=True) in "
      "the Python that\nASSAY_PYTHON names, or python3.");
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace assay
