#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/log/log_request.h"
#include "engine/sampler.h"
#include "kernels/kernels.h"

namespace assay {

struct RunOptions {
  std::string model_path;
  // One of the three is given; tokens are taken as they are.
  std::optional<std::string> prompt;
  std::vector<int32_t> tokens;
  // A log whose tokens are evaluated: prompt and generated tokens of each sequence. Nothing is
  // generated.
  std::string follow_path;
  // A log whose experts are used in place of the model's own choice; empty: none.
  std::string replay_path;
  int64_t n_predict = 32;  // most tokens to generate
  bool ignore_eos = false;
  std::string backend = "auto";  // auto, cpu, cuda, emulated
  std::string math = "exact";    // exact, fast, library
  KvType kv_type = KvType::kF32;
  int n_threads = 0;    // 0: one per processor
  int64_t batch = 512;  // most tokens that are evaluated together; on the host at most 128
  SamplerOptions sampler;
  std::optional<LogRequest> log;
};

struct RunResult {
  std::vector<int32_t> tokens;  // of the prompt; of a followed log, of all its sequences
  // With the end-of-sequence token, if it came; for a followed log, its generated tokens.
  std::vector<int32_t> generated;
  std::string text;           // of `generated`; empty without a vocabulary
  bool context_full = false;  // whether generation ended because there was no more room
  std::string backend;
  std::string math;
  int n_threads = 0;
  double load_ms = 0.0;
  double prefill_tok_s = 0.0;
  double decode_tok_s = 0.0;          // 0 if fewer than two tokens were generated
  std::vector<std::string> warnings;  // of the followed log
  std::string log_put_back;  // where the log is now, if its file was removed while it was written
};

// Callbacks of run(); any may be empty.
struct RunObserver {
  // A prompt's tokens evaluated so far, of how many.
  std::function<void(int64_t done, int64_t total)> on_prefill;
  // A token was chosen; `text` holds the whole characters that it completes, nothing if the file
  // has no vocabulary.
  std::function<void(int32_t token, std::optional<std::string_view> text)> on_token;
};

// Loads a model, evaluates the prompt, generates, and logs what `options.log` asks for. Throws
// Error for whatever the user can fix; tokens generated until then have been passed to `observer`
// and logged.
RunResult run(const RunOptions& options, const RunObserver& observer);

}  // namespace assay
