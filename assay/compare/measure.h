#pragma once

#include <cstddef>
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

// What was found of all pairs of two logs.
struct Measured {
  std::vector<RecordResult> results;  // of each pair, with its checkpoint, teams and token_idx
  struct Remark {
    size_t pair = 0;
    PairComparison found;
  };
  // The pairs that hold garbage or are of unequal size, in order, as there are few.
  std::vector<Remark> remarks;
};

// Reads and compares each pair, in parallel; the order is that of `pairs`. Memory grows with their
// number, and is otherwise bounded by the records that are read at once. Throws Error if a record
// cannot be read.
Measured measure(const std::vector<RecordPair>& pairs, const MeasureRequest& request,
                 ThreadPool& pool);

}  // namespace assay
