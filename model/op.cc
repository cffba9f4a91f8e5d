#include "model/op.h"

#include <algorithm>

namespace assay {

const OpSpec* find_spec(std::span<const OpSpec> layer, Checkpoint checkpoint) {
  const auto found = std::find_if(layer.begin(), layer.end(),
                                  [&](const OpSpec& op) { return op.out == checkpoint; });
  return found == layer.end() ? nullptr : &*found;
}

Width input_width(std::span<const OpSpec> layer, const OpSpec& op) {
  if (op.in.front() == Checkpoint::kEmbedding) return Width::kHidden;
  // What enters a layer of several residual streams, of which the last gives one.
  const bool of_streams = find_spec(layer, Checkpoint::kPredictions) != nullptr;
  if (op.in.front() == Checkpoint::kOutput && of_streams) return Width::kStreams;
  return find_spec(layer, op.in.front())->width;
}

std::vector<OpPlace> inputs_of(std::span<const OpSpec> layer, int n_layers, OpPlace op,
                               int kv_layer, int index_layer) {
  const auto output_of = [](int number) {
    return number < 0 ? OpPlace{Checkpoint::kEmbedding, -1} : OpPlace{Checkpoint::kOutput, number};
  };
  if (op.checkpoint == Checkpoint::kFinalNorm) return {output_of(n_layers - 1)};
  if (op.checkpoint == Checkpoint::kLogits) return {{Checkpoint::kFinalNorm, -1}};
  const OpSpec* spec = find_spec(layer, op.checkpoint);
  std::vector<OpPlace> places;
  if (spec == nullptr) return places;
  for (const Checkpoint input : spec->inputs()) {
    if (input == Checkpoint::kOutput) {
      places.push_back(output_of(op.layer - 1));
    } else if (input == Checkpoint::kEmbedding) {
      places.push_back({input, -1});
    } else {
      const int other = input == Checkpoint::kIndexed ? index_layer : kv_layer;
      places.push_back({input, find_spec(layer, input) == nullptr ? other : op.layer});
    }
  }
  return places;
}

std::vector<OpSpec> without_op(std::span<const OpSpec> layer, Checkpoint checkpoint) {
  const OpSpec* dropped = find_spec(layer, checkpoint);
  std::vector<OpSpec> ops;
  for (OpSpec op : layer) {
    if (dropped == nullptr || op.out == checkpoint) {
      if (dropped == nullptr) ops.push_back(op);
      continue;
    }
    const auto last = op.in.begin() + op.n_inputs;
    if (dropped->kind == OpKind::kLinear) {
      op.n_inputs = static_cast<int>(std::remove(op.in.begin(), last, checkpoint) - op.in.begin());
    } else {
      std::replace(op.in.begin(), last, checkpoint, dropped->in.front());
    }
    ops.push_back(op);
  }
  return ops;
}

}  // namespace assay
