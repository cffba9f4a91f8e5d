#pragma once

#include <optional>

#include "assay/causes/tensor_store.h"

namespace assay::causes {

// Why the ids of a token's experts are other in number than the reference's: the engine uses more
// of them, or fewer. Nothing unless the ids that one log has are among those of the other at each
// token, and for checkpoints that hold no ids.
std::optional<Cause> find_expert_count(Op op, TensorStore& store);

}  // namespace assay::causes
