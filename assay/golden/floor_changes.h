#pragma once

#include <string>
#include <vector>

#include "assay/golden/manifest.h"

namespace assay {

struct FloorChanges {
  std::vector<std::string> notes;
  bool looser = false;  // a floor of any name rises or disappears, or k rises
};

// How the floors of a model file change, and with them the tolerances: for the floor that judges,
// each checkpoint whose floor rises, worst first; for the others the number of rises, and the
// worst. They are compared as floor_of() finds them, a checkpoint's own before that of its kind.
// Each floor that disappears is listed by name, even if another replaces it.
FloorChanges floor_changes(const GoldenManifest& before, const GoldenFile& old,
                           const GoldenManifest& after, const GoldenFile& file);

}  // namespace assay
