#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/character.h"
#include "tests/cli/program.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_model.h"

namespace assay {

inline const std::string kGolden = source_path("golden/tinyllama/");
inline const std::string kModel = std::string(kGolden) + "tinyllama-q8_0.gguf";
inline const std::string kLog = std::string(kGolden) + "f32.jsonl";

// Of a small model, for synth.
inline constexpr const char* kConfig =
    R"({"model_type":"llama","hidden_size":64,"intermediate_size":128,"vocab_size":64,)"
    R"("num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":2,)"
    R"("max_position_embeddings":64,"rms_norm_eps":1e-5})";

// The program under conditions that a test makes for it.
class FaultCase : public Program {
 protected:
  using Prepare = std::function<void()>;

  // Starts the program; `prepare` runs in its process before it. Standard output and standard error
  // go to files that finish() reads, unless `prepare` puts something else there.
  pid_t start(std::vector<std::string> arguments, const Prepare& prepare = {}) {
    arguments.insert(arguments.begin(), program_path("assay"));
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::filesystem::create_directory(outside());
    const pid_t child = fork();
    if (child != 0) return child;
    dup2(open((outside() + "/out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    dup2(open((outside() + "/err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    if (prepare) prepare();
    execv(argv[0], argv.data());
    _exit(127);
  }

  // exit_code is minus the number of the signal that ended it.
  Outcome finish(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return outcome_of(status);
  }
  Outcome outcome_of(int status) {
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
            contents(outside() + "/out"), contents(outside() + "/err")};
  }

  Outcome run_in(const Prepare& prepare, const std::vector<std::string>& arguments) {
    return finish(start(arguments, prepare));
  }

  void TearDown() override {
    std::filesystem::remove_all(outside());
    Program::TearDown();
  }

  // For `prepare`: the program starts no further thread.
  static void use_one_processor() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
    sched_setaffinity(0, sizeof(one), &one);
  }

  // Exit code 2 and, beside warnings, one line, which holds `words`.
  static void expect_one_line(const Outcome& outcome, const std::string& words = "") {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    std::string error = outcome.err;
    while (error.starts_with("assay: warning: ")) error.erase(0, error.find('\n') + 1);
    EXPECT_THAT(error, testing::StartsWith("assay: "));
    EXPECT_THAT(error, testing::HasSubstr(words));
    EXPECT_EQ(error.find('\n'), error.size() - 1) << outcome.err;
  }

  // No control character but line feeds, no turn of direction, nothing that is not UTF-8, and no
  // line that a CI runner would take for a command.
  static void expect_harmless(const std::string& text) {
    std::string_view rest = text;
    while (!rest.empty()) {
      const Character character = first_character(rest);
      ASSERT_TRUE(character.visible || character.code == '\n')
          << testing::PrintToString(text.substr(text.size() - rest.size(), 60));
      rest.remove_prefix(character.bytes);
    }
    EXPECT_THAT(text, testing::Not(testing::ContainsRegex("\n *::error::injected")));
  }

  // One golden, in the folder "golden".
  void copy_golden() const {
    std::filesystem::create_directories(path("golden/tinyllama"));
    std::filesystem::copy(kGolden, path("golden/tinyllama"));
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  // A run that logs everything: some 13,000 records in a tenth of a second or more. Each token is
  // told as a number as soon as it is chosen.
  std::vector<std::string> long_run(const std::string& log, int n_tokens = 700) const {
    const std::string model = path("tiny.gguf");
    if (!std::filesystem::exists(model)) {
      testing_support::TinyModel tiny;
      tiny.ints["llama.context_length"] = 1024;
      tiny.write(model);
    }
    return {"run",
            model,
            "--tokens",
            "1,2,3",
            "-n",
            std::to_string(n_tokens),
            "--ignore-eos",
            "--log",
            log,
            "--checkpoints",
            "ops",
            "--threads",
            "1"};
  }

  // Waits until `ready` holds, for at most half a minute.
  static bool wait_for(const std::function<bool()>& ready) {
    for (int i = 0; i < 30000; ++i) {
      if (ready()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  static int64_t size_of(const std::string& path) {
    std::error_code none;
    const auto size = std::filesystem::file_size(path, none);
    return none ? -1 : static_cast<int64_t>(size);
  }

 private:
  std::string outside() const { return folder_ + ".streams"; }
};

}  // namespace assay
