#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/environment.h"

namespace assay {

// Runs `arguments` and gives its exit code (-1: a signal) and what it wrote on both streams.
inline std::pair<int, std::string> run_program(std::vector<std::string> arguments) {
  char name[] = "/tmp/assay_output_XXXXXX";
  const int out = mkstemp(name);
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  close(out);
  std::ostringstream text;
  text << std::ifstream(name).rdbuf();
  unlink(name);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text.str()};
}

// That of scripts/fetch.sh packages, where it is to be.
inline std::string cached_python() {
  return cache_folder() + "/python/bin/python";
}

// A Python that has `modules`, given as in an import statement: the environment's ASSAY_PYTHON,
// python3, the system's own, or that of scripts/fetch.sh packages. Empty if there is none.
inline std::string python_with(const std::string& modules) {
  for (const std::string& python : {environment("ASSAY_PYTHON"), std::string("python3"),
                                    std::string("/usr/bin/python3"), cached_python()}) {
    if (!python.empty() && run_program({python, "-c", "import " + modules}).first == 0) {
      return python;
    }
  }
  return {};
}

}  // namespace assay
