#pragma once

#include "assay/compare/comparison.h"
#include "assay/compare/log_index.h"
#include "base/thread_pool.h"

namespace assay {

// Adds a failed result for each record of `got` that no rule of the map takes and that holds more
// NaN than the reference's record of that name and token, which the map does not take either. An
// infinity may be an honest mask there. `comparison` has its checkpoints and alignment.
void fail_unmapped_nan(const LogIndex& ref, const LogIndex& got, ThreadPool& pool,
                       Comparison& comparison);

}  // namespace assay
