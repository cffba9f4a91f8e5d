#pragma once

#include <array>
#include <span>
#include <vector>

#include "engine/model_config.h"

namespace assay {

// How the ops of a layer are computed one after the other: which of them go in one call, and in
// which buffer each result stands. A result takes the place of an input that nothing reads any more
// where the op allows it. The residual stream is in buffer 0 between the layers.
class LayerPlan {
 public:
  // Of the ops of `layer`, which must outlive the plan, with their widths in `config`.
  LayerPlan(const LayerConfig& layer, const ModelConfig& config);

  // One op each, or neighbouring products of the same input.
  const std::vector<std::span<const OpSpec>>& steps() const { return steps_; }

  // Floats a token.
  const std::vector<int64_t>& buffers() const { return buffers_; }

  // Where the result of an op of the layer stands. kOutput, as input and output of the layer: 0.
  size_t buffer(Checkpoint out) const { return place_[static_cast<size_t>(out)]; }

  // Whether later positions read what becomes of the result: keys and values are computed from it.
  bool is_read_later(Checkpoint out) const { return read_later_[static_cast<size_t>(out)]; }

 private:
  void place(const OpSpec& op, int64_t width, std::span<const OpSpec> later);

  std::vector<std::span<const OpSpec>> steps_;
  std::vector<int64_t> buffers_;
  std::array<size_t, kCheckpoints> place_ = {};
  std::array<bool, kCheckpoints> read_later_ = {};
};

}  // namespace assay
