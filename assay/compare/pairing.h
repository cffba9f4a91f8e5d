#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "assay/compare/compare_options.h"
#include "assay/compare/comparison.h"
#include "assay/compare/log_index.h"

namespace assay {

// Two records to compare, or one of the judged log that is only checked: the places in entries().
struct RecordPair {
  int64_t ref = -1;  // -1: the reference has no such record
  int64_t got = -1;
  // Logits that the judged log states a second time, as log-probabilities or the other way round:
  // they prove nothing, but must not be wrong.
  bool restated = false;
  bool selected = true;  // false: only checked for a NaN or infinity that the reference lacks
};

// Which records of two logs belong together, under one alignment.
struct Pairing {
  std::vector<RecordPair> pairs;
  std::vector<Gap> gaps;  // records of the reference that have no counterpart
  int64_t unmatched_got = 0;
};

// The names of the checkpoints and teams of both logs, in one table.
struct SharedNames {
  SharedNames(const LogIndex& ref, const LogIndex& got);
  NameTable checkpoints;
  NameTable teams;
};

// Whether a glob of --allow-missing names the checkpoint.
bool is_allowed_missing(const std::string& checkpoint, const CompareOptions& options);

// Pairs what the reference has within `options.selection` with the records of `got` at its
// positions plus the offset; what else `got` has is checked by itself. Log-probabilities stand for
// logits; where the judged log has both and the reference one, both are paired with it. A record
// without a counterpart is a gap: excused where both headers show that the prompts begin otherwise,
// or options.allow_missing names its checkpoint; otherwise unproven.
Pairing pair_records(const LogIndex& ref, const LogIndex& got, const SharedNames& names,
                     const Alignment& alignment, const CompareOptions& options);

}  // namespace assay
