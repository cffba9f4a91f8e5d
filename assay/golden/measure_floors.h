#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "assay/compare/compare_options.h"

namespace assay {

// As many times a floor an error may be unless somebody says otherwise; docs/tolerances.md says
// why.
inline constexpr double kUsualK = 3;

struct FloorOptions {
  double k = kUsualK;
  // Whether the error may jump from one layer to the next, or at one token, as where another
  // arithmetic begins.
  bool accept_jumps = false;
  CompareOptions compare;  // its policy and evidence are not used
};

// How far the honest runs are from the reference at one checkpoint.
struct MeasuredFloor {
  std::string checkpoint;
  double rel_l2 = 0;      // the greatest over all tokens and runs
  int64_t token_idx = 0;  // where it was found
  size_t run = 0;         // in which one, by its place among the paths
  int64_t records = 0;    // how many were measured
};

// How far one run is from the reference.
struct FloorRun {
  std::string path;
  int64_t records = 0;
  int64_t argmax_agree = 0;
  int64_t argmax_total = 0;
  double median_rel_l2 = 0;
  double worst_rel_l2 = 0;
};

struct MeasuredFloors {
  double k = kUsualK;
  int64_t tokens = 0;                 // of the reference, at which something was measured
  std::vector<FloorRun> runs;         // of each path but the first, in order
  std::vector<MeasuredFloor> floors;  // as the network computes
  std::vector<std::string> warnings;
};

// The floors between logs of honest runs: each record of the first one, the reference, is compared
// with each other log, and the floor of a checkpoint is the greatest relative L2. The reference is
// one log, as it is for a comparison under the floors: between others the error is at most the sum
// of theirs, for which k leaves room.
//
// Only what proves itself is noise. Throws Error if a record of the reference, within the
// selection, is not whole in each log, or fails at the widest tolerance there is (NaN, another
// shape, a contradiction); holds zeros or garbage alone; is of other tokens or positions, after a
// split or a flip of experts; if k times a floor is 1 or more; if the error is over ten times that
// of the layer before, or at one token over 50 times the median of the checkpoint; if all logs are
// equal.
MeasuredFloors measure_floors(const std::vector<std::string>& paths, const FloorOptions& options);

}  // namespace assay
