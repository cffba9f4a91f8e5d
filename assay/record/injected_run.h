#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace assay {

struct InjectOptions {
  std::string model_path;
  std::string reference_path;  // a log with all values of `embedding` and every layer_N_output
  std::string backend = "auto";
  std::string math = "exact";
  KvType kv_type = KvType::kF32;
  int n_threads = 0;
};

// The error of one step of the engine with the reference's values as its input. Relative
// L2 of the reference; over the tokens at which the reference has the step. NaN counts as the
// largest.
struct StepError {
  std::string checkpoint;  // embedding, layer_N_output, logits
  double own_max = 0;
  double own_median = 0;  // of two in the middle the larger
  int64_t token_idx = 0;  // of the largest
  // The same step's error with the engine's own values as input: it includes the error that came
  // in. Nothing if the tokens are unknown.
  std::optional<double> total_max;
};

struct InjectedRun {
  std::string backend;
  int64_t tokens = 0;
  std::vector<StepError> steps;  // as the network computes
  // A truncated last line; a header with the SHA-256 of another model file.
  std::vector<std::string> warnings;
};

// Feeds the reference's output of layer N - 1 into the engine's layer N, for every layer and all
// positions that the reference has from 0 on, and compares what each gives with the reference.
// Throws Error if the log lacks records that this needs, holds a record twice with different
// content, or is of a model of other widths.
InjectedRun run_injected(const InjectOptions& options);

}  // namespace assay
