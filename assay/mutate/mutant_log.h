#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assay/log/log_request.h"
#include "assay/mutate/fault.h"

namespace assay {

struct MutantLogOptions {
  std::string model_path;
  std::string fault;
  std::optional<int> layer;  // the middle one if not given
  // One of the two is given.
  std::optional<std::string> prompt = {};
  std::vector<int32_t> tokens = {};
  int64_t n_predict = 0;
  int n_threads = 0;
  LogRequest log;
};

struct MutantLog {
  FaultPlace found_at;
  std::vector<int32_t> tokens;     // of the prompt
  std::vector<int32_t> generated;  // greedily
  // The sound engine gives the same bits at `found_at`: the fault needs other or more tokens.
  bool changes_nothing = false;
};

// Runs a model with a fault in it on the CPU, and writes the log that such an engine would. Throws
// Error as run() does, and if there is no such fault or the model cannot have it.
MutantLog write_mutant_log(const MutantLogOptions& options);

}  // namespace assay
