#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/compare_logs.h"
#include "assay/golden/snapshot_review.h"

namespace assay {

// A pending fixture, compared with the current one.
struct LogReview {
  std::string file;
  std::string type;
  std::string prompt;
  bool added = false;                    // there is no current one
  std::optional<Comparison> comparison;  // of the current with the pending one
  std::string not_comparable;            // why there is no comparison, if both exist
  double k = 0;                          // multiples of the floor that are allowed
  // Current records that disappear, or of which less is kept, by checkpoint.
  std::map<std::string, int64_t> gone;
};

struct GoldenReview {
  std::string model;
  std::vector<LogReview> logs;
  std::vector<SnapshotReview> snapshots;
  std::vector<std::string> removed;  // files that would be removed
  std::vector<std::string> notes;    // what else changes: model files, floors, the manifest's keys
  // A floor, including those of fast, rises or disappears, or k rises, or a higher floor replaces
  // one; or a fixture, a text or some of its greedy tokens disappear.
  bool looser = false;

  // Whether every fixture that changes keeps all its records, and these, and all snapshots, stay
  // within k times their floors, and no check becomes weaker.
  bool within_floors() const;
};

// What accepting the pending files of `folder` would change. The floors are the current golden's;
// if it has none, the pending ones. Throws Error if nothing is pending, or what accepting it would
// throw.
GoldenReview review_pending(const std::string& folder);

}  // namespace assay
