// How a session runs the ops that choose: which experts each token uses, and their products; which
// positions it sees.
#include <algorithm>
#include <array>
#include <numeric>

#include "engine/session.h"

namespace assay {

// Which experts each token uses, or how much of each. On the host, which has to know them.
void Session::route(const OpSpec& op, int layer, const TokenRange& tokens) {
  const int64_t n_tokens = tokens.count;
  const Routing routing = config_.routing_of(op.out);
  const auto count = static_cast<size_t>(n_tokens * routing.n_used);
  const OpSite here = site(op.out, layer, tokens);
  const float* scores = on_host(value(op.in[0], layer, tokens.first),
                                static_cast<size_t>(n_tokens * routing.n_experts));
  std::vector<float> values(count);
  if (op.kind == OpKind::kSelect) {
    expert_ids_.resize(count);
    const float* bias = weights_.layers[static_cast<size_t>(layer)].extra.choice_bias;
    if (expert_source_ != nullptr) {
      expert_source_->choose(layer, n_positions_ + tokens.first, n_tokens, expert_ids_.data());
    } else {
      kernels_.run(SelectCall{scores, bias, routing, n_tokens, expert_ids_.data(), here});
    }
    std::ranges::copy(expert_ids_, values.begin());
  } else {
    const std::vector<int32_t> only(is_of_shared_expert(op.out) ? count : 0);
    const int32_t* ids = only.empty() ? expert_ids_.data() : only.data();
    const float* scales =
        only.empty() ? weights_.layers[static_cast<size_t>(layer)].extra.expert_scales : nullptr;
    kernels_.run(WeighCall{scores, ids, routing, n_tokens, values.data(), here, scales});
  }
  memory_.upload(values.data(), count * sizeof(float), value(op.out, layer, tokens.first));
}

// Which positions attention sees. On the host, which has to gather them.
void Session::run_index(const OpSpec& op, int layer, const TokenRange& tokens) {
  const IndexShape& shape = config_.index;
  const int64_t n_keys = n_positions_ + tokens.first + tokens.count;
  std::array<std::vector<float>, 3> copies;
  const auto host = [&](size_t i, const void* values, int64_t count) {
    if (memory_.on_host()) return static_cast<const float*>(values);
    copies[i].resize(static_cast<size_t>(count));
    memory_.download(values, copies[i].size() * sizeof(float), copies[i].data());
    return static_cast<const float*>(copies[i].data());
  };
  const auto of_tokens = [&](size_t i) {
    const Width width = find_spec(config_.layer(layer).ops, op.in[i])->width;
    return host(i, value(op.in[i], layer, tokens.first), tokens.count * this->width(width, layer));
  };
  indexed_.resize(static_cast<size_t>(batch_ * shape.top_k));
  int32_t* indexed = indexed_row(tokens.first);
  kernels_.run(IndexCall{
      of_tokens(0), of_tokens(1), host(2, kv_.of_other(layer).k, n_keys * shape.head_dim), shape,
      n_positions_ + tokens.first, tokens.count, indexed, site(op.out, layer, tokens)});
  const std::vector<float> values(indexed, indexed + tokens.count * shape.top_k);
  memory_.upload(values.data(), values.size() * sizeof(float), value(op.out, layer, tokens.first));
}

// The inputs are brought into the order of the experts, each expert computes its own, and the
// results go back to their tokens.
void Session::run_experts(const OpSpec& op, int layer, const TokenRange& tokens) {
  const int64_t n_tokens = tokens.count;
  const Linear& experts = weights_.layers[static_cast<size_t>(layer)].linear(op.out);
  const int64_t n_used = config_.routing.n_used;
  const int64_t slots = n_tokens * n_used;
  const int64_t n_experts = config_.routing.n_experts;
  const int64_t rows = experts.rows_of_expert(n_experts);
  const int64_t columns = experts.weight.columns;
  const bool input_per_slot =
      is_of_used_experts(find_spec(config_.layer(layer).ops, op.in[0])->width);
  std::vector<int32_t> order(static_cast<size_t>(slots));  // slots, by expert
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {},
                           [&](int32_t slot) { return expert_ids_[static_cast<size_t>(slot)]; });
  std::vector<int32_t> back(order.size());
  std::vector<int32_t> from(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    back[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
    from[i] = input_per_slot ? order[i] : static_cast<int32_t>(order[i] / n_used);
  }
  const auto rows_of = [](int64_t count, int64_t width, const float* data) {
    return WeightMatrix{TensorType::kF32, count, width, data};
  };
  float* inputs = room(expert_inputs_, slots * columns);
  float* results = room(expert_results_, slots * rows);
  const OpSite whole = site(op.out, layer, tokens);
  OpSite part = whole;
  part.finishes = false;
  gather(rows_of(input_per_slot ? slots : n_tokens, columns, value(op.in[0], layer, tokens.first)),
         from, inputs, part);
  for (int64_t first = 0; first < slots;) {
    const int64_t expert = expert_ids_[static_cast<size_t>(order[static_cast<size_t>(first)])];
    int64_t end = first + 1;
    while (end < slots &&
           expert_ids_[static_cast<size_t>(order[static_cast<size_t>(end)])] == expert) {
      ++end;
    }
    part.n_tokens = end - first;
    kernels_.run(MatmulCall{experts.expert(expert, n_experts),
                            experts.bias_of_expert(expert, n_experts), inputs + first * columns,
                            end - first, results + first * rows, part});
    first = end;
  }
  gather(rows_of(slots, rows, results), back, value(op.out, layer, tokens.first), whole);
}

void Session::gather(const WeightMatrix& table, const std::vector<int32_t>& rows, float* out,
                     const OpSite& site) {
  if (expert_rows_.size() < rows.size()) expert_rows_ = Buffer<int32_t>(memory_, rows.size());
  memory_.upload(rows.data(), rows.size() * sizeof(int32_t), expert_rows_.data());
  kernels_.run(
      GetRowsCall{table, expert_rows_.data(), static_cast<int64_t>(rows.size()), out, false, site});
}

}  // namespace assay
