#pragma once

#include <string>

#include "assay/compare/compare_options.h"
#include "assay/compare/comparison.h"

namespace assay {

// Compares the log at `got_path` with the reference at `ref_path`: index, align, pair, measure,
// judge. Memory grows with the number of records, not with their sizes. Throws Error if either
// cannot be read or if the two cannot be compared: other tokens or prompts, no record in common.
Comparison compare_logs(const std::string& ref_path, const std::string& got_path,
                        const CompareOptions& options);

}  // namespace assay
