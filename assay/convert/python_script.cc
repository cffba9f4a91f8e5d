#include "assay/convert/python_script.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/new_file.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): no header declares it

namespace assay {
namespace {

// This process's environment without empty entries of PYTHONPATH. Python takes an empty entry for
// the current folder, and would run a json.py or sitecustomize.py beside a log. Other entries are
// the user's choice; -I would drop them, and the user's own packages.
std::vector<std::string> python_environment() {
  constexpr std::string_view kName = "PYTHONPATH=";
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!text.starts_with(kName)) {
      variables.emplace_back(text);
      continue;
    }
    std::string kept;
    std::istringstream entries{std::string(text.substr(kName.size()))};
    for (std::string entry; std::getline(entries, entry, ':');) {
      if (!entry.empty()) kept += (kept.empty() ? "" : ":") + entry;
    }
    if (!kept.empty()) variables.push_back(std::string(kName) + kept);
  }
  return variables;
}

// For exec(): pointers to `texts`, which must outlive them, and a null.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string python() {
  const char* chosen = std::getenv("ASSAY_PYTHON");
  return chosen == nullptr || *chosen == '\0' ? "python3" : chosen;
}

// Reads what `child` writes until it closes its end; keeps the last part, which has the reason.
std::string read_end(int fd, pid_t child) {
  constexpr size_t kKept = 16384;
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t got = read(fd, piece, sizeof(piece));
    if (got < 0 && errno == EINTR) {
      pass_interrupt_on(child);
      continue;
    }
    if (got <= 0) return text;
    text.append(piece, static_cast<size_t>(got));
    if (text.size() > kKept) text.erase(0, text.size() - kKept);
  }
}

}  // namespace

ScriptFolder::ScriptFolder(const std::string& file) {
  const std::string place = place_of(file);
  path_ = fmt::format("{}.assay.XXXXXX", place.substr(0, place.rfind('/') + 1));
  if (mkdtemp(path_.data()) == nullptr) {
    throw Error(std::string("cannot create: ") + std::strerror(errno), file,
                "check permissions and room on the disk");
  }
}

ScriptFolder::~ScriptFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void run_python(const char* script, const std::vector<std::string>& given, const std::string& file,
                const std::string& hint) {
  std::vector<std::string> arguments = {python(), "-c", script};
  arguments.insert(arguments.end(), given.begin(), given.end());
  std::vector<std::string> variables = python_environment();
  const std::vector<char*> argv = pointers_to(arguments);
  const std::vector<char*> envp = pointers_to(variables);
  int ends[2];
  if (pipe(ends) != 0) throw Error(std::string("cannot run Python: ") + std::strerror(errno), file);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string said = failed == 0 ? read_end(ends[0], child) : std::string();
  close(ends[0]);
  if (failed != 0) {
    throw Error(fmt::format("cannot run {}: {}", arguments[0], std::strerror(failed)), file, hint);
  }
  const int status = wait_for_child(child, arguments[0]);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  while (said.ends_with('\n')) said.pop_back();
  said.erase(0, said.rfind('\n') + 1);  // a stack trace ends with its reason
  throw Error(said.empty() ? "Python failed without a message" : said, file);
}

}  // namespace assay
