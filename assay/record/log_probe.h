#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/log/checkpoint_set.h"
#include "assay/log/log_writer.h"
#include "engine/probe.h"

namespace assay {

// Writes the checkpoints of a set to a log, one record for each token position.
class LogProbe : public Probe {
 public:
  // `writer` must outlive the probe. Throws Error if `set` matches no checkpoint of a model of
  // `n_layers` layers.
  LogProbe(LogWriter& writer, const CheckpointSet& set, int64_t n_layers);

  bool wants(Checkpoint checkpoint, int layer) override;
  void observe(Checkpoint checkpoint, int layer, int64_t first_token_idx, int64_t n_tokens,
               int64_t width, const float* values) override;

 private:
  static size_t index(Checkpoint checkpoint, int layer);

  LogWriter& writer_;
  std::vector<bool> wanted_;  // by index(checkpoint, layer)
};

}  // namespace assay
