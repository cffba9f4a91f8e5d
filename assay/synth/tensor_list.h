#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/synth/config.h"
#include "kernels/tensor_type.h"

namespace assay {

// A tensor to make: random, or with given values.
struct SynthTensor {
  std::string name;
  std::vector<int64_t> dims;  // GGUF order: dims[0] is the length of a row
  float mean = 0.0F;
  float deviation = 0.0F;
  std::vector<float> values;  // empty: random
  TensorType type = TensorType::kF32;

  int64_t columns() const { return dims[0]; }
  int64_t rows() const { return dims.size() > 1 ? dims[1] : 1; }
};

// All tensors of a model, in the order in which the network uses them, each F32. The scales keep
// activations near 1 in all layers: a projection's outputs have the variance of its inputs, norms
// scatter around 1, and logits have a standard deviation near 3, whatever the width.
std::vector<SynthTensor> tensor_list(const SynthConfig& config);

}  // namespace assay
