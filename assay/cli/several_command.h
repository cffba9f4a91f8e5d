#pragma once

#include <string>
#include <vector>

#include "assay/compare/comparison.h"

namespace assay {

// What is said of two logs whose comparison is inconclusive.
std::string nothing_proved(const std::string& ref, const std::string& got);

// `assay compare` of three logs or more: holds each against each, writes who is the outlier to
// `output` and gives the exit code.
int run_several(const std::vector<std::string>& logs, const CompareOptions& options,
                const std::string& format, const std::string& output);

}  // namespace assay
