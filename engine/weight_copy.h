#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "engine/model.h"
#include "kernels/memory.h"

namespace assay {

// The weights of a model where a backend's kernels reach them: the model's own if that is the
// host's memory, copies in their stored types otherwise.
class WeightCopy {
 public:
  // `model` and `memory` must outlive it. Throws Error if `memory` has no room for the weights.
  WeightCopy(const Model& model, Memory& memory);

  const Weights& weights() const { return weights_; }

 private:
  void copy(const Model& model);
  WeightMatrix copy(const WeightMatrix& matrix);
  const float* copy(const float* values, int64_t count);
  Linear copy(const Linear& linear);
  Norm copy(const Norm& norm, int64_t width);
  Layer copy(const Layer& layer, const LayerConfig& own, const ModelConfig& config);
  const void* copy(const void* bytes, size_t count);

  Memory& memory_;
  bool has_room_ = false;  // before, sizes are only taken down
  Weights weights_;
  // By where they are on the host, and how many bytes.
  std::map<std::pair<const void*, size_t>, Buffer<std::byte>> copies_;
};

}  // namespace assay
