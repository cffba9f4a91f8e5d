#pragma once

#include "assay/compare/comparison.h"
#include "assay/mistakes/network.h"

namespace assay::causes {

// Throws Error if one of the two logs says that it is of another architecture than the model.
void check_architecture(const Model& model, const Comparison& comparison);

// Throws Error if the two logs cannot be of the network's model, by the architecture that they
// name, their layers, sizes or positions.
void check_model(const mistakes::Network& network, const Comparison& comparison);

}  // namespace assay::causes
