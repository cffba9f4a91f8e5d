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
  std::string line;    // names the first checkpoint that changes, and the one that changes most
  bool within = true;  // no checkpoint changes by more than k floors, and none is missing
};

// One for each case that differs; `before` is null where there are none yet.
std::vector<SnapshotReview> review_snapshots(const GoldenManifest& manifest,
                                             const std::optional<FastFloors>& fast_floors,
                                             const GoldenSnapshots* before,
                                             const GoldenSnapshots& after);

// What accepting the pending snapshots of `folder` would change; nothing if none are pending.
std::vector<SnapshotReview> review_pending_snapshots(const std::string& folder);

}  // namespace assay
