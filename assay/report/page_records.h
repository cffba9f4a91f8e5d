#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/report/checkpoint_groups.h"

namespace assay {

// A page holds at most this many records, compared or missing: where there are more, neighbouring
// tokens are put together, and the worst record of a checkpoint among them stands for all.
inline constexpr int64_t kMaxPageRecords = 20000;

// Records of one checkpoint that were not shown: one, or where neighbouring tokens are put together
// all of these.
struct PageGap {
  int32_t checkpoint = 0;  // in Comparison::checkpoints
  int64_t token_idx = 0;   // the first
  bool excused = false;
  std::string_view reason;
  int64_t records = 1;
};

// What of the records of a comparison a page draws.
struct PageRecords {
  std::vector<CheckpointGroup> groups;            // in the order of the network
  std::vector<const RecordResult*> records;       // with figures, by token, then in that order
  std::vector<PageGap> gaps;                      // in the same order
  std::vector<std::pair<int64_t, int64_t>> bins;  // of tokens; empty where every token is shown
};

// All records or, where these are too many, the worst of each checkpoint in each bin of tokens.
// They point into `comparison`.
PageRecords page_records(const Comparison& comparison);

}  // namespace assay
