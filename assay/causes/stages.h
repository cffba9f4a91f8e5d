#pragma once

#include <vector>

#include "assay/mistakes/network.h"

namespace assay::causes {

// The ops of a model in the order in which it computes, cut before each attention: within a stage
// the result at a position is computed from that position alone.
std::vector<std::vector<mistakes::Op>> stages_of(const mistakes::Network& network);

}  // namespace assay::causes
