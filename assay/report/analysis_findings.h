#pragma once

#include <string>
#include <vector>

#include "assay/compare/analysis.h"

namespace assay {

// What the analysis comes to, in sentences; empty where nothing is odd.
std::vector<std::string> findings_of(const Analysis& analysis);

// Whether anything is odd but rows of a vocabulary that is padded.
bool is_suspect(const Analysis& analysis);

}  // namespace assay
