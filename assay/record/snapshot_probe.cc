#include "assay/record/snapshot_probe.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "assay/log/sketch.h"

namespace assay {

SnapshotProbe::SnapshotProbe(int64_t n_layers, Keeps keeps)
    : states_(static_cast<size_t>(n_layers) * kCheckpoints), keeps_(keeps) {}

void SnapshotProbe::observe(Checkpoint checkpoint, int layer, int64_t first_token_idx,
                            int64_t n_tokens, int64_t width, const float* values) {
  const auto row = static_cast<size_t>(is_in_layer(checkpoint) ? layer : 0);
  auto& state = states_[row * kCheckpoints + static_cast<size_t>(checkpoint)];
  if (!state) state = std::make_unique<State>();
  const std::span all(values, static_cast<size_t>(n_tokens * width));
  state->hash.update(std::as_bytes(all));
  positions_ = std::max(positions_, first_token_idx + n_tokens);
  if (keeps_ == Keeps::kHashes) return;
  for (const float each : all) {
    const uint64_t signs = sketch_signs(state->count++);
    if (!std::isfinite(each)) continue;
    const auto value = static_cast<double>(each);
    state->squares += value * value;
    const auto bits = std::bit_cast<uint64_t>(value);
    for (size_t k = 0; k < state->sums.size(); ++k) {
      // Without a branch, which no processor could foresee: minus where bit k is not set.
      state->sums[k] += std::bit_cast<double>(bits ^ ((~signs >> k) << 63U));
    }
  }
}

SnapshotProbe::Result SnapshotProbe::result() {
  Result result;
  result.positions = positions_;
  const auto n_layers = static_cast<int>(states_.size() / kCheckpoints);
  const auto add = [&](Checkpoint checkpoint, int layer) {
    const auto index = static_cast<size_t>(layer) * kCheckpoints + static_cast<size_t>(checkpoint);
    const auto& state = states_[index];
    if (!state) return;
    result.checkpoints.push_back(checkpoint_name(checkpoint, layer));
    result.values.push_back(
        {state->hash.hex().substr(0, 16), std::sqrt(state->squares), state->sums});
  };
  add(Checkpoint::kEmbedding, 0);
  for (int layer = 0; layer < n_layers; ++layer) {
    for (int i = 0; i < kCheckpoints; ++i) {
      if (is_in_layer(static_cast<Checkpoint>(i))) add(static_cast<Checkpoint>(i), layer);
    }
  }
  add(Checkpoint::kFinalNorm, 0);
  add(Checkpoint::kLogits, 0);
  return result;
}

}  // namespace assay
