#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/garbage.h"
#include "assay/log/record.h"

namespace assay {

// Of the values that a log holds of one checkpoint, over all tokens. Garbage is counted but for
// NaN and infinities, which are in `nonfinite` alone.
struct CheckpointStats {
  CheckpointName checkpoint;
  int64_t records = 0;
  int64_t values = 0;
  int64_t nonfinite = 0;
  int64_t zeros = 0;
  int64_t garbage = 0;
  double min = 0;  // these four NaN where no value is finite
  double max = 0;
  double mean = 0;
  double rms = 0;
};

struct ListedGarbage {
  int32_t checkpoint = 0;  // in Analysis::stats
  int64_t token_idx = 0;
  Garbage garbage;
};

// What one log holds, and what of it is no value of a tensor.
struct Analysis {
  std::string path;
  std::optional<LogHeader> header;
  int64_t records = 0;
  int64_t tokens = 0;                    // different values of token_idx
  std::vector<CheckpointStats> stats;    // as the network computes; one for each checkpoint
  std::vector<ListedGarbage> garbage;    // by token_idx, then as the network computes
  int64_t garbage_values = 0;            // listed above or not
  int64_t garbage_tokens = 0;            // tokens with any garbage
  double garbage_rate = 0;               // garbage_tokens / tokens
  std::map<int64_t, int64_t> positions;  // garbage values at each index of their tensors
  std::vector<std::string> warnings;
};

// Reads the log once. Besides find_garbage(), knows freed-memory words by those of other records:
// where two or more records of a checkpoint have some whose low halves share their 16 high bits,
// and a further record begins with such a word and a zero, that is one too. Throws Error if the
// log cannot be read or holds no records.
Analysis analyze_log(const std::string& path);

}  // namespace assay
