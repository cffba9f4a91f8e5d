#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/synth/config.h"
#include "assay/synth/random_weights.h"
#include "kernels/tensor_type.h"

namespace assay {

// A tensor to make: random, or with given values.
struct SynthTensor {
  std::string name;
  const OpSpec* op = nullptr;  // of the layer; null outside of layers
  std::vector<int64_t> dims;   // GGUF order: dims[0] is the length of a row
  float mean = 0.0F;
  float deviation = 0.0F;
  float added = 0.0F;         // to each number, after it was drawn
  std::vector<float> values;  // empty: random
  std::string drawn_as;       // the tensor whose random numbers it has; empty: its own
  bool is_matrix = false;     // of the type that the file is in; otherwise F32
  TensorType type = TensorType::kF32;

  int64_t columns() const { return dims[0]; }
  int64_t rows() const;
  // The elements of a row, without what is added and scales of its rows: out[columns()].
  void draw_row(const RandomWeights& random, int64_t row, float* out) const;
};

// All tensors of a model's GGUF file, in the order in which the network uses them, each F32. Which
// they are follows from the ops of each layer. The scales keep activations near 1 in all layers: a
// projection's outputs have the variance of its inputs, norms scatter around 1, and logits have a
// standard deviation near 3, whatever the width. They point into `config`.
std::vector<SynthTensor> tensor_list(const SynthConfig& config);

}  // namespace assay
