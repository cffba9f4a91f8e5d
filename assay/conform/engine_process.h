#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "assay/conform/engine_table.h"

namespace assay {

// One run of an engine: a model, tokens, how they are computed, and where the log goes.
struct EngineCase {
  std::string model_dir;  // config.json and safetensors
  std::string gguf;       // the same model; empty where GGUF cannot state it
  std::vector<int32_t> tokens;
  std::string surface = "alone";  // or batch:K, chunks:K, steps, cached
  std::string log;
};

struct EngineAnswer {
  enum class Outcome : uint8_t { kLogged, kUnsupported, kCrashed };
  Outcome outcome = Outcome::kCrashed;
  std::string message;  // why there is no log
};

// The most bytes that an engine may log of a case: of each token four times what its model takes,
// which is more than all values of all ops with all their digits, and no less than kLeastLogLimit.
inline constexpr int64_t kLeastLogLimit = int64_t{256} << 20;
int64_t log_limit_of(const EngineCase& engine_case);

// Of an answer without a log: unsupported, or crashed.
Finding finding_of(const EngineAnswer& answer);

// Runs an engine's command, which follows the protocol of docs/conform.md: a process for each case,
// or one that is given case after case on its standard input.
class EngineProcess {
 public:
  // `command`: the program and its arguments. `errors`: the file that gets its standard error.
  EngineProcess(std::vector<std::string> command, bool serves, std::string errors,
                std::chrono::seconds timeout);
  ~EngineProcess();
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  // Throws Error if the command cannot be started, and Interrupted. An old log of that path is
  // removed first. An engine that logs more than log_limit_of() is stopped, and the log removed; so
  // is one that writes more than kLeastLogLimit of errors.
  EngineAnswer run(const EngineCase& engine_case);

 private:
  EngineAnswer run_once(const EngineCase& engine_case);
  EngineAnswer ask(const EngineCase& engine_case);
  void start(const std::vector<std::string>& variables, bool with_pipes);
  bool wait_until(std::chrono::steady_clock::time_point end, int& status);
  void stop();
  std::string last_error() const;
  EngineAnswer crashed(int status) const;
  EngineAnswer timed_out();
  bool writes_too_much() const;
  EngineAnswer wrote_too_much();

  std::vector<std::string> command_;
  bool serves_;
  std::string errors_;
  std::chrono::seconds timeout_;
  pid_t child_ = 0;
  int channel_ = -1;  // its standard input and output
  std::string unread_;
  std::string log_;  // of the case that is run
  int64_t log_limit_ = 0;
};

}  // namespace assay
