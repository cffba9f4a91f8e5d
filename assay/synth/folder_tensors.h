#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "assay/synth/config.h"
#include "assay/synth/tensor_list.h"
#include "assay/synth/weights_file.h"

namespace assay {

// A tensor of a Hugging Face folder.
struct FolderTensor {
  std::string name;
  std::vector<int64_t> shape;  // the length of a row comes last; empty: one number
  WeightsFile::FillRow fill;

  int64_t rows() const;
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
};

// The tensors of a folder that is the same model as a GGUF file of `tensors`: their numbers, under
// the names, in the shapes and in the order that published files have. They point to `config` and
// `tensors`. Throws Error if there are too many.
std::vector<FolderTensor> folder_tensors(const SynthConfig& config,
                                         std::span<const SynthTensor> tensors, uint64_t seed);

}  // namespace assay
