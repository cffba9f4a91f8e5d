#pragma once

#include <string>

#include "assay/compare/comparison.h"

namespace assay {

// What is unproven, and the flags that narrow the comparison to what was logged or accept what is
// missing by name; or that the logs hold nothing but zeros. Empty where nothing is unproven or
// something failed.
std::string incomplete_text(const Comparison& comparison);

// Its last part: what to do.
std::string incomplete_advice(const Comparison& comparison);

}  // namespace assay
