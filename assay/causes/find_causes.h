#pragma once

#include <cstdint>
#include <functional>

#include "assay/compare/comparison.h"
#include "engine/model.h"

namespace assay {

// Looks for known mistakes that make the difference at the first divergence collapse, and fills in
// `comparison.causes`, best first, and `comparison.cause_hint`. Does nothing where the comparison
// passes. `model`, the file that both engines ran, gives weights and hyperparameters; null where it
// is not at hand. `progress`, if there is one, is called with the mistakes tried and those to try.
// Throws Error if the model is not that of the logs; whatever else is wrong is reported in the
// hint.
//
// A mistake is named only if what it leaves of the difference is small (the share it explains is
// at least 99 %), it holds at several tokens, it contradicts none, and chance would not fit as well
// with as many free parameters.
void find_causes(const Model* model, Comparison& comparison,
                 const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace assay
