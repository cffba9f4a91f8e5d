#pragma once

#include <string>
#include <vector>

#include "assay/golden/manifest.h"

namespace assay {

struct FloorChanges {
  std::vector<std::string> notes;
  bool looser = false;  // a floor rises or goes, of whatever name, or k rises
};

// How the floors of a model file change, and with them what a record may be off by: of the floor
// that judges each checkpoint whose floor rises, worst first; of the others how many, and the
// worst. They are compared as floor_of() finds them, a checkpoint's own before that of its kind.
// Each that goes is told by name, even where another holds in its place.
FloorChanges floor_changes(const GoldenManifest& before, const GoldenFile& old,
                           const GoldenManifest& after, const GoldenFile& file);

}  // namespace assay
