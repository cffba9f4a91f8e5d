#include "assay/cli/failed_report.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/data_place.h"
#include "assay/cli/output.h"
#include "assay/report/error_report.h"
#include "base/new_file.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// What was given to a flag of the command last; empty if it was not.
std::string value_of(const CLI::App& command, const std::string& flag) {
  const CLI::Option* option = command.get_option_no_throw(flag);
  return option == nullptr || option->results().empty() ? "" : option->results().back();
}

bool has_report(const CLI::App& command) {
  const CLI::Option* option = command.get_option_no_throw("--output");
  return option != nullptr && option->get_type_name() == kReportType;
}

// Whether the file is what the command reads, or one of those in a folder that it reads.
bool is_input(const CLI::App& command, const std::string& file) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_single_name() == "output") continue;
    for (const std::string& value : option->results()) {
      if (is_part_of(file, {value, option->get_type_name() == kFolderType})) return true;
    }
  }
  const CLI::Option* suite = command.get_option_no_throw("--suite");
  return suite != nullptr && suite->empty() && is_part_of(file, {default_suite(), true});
}

void remove_report(const std::string& path) {
  std::error_code none;
  const std::string place = place_of(path);
  if (fs::is_regular_file(place, none)) fs::remove(place, none);
}

// Whether the file is something else: a log, a benchmark's result or data, as where GOT was
// forgotten before -o.
bool is_no_report(const std::string& path) {
  std::string begin(512, ' ');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<size_t>(file.gcount()));
  if (begin.find('\0') != std::string::npos) return true;
  std::erase_if(begin, [](unsigned char c) { return std::isspace(c) != 0; });
  constexpr std::string_view kBeginnings[] = {"{\"assay\":", "{\"checkpoint\":", "{\"context\":"};
  return std::ranges::any_of(kBeginnings,
                             [&](std::string_view one) { return begin.starts_with(one); });
}

// Writes it if there is one of the format; else what an earlier run left is removed.
void replace_file(const std::string& format, const std::string& path, const FailedCommand& failed) {
  try {
    if (format == "github") {
      write_step_summary(
          path, [&](size_t, const TextSink& sink) { write_github_error_summary(failed, sink); });
      return;
    }
    if (format == "junit") {
      write_output(path, [&](const TextSink& sink) { write_junit_error(failed, sink); });
      return;
    }
  } catch (...) {
    // Then at least nothing stale is left.
  }
  remove_report(path);
}

}  // namespace

void replace_report(const CLI::App& app, const std::string& message) noexcept {
  try {
    const CLI::App* command = &app;
    FailedCommand failed{"assay", message, utc_now()};
    while (!command->get_subcommands().empty()) {
      command = command->get_subcommands().front();
      failed.command += " " + command->get_name();
    }
    if (!has_report(*command)) return;
    const std::string format = value_of(*command, "--format");
    const std::string path = value_of(*command, "--output");
    const bool github = format == "github";
    if (github) write_output("", [&](const TextSink& sink) { write_github_error(failed, sink); });
    const std::string place = github && path.empty() ? step_summary_path(path) : path;
    if (place.empty() || place == "-" || is_input(*command, place)) return;
    if (is_no_report(place_of(place))) return;
    replace_file(format, path, failed);
  } catch (...) {
    // The error itself is reported.
  }
}

}  // namespace assay
