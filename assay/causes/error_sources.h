#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/causes/network.h"
#include "assay/causes/tensor_store.h"

namespace assay::causes {

// The positions of a checkpoint to look at: failing ones from `first_token` on (or, where none
// fails, those with the largest errors), and some that pass, which a mistake must not change. Of
// the prompt, where the logs name its tokens and it has any.
std::vector<int64_t> positions_to_try(const TensorStore& store, const std::string& checkpoint,
                                      int64_t first_token);

// The logged input of an op that is furthest off; nothing if none is logged or none is off.
std::optional<Op> worst_input(const Network& network, const TensorStore& store, Op op);

// Splits the error of failing checkpoints into what came in with their inputs and what they made
// themselves, and ranks them by the latter in comparison.error_sources.
void find_error_sources(const Network& network, TensorStore& store, Comparison& comparison);

}  // namespace assay::causes
