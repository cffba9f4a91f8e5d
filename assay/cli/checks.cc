#include "assay/cli/checks.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "assay/dump/dump_files.h"
#include "assay/log/run_files.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

template <typename T>
bool parse_whole(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Texts may have no characters; --log, --tokens and --checkpoints say themselves what to give.
constexpr std::string_view kMayBeEmpty[] = {"--prompt", "--text",   "--team",
                                            "--log",    "--tokens", "--checkpoints"};

bool may_be_empty(const CLI::Option& option) {
  return std::ranges::find(kMayBeEmpty, option.get_name()) != std::end(kMayBeEmpty);
}

std::string refuse_empty(const CLI::Option& option, const std::string& value) {
  if (!value.empty()) return {};
  const bool needed = option.get_positional() || option.get_required();
  throw Error("the value is empty, as of a variable that is not set", option.get_name(),
              needed ? "give one" : "give one, or leave the flag out");
}

// Whether the folder is one of those that the file is in.
bool is_any_above(const std::string& folder, const fs::path& file) {
  for (fs::path above = file.parent_path(); above.has_relative_path();
       above = above.parent_path()) {
    if (is_same_file(folder, above.string())) return true;
  }
  return false;
}

// What a model's folder is read from, beside its tensors.
constexpr std::string_view kModelFiles[] = {"config.json", "generation_config.json",
                                            "tokenizer.json", "tokenizer_config.json",
                                            "model.safetensors.index.json"};

// Whether the file is, or would be, one that a Hugging Face folder is read from: by its name, or
// as what one there is a link to.
bool is_of_model_folder(const std::string& file, const std::string& folder) {
  std::error_code none;
  const fs::path in = folder;
  if (file.empty() || !fs::is_regular_file(in / "config.json", none)) return false;
  const bool is_named = std::ranges::any_of(kModelFiles, [&](std::string_view name) {
    const std::string one = (in / name).string();
    return is_same_file(one, file) || is_same_place(one, file);
  });
  if (is_named) return true;
  return std::ranges::any_of(fs::directory_iterator(in, none), [&](const auto& entry) {
    return entry.path().extension() == ".safetensors" && is_same_file(entry.path().string(), file);
  });
}

}  // namespace

void add_threads_flag(CLI::App& command, int& n_threads) {
  command.add_option("--threads", n_threads, "Threads; 0: one per processor, or ASSAY_THREADS")
      ->check(whole_number(0, kMaxThreads))
      ->capture_default_str();
}

CLI::Validator whole_number(int64_t least, uint64_t most) {
  const auto check = [least, most](std::string& text) {
    int64_t small = 0;
    uint64_t large = 0;
    const bool negative = text.starts_with('-');
    const bool good = negative ? parse_whole(text, small) && small >= least
                               : parse_whole(text, large) && large <= most &&
                                     (least <= 0 || large >= static_cast<uint64_t>(least));
    return good ? std::string()
                : fmt::format("'{}' is not a whole number from {} to {}", printable(text, 40),
                              least, most);
  };
  return CLI::Validator(check, "", "whole number");
}

void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 0 || may_be_empty(*option)) continue;
    option->check([option](const std::string& value) { return refuse_empty(*option, value); });
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command);
}

std::vector<std::string> arguments_for_cli11(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool no_value = argument.starts_with("--") && argument.find('=') + 1 == argument.size();
    arguments.emplace_back(argument.substr(0, argument.size() - (no_value ? 1 : 0)));
    if (no_value) arguments.emplace_back();
  }
  std::ranges::reverse(arguments);
  return arguments;
}

std::vector<int32_t> parse_token_ids(const std::string& text, const std::string& flag,
                                     const std::string& what) {
  std::vector<int32_t> ids;
  std::string_view rest = trimmed(text);
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  for (;;) {
    const size_t comma = rest.find(',');
    const std::string_view item = trimmed(rest.substr(0, comma));
    int32_t id = 0;
    if (!parse_whole(item, id) || id < 0) {
      throw Error(fmt::format("'{}' is not a {}", printable(item, 40), what), flag,
                  fmt::format("give ids from 0 to {}, separated by commas",
                              std::numeric_limits<int32_t>::max()));
    }
    ids.push_back(id);
    if (comma == std::string_view::npos) return ids;
    rest.remove_prefix(comma + 1);
  }
}

void refuse_to_overwrite(const std::vector<Input>& inputs, const std::string& output,
                         const std::string& what, const std::string& flag) {
  for (const Input& input : inputs) {
    if (is_same_file(input.path, output)) {
      throw Error(what + " would overwrite its input", output, "give another " + flag);
    }
  }
  for (const Input& input : inputs) {
    if (!is_part_of(output, input)) continue;
    throw Error(what + " would be part of its input " + input.path, output, "give another " + flag);
  }
}

void refuse_model_as_log(const std::string& model, const std::string& log,
                         const std::string& flag) {
  std::error_code none;
  const bool is_of_folder =
      is_of_model_folder(log, model) ||
      (fs::is_regular_file(log, none) && !log.ends_with(".jsonl") && is_below(log, model));
  if (!is_of_folder && !is_same_file(log, model)) return;
  throw Error("the log would overwrite the model", log, "give another " + flag);
}

bool is_part_of(const std::string& file, const Input& input) {
  std::error_code none;
  if (is_same_file(file, input.path) || is_log_below(file, input.path)) return true;
  if (is_of_model_folder(file, input.path)) return true;
  const bool is_read = input.all_files || (fs::is_regular_file(file, none) && is_dump(file));
  return is_read && !file.empty() && is_below(file, input.path);
}

bool is_log_below(const std::string& file, const std::string& folder) {
  std::error_code none;
  if (file.empty() || !fs::is_directory(folder, none)) return false;
  const fs::path path = fs::absolute(file, none);
  const fs::path named = fs::weakly_canonical(path.parent_path(), none) / path.filename();
  for (const fs::path& place : {named, fs::weakly_canonical(path, none)}) {
    if (place.extension() == ".jsonl" && is_any_above(folder, place)) return true;
  }
  if (!fs::exists(path, none)) return false;
  return std::ranges::any_of(logs_below(folder, none),
                             [&](const std::string& log) { return is_same_file(log, file); });
}

bool is_same_place(const std::string& a, const std::string& b) {
  std::error_code none;
  if (a.empty() || b.empty()) return false;
  return fs::weakly_canonical(fs::absolute(a, none), none) ==
         fs::weakly_canonical(fs::absolute(b, none), none);
}

bool is_below(const std::string& file, const std::string& folder) {
  std::error_code none;
  return is_any_above(folder, fs::weakly_canonical(fs::absolute(file, none), none));
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code none;
  return fs::equivalent(a, b, none);
}

void refuse_same_file(const std::string& ref, const std::string& got) {
  if (!is_same_file(ref, got)) return;
  throw Error(fmt::format("is the same file as {}", ref), got,
              "compared with itself it shows nothing: give the one that is judged");
}

void refuse_standard_streams(const std::string& log) {
  struct stat file {};
  if (stat(log.c_str(), &file) != 0) return;
  constexpr std::pair<int, std::string_view> kStreams[] = {
      {STDIN_FILENO, "standard input is the same file, and would be emptied"},
      {STDOUT_FILENO, "standard output is the same file, and the text goes there"},
      {STDERR_FILENO, "standard error is the same file, and messages go there"}};
  for (const auto& [stream, what] : kStreams) {
    struct stat status {};
    if (fstat(stream, &status) != 0) continue;
    const bool keeps_nothing = S_ISCHR(status.st_mode) && isatty(stream) == 0;  // as /dev/null
    if (keeps_nothing || status.st_dev != file.st_dev || status.st_ino != file.st_ino) continue;
    throw Error(std::string(what), log, "give another --log");
  }
}

}  // namespace assay
