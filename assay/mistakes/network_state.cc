#include <algorithm>

#include "assay/mistakes/kernel_hooks.h"
#include "assay/mistakes/network.h"
#include "base/interrupt.h"

// What Network computes of convolutions, linear attention and state space models, from all
// positions so far.
namespace assay::mistakes {

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
    run_hooked(hooks.ssm, context,
               SsmCall{.xbc = x[0]->values.data(),
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
