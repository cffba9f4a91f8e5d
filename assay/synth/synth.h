#pragma once

#include <cstdint>
#include <string>

#include "assay/synth/config.h"
#include "assay/synth/weights_file.h"
#include "engine/file_type.h"

namespace assay {

struct SynthOptions {
  std::string path;     // of the file to write, or of the folder
  bool folder = false;  // a Hugging Face folder in place of a GGUF file
  const FileType* type = nullptr;
  bool pure = false;  // one type for all matrices
  uint64_t seed = 1;
  // A GGUF file whose vocabulary is copied; empty: the new file states that it has none. Not of a
  // folder.
  std::string vocab_path;
  int n_threads = 0;  // 0: one per processor
};

struct SynthResult {
  std::string path;  // of the file that holds the weights
  uint64_t bytes = 0;
  std::string sha256;
  int64_t n_tensors = 0;
  int64_t n_parameters = 0;
};

// Writes a model with random weights, piece by piece. The same config, type, seed and vocabulary
// give the same bytes on every machine, and a file and a folder of them the same model, as far as
// config.json and GGUF can say the same. Files appear at their places when they are complete.
// Throws Error if the vocabulary does not fit the config, the disk is too small, or a file cannot
// be read or written.
SynthResult synthesise(const SynthConfig& config, const SynthOptions& options,
                       const SynthProgress& on_progress);

// Of the model. Throws Error if they are too many.
int64_t count_parameters(const SynthConfig& config);

}  // namespace assay
