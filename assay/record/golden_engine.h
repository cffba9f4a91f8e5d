#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "assay/golden/fast_floors.h"
#include "assay/golden/manifest.h"
#include "assay/golden/snapshots.h"
#include "engine/model.h"
#include "engine/probe.h"
#include "kernels/kernels.h"

namespace assay {

// What Assay's own engine computes for the prompts of a golden.

// One prompt of a model file, with the tokens that the golden has after it.
struct GoldenPassage {
  std::string prompt;
  std::vector<int32_t> tokens;
  std::vector<int32_t> greedy;

  int64_t capacity() const { return static_cast<int64_t>(tokens.size() + greedy.size()); }
};

std::vector<GoldenPassage> passages_of(const GoldenManifest& manifest, const GoldenFile& file);

// The prompt's tokens at once, then the golden's except the last, one by one.
void follow_golden(const Model& model, Kernels& kernels, const GoldenPassage& passage,
                   Probe& probe);

// A snapshot; `checkpoints` are its names.
Snapshot take_snapshot(const Model& model, Kernels& kernels, const GoldenPassage& passage,
                       std::vector<std::string>& checkpoints);

// The floors of `math` of one prompt: `kernels` against the golden's logs of it, at each position
// that these hold. Throws Error if the error is larger than rounding can be.
FastFloors::Of measure_fast_floors(const GoldenManifest& manifest, const GoldenFile& file,
                                   const Model& model, Kernels& kernels,
                                   const GoldenPassage& passage, const std::string& math);

struct GoldenEngineOptions {
  int n_threads = 0;
  std::function<void(const std::string& what)> progress = {};  // before each case
};

// Of all prompts of a golden, in both kinds of math; for a missing model file the entries of `old`,
// and its type in `absent`. Throws Error if a model file is not the one stated.
GoldenSnapshots take_snapshots(const GoldenManifest& manifest, const GoldenSnapshots* old,
                               const GoldenEngineOptions& options,
                               std::vector<std::string>& absent);

// The same for the floors of `fast`, for the model files where it rounds activations, and for those
// of `library`, which the emulated backend computes.
FastFloors measure_fast_floors(const GoldenManifest& manifest, const FastFloors* old,
                               const GoldenEngineOptions& options,
                               std::vector<std::string>& absent);

}  // namespace assay
