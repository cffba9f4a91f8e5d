#include "engine/weight_copy.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace assay {

WeightCopy::WeightCopy(const Model& model, Memory& memory) : memory_(memory) {
  if (memory.on_host()) {
    weights_ = model;
    return;
  }
  copy(model);  // finds out what there is to copy
  std::vector<size_t> sizes;
  for (const auto& [place, kept] : copies_) sizes.push_back(place.second);
  try {
    memory.reserve(sizes);
  } catch (const Error& error) {
    throw Error(std::string("the weights do not fit: ") + error.what(), model.gguf().path());
  }
  has_room_ = true;
  copy(model);
}

void WeightCopy::copy(const Model& model) {
  const int64_t width = model.config().embedding_length;
  weights_ = {};
  weights_.token_embedding = copy(model.token_embedding);
  weights_.position_embedding = copy(model.position_embedding);
  weights_.ple_embedding = copy(model.ple_embedding);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    weights_.layers.push_back(copy(model.layers[i], model.config().layers[i], model.config()));
  }
  weights_.embedding_norm = copy(model.embedding_norm, width);
  weights_.output_norm = copy(model.output_norm, width);
  weights_.output = copy(model.output);
}

// What the model names twice, as tied embeddings, is copied once.
const void* WeightCopy::copy(const void* bytes, size_t count) {
  if (bytes == nullptr) return nullptr;
  Buffer<std::byte>& kept = copies_[{bytes, count}];
  if (has_room_ && kept.size() == 0) {
    kept = Buffer<std::byte>(memory_, count);
    memory_.upload(bytes, count, kept.data());
  }
  return kept.data();
}

WeightMatrix WeightCopy::copy(const WeightMatrix& matrix) {
  WeightMatrix result = matrix;
  const auto rows = static_cast<size_t>(matrix.rows);
  result.data = copy(matrix.data, rows * row_bytes(matrix.type, matrix.columns));
  return result;
}

const float* WeightCopy::copy(const float* values, int64_t count) {
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  return static_cast<const float*>(copy(static_cast<const void*>(values), bytes));
}

Linear WeightCopy::copy(const Linear& linear) {
  return {copy(linear.weight), copy(linear.bias, linear.weight.rows), linear.first, linear.count};
}

Norm WeightCopy::copy(const Norm& norm, int64_t width) {
  return {copy(norm.weight, width), copy(norm.bias, width)};
}

Layer WeightCopy::copy(const Layer& layer, const LayerConfig& own, const ModelConfig& config) {
  const std::span<const OpSpec> ops = own.ops;
  Layer result;
  for (const OpSpec& op : ops) {
    if (op.kind == OpKind::kLinear || op.kind == OpKind::kExpertLinear ||
        op.kind == OpKind::kStreamLinear)
      result.linear(op.out) = copy(layer.linear(op.out));
    if (op.kind == OpKind::kNorm) {
      result.norm(op.out) = copy(layer.norm(op.out), config.width(op.weight_width(), own));
    }
  }
  const auto conv = std::ranges::find(ops, OpKind::kConv, &OpSpec::kind);
  const int64_t channels = conv == ops.end() ? 0 : config.width(conv->width, own);
  result.extra = {copy(layer.extra.sinks, config.n_heads),
                  layer.extra.choice_bias,
                  layer.extra.expert_scales,
                  copy(layer.extra.conv, channels * config.conv_taps),
                  copy(layer.extra.conv_bias, channels),
                  copy(layer.extra.decay, config.delta.n_decays()),
                  copy(layer.extra.dt, config.delta.n_value_heads),
                  copy(layer.extra.skip, config.delta.n_value_heads),
                  layer.extra.scale,
                  copy(layer.extra.first_stream, config.embedding_length)};
  return result;
}

}  // namespace assay
