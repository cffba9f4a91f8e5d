#pragma once

#include "assay/causes/tensor_store.h"
#include "assay/mistakes/network.h"

namespace assay::causes {

// Adds to a network without a model what the reference's log shows of how it computes `op`, where
// it holds all values of its inputs and its output: the base and pairs of the rotation, the heads
// and the window of the attention, the activation, a norm's weights and eps. Only what then gives
// the reference's own output again is taken. Returns about how many multiplications the tries of
// an attention took, which are bounded.
double infer(TensorStore& store, Op op, Network& network);

}  // namespace assay::causes
