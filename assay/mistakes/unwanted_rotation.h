#pragma once

#include "assay/mistakes/mistake.h"

namespace assay::mistakes {

// A rotation of q and k in layers that have none.
Mistake unwanted_mistake();

// The same, and none in the others: the list of layers is read the other way round.
Mistake inverted_rotation_mistake();

}  // namespace assay::mistakes
