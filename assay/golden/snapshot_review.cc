#include "assay/golden/snapshot_review.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assay/golden/change.h"
#include "assay/golden/files.h"
#include "assay/golden/floors.h"
#include "base/input_file.h"

namespace assay {
namespace {

std::optional<double> floor_of_case(const GoldenManifest& manifest,
                                    const std::optional<FastFloors>& fast_floors,
                                    const SnapshotChange& change, const std::string& checkpoint) {
  const GoldenFile* file = manifest.file_of_type(change.type);
  if (file == nullptr) return {};
  if (change.math == "exact" || !rounds_activations(change.type)) {
    return floor_of(*file, manifest.tolerance.floor, checkpoint);
  }
  if (!fast_floors) return {};
  const FastFloor* floor = find_fast_floor(*fast_floors, change.type, change.prompt, checkpoint);
  // Without a record in the golden, the noise of the prompt's logits is used.
  if (floor == nullptr) {
    floor = find_fast_floor(*fast_floors, change.type, change.prompt, "logits");
  }
  if (floor == nullptr) return {};
  return std::max(floor->max, kLeastFloor);
}

SnapshotReview review_of(const GoldenManifest& manifest,
                         const std::optional<FastFloors>& fast_floors,
                         const SnapshotChange& change) {
  SnapshotReview review;
  review.line = change.name() + ":";
  if (!change.note.empty()) {
    review.line += " " + change.note;
    review.within = change.note == "is new";
  }
  if (change.checkpoints.empty()) return review;
  const SnapshotChange::Of* most = nullptr;
  double most_floors = 0;
  for (const SnapshotChange::Of& each : change.checkpoints) {
    const auto floor = floor_of_case(manifest, fast_floors, change, each.checkpoint);
    const double floors = floor ? each.rel_l2 / *floor : HUGE_VAL;
    if (most != nullptr && floors <= most_floors) continue;
    most = &each;
    most_floors = floors;
    if (!(floors <= manifest.tolerance.k)) review.within = false;
  }
  review.line += fmt::format(
      " {} of {} checkpoints change, the first is {}; most {}, by {:.2g} floors (relative L2 "
      "{:.2g})",
      change.checkpoints.size(), change.n_checkpoints, change.checkpoints.front().checkpoint,
      most->checkpoint, most_floors, most->rel_l2);
  return review;
}

}  // namespace

std::vector<SnapshotReview> review_snapshots(const GoldenManifest& manifest,
                                             const std::optional<FastFloors>& fast_floors,
                                             const GoldenSnapshots* before,
                                             const GoldenSnapshots& after) {
  const GoldenSnapshots none{after.model, after.checkpoints, {}};
  std::vector<SnapshotReview> reviews;
  for (const SnapshotChange& change :
       snapshot_changes(before == nullptr ? none : *before, after, true)) {
    reviews.push_back(review_of(manifest, fast_floors, change));
  }
  return reviews;
}

std::vector<SnapshotReview> review_pending_snapshots(const std::string& folder) {
  const auto pending = pending_files(folder);
  const auto found = pending.find(kSnapshotsName);
  if (found == pending.end()) return {};
  const GoldenChange change = plan_change(folder, pending);
  const auto before = read_snapshots(folder);
  const GoldenSnapshots after =
      parse_snapshots(read_whole_file(found->second, kMaxSnapshotBytes), found->second);
  return review_snapshots(change.manifest, read_fast_floors(folder), before ? &*before : nullptr,
                          after);
}

}  // namespace assay
