#pragma once

#include "assay/mutate/fault.h"
#include "assay/mutate/golden_case.h"
#include "assay/mutate/golden_lane.h"

namespace assay {

// What an op may differ by from the naive reference kernel on the same inputs, in relative L2 of a
// token's row: what tests/kernels/ holds the kernels to.
inline constexpr double kUnitTolerance = 1e-6;

// Each kernel call of an engine with `fault` (null: none) against the naive reference kernels: the
// same arguments, and the same rows before it. It sees what a test of single kernels sees, and so
// neither a wrong weight nor a wrong hyperparameter. The tokens are the golden's.
LaneResult run_unit_lane(const GoldenCase& golden, const Fault* fault, Kernels& kernels);

}  // namespace assay
