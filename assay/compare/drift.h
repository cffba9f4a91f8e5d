#pragma once

#include <string_view>

#include "assay/compare/comparison.h"

namespace assay {

std::string_view trend_name(Drift::Trend trend);

// How rel_l2 goes over layer_N_output, by its median over tokens, and at the last checkpoint over
// tokens: what was measured at both ends, and where it jumps: the largest step up, if it is by more
// than a factor of 10, and at least half of the growth (as a logarithm), and the growth itself is
// by more than 10. The trend is increasing or decreasing where the ends differ by a factor of 1.5.
// The growth for each layer and token is the slope of a line through the logarithms, by least
// squares.
Drift measure_drift(const Comparison& comparison);

}  // namespace assay
