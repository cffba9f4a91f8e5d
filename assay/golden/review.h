#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/compare_logs.h"
#include "assay/golden/snapshot_review.h"

namespace assay {

// A fixture that waits, held against the one in place.
struct LogReview {
  std::string file;
  std::string type;
  std::string prompt;
  bool added = false;                    // there is none in place
  std::optional<Comparison> comparison;  // of the one in place with the one that waits
  std::string not_comparable;            // why there is no comparison, where both are there
  double k = 0;                          // multiples of the floor that are allowed
  // Records of the one in place that go, or of which less is kept, by checkpoint.
  std::map<std::string, int64_t> gone;
};

struct GoldenReview {
  std::string model;
  std::vector<LogReview> logs;
  std::vector<SnapshotReview> snapshots;
  std::vector<std::string> removed;  // files that would go
  std::vector<std::string> notes;    // what else changes: model files, floors, the manifest's keys
  // A floor rises or goes, that of fast among them, or k rises, or another floor that is higher
  // holds; a fixture or a text goes, or some of its greedy tokens.
  bool looser = false;

  // Whether every fixture that changes keeps all its records, and these, and all snapshots, stay
  // within k times their floors, and nothing is held to less than it was.
  bool within_floors() const;
};

// What accepting the pending files of `folder` would change. The floors are those of the golden in
// place; where it has none, those that wait. Throws Error if nothing waits, or what accepting it
// would throw.
GoldenReview review_pending(const std::string& folder);

}  // namespace assay
