#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/compare/log_files.h"
#include "tests/support/paths.h"

namespace assay {

struct Outcome {
  int exit_code = -1;  // -1 when a signal ended it
  std::string out;
  std::string err;
};

// Runs the real program.
class Program : public LogFiles {
 protected:
  // `user`: who runs it, where that is not the one who runs the test. `terminal`: the path of one,
  // in place of a file, for its standard output; `out` stays empty then.
  Outcome run(std::vector<std::string> arguments, std::optional<uid_t> user = {},
              const std::string& terminal = "") {
    const std::string out = terminal.empty() ? folder_ + "/.out" : terminal;
    const std::string err = folder_ + "/.err";
    arguments.insert(arguments.begin(), program_path("assay"));
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
      dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
      if (user && setresuid(*user, *user, *user) != 0) _exit(127);
      execv(argv[0], argv.data());
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, terminal.empty() ? contents(out) : "",
            contents(err)};
  }

  // Bad input and bad usage: exit code 2, nothing on standard output, one line of this on the
  // other.
  void expect_error(const std::vector<std::string>& arguments, const std::string& message) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << message;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "assay: " + message + "\n");
  }
};

}  // namespace assay
