#include "assay/mistakes/network.h"

#include <algorithm>
#include <cmath>

#include "assay/mistakes/kernel_hooks.h"
#include "base/interrupt.h"
#include "base/thread_pool.h"
#include "engine/rope_table.h"

namespace assay::mistakes {
namespace {

// For products, which take long: those of the thread that asks.
Kernels& cpu() {
  thread_local ThreadPool alone(1);
  thread_local const std::unique_ptr<Kernels> kernels = make_cpu_kernels(alone);
  return *kernels;
}

// Multiplies as the engine does: not at all by 1.
void scale(const OpContext& context, const KernelHooks& hooks, float factor, Matrix& x,
           Kernels& kernels) {
  if (factor == 1.0F) return;
  float* values = x.values.data();
  run_hooked(hooks.scale, context,
             AddCall{.b = values, .count = std::ssize(x.values), .out = values, .scale = factor},
             kernels);
}

}  // namespace

void Network::set_layer(bool is_rotary, bool is_gated) {
  layer_.assign(common_layer().begin(), common_layer().end());
  if (!is_rotary) layer_ = without_op(without_op(layer_, Checkpoint::kQRope), Checkpoint::kKRope);
  if (!is_gated) layer_ = without_op(layer_, Checkpoint::kFfnGate);
}

bool Network::can_compute(Op op) const {
  if (is_in_layer(op.checkpoint) && find_spec(layer(op.layer), op.checkpoint) == nullptr) {
    return false;
  }
  switch (kind_of(op)) {
    case OpKind::kRope:
      return rope.has_value();
    case OpKind::kAttention:
      return n_heads > 0 && n_kv_heads > 0 && head_dim > 0;
    case OpKind::kActivation:
      return activation.has_value();
    case OpKind::kAdd:
      return true;
    case OpKind::kSelect:
    case OpKind::kWeigh:
    case OpKind::kSpread:
    case OpKind::kMix:
    case OpKind::kHeads:
    case OpKind::kIndex:
    case OpKind::kConv:
    case OpKind::kDelta:
    case OpKind::kSsm:
    case OpKind::kCutoff:
    case OpKind::kStreams:
      return model != nullptr;
    case OpKind::kEmbedding:
      return model != nullptr;
    case OpKind::kNorm:
      return model != nullptr || norms.contains(op);
    case OpKind::kLinear:
    case OpKind::kExpertLinear:
    case OpKind::kStreamLinear:
      break;
  }
  return linear(op) != nullptr;
}

std::optional<int64_t> Network::columns(Op op, const std::vector<int64_t>& inputs) const {
  const auto if_fits = [](bool fits, int64_t columns) {
    return fits ? std::optional(columns) : std::nullopt;
  };
  switch (kind_of(op)) {
    case OpKind::kEmbedding:
      return width(op);
    case OpKind::kRope:
      return if_fits(inputs[0] % rope_at(op).head_dim == 0, inputs[0]);
    case OpKind::kAttention: {
      const HeadSizes sizes = heads(op);
      return if_fits(inputs[0] == n_heads * sizes.head_dim &&
                         inputs[1] == sizes.n_kv_heads * sizes.head_dim &&
                         inputs[2] == sizes.n_kv_heads * sizes.value_dim,
                     n_heads * sizes.value_dim);
    }
    case OpKind::kAdd:
    case OpKind::kActivation:
      return if_fits(inputs[0] == inputs.back(), inputs[0]);
    case OpKind::kNorm: {
      const int64_t weights = model != nullptr ? width(op) : std::ssize(norms.at(op).weight);
      return if_fits(inputs[0] == (model != nullptr ? width(this->inputs(op)[0]) : weights),
                     weights);
    }
    case OpKind::kHeads:
    case OpKind::kIndex:
    case OpKind::kConv:
    case OpKind::kDelta:
    case OpKind::kSsm:
    case OpKind::kSelect:
    case OpKind::kWeigh:
    case OpKind::kSpread:
    case OpKind::kExpertLinear:
    case OpKind::kMix:
    case OpKind::kCutoff:
    case OpKind::kStreams:
    case OpKind::kStreamLinear: {
      const std::vector<Op> reads = this->inputs(op);
      bool fits = true;
      for (size_t i = 0; i < reads.size(); ++i) {
        fits = fits && inputs[i] == width(reads[i]);
      }
      return if_fits(fits, width(op));
    }
    case OpKind::kLinear:
      break;
  }
  const WeightMatrix& weight = linear(op)->weight;
  return if_fits(inputs[0] == weight.columns, weight.rows);
}

AttentionShape Network::attention_shape(Op op) const {
  if (model != nullptr) return model->config().attention_shape(op.layer);
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  return {.n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .head_dim = head_dim,
          .scale = static_cast<float>(scale),
          .window = window,
          .own_value_dim = own_value_dim};
}

const RopeSettings& Network::rope_at(Op op) const {
  if (op.checkpoint == Checkpoint::kIndexQRope || op.checkpoint == Checkpoint::kIndexKRope) {
    return index_rope;
  }
  const bool local = model != nullptr && model->config().layer(op.layer).local_rope;
  return local ? local_rope : *rope;
}

NormCall Network::norm_call(Op op) const {
  NormCall call{.kind = norm.value_or(NormKind::kRms), .eps = static_cast<float>(eps)};
  if (model == nullptr) {
    const auto known = norms.find(op);
    if (known == norms.end()) return call;
    call.weight = known->second.weight.data();
    if (!known->second.bias.empty()) call.bias = known->second.bias.data();
    return call;
  }
  const Norm& weights = op.checkpoint == Checkpoint::kEmbedding ? model->embedding_norm
                        : op.layer < 0
                            ? model->output_norm
                            : model->layers[static_cast<size_t>(op.layer)].norm(op.checkpoint);
  const ModelConfig& config = model->config();
  const OpSpec* spec = op.layer < 0 ? nullptr : find_spec(layer(op.layer), op.checkpoint);
  call.width = config.width(Width::kHidden);
  if (spec != nullptr) {
    const LayerConfig& own = config.layer(op.layer);
    call.width = config.width(spec->norm_width, own);
    call.n_weights = config.width(spec->weight_width(), own) / call.width;
    call.eps = config.eps_of(*spec);
    call.kind = config.norm_of(*spec);
  }
  call.weight = weights.weight;
  call.bias = weights.bias;
  return call;
}

bool Network::has_own_activation(Op op) const {
  const OpSpec* spec = op.layer < 0 ? nullptr : find_spec(layer(op.layer), op.checkpoint);
  if (spec == nullptr) return false;
  return spec->own_activation || (spec->kind == OpKind::kConv && spec->n_inputs == 1);
}

bool Network::ends_with_norm(Op op) const {
  return op.checkpoint == Checkpoint::kEmbedding && model != nullptr &&
         model->config().architecture->embedding_norm;
}

float Network::scale_at(Op op) const {
  const OpSpec* spec = op.layer < 0 ? nullptr : find_spec(layer(op.layer), op.checkpoint);
  if (model == nullptr || spec == nullptr) return 1.0F;
  if (spec->kind == OpKind::kAttention) return model->config().value_scale;
  if (spec->kind != OpKind::kAdd) return 1.0F;
  if (spec->tensor.empty()) return spec->scale;
  return model->layers[static_cast<size_t>(op.layer)].extra.scale;
}

std::optional<Activation> Network::activation_at(Op op) const {
  const OpSpec* spec = op.layer < 0 ? nullptr : find_spec(layer(op.layer), op.checkpoint);
  return spec != nullptr && spec->own_activation ? activation_of(*spec->own_activation)
                                                 : activation;
}

const Linear* Network::linear(Op op) const {
  if (model == nullptr) return nullptr;
  if (op.checkpoint == Checkpoint::kLogits) return &output_linear_;
  if (op.layer < 0 || op.layer >= n_layers) return nullptr;
  const Linear& found = model->layers[static_cast<size_t>(op.layer)].linear(op.checkpoint);
  return found.weight.data == nullptr ? nullptr : &found;
}

const float* Network::expert_scales(Op op) const {
  if (model == nullptr || is_of_shared_expert(op.checkpoint)) return nullptr;
  return model->layers[static_cast<size_t>(op.layer)].extra.expert_scales;
}

bool Network::has_norm_weight(Op op) const {
  // Those of the embedding and of the last norm are there both or not at all.
  if (op.layer < 0) return model == nullptr || !model->config().architecture->plain_output_norm;
  const OpSpec* spec = find_spec(layer(op.layer), op.checkpoint);
  return spec == nullptr || !spec->tensor.empty();
}

bool Network::has_bias(Op op) const {
  if (model == nullptr) return false;
  if (kind_of(op) == OpKind::kSelect) {
    return model->layers[static_cast<size_t>(op.layer)].extra.choice_bias != nullptr;
  }
  if (kind_of(op) == OpKind::kNorm || ends_with_norm(op)) return norm_call(op).bias != nullptr;
  if (has_state(kind_of(op))) return true;
  if (kind_of(op) == OpKind::kConv) {
    return model->layers[static_cast<size_t>(op.layer)].extra.conv_bias != nullptr;
  }
  const Linear* found = linear(op);
  return found != nullptr && found->bias != nullptr;
}

Matrix Network::look_up(const OpContext& context, const KernelHooks& hooks) const {
  const std::vector<int32_t>& tokens = context.inputs.tokens;
  const auto count = std::ssize(tokens);
  Matrix out(count, model->token_embedding.columns);
  run_hooked(hooks.get_rows, context,
             GetRowsCall{model->token_embedding, tokens.data(), count, out.values.data()}, cpu());
  scale(context, hooks, model->config().embedding_factor(), out, *reference_);
  if (ends_with_norm(context.op())) {
    NormCall call = norm_call(context.op());
    call.x = call.out = out.values.data();
    call.n_tokens = count;
    run_hooked(hooks.norm, context, call, *reference_);
  }
  if (model->config().architecture->position != PositionKind::kLearned) return out;
  const std::vector<int64_t>& positions = context.inputs.positions;
  const std::vector<int32_t> rows(positions.begin(), positions.end());
  Matrix learned(count, out.columns);
  run_hooked(
      hooks.get_rows, context,
      GetRowsCall{model->position_embedding, rows.data(), count, learned.values.data(), true},
      cpu());
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] += learned.values[i];
  return out;
}

Matrix Network::look_up_of_layer(const OpContext& context, const KernelHooks& hooks) const {
  const std::vector<int32_t> tokens = model->ple_rows(context.inputs.tokens);
  const auto count = std::ssize(tokens);
  const ModelConfig& config = model->config();
  Matrix rows(count, model->ple_embedding.columns);
  run_hooked(hooks.get_rows, context,
             GetRowsCall{model->ple_embedding, tokens.data(), count, rows.values.data()}, cpu());
  Matrix out(count, config.ple_length);
  run_hooked(hooks.heads, context,
             HeadsCall{rows.values.data(), nullptr, config.ple_parts(context.op().layer), count, 1,
                       out.values.data()},
             *reference_);
  scale(context, hooks, config.ple_factor(), out, *reference_);
  return out;
}

Matrix Network::compute(Op op, const Inputs& inputs) const {
  return compute(op, inputs, {}, 0);
}

Matrix Network::compute(Op op, const Inputs& inputs, const KernelHooks& hooks,
                        double parameter) const {
  const OpSite site{.checkpoint = op.checkpoint, .layer = std::max(op.layer, 0)};
  const OpContext context{site, at(op), inputs, parameter, n_prompt};
  Matrix out = compute_hooked(context, hooks);
  if (hooks.after) hooks.after(context, {out.values.data(), out.rows, out.columns});
  return out;
}

Matrix Network::compute_hooked(const OpContext& context, const KernelHooks& hooks) const {
  const Inputs& inputs = context.inputs;
  const std::vector<const Matrix*>& x = inputs.rows;
  const Op op = context.op();
  switch (kind_of(op)) {
    case OpKind::kEmbedding:
      return op.layer < 0 ? look_up(context, hooks) : look_up_of_layer(context, hooks);
    case OpKind::kNorm: {
      Matrix out(x[0]->rows, model != nullptr ? width(op) : x[0]->columns);
      NormCall call = norm_call(op);
      call.x = x[0]->values.data();
      if (call.width == 0) call.width = out.columns;
      if (out.columns < x[0]->columns) call.x_width = x[0]->columns;
      call.n_tokens = out.rows * out.columns / call.width;
      call.out = out.values.data();
      const bool gate_first = x.size() > 1 && find_spec(layer(op.layer), op.checkpoint)->gate_first;
      if (gate_first) {
        out.values = x[0]->values;
        activate_in_place(context, hooks, x[1]->values.data(), out);
        call.x = out.values.data();
      }
      run_hooked(hooks.norm, context, call, *reference_);
      if (x.size() > 1 && !gate_first) {
        activate_in_place(context, hooks, x[1]->values.data(), out);
      }
      return out;
    }
    case OpKind::kSelect:
    case OpKind::kWeigh:
    case OpKind::kSpread:
    case OpKind::kExpertLinear:
    case OpKind::kMix:
      return of_experts(context, hooks);
    case OpKind::kCutoff:
    case OpKind::kStreams:
    case OpKind::kStreamLinear:
      return of_streams(context, hooks);
    case OpKind::kLinear:
      break;
    case OpKind::kRope: {
      Matrix out(x[0]->rows, x[0]->columns);
      std::vector<float> table;
      if (!hooks.rope) {
        table = rope_table(rope_at(op), {inputs.positions.begin(), inputs.positions.end()});
      }
      run_hooked(hooks.rope, context, rope_call(*x[0], rope_at(op), table, out), *reference_);
      return out;
    }
    case OpKind::kHeads: {
      Matrix out(x[0]->rows, width(op));
      const OpSpec& spec = *find_spec(layer(op.layer), op.checkpoint);
      run_hooked(hooks.heads, context,
                 HeadsCall{x[0]->values.data(), x.size() > 1 ? x[1]->values.data() : nullptr,
                           model->config().head_parts(spec), out.rows,
                           model->config().n_heads_of(spec), out.values.data()},
                 *reference_);
      return out;
    }
    case OpKind::kIndex:
      return of_index(context, hooks);
    case OpKind::kAttention: {
      Matrix out = of_attention(context, hooks);
      scale(context, hooks, scale_at(op), out, *reference_);
      return out;
    }
    case OpKind::kConv:
      return of_convolution(context, hooks);
    case OpKind::kDelta:
    case OpKind::kSsm:
      return of_state(context, hooks);
    case OpKind::kActivation: {
      Matrix out(x[0]->rows, x[0]->columns);
      ActivateCall call = activate_call(x.size() > 1 ? x[1] : nullptr, *x[0], out);
      if (model != nullptr) call.xielu = model->config().layer(op.layer).xielu;
      if (is_clip(op)) {
        call.kind = ActivationKind::kClip;
        call.cap = model->config().clip;
        run_hooked(hooks.activate, context, call, *reference_);
      } else if (hooks.activate) {
        hooks.activate(context, call, *reference_);
      } else {
        activate(call, *activation_at(op), *reference_);
      }
      return out;
    }
    case OpKind::kAdd: {
      Matrix out(x[0]->rows, x[0]->columns);
      run_hooked(hooks.add, context,
                 AddCall{.a = x[0]->values.data(),
                         .b = x[1]->values.data(),
                         .count = std::ssize(out.values),
                         .out = out.values.data(),
                         .scale = model != nullptr && op.checkpoint != Checkpoint::kFfnOut
                                      ? model->config().residual_factor()
                                      : 1.0F},
                 *reference_);
      scale(context, hooks, scale_at(op), out, *reference_);
      return out;
    }
  }
  const Linear& weights = *linear(op);
  Matrix out(x[0]->rows, weights.weight.rows);
  run_hooked(
      hooks.matmul, context,
      MatmulCall{weights.weight, weights.bias, x[0]->values.data(), out.rows, out.values.data()},
      cpu());
  if (op.checkpoint != Checkpoint::kLogits) return out;
  scale(context, hooks, model->config().logit_factor(), out, *reference_);
  if (const float cap = model->config().logit_soft_cap; cap > 0.0F) {
    float* values = out.values.data();
    run_hooked(hooks.cap, context,
               ActivateCall{.kind = ActivationKind::kSoftCap,
                            .x = values,
                            .count = std::ssize(out.values),
                            .out = values,
                            .cap = cap},
               *reference_);
  }
  return out;
}

// Ids as they are logged; below 0 what is no expert's.
std::vector<int32_t> Network::expert_ids(const Matrix& logged) const {
  const auto n_experts = static_cast<float>(model->config().routing.n_experts);
  std::vector<int32_t> ids;
  for (const float id : logged.values) {
    ids.push_back(id >= 0 && id < n_experts ? static_cast<int32_t>(id) : -1);
  }
  return ids;
}

// Rows with an id that no expert has become NaN.
Matrix Network::of_experts(const OpContext& context, const KernelHooks& hooks) const {
  const std::vector<const Matrix*>& x = context.inputs.rows;
  const Op op = context.op();
  const Routing routing = model->config().routing_of(op.checkpoint);
  Matrix out(x[0]->rows, width(op));
  if (kind_of(op) == OpKind::kSelect) {
    std::vector<int32_t> ids(out.values.size());
    const Layer& layer = model->layers[static_cast<size_t>(op.layer)];
    run_hooked(
        hooks.select, context,
        SelectCall{x[0]->values.data(), layer.extra.choice_bias, routing, out.rows, ids.data()},
        *reference_);
    std::copy(ids.begin(), ids.end(), out.values.begin());
    return out;
  }
  if (kind_of(op) == OpKind::kSpread) {
    run_hooked(hooks.spread, context,
               SpreadCall{x[0]->values.data(), x[1]->values.data(), out.rows, routing.n_used,
                          out.columns / routing.n_used, out.values.data()},
               *reference_);
    return out;
  }
  if (kind_of(op) == OpKind::kMix) {
    const float* weights = x.size() > 1 ? x[1]->values.data() : nullptr;
    run_hooked(hooks.mix, context,
               MixCall{x[0]->values.data(), weights, out.rows, routing.n_used, out.columns,
                       out.values.data()},
               *reference_);
    return out;
  }
  std::vector<int32_t> ids =
      x.size() > 1 ? expert_ids(*x[1]) : std::vector<int32_t>(static_cast<size_t>(out.rows));
  std::vector<bool> known(static_cast<size_t>(out.rows));
  for (int64_t t = 0; t < out.rows; ++t) {
    const auto own = std::span(ids).subspan(static_cast<size_t>(t * routing.n_used),
                                            static_cast<size_t>(routing.n_used));
    known[static_cast<size_t>(t)] = std::ranges::none_of(own, [](int32_t id) { return id < 0; });
    if (!known[static_cast<size_t>(t)]) std::ranges::fill(own, 0);
  }
  if (kind_of(op) == OpKind::kWeigh) {
    run_hooked(hooks.weigh, context,
               WeighCall{x[0]->values.data(),
                         ids.data(),
                         routing,
                         out.rows,
                         out.values.data(),
                         {},
                         expert_scales(op)},
               *reference_);
  }
  for (int64_t t = 0; t < out.rows; ++t) {
    const int32_t* own = ids.data() + t * routing.n_used;
    if (!known[static_cast<size_t>(t)]) {
      std::fill_n(out.row(t), out.columns, NAN);
    } else if (kind_of(op) != OpKind::kWeigh) {
      check_interrupted();
      const Linear& experts = *linear(op);
      const int64_t rows = experts.rows_of_expert(routing.n_experts);
      const bool input_per_slot = x[0]->columns == routing.n_used * experts.weight.columns;
      for (int64_t j = 0; j < routing.n_used; ++j) {
        run_hooked(hooks.matmul, context,
                   MatmulCall{experts.expert(own[j], routing.n_experts),
                              experts.bias_of_expert(own[j], routing.n_experts),
                              x[0]->row(t) + (input_per_slot ? j * experts.weight.columns : 0), 1,
                              out.row(t) + j * rows},
                   cpu());
      }
    }
  }
  return out;
}

// Of a checkpoint that products and experts' products compute, that which this layer has.
OpKind Network::kind_of(Op op) const {
  if (model != nullptr && op.layer >= 0) {
    if (const OpSpec* spec = find_spec(layer(op.layer), op.checkpoint)) return spec->kind;
  }
  return assay::kind_of(op.checkpoint);
}

}  // namespace assay::mistakes
