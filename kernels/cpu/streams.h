#pragma once

#include <cstdint>

#include "kernels/stream_calls.h"

namespace assay::cpu {

// A token of the call: so little beside the products that one form serves all instruction sets.
void run_streams(const StreamsCall& call, int64_t token);

}  // namespace assay::cpu
