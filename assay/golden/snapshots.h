#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/golden/manifest.h"

namespace assay {

// golden/<model>/snapshots.json: what Assay's own engine computed for the prompts of a golden, as a
// hash of each checkpoint. The engine gives the same bits on every processor, so that a different
// hash means that a number changed. The golden shows whether the numbers are right.
inline constexpr const char* kSnapshotsName = "snapshots.json";
inline constexpr int64_t kMaxSnapshotBytes = int64_t{64} << 20;
inline constexpr int kSnapshotSums = 4;
inline constexpr const char* kSnapshotMaths[] = {"exact", "fast"};

// All values of one checkpoint, position by position, index by index.
struct CheckpointSnapshot {
  std::string hash;  // the first 16 hexadecimal digits of the SHA-256 of the floats' bits
  double norm = 0;   // of the finite values
  // As in a sketch (assay/log/sketch.h), by the element's index among all: their distance to those
  // of another engine estimates how far the values are apart, without the values.
  std::array<double, kSnapshotSums> sums = {};
};

// One prompt on one model file in one kind of math.
struct Snapshot {
  std::string type;
  std::string sha256;  // of the model file
  std::string math;
  std::string prompt;
  int64_t positions = 0;  // the prompt's, and those of the golden's generated tokens but the last
  std::vector<CheckpointSnapshot> values;  // as in GoldenSnapshots::checkpoints

  bool same_case(const Snapshot& other) const {
    return type == other.type && math == other.math && prompt == other.prompt;
  }
};

struct GoldenSnapshots {
  std::string model;
  std::vector<std::string> checkpoints;  // as the network computes
  std::vector<Snapshot> snapshots;
};

// Nothing if the folder (with a slash at its end) has none. Throws Error that names the missing or
// wrong key.
std::optional<GoldenSnapshots> read_snapshots(const std::string& folder);
GoldenSnapshots parse_snapshots(const std::string& text, const std::string& path);
std::string snapshots_text(const GoldenSnapshots& snapshots);

// The snapshot of a case; null if there is none.
const Snapshot* find_snapshot(const GoldenSnapshots& snapshots, std::string_view type,
                              std::string_view math, std::string_view prompt);

// One line for each prompt, type and math of the manifest without a snapshot, for each snapshot
// without those, and for each that is of another model file.
std::vector<std::string> snapshot_problems(const GoldenManifest& manifest,
                                           const GoldenSnapshots& snapshots);

// How two snapshots of one case differ.
struct SnapshotChange {
  struct Of {
    std::string checkpoint;
    double rel_l2 = 0;  // ‖after - before‖ / ‖before‖ by the sums, to about a third of it
  };
  std::string type;
  std::string math;
  std::string prompt;
  std::string note;             // why the two cannot be compared, if they cannot
  std::vector<Of> checkpoints;  // those that changed, as the network computes
  size_t n_checkpoints = 0;     // of the case

  // "Q4_K_M fast haiku".
  std::string name() const { return type + " " + math + " " + prompt; }
};

// The differences, case by case. With `whole`, cases that only `before` has are included.
std::vector<SnapshotChange> snapshot_changes(const GoldenSnapshots& before,
                                             const GoldenSnapshots& after, bool whole);

}  // namespace assay
