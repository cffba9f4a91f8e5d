#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/compare/comparison.h"

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
};

struct GoldenReview {
  std::string model;
  std::vector<LogReview> logs;
  std::vector<std::string> removed;  // files that would go
  std::vector<std::string> notes;    // what else changes: model files, floors, the manifest's keys
  bool looser = false;  // a floor rises, or k does, or another floor that is higher holds

  // Whether every fixture that changes stays within k times its floors, and these do not rise.
  bool within_floors() const;
};

// What accepting the pending files of `folder` would change. The floors are those of the golden in
// place; where it has none, those that wait. Throws Error if nothing waits, or what accepting it
// would throw.
GoldenReview review_pending(const std::string& folder);

}  // namespace assay
