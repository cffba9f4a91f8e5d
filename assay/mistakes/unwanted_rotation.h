#pragma once

#include "assay/mistakes/mistake.h"

namespace assay::mistakes {

// A rotation of q and k in layers that have none.
Mistake unwanted_mistake();

}  // namespace assay::mistakes
