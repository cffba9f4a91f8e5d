#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "assay/synth/config.h"
#include "engine/file_type.h"

namespace assay {

struct SynthOptions {
  std::string path;  // of the file to write
  const FileType* type = nullptr;
  bool pure = false;  // one type for all matrices
  uint64_t seed = 1;
  // A GGUF file whose vocabulary is copied; empty: the new file states that it has none.
  std::string vocab_path;
  int n_threads = 0;  // 0: one per processor
};

struct SynthResult {
  uint64_t bytes = 0;
  std::string sha256;  // of the file
  int64_t n_tensors = 0;
  int64_t n_parameters = 0;
};

// Writes a model with random weights as GGUF, piece by piece: memory use is a few tens of megabytes
// for any size. The same config, type, seed and vocabulary give the same bytes on every machine.
// `on_progress`, which may be empty, gets the bytes written so far and the total. The file appears
// at its path when it is complete. Throws Error if the vocabulary does not fit the config, the disk
// is too small, or a file cannot be read or written.
SynthResult synthesise(const SynthConfig& config, const SynthOptions& options,
                       const std::function<void(int64_t done, int64_t total)>& on_progress);

}  // namespace assay
