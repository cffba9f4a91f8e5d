#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/forensics.h"
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
  double min = 0;  // these and all below NaN where no value is finite
  double max = 0;
  double mean = 0;
  double rms = 0;
  // What a few wild values do not move: of all values, or of a sample of kStatsSample where there
  // are more. The quantiles are interpolated linearly between neighbours.
  double median = 0;
  double mad = 0;  // median of |x - median|
  double p01 = 0;
  double p99 = 0;
  bool sampled = false;
};

inline constexpr size_t kStatsSample = 1 << 16;

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
  int64_t tokens = 0;                  // different values of token_idx
  std::vector<CheckpointStats> stats;  // as the network computes; one for each checkpoint
  std::vector<ListedGarbage> garbage;  // by token_idx, then as the network computes
  int64_t garbage_values = 0;          // listed above or not
  std::map<GarbageReason, int64_t> garbage_by_reason;  // values, likewise
  int64_t garbage_tokens = 0;                          // tokens with any garbage
  double garbage_rate = 0;                             // garbage_tokens / tokens
  // What looking at sizes alone finds: tokens with a value of kMagnitudeScale times its tensor's
  // scale, or not finite. The published rates count these.
  int64_t out_of_scale_tokens = 0;
  double out_of_scale_rate = 0;
  double smallest_out_of_scale = 0;  // magnitudes of such finite values; 0 where there are none
  double largest_out_of_scale = 0;
  std::vector<Suspicion> suspicions;     // by token_idx, then as the network computes
  std::map<int64_t, int64_t> positions;  // garbage values at each index of their tensors
  std::vector<std::string> warnings;
};

// Reads the log once, twice where it may hold whole sequences (SequenceRows), whose rows are
// records of their own. Besides find_garbage(), holds the records of a log against each other
// (Forensics, ReplicaCheck). Throws Error if the log cannot be read or holds no records.
Analysis analyze_log(const std::string& path);

// The same of each file of a run, whose ranks are held to one another over all of them.
std::vector<Analysis> analyze_run(const std::string& path);

}  // namespace assay
