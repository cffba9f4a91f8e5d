#pragma once

#include "kernels/calls.h"

namespace assay::cpu {

// One value head of all tokens, its state included. `scratch`: 2 value_dim elements.
void delta_head(const DeltaCall& call, int64_t head, double* scratch);

}  // namespace assay::cpu
