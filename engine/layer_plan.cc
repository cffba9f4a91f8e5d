#include "engine/layer_plan.h"

#include <algorithm>
#include <stdexcept>

namespace assay {
namespace {

bool may_overwrite_input(OpKind kind) {
  return kind == OpKind::kNorm || kind == OpKind::kRope || kind == OpKind::kActivation ||
         kind == OpKind::kAdd;
}

bool reads(std::span<const OpSpec> ops, Checkpoint checkpoint) {
  return std::any_of(ops.begin(), ops.end(), [&](const OpSpec& op) {
    return std::ranges::find(op.inputs(), checkpoint) != op.inputs().end();
  });
}

// The op at `first`, and the products of the same input after it.
std::span<const OpSpec> step_at(std::span<const OpSpec> ops, size_t first) {
  size_t end = first + 1;
  while (ops[first].kind == OpKind::kLinear && end < ops.size() &&
         ops[end].kind == OpKind::kLinear && ops[end].in.front() == ops[first].in.front()) {
    ++end;
  }
  return ops.subspan(first, end - first);
}

}  // namespace

LayerPlan::LayerPlan(const LayerConfig& layer, const ModelConfig& config)
    : buffers_{
          config.width(reads(layer.ops, Checkpoint::kOutput) ? Width::kStreams : Width::kHidden)} {
  const std::span<const OpSpec> ops = layer.ops;
  for (size_t i = 0; i < ops.size();) {
    steps_.push_back(step_at(ops, i));
    i += steps_.back().size();
    for (const OpSpec& op : steps_.back()) place(op, config.width(op.width, layer), ops.subspan(i));
  }
  for (size_t i = ops.size(); i-- > 0;) {  // who reads a result comes after it
    const bool back = reads_back(ops[i].kind);
    // Its state is that of all positions so far.
    if (has_state(ops[i].kind)) read_later_[static_cast<size_t>(ops[i].out)] = true;
    if (!back && !is_read_later(ops[i].out)) continue;
    const auto first = static_cast<size_t>(back ? first_read_back(ops[i]) : 0);
    for (const Checkpoint input : ops[i].inputs().subspan(first)) {
      if (input != Checkpoint::kOutput) read_later_[static_cast<size_t>(input)] = true;
    }
  }
}

void LayerPlan::place(const OpSpec& op, int64_t width, std::span<const OpSpec> later) {
  if (op.out == Checkpoint::kOutput) {
    const bool ends_layer = may_overwrite_input(op.kind) || op.kind == OpKind::kStreams;
    if (!ends_layer || !later.empty()) {
      throw std::logic_error("a layer must end with an addition");
    }
    return;  // buffer 0
  }
  // The gate of a norm is read after the norm itself is written.
  const auto inputs = op.kind == OpKind::kNorm ? op.inputs().first(1) : op.inputs();
  const auto input = std::ranges::find_if(inputs, [&](Checkpoint each) {
    return may_overwrite_input(op.kind) && !reads(later, each) && width == buffers_[buffer(each)];
  });
  const bool in_place = input != inputs.end();
  place_[static_cast<size_t>(op.out)] = in_place ? buffer(*input) : buffers_.size();
  if (!in_place) buffers_.push_back(width);
}

}  // namespace assay
