#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "assay/cli/commands.h"
#include "assay/cli/output.h"
#include "assay/cli/text_file.h"
#include "base/error.h"
#include "engine/tokenizer/tokenizer.h"

namespace assay {
namespace {

struct TokenizeFlags {
  std::string model_path;
  std::optional<std::string> text;
  std::string file;
  bool no_bos = false;
};

int tokenize_command(const TokenizeFlags& flags) {
  const auto tokenizer = Tokenizer::from_model(flags.model_path);
  if (!tokenizer) {
    throw Error("has no vocabulary", flags.model_path,
                "give a GGUF file that has one, or a folder with tokenizer.json");
  }
  const std::string text = flags.text ? *flags.text : read_text_file(flags.file);
  print_text(fmt::format("[{}]\n", fmt::join(tokenizer->encode(text, !flags.no_bos), ",")));
  return kInParity;
}

}  // namespace

void add_tokenize(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command = app.add_subcommand("tokenize", "Text to a JSON array of token ids");
  command->add_option("MODEL", flags->model_path, "Model file; a vocabulary alone is enough")
      ->required();
  auto* text = command->add_option_group("text", "What to tokenize; one of");
  text->add_option("--text", flags->text, "Text");
  text->add_option("-f,--file", flags->file, "File of text, read as it is; - is standard input");
  text->require_option(1);
  command->add_flag("--no-bos", flags->no_bos, "Add no begin- or end-of-sequence token");
  command->callback([flags, &exit_code] { exit_code = tokenize_command(*flags); });
}

}  // namespace assay
