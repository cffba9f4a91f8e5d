#pragma once

#include <cstdint>
#include <vector>

#include "assay/compare/compare_options.h"
#include "assay/compare/pair_comparison.h"
#include "assay/compare/pairing.h"
#include "base/thread_pool.h"

namespace assay {

// Where the pairs of two logs are to be found and what they are held to.
struct MeasureRequest {
  const LogIndex& ref;
  const LogIndex& got;
  const SharedNames& names;
  const std::vector<Tolerance>& tolerances;  // of each of the shared checkpoints
  const CompareOptions& options;
  int64_t offset = 0;  // got's token_idx minus the reference's
};

// Reads and compares each pair, in parallel; the order is that of `pairs`. Results have their
// checkpoint, teams and token_idx. Memory is bounded by the records that are read at once. Throws
// Error if a record cannot be read.
std::vector<PairComparison> measure(const std::vector<RecordPair>& pairs,
                                    const MeasureRequest& request, ThreadPool& pool);

}  // namespace assay
