#pragma once

#include <string>
#include <vector>

#include "assay/compare/analysis.h"

namespace assay {

// What the analysis comes to, in sentences; empty where nothing is odd.
std::vector<std::string> findings_of(const Analysis& analysis);

}  // namespace assay
