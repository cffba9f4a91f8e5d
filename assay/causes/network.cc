#include "assay/causes/network.h"

#include <array>
#include <cmath>

#include "assay/compare/checkpoint_order.h"
#include "engine/rope_table.h"

namespace assay::causes {
std::optional<Op> find_op(const std::string& checkpoint) {
  const CheckpointName name = parse_checkpoint_name(checkpoint);
  if (!name.known) return std::nullopt;
  for (int i = 0; i <= static_cast<int>(Checkpoint::kLogits); ++i) {
    const Op op{static_cast<Checkpoint>(i),
                is_in_layer(static_cast<Checkpoint>(i)) ? name.layer : -1};
    if (op.name() == checkpoint) return op;
  }
  return std::nullopt;
}

bool is_linear(Checkpoint checkpoint) {
  switch (checkpoint) {
    case Checkpoint::kQ:
    case Checkpoint::kK:
    case Checkpoint::kV:
    case Checkpoint::kAttnOut:
    case Checkpoint::kFfnGate:
    case Checkpoint::kFfnUp:
    case Checkpoint::kFfnOut:
    case Checkpoint::kLogits:
      return true;
    default:
      return false;
  }
}

bool is_norm(Checkpoint checkpoint) {
  return checkpoint == Checkpoint::kAttnNorm || checkpoint == Checkpoint::kFfnNorm ||
         checkpoint == Checkpoint::kFinalNorm;
}

std::vector<Op> Network::inputs(Op op) const {
  const int layer = op.layer;
  const auto here = [&](Checkpoint checkpoint) { return Op{checkpoint, layer}; };
  const auto output_of = [](int number) {
    return number < 0 ? Op{Checkpoint::kEmbedding, -1} : Op{Checkpoint::kOutput, number};
  };
  switch (op.checkpoint) {
    case Checkpoint::kEmbedding:
      return {};
    case Checkpoint::kAttnNorm:
      return {output_of(layer - 1)};
    case Checkpoint::kQ:
    case Checkpoint::kK:
    case Checkpoint::kV:
      return {here(Checkpoint::kAttnNorm)};
    case Checkpoint::kQRope:
      return {here(Checkpoint::kQ)};
    case Checkpoint::kKRope:
      return {here(Checkpoint::kK)};
    case Checkpoint::kAttn:
      return {here(rotary ? Checkpoint::kQRope : Checkpoint::kQ),
              here(rotary ? Checkpoint::kKRope : Checkpoint::kK), here(Checkpoint::kV)};
    case Checkpoint::kAttnOut:
      return {here(Checkpoint::kAttn)};
    case Checkpoint::kAttnResidual:
      return {output_of(layer - 1), here(Checkpoint::kAttnOut)};
    case Checkpoint::kFfnNorm:
      return {here(Checkpoint::kAttnResidual)};
    case Checkpoint::kFfnGate:
    case Checkpoint::kFfnUp:
      return {here(Checkpoint::kFfnNorm)};
    case Checkpoint::kFfnAct:
      if (!gated) return {here(Checkpoint::kFfnUp)};
      return {here(Checkpoint::kFfnUp), here(Checkpoint::kFfnGate)};
    case Checkpoint::kFfnOut:
      return {here(Checkpoint::kFfnAct)};
    case Checkpoint::kOutput:
      return {here(Checkpoint::kAttnResidual), here(Checkpoint::kFfnOut)};
    case Checkpoint::kFinalNorm:
      return {output_of(n_layers - 1)};
    case Checkpoint::kLogits:
      return {{Checkpoint::kFinalNorm, -1}};
  }
  return {};
}

bool Network::can_compute(Op op) const {
  switch (op.checkpoint) {
    case Checkpoint::kQRope:
    case Checkpoint::kKRope:
      return rope.has_value();
    case Checkpoint::kAttn:
      return n_heads > 0 && n_kv_heads > 0 && head_dim > 0;
    case Checkpoint::kFfnAct:
      return activation.has_value();
    case Checkpoint::kAttnResidual:
    case Checkpoint::kOutput:
      return true;
    default:
      return model != nullptr || norms.contains(op);
  }
}

std::optional<int64_t> Network::columns(Op op, const std::vector<int64_t>& inputs) const {
  const auto if_fits = [](bool fits, int64_t columns) {
    return fits ? std::optional(columns) : std::nullopt;
  };
  switch (op.checkpoint) {
    case Checkpoint::kEmbedding:
      return model->token_embedding.columns;
    case Checkpoint::kQRope:
    case Checkpoint::kKRope:
      return if_fits(inputs[0] % rope->head_dim == 0, inputs[0]);
    case Checkpoint::kAttn:
      return if_fits(inputs[0] == n_heads * head_dim && inputs[1] == n_kv_heads * head_dim &&
                         inputs[2] == inputs[1],
                     inputs[0]);
    case Checkpoint::kAttnResidual:
    case Checkpoint::kOutput:
      return if_fits(inputs[0] == inputs[1], inputs[0]);
    case Checkpoint::kFfnAct:
      return if_fits(!gated || inputs[0] == inputs[1], inputs[0]);
    default:
      break;
  }
  if (is_norm(op.checkpoint)) {
    const int64_t weights =
        model != nullptr ? width(op.checkpoint) : std::ssize(norms.at(op).weight);
    return if_fits(inputs[0] == weights, weights);
  }
  const WeightMatrix& weight = linear(op)->weight;
  return if_fits(inputs[0] == weight.columns, weight.rows);
}

int64_t Network::width(Checkpoint checkpoint) const {
  if (model == nullptr) return 0;
  const ModelConfig& config = model->config();
  switch (checkpoint) {
    case Checkpoint::kQ:
    case Checkpoint::kQRope:
    case Checkpoint::kAttn:
      return config.q_width();
    case Checkpoint::kK:
    case Checkpoint::kKRope:
    case Checkpoint::kV:
      return config.kv_width();
    case Checkpoint::kFfnGate:
    case Checkpoint::kFfnUp:
    case Checkpoint::kFfnAct:
      return config.feed_forward_length;
    case Checkpoint::kLogits:
      return config.n_vocab;
    default:
      return config.embedding_length;
  }
}

AttentionSettings Network::attention_settings() const {
  const int64_t group = n_heads / n_kv_heads;
  return {.n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .head_dim = head_dim,
          .scale = 1.0 / std::sqrt(static_cast<double>(head_dim)),
          .sees = [width = window](
                      int64_t query,
                      int64_t key) { return key <= query && (width == 0 || key > query - width); },
          .kv_head = [group](int64_t head) { return head / group; },
          .k_row = {},
          .round_score = nullptr,
          .round_before_scale = false,
          .v_row = {}};
}

NormSettings Network::norm_settings(Op op) const {
  NormSettings settings{.kind = norm.value_or(NormKind::kRms), .eps = eps};
  if (model == nullptr) {
    const auto known = norms.find(op);
    if (known == norms.end()) return settings;
    settings.weight = known->second.weight.data();
    if (!known->second.bias.empty()) settings.bias = known->second.bias.data();
    return settings;
  }
  const Norm* weights = &model->output_norm;
  if (op.layer >= 0) {
    const Layer& layer = model->layers[static_cast<size_t>(op.layer)];
    weights = op.checkpoint == Checkpoint::kAttnNorm ? &layer.attn_norm : &layer.ffn_norm;
  }
  settings.weight = weights->weight;
  settings.bias = weights->bias;
  return settings;
}

const Linear* Network::linear(Op op) const {
  if (model == nullptr) return nullptr;
  if (op.checkpoint == Checkpoint::kLogits) return &output_linear_;
  if (op.layer < 0 || op.layer >= n_layers) return nullptr;
  const Layer& layer = model->layers[static_cast<size_t>(op.layer)];
  switch (op.checkpoint) {
    case Checkpoint::kQ:
      return &layer.q;
    case Checkpoint::kK:
      return &layer.k;
    case Checkpoint::kV:
      return &layer.v;
    case Checkpoint::kAttnOut:
      return &layer.attn_out;
    case Checkpoint::kFfnGate:
      return &layer.ffn_gate;
    case Checkpoint::kFfnUp:
      return &layer.ffn_up;
    case Checkpoint::kFfnOut:
      return &layer.ffn_down;
    default:
      return nullptr;
  }
}

Matrix Network::multiply(const Linear& weights, const Matrix& x) const {
  if (x.columns != weights.weight.columns) return {};
  Matrix out(x.rows, weights.weight.rows);
  kernels->matmul(weights.weight, weights.bias, x.values.data(), x.rows, out.values.data());
  return out;
}

Matrix Network::look_up(const std::vector<int32_t>& tokens,
                        const std::vector<int64_t>& positions) const {
  const auto count = static_cast<int64_t>(tokens.size());
  Matrix out(count, model->token_embedding.columns);
  kernels->get_rows(model->token_embedding, tokens.data(), count, out.values.data());
  if (rotary) return out;
  std::vector<int32_t> rows(positions.begin(), positions.end());
  Matrix learned(count, out.columns);
  kernels->get_rows(model->position_embedding, rows.data(), count, learned.values.data());
  return add(out, learned);
}

Matrix Network::compute(Op op, const Inputs& inputs) const {
  switch (op.checkpoint) {
    case Checkpoint::kEmbedding:
      return look_up(inputs.tokens, inputs.positions);
    case Checkpoint::kQRope:
    case Checkpoint::kKRope:
      return causes::rope(*inputs.rows[0], *rope,
                          {inputs.positions.begin(), inputs.positions.end()});
    case Checkpoint::kAttn:
      return attention(*inputs.rows[0], *inputs.rows[1], *inputs.rows[2], attention_settings(),
                       inputs.wanted);
    case Checkpoint::kAttnResidual:
    case Checkpoint::kOutput:
      return add(*inputs.rows[0], *inputs.rows[1]);
    case Checkpoint::kFfnAct:
      return activate(gated ? inputs.rows[1] : nullptr, *inputs.rows[0], *activation);
    default:
      break;
  }
  if (is_norm(op.checkpoint)) return causes::norm(*inputs.rows[0], norm_settings(op));
  return multiply(*linear(op), *inputs.rows[0]);
}

Network Network::of_model(const Model& model, int64_t n_positions) {
  const ModelConfig& config = model.config();
  const Architecture& architecture = *config.architecture;
  Network network;
  network.n_layers = static_cast<int>(config.n_layers);
  network.n_heads = config.n_heads;
  network.n_kv_heads = config.n_kv_heads;
  network.head_dim = config.head_dim;
  network.window = config.sliding_window;
  network.rotary = architecture.position == PositionKind::kRotary;
  network.gated = architecture.ffn == FfnKind::kSiluGated;
  network.activation = network.gated ? Activation::kSilu : Activation::kGeluTanh;
  network.norm = architecture.norm;
  network.eps = config.norm_eps;
  if (network.rotary) {
    network.rope = RopeSettings();
    network.rope->pairing = architecture.rope_pairing;
    network.rope->head_dim = config.head_dim;
    network.rope->frequencies = rotary_frequencies(config, rope_factors_for(model, n_positions));
    network.rope->base = config.rope_freq_base;
    network.rope->factor = config.rope_attn_factor;
  }
  network.model = &model;
  network.pool = std::make_shared<ThreadPool>(0);
  network.kernels = make_cpu_kernels(*network.pool);
  network.output_linear_.weight = model.output;
  return network;
}

}  // namespace assay::causes
