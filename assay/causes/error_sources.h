#pragma once

#include "assay/causes/tensor_store.h"
#include "assay/mistakes/network.h"

namespace assay::causes {

// Splits the error of failing checkpoints into what came in with their inputs and what they made
// themselves, and ranks them by the latter in comparison.error_sources.
void find_error_sources(const Network& network, TensorStore& store, Comparison& comparison);

}  // namespace assay::causes
