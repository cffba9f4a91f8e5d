#pragma once

#include <string>
#include <vector>

#include "assay/compare/compare_options.h"
#include "assay/compare/comparison.h"
#include "assay/compare/rank_parts.h"

namespace assay {

// One side of a pair: a record, and what it was put together from, if it was.
struct RankedRecord {
  const Record& record;
  const std::vector<RankPart>& parts;
  const Rank& sizes;  // how many ranks each axis has
};

// Holds what the ranks logged to the other side, beyond what compare_pair() did with the records
// put together:
//
// - Replicas must have the same bits. A judged record whose do not fails, one of the reference is
//   unproven.
// - Each part must agree with itself.
// - Where parts lack values, each is held to the same part of the other side, if that is cut alike
//   or has all values: their summaries and sketches are of the part alone. If all parts are whole,
//   so is the record.
//
// Sets result.ranks of a record that fails: the ranks whose parts hold the difference.
void hold_parts(const RankedRecord& ref, const RankedRecord& got, const Tolerance& tolerance,
                const CompareOptions& options, RecordResult& result);

// A rank that should hold the same did not log it: the record, unless it fails, is unproven.
void lacks_replica(RecordResult& result);

}  // namespace assay
