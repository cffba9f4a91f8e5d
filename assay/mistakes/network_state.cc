#include <algorithm>

#include "assay/mistakes/kernel_hooks.h"
#include "assay/mistakes/network.h"
#include "base/interrupt.h"

// What Network computes of attention and its positions, convolutions, linear attention and state
// space models, from all positions so far.
namespace assay::mistakes {
namespace {

// How many rows from `first` on matter and are of positions one after the other: those that an
// attention computes at once.
int64_t queries_from(const Inputs& inputs, int64_t first, int64_t n_rows) {
  constexpr int64_t kMost = 128;
  int64_t row = first;
  while (row < n_rows && row < first + kMost &&
         (inputs.wanted.empty() || inputs.wanted[static_cast<size_t>(row)]) &&
         inputs.position_at(row) == inputs.position_at(first) + row - first) {
    ++row;
  }
  return row - first;
}

// Positions as they are logged, up to the first that is no position, is not above the one before it
// or is beyond the query's own.
std::vector<int32_t> positions_of(const Matrix& logged, int64_t row, int64_t position) {
  std::vector<int32_t> positions;
  for (int64_t i = 0; i < logged.columns; ++i) {
    const float value = logged.row(row)[i];
    const float least = positions.empty() ? 0.0F : static_cast<float>(positions.back() + 1);
    if (!(value >= least && value <= static_cast<float>(position))) break;
    positions.push_back(static_cast<int32_t>(value));
  }
  positions.resize(static_cast<size_t>(logged.columns), -1);
  return positions;
}

}  // namespace

// What the op does with its result; `gate`, where there is one, is as long.
void Network::activate_in_place(const OpContext& context, const KernelHooks& hooks,
                                const float* gate, Matrix& out) const {
  float* values = out.values.data();
  const ActivateCall call{.x = gate == nullptr ? values : gate,
                          .up = gate == nullptr ? nullptr : values,
                          .count = std::ssize(out.values),
                          .out = values};
  if (hooks.activate) {
    hooks.activate(context, call, *reference_);
  } else {
    activate(call, *activation_at(context.op()), *reference_);
  }
}

Matrix Network::of_convolution(const OpContext& context, const KernelHooks& hooks) const {
  const Inputs& inputs = context.inputs;
  const std::vector<const Matrix*>& x = inputs.rows;
  const Op op = context.op();
  const bool of_one = x.size() == 1;
  Matrix out(inputs.n_rows(), x[0]->columns);
  ConvCall call{.kv = {KvType::kF32, x[of_one ? 0 : 1]->values.data(),
                       of_one ? nullptr : x[2]->values.data()},
                .weight = model->layers[static_cast<size_t>(op.layer)].extra.conv,
                .taps = model->config().conv_taps,
                .n_tokens = 1,
                .width = out.columns,
                .bias = model->layers[static_cast<size_t>(op.layer)].extra.conv_bias};
  for (int64_t t = 0; t < out.rows; ++t) {
    if (!inputs.wanted.empty() && !inputs.wanted[static_cast<size_t>(t)]) continue;
    if (!of_one) call.x = x[0]->row(t);
    call.first_position = inputs.position_at(t);
    call.out = out.row(t);
    run_hooked(hooks.conv, context, call, *reference_);
  }
  if (of_one) activate_in_place(context, hooks, nullptr, out);
  return out;
}

Matrix Network::of_attention(const OpContext& context, const KernelHooks& hooks) const {
  const Inputs& inputs = context.inputs;
  const std::vector<const Matrix*>& x = inputs.rows;
  const Op op = context.op();
  Matrix out(x[0]->rows, n_heads * heads(op).value_dim);
  AttentionCall call{.kv = {KvType::kF32, x[1]->values.data(), x[2]->values.data()},
                     .shape = attention_shape(op)};
  if (model != nullptr) {
    call.sinks = model->layers[static_cast<size_t>(op.layer)].extra.sinks;
  }
  std::vector<int32_t> indexed;
  for (int64_t t = 0; t < out.rows; t += std::max<int64_t>(call.n_tokens, 1)) {
    call.n_tokens = queries_from(inputs, t, out.rows);
    if (call.n_tokens == 0) continue;
    check_interrupted();
    call.q = x[0]->row(t);
    call.first_position = inputs.position_at(t);
    call.out = out.row(t);
    indexed.clear();
    for (int64_t i = 0; x.size() > 3 && i < call.n_tokens; ++i) {
      const int64_t position = call.first_position + i;
      const std::vector<int32_t> own = positions_of(*x[3], position, position);
      indexed.insert(indexed.end(), own.begin(), own.end());
      call.n_indexed = x[3]->columns;
    }
    if (!indexed.empty()) call.indexed = indexed.data();
    run_hooked(hooks.attention, context, call, *reference_);
  }
  return out;
}

Matrix Network::of_index(const OpContext& context, const KernelHooks& hooks) const {
  const Inputs& inputs = context.inputs;
  const std::vector<const Matrix*>& x = inputs.rows;
  Matrix out(x[0]->rows, width(context.op()));
  IndexCall call{.k = x[2]->values.data(), .shape = model->config().index};
  std::vector<int32_t> indexed(out.values.size());
  for (int64_t t = 0; t < out.rows; t += std::max<int64_t>(call.n_tokens, 1)) {
    call.n_tokens = queries_from(inputs, t, out.rows);
    if (call.n_tokens == 0) continue;
    check_interrupted();
    call.q = x[0]->row(t);
    call.weights = x[1]->row(t);
    call.first_position = inputs.position_at(t);
    call.indexed = indexed.data() + t * out.columns;
    run_hooked(hooks.index, context, call, *reference_);
  }
  std::ranges::copy(indexed, out.values.begin());
  return out;
}

// Each position needs all before it.
Matrix Network::of_state(const OpContext& context, const KernelHooks& hooks) const {
  const Inputs& inputs = context.inputs;
  const std::vector<const Matrix*>& x = inputs.rows;
  const Op op = context.op();
  Matrix all(inputs.n_rows() == 0 ? 0 : inputs.position_at(inputs.n_rows() - 1) + 1, width(op));
  const Extra& extra = model->layers[static_cast<size_t>(op.layer)].extra;
  const DeltaShape& shape = model->config().delta;
  std::vector<float> state(static_cast<size_t>(shape.state_size()));
  check_interrupted();
  if (kind_of(op) == OpKind::kSsm) {
    run_hooked(
        hooks.ssm, context,
        SsmCall{.in = x.size() == 2 ? SsmInputs::of_rows(x[0]->values.data(), shape)
                                    : SsmInputs::of_arrays(x[0]->values.data(), x[2]->values.data(),
                                                           x[3]->values.data(), shape),
                .dt = x[1]->values.data(),
                .a = extra.decay,
                .dt_bias = extra.dt,
                .d = extra.skip,
                .shape = shape,
                .state = state.data(),
                .n_tokens = all.rows,
                .out = all.values.data()},
        *reference_);
  } else {
    run_hooked(hooks.delta, context,
               DeltaCall{.qkv = x[0]->values.data(),
                         .alpha = x[1]->values.data(),
                         .beta = x[2]->values.data(),
                         .a = extra.decay,
                         .dt = extra.dt,
                         .shape = shape,
                         .state = state.data(),
                         .n_tokens = all.rows,
                         .out = all.values.data()},
               *reference_);
  }
  Matrix out(inputs.n_rows(), all.columns);
  for (int64_t t = 0; t < out.rows; ++t) {
    std::copy_n(all.row(inputs.position_at(t)), all.columns, out.row(t));
  }
  return out;
}

}  // namespace assay::mistakes
