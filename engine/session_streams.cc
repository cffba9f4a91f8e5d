// How a session runs the steps of several residual streams.
#include "engine/session.h"

namespace assay {

void Session::run_streams(const OpSpec& op, int layer, const TokenRange& tokens) {
  const auto input = [&](int i) {
    return op.n_inputs > i ? value(op.in[static_cast<size_t>(i)], layer, tokens.first) : nullptr;
  };
  const bool predicts = op.step == StreamStep::kPredict;
  const Extra& extra = weights_.layers[static_cast<size_t>(layer)].extra;
  kernels_.run(StreamsCall{
      op.step, input(0), predicts ? nullptr : input(1), input(predicts ? 1 : 2),
      op.tensor.empty() ? nullptr : extra.first_stream, tokens.count, config_.n_streams,
      config_.embedding_length, result(op, layer, tokens.first), site(op.out, layer, tokens)});
}

// The inputs of each product are gathered, and the results go back to their tokens.
void Session::run_stream_products(const OpSpec& op, int layer, const TokenRange& tokens) {
  const Linear& products = weights_.layers[static_cast<size_t>(layer)].linear(op.out);
  const int64_t width = config_.embedding_length;
  const int64_t count = config_.n_streams - 1;
  const int64_t slots = tokens.count * count;
  std::vector<int32_t> from(static_cast<size_t>(slots));
  std::vector<int32_t> back(from.size());
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t t = 0; t < tokens.count; ++t) {
      const int64_t slot = i * tokens.count + t;
      from[static_cast<size_t>(slot)] = static_cast<int32_t>(t * config_.n_streams + i + 1);
      back[static_cast<size_t>(t * count + i)] = static_cast<int32_t>(slot);
    }
  }
  float* inputs = room(expert_inputs_, slots * width);
  float* results = room(expert_results_, slots * width);
  const OpSite whole = site(op.out, layer, tokens);
  OpSite part = whole;
  part.finishes = false;
  gather({TensorType::kF32, tokens.count * config_.n_streams, width,
          value(op.in[0], layer, tokens.first)},
         from, inputs, part);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = i * tokens.count * width;
    kernels_.run(MatmulCall{products.expert(i, count), nullptr, inputs + first, tokens.count,
                            results + first, part});
  }
  gather({TensorType::kF32, slots, width, results}, back, result(op, layer, tokens.first), whole);
}

}  // namespace assay
