#pragma once

#include "assay/compare/comparison.h"
#include "assay/mistakes/network.h"

namespace assay::causes {

// Throws Error if the two logs cannot be of the network's model, by the architecture that they
// name, their layers, sizes or positions.
void check_model(const mistakes::Network& network, const Comparison& comparison);

}  // namespace assay::causes
