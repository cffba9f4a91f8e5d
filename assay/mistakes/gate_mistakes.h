#pragma once

#include "assay/mistakes/mistake.h"
#include "assay/mistakes/ops.h"

namespace assay::mistakes {

// An activation of the op at `at` that is not its own.
Mistake other_gate(Checkpoint at, const char* text, Activation other, const char* fault,
                   const char* what, UnsupportedReason needs);

// What has a gate without it.
Mistake missing_gate(Checkpoint at, const char* text, const char* fault, const char* what,
                     UnsupportedReason needs);

}  // namespace assay::mistakes
