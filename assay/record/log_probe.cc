#include "assay/record/log_probe.h"

#include <algorithm>

#include "base/error.h"

namespace assay {
namespace {

constexpr size_t kCheckpoints = static_cast<size_t>(Checkpoint::kLogits) + 1;

bool belongs_to_a_layer(Checkpoint checkpoint) {
  return checkpoint > Checkpoint::kEmbedding && checkpoint < Checkpoint::kFinalNorm;
}

}  // namespace

size_t LogProbe::index(Checkpoint checkpoint, int layer) {
  return static_cast<size_t>(belongs_to_a_layer(checkpoint) ? layer : 0) * kCheckpoints +
         static_cast<size_t>(checkpoint);
}

LogProbe::LogProbe(LogWriter& writer, const CheckpointSet& set, int64_t n_layers)
    : writer_(writer), wanted_(static_cast<size_t>(n_layers) * kCheckpoints) {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const auto checkpoint = static_cast<Checkpoint>(i % kCheckpoints);
    const auto layer = static_cast<int>(i / kCheckpoints);
    wanted_[i] = set.matches(checkpoint_name(checkpoint, layer));
  }
  if (std::find(wanted_.begin(), wanted_.end(), true) == wanted_.end()) {
    throw Error("no checkpoint of this model has such a name", "--checkpoints",
                "give logits, layers, ops, or names such as layer_0_*");
  }
}

bool LogProbe::wants(Checkpoint checkpoint, int layer) {
  return wanted_[index(checkpoint, layer)];
}

void LogProbe::observe(Checkpoint checkpoint, int layer, int64_t first_token_idx, int64_t n_tokens,
                       int64_t width, const float* values) {
  const std::string name = checkpoint_name(checkpoint, layer);
  for (int64_t t = 0; t < n_tokens; ++t) {
    writer_.write(name, first_token_idx + t, {values + t * width, static_cast<size_t>(width)});
  }
}

}  // namespace assay
