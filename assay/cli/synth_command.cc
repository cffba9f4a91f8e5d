#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <memory>
#include <string_view>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/flags.h"
#include "assay/cli/output.h"
#include "assay/synth/presets.h"
#include "assay/synth/synth.h"
#include "base/error.h"
#include "kernels/quantize/quantize.h"

namespace assay {
namespace {

struct SynthFlags {
  explicit SynthFlags(CLI::App& command) : flags(command) {}

  Flags flags;
  SynthOptions options;
  std::string config;
  std::string type;
  bool list = false;
};

// llama.cpp makes Q2_K_S only with an importance matrix, which random weights cannot have, and
// which types it mixes in the others of these has not been measured (assay/synth/type_mix.cc).
bool can_be_made(const FileType& type) {
  constexpr std::array<std::string_view, 6> kNotMade = {"Q2_K_S", "IQ4_NL", "IQ4_XS",
                                                        "TQ1_0",  "TQ2_0",  "NVFP4"};
  return can_quantize(type.base) && std::ranges::find(kNotMade, type.name) == kNotMade.end();
}

std::string type_names() {
  std::string names;
  for (const FileType& type : file_types()) {
    if (!can_be_made(type)) continue;
    if (!names.empty()) names += ", ";
    names += type.name;
  }
  return names;
}

// A device, a pipe or a link would be replaced by the file, and an input lost.
void check_output(const SynthFlags& flags) {
  namespace fs = std::filesystem;
  const bool folder = flags.options.folder;
  const std::string path =
      folder ? (fs::path(flags.options.path) / "config.json").string() : flags.options.path;
  std::error_code none;
  const fs::file_status status = fs::symlink_status(path, none);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) {
    throw Error("is not a regular file", path, "give another -o");
  }
  refuse_to_overwrite(flags.flags.inputs(), path, "the model");
}

// A folder has all tensors in one type.
void set_type(const std::string& name, SynthOptions& options) {
  options.type = find_file_type(name.empty() ? options.folder ? "BF16" : "Q4_K_M" : name);
  if (options.type == nullptr || !can_be_made(*options.type)) {
    throw Error(fmt::format("'{}' is not a type that can be made", printable(name, 40)), "--type",
                "give one of " + type_names());
  }
  if (options.folder && tensor_type_info(options.type->base).block_elements > 1) {
    throw Error(fmt::format("'{}' is not a type of a folder's tensors", name), "--type",
                "give F32, F16 or BF16");
  }
}

int list_presets() {
  std::string text = fmt::format("{:<22} {:<12} {:>6} {:>6} {:>7} {:>10}\n", "model",
                                 "architecture", "layers", "width", "experts", "parameters");
  for (const Preset& preset : presets()) {
    const SynthConfig config = load_config(std::string(preset.name));
    text += fmt::format("{:<22} {:<12} {:>6} {:>6} {:>7} {:>9.2f}B\n", preset.name,
                        config.model.architecture->name, config.model.n_layers,
                        config.model.embedding_length, config.model.routing.n_experts,
                        static_cast<double>(count_parameters(config)) / 1e9);
  }
  print_text(text);
  return kInParity;
}

int synth_command(SynthFlags& flags) {
  flags.flags.apply();
  if (flags.list) return list_presets();
  if (flags.config.empty() || flags.options.path.empty()) {
    throw Error(flags.config.empty() ? "MODEL is required" : "-o is required", {},
                "see assay synth --help");
  }
  set_type(flags.type, flags.options);
  if (flags.options.folder && !flags.options.vocab_path.empty()) {
    throw Error("a folder gets no vocabulary", "--vocab", "leave it out, or make a GGUF file");
  }
  check_output(flags);
  const SynthConfig config = load_config(flags.config);
  const SynthResult result =
      synthesise(config, flags.options, progress_line("writing", Work::kBytes));
  // As sha256sum prints it, so that sha256sum -c can read it.
  print_foreign_text(fmt::format("{}  {}\n", result.sha256, result.path));
  print_status(fmt::format("{}: {} {}, {:.0f} million parameters in {} tensors, {:.1f} MB\n",
                           printable(flags.options.path), printable(config.model.name),
                           flags.options.type->name, static_cast<double>(result.n_parameters) / 1e6,
                           result.n_tensors, static_cast<double>(result.bytes) / 1e6));
  return kInParity;
}

}  // namespace

void add_synth(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "synth", "Make a model file with random weights, as large as a published model or small");
  auto arguments = std::make_shared<SynthFlags>(*command);
  Flags& flags = arguments->flags;
  SynthOptions& options = arguments->options;
  flags.add("MODEL", arguments->config,
            "A model's config.json (its path ends in .json), or a name that --list has",
            {.is_input = true});
  flags.add("--list", arguments->list, "List the published models that have a name here");
  flags.add("-o,--output", options.path, "The GGUF file to write, or with --folder the folder");
  flags.add(
      "--folder", options.folder,
      "Write a Hugging Face folder, config.json and model.safetensors, with the same weights");
  flags.add("--type", arguments->type,
            "How weights are stored: " + type_names() +
                "; Q4_K_M if not given, BF16 in a folder, which has F32, F16 or BF16");
  flags.add("--pure", options.pure,
            "The type's own format for every matrix; without it some get more bits, by "
            "llama.cpp's rule");
  flags.add("--seed", options.seed, "Seed; the same seed gives the same bytes")
      ->check(whole_number(0, std::numeric_limits<uint64_t>::max()))
      ->capture_default_str();
  flags.add("--vocab", options.vocab_path,
            "Copy the vocabulary of this GGUF file; without it the model has none and runs with "
            "--tokens",
            {.is_input = true});
  add_threads_flag(*command, options.n_threads);
  command->callback([arguments, &exit_code] { exit_code = synth_command(*arguments); });
}

}  // namespace assay
