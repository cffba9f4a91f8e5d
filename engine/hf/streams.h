#pragma once

#include "engine/hf/config.h"
#include "engine/hf/json_object.h"
#include "engine/hf/keys.h"

namespace assay {

// What config.json says of several residual streams, of activations that have a cutoff, and of
// layers that read keys and values of others (Gemma 3n).
void read_streams(const ConfigObject& object, HfConfig& config, Keys& keys);

// By how many deviations what passes lies above the mean, where of a normal distribution the share
// `sparsity`, above 0 and below 1, lies below: in 32 bits, as transformers and llama.cpp's
// converter compute it.
float cutoff_of(double sparsity);

}  // namespace assay
