#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "assay/golden/snapshots.h"
#include "base/sha256.h"
#include "engine/probe.h"

namespace assay {

// Hashes every checkpoint that an engine computes, over all positions.
class SnapshotProbe : public Probe {
 public:
  // kHashes: norms and sums, which say how large a change is, stay 0.
  enum class Keeps { kAll, kHashes };
  explicit SnapshotProbe(int64_t n_layers, Keeps keeps = Keeps::kAll);

  bool wants(Checkpoint, int) override { return true; }
  void observe(Checkpoint checkpoint, int layer, int64_t first_token_idx, int64_t n_tokens,
               int64_t width, const float* values) override;

  // Names of the checkpoints seen, in the network's order, and their snapshots, once all are seen.
  struct Result {
    std::vector<std::string> checkpoints;
    std::vector<CheckpointSnapshot> values;
    int64_t positions = 0;
  };
  Result result();

 private:
  struct State {
    Sha256 hash;
    uint64_t count = 0;  // of elements
    double squares = 0;
    std::array<double, kSnapshotSums> sums = {};
  };

  std::vector<std::unique_ptr<State>> states_;  // [n_layers, kCheckpoints]; null: not seen
  int64_t positions_ = 0;
  Keeps keeps_;
};

}  // namespace assay
