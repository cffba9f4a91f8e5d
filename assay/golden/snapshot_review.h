#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/golden/fast_floors.h"
#include "assay/golden/manifest.h"
#include "assay/golden/snapshots.h"

namespace assay {

// How large a change of snapshots is, in floors of the golden: those of float32 for `exact`, those
// of fast_floors.json where `fast` rounds.
struct SnapshotReview {
  std::string line;    // names the first checkpoint that changes, and the one that does most
  bool within = true;  // no checkpoint changes by more than k floors, and none is left out
};

// One for each case that differs; `before` is null where there are none yet.
std::vector<SnapshotReview> review_snapshots(const GoldenManifest& manifest,
                                             const std::optional<FastFloors>& fast_floors,
                                             const GoldenSnapshots* before,
                                             const GoldenSnapshots& after);

// What accepting the snapshots that wait in `folder` would change; none where none wait.
std::vector<SnapshotReview> review_pending_snapshots(const std::string& folder);

}  // namespace assay
