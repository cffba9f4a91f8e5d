#include "assay/convert/python.h"

#include <cstdlib>
#include <sstream>

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

std::string python() {
  const char* chosen = std::getenv("ASSAY_PYTHON");
  return chosen == nullptr || *chosen == '\0' ? "python3" : chosen;
}

}  // namespace

PythonCommand python_command(std::string_view script, const std::vector<std::string>& arguments) {
  PythonCommand command{{python(), "-c", std::string(script)}, python_environment()};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  return command;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace assay
