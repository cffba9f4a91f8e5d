#pragma once

#include <string_view>

#include "assay/compare/comparison.h"

namespace assay {

std::string_view trend_name(Drift::Trend trend);

// The trend of rel_l2 over layer_N_output: the slope of a line through log(median over tokens)
// against N, by least squares; and of rel_l2 at the last checkpoint, in the same way against
// token_idx. Stable where the line changes by less than a factor of 1.5 in all. The sentence tells
// both, as far as there are two places to fit.
Drift measure_drift(const Comparison& comparison);

}  // namespace assay
