#pragma once

#include <string>
#include <utility>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/conform/engine_table.h"

namespace assay {

// How far the records of the checkpoint in the log `got` are from those in `ref`. Throws Error if
// they cannot be compared, NothingInCommon if one of the logs has none.
OutputError output_error(const std::string& ref, const std::string& got,
                         const std::string& checkpoint);

// The same of each checkpoint but the output whose name Assay knows, as the network computes: of
// those that both logs have, and of those of `got` alone that hold no numbers. Records fail by the
// limit of rel_l2.
std::vector<std::pair<std::string, OutputError>> inner_errors(const std::string& ref,
                                                              const std::string& got, double limit);

// The comparison of all that both logs hold, position by position, by one limit of rel_l2.
Comparison compared(const std::string& ref, const std::string& got, double limit);

}  // namespace assay
