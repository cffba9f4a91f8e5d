#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace assay {

// A flag's value must be a whole number in decimal from `least` to `most`. CLI11's own conversion
// takes "0x10", drops what overflows, and shows bounds as floating-point numbers.
CLI::Validator whole_number(int64_t least, uint64_t most);

// Adds --threads. `n_threads` must outlive the command.
void add_threads_flag(CLI::App& command, int& n_threads);

// Lets each option of `app` and of its commands refuse an empty value by an Error that names it:
// what a shell makes of a variable that is not set would otherwise be as if the flag were not
// there. Texts that may have no characters, as --prompt's, are taken.
void refuse_empty_values(CLI::App& app);

// The arguments of main() for CLI11, which takes them in reverse and takes what follows "--flag="
// for its value.
std::vector<std::string> arguments_for_cli11(int argc, char** argv);

// Comma-separated token ids, in brackets or not, as `assay tokenize` prints them. Throws Error
// naming `flag` and the item that is invalid. `what`: other ids than tokens'.
std::vector<int32_t> parse_token_ids(const std::string& text, const std::string& flag,
                                     const std::string& what = "token id");

// What a command reads.
struct Input {
  Input(std::string given) : path(std::move(given)) {}  // NOLINT(google-explicit-constructor)
  Input(std::string given, bool all) : path(std::move(given)), all_files(all) {}

  std::string path;
  bool all_files = false;  // of a folder, whatever they are: not only logs and files of tensors
};

// Throws Error if `output` is one of the inputs or a part of one. `what` is written there ("the
// report"), and `flag` says where.
void refuse_to_overwrite(const std::vector<Input>& inputs, const std::string& output,
                         const std::string& what = "the report", const std::string& flag = "-o");

// Throws Error if the log is the model's file, or a file of its folder that is not another log:
// that may be there, and may be written again. `flag` says where the log is written.
void refuse_model_as_log(const std::string& model, const std::string& log, const std::string& flag);

// Whether the file is, or would be, in a folder or below it.
bool is_below(const std::string& file, const std::string& folder);

// Whether to write the file would change the input: it is the input or, where that is a folder, is
// or would be one of the logs in it, or is one of its files of tensors, or one that a model's
// folder is read from; or, where all files of it are read, would be any.
bool is_part_of(const std::string& file, const Input& input);

// Whether the file is, or would be, one of the logs of a folder: by its name, by the place that it
// is a link to, or as that to which a link in the folder leads.
bool is_log_below(const std::string& file, const std::string& folder);

// Whether both are the path of one file, which need not be there.
bool is_same_place(const std::string& a, const std::string& b);

// Whether both are one file or folder, whatever their names.
bool is_same_file(const std::string& a, const std::string& b);

// Throws Error if is_same_file(): compared with itself it is right.
void refuse_same_file(const std::string& ref, const std::string& got);

// Throws Error if `log` is the file, pipe or terminal that a standard stream is open on: what else
// is written there would stand between the records, and what is read from there would be emptied.
void refuse_standard_streams(const std::string& log);

}  // namespace assay
