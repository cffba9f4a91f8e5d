#pragma once

#include <vector>

#include "assay/synth/config.h"
#include "assay/synth/tensor_list.h"
#include "engine/file_type.h"

namespace assay {

// Gives each tensor the type that llama.cpp's quantiser gives it in a file of this type: vectors
// and learned positions stay F32, as routers do; the output matrix (or what serves as one) gets
// Q6_K; some mixes have more bits for values and the down projection of certain layers; and a row
// that is not a whole number of blocks gets the next type that fits. With `pure` every matrix has
// the mix's base type if it fits.
void choose_types(const SynthConfig& config, const FileType& mix, bool pure,
                  std::vector<SynthTensor>& tensors);

}  // namespace assay
