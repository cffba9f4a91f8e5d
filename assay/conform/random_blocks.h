#pragma once

#include <cstdint>
#include <string>

#include "kernels/tensor_type.h"

namespace assay {

class RandomWeights;

// Whether random_blocks() makes blocks of this type: those that quantize_row() does not
// store, and those that it did not when the suite was made.
bool has_random_blocks(TensorType type);

// `count` elements, whole blocks, as `type` stores them: codes, signs and scales of groups are
// random bits, so that every entry of a table is used, and the scale of the blocks is such that the
// elements have about this standard deviation (of NVFP4, whose scales are not small, at least 0.05,
// and by powers of two). Their mean is about 0.
std::string random_blocks(TensorType type, const RandomWeights& numbers, int64_t count,
                          float deviation);

}  // namespace assay
