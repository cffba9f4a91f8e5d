#pragma once

#include <string>
#include <vector>

#include "assay/golden/manifest.h"

namespace assay {

// What a golden lets pass of one model file: the largest k x floor. NaN where it has no such floor.
struct AllowedErrors {
  std::string type;  // of the model file
  std::string floor;
  double k = 0;
  double layers = 0;  // over the outputs of the layers
  double logits = 0;
};

std::vector<AllowedErrors> allowed_errors(const GoldenManifest& manifest);

// Tolerances of the manifest that are wider than honest floors make them, a sentence each: they
// would let an error pass. kUsualK, the built-in tolerance, and the growth from layer to layer are
// what they are held to; docs/tolerances.md has how far the goldens are from each. They are
// suspicions: another arithmetic, or another model, may be so.
std::vector<std::string> wide_tolerances(const GoldenManifest& manifest);

// Tolerances by a floor of float32 that hold nothing, of each model file the widest: no float32
// computation of the goldens is off by a quarter of that.
std::vector<std::string> tolerances_beyond_float32(const GoldenManifest& manifest);

}  // namespace assay
