#pragma once

#include <cstdint>

#include "model/checkpoint.h"

namespace assay {

// Sees the values that the engine computes. It changes nothing: the same kernels run with a probe
// or without.
class Probe {
 public:
  virtual ~Probe() = default;

  // Whether observe() is to be called for this checkpoint.
  virtual bool wants(Checkpoint checkpoint, int layer) = 0;

  // values[n_tokens, width] at the token positions first_token_idx, first_token_idx + 1, ...
  // Valid during the call only.
  virtual void observe(Checkpoint checkpoint, int layer, int64_t first_token_idx, int64_t n_tokens,
                       int64_t width, const float* values) = 0;
};

}  // namespace assay
