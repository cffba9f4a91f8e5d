#include "engine/decoder.h"

#include <algorithm>
#include <bit>

#include "engine/rope_table.h"

namespace assay {
namespace {

constexpr size_t kStateWords = 2;

// Positions whose angles are in memory.
constexpr int64_t kAngles = 64;

// Recordings differ in how many keys they have room for: so many at least, else powers of two.
constexpr int64_t kMinKeys = 256;

FusedLinear linear(const Linear& of) {
  return {of.weight, of.bias};
}

}  // namespace

std::unique_ptr<Decoder> Decoder::make(const ModelConfig& config, const Weights& weights,
                                       Kernels& kernels, KvCache& kv,
                                       const std::vector<float>& rope_factors) {
  const FusedKernels* fused = kernels.fused();
  if (fused == nullptr || !takes(config, weights, *fused)) return nullptr;
  return std::unique_ptr<Decoder>(new Decoder(config, weights, kernels, kv, rope_factors));
}

// Whether the fused kernels compute all that the network has beside its ops.
bool Decoder::is_common(const ModelConfig& config, const Weights& weights) {
  const Architecture& architecture = *config.architecture;
  const LayerConfig& first = config.layers.front();
  const bool gated = find_spec(first.ops, Checkpoint::kFfnGate) != nullptr;
  const bool common_activation =
      config.activation == (gated ? ActivationKind::kSilu : ActivationKind::kGeluTanh);
  return architecture.multipliers == 0 && config.embedding_factor() == 1.0F && common_activation &&
         config.attention_soft_cap == 0.0F && config.logit_soft_cap == 0.0F &&
         config.attention_temperature == 0.0F && config.max_alibi_bias == 0.0 &&
         config.value_scale == 1.0F && weights.output.bias == nullptr &&
         std::ranges::all_of(config.layers, [&](const LayerConfig& layer) {
           return layer.ops == first.ops && layer.window == first.window && !layer.local_rope &&
                  !layer.own_heads;
         });
}

bool Decoder::takes(const ModelConfig& config, const Weights& weights, const FusedKernels& fused) {
  const std::span<const OpSpec> ops = config.layers.front().ops;
  const auto groups = fuse_layer(ops);
  if (!groups || !is_common(config, weights)) return false;
  const int64_t width = config.embedding_length;
  const auto takes_group = [&](const FusedGroup& group, const Layer& layer) {
    if (group.kind == FusedKind::kAttention) return true;
    std::vector<TensorType> types;
    for (const OpSpec& op : group.ops) {
      if (op.kind == OpKind::kLinear) types.push_back(layer.linear(op.out).weight.type);
    }
    const bool is_normed = group.kind != FusedKind::kResidual;
    const OpSpec& first = group.ops.front();
    const Width input = is_normed ? first.width : input_width(ops, first);
    return fused.takes(config.width(input), is_normed, types);
  };
  const TensorType output[] = {weights.output.weight.type};
  return fused.takes(width, true, output) &&
         std::all_of(weights.layers.begin(), weights.layers.end(), [&](const Layer& layer) {
           return std::all_of(groups->begin(), groups->end(),
                              [&](const FusedGroup& group) { return takes_group(group, layer); });
         });
}

Decoder::Decoder(const ModelConfig& config, const Weights& weights, Kernels& kernels, KvCache& kv,
                 const std::vector<float>& rope_factors)
    : config_(config),
      weights_(weights),
      fused_(*kernels.fused()),
      memory_(kernels.memory()),
      kv_(kv),
      rope_factors_(rope_factors),
      groups_(*fuse_layer(config.layers.front().ops)),
      shape_(config.attention_shape(0)) {
  const auto floats = [this](int64_t count) {
    return Buffer<float>(memory_, static_cast<size_t>(count));
  };
  state_ = Buffer<int32_t>(memory_, kStateWords);
  angles_ = floats(kAngles * config.rotary_dim);
  x_ = floats(config.embedding_length);
  q_ = floats(config.q_width());
  attn_ = floats(config.q_width());
  act_ = floats(config.feed_forward_length);
  logits_ = floats(config.n_vocab);
  const auto most = static_cast<size_t>(key_capacity(kv.capacity() - 1));
  attention_scratch_ =
      Buffer<std::byte>(memory_, fused_.attention_scratch(shape_, static_cast<int64_t>(most)));
  choice_scratch_ = Buffer<std::byte>(memory_, fused_.choice_scratch(config.n_vocab));
  choices_ = fused_.host_choices();
  choosable_ = Buffer<uint8_t>(memory_, static_cast<size_t>(config.n_vocab));
  set_choosable({});
  token_ = {state_.data(), state_.data() + 1, angles_.data(), static_cast<int32_t>(kAngles)};
}

void Decoder::set_choosable(const std::vector<bool>& choosable) {
  std::vector<uint8_t> bytes(static_cast<size_t>(config_.n_vocab));
  std::copy_n(choosable.begin(), std::min(choosable.size(), bytes.size()), bytes.begin());
  memory_.upload(bytes.data(), bytes.size(), choosable_.data());
  forget_next();
}

void Decoder::evaluate(int32_t token, int64_t position, Probe* probe, bool with_logits) {
  place(token, position);
  const auto wants = [&](Checkpoint checkpoint, int layer) {
    return probe != nullptr && probe->wants(checkpoint, layer);
  };
  bool probes_layers = wants(Checkpoint::kEmbedding, 0) || wants(Checkpoint::kFinalNorm, 0);
  for (int layer = 0; layer < config_.n_layers && !probes_layers; ++layer) {
    const std::span<const OpSpec> ops = config_.layers.front().ops;
    probes_layers =
        std::any_of(ops.begin(), ops.end(), [&](const OpSpec& op) { return wants(op.out, layer); });
  }
  with_logits = with_logits || wants(Checkpoint::kLogits, 0);
  if (!probes_layers) {
    replay(position, with_logits ? End::kLogits : End::kLayers);
  } else {
    fused_.embed({weights_.token_embedding, weights_.position_embedding, token_, x_.data()});
    observe(probe, Checkpoint::kEmbedding, 0, x_.data(), config_.embedding_length);
    for (int layer = 0; layer < config_.n_layers; ++layer) {
      launch_layer(layer, key_capacity(position), probe);
    }
    if (with_logits || wants(Checkpoint::kFinalNorm, 0)) launch_logits(probe);
  }
  observe(probe, Checkpoint::kLogits, 0, logits_.data(), config_.n_vocab);
}

std::optional<int32_t> Decoder::evaluate_and_choose(int32_t token, int64_t position) {
  if (next_ != Next{token, position}) {
    place(token, position);
    begin_step(position);
  }
  next_.reset();
  const bool goes_on = position + 1 < kv_.capacity();
  if (goes_on) begin_step(position + 1);
  const auto slot = static_cast<int32_t>(position % kChoices);
  fused_.await(slot);
  const int32_t id = choices_[slot];
  if (id < 0) {
    evaluate(token, position, nullptr, true);
    return std::nullopt;
  }
  if (goes_on) next_ = {id, position + 1};
  return id;
}

// Of the token in state_, which the launches then make the next one.
void Decoder::begin_step(int64_t position) {
  place_angles(position);
  replay(position, End::kChoice);
  fused_.mark(static_cast<int32_t>(position % kChoices));
}

// What the recorded launches read of the token.
void Decoder::place(int32_t token, int64_t position) {
  forget_next();
  position_ = position;
  const int32_t state[kStateWords] = {token, static_cast<int32_t>(position)};
  memory_.upload(state, sizeof(state), state_.data());
  place_angles(position);
}

// From `position` to the next multiple of kAngles. The device copies them after the steps before.
void Decoder::place_angles(int64_t position) {
  if (config_.architecture->position != PositionKind::kRotary) return;
  if (position >= first_angle_ && position < end_of_angles_) return;
  first_angle_ = position;
  end_of_angles_ = (position / kAngles + 1) * kAngles;
  const std::vector<float> table =
      rope_table(config_, rope_factors_, position, end_of_angles_ - position);
  memory_.upload(table.data(), table.size() * sizeof(float),
                 angles_.data() + position % kAngles * config_.rotary_dim);
}

int64_t Decoder::visible_keys(int64_t position) const {
  const int64_t all = position + 1;
  return shape_.window > 0 ? std::min(all, shape_.window) : all;
}

int64_t Decoder::key_capacity(int64_t position) const {
  const int64_t most = visible_keys(kv_.capacity() - 1);
  const auto seen = static_cast<uint64_t>(std::max(visible_keys(position), kMinKeys));
  return std::min(most, static_cast<int64_t>(std::bit_ceil(seen)));
}

void Decoder::replay(int64_t position, End end) {
  const int64_t keys = key_capacity(position);
  std::unique_ptr<Recording>& recording = recordings_[{keys, end}];
  if (recording == nullptr) {
    recording = fused_.record([&] { launch(keys, end); });
  }
  recording->replay();
}

void Decoder::launch(int64_t keys, End end) {
  fused_.embed({weights_.token_embedding, weights_.position_embedding, token_, x_.data()});
  for (int layer = 0; layer < config_.n_layers; ++layer) launch_layer(layer, keys, nullptr);
  if (end == End::kLayers) return;
  launch_logits(nullptr);
  if (end == End::kLogits) return;
  fused_.choose({logits_.data(), choosable_.data(), config_.n_vocab, choice_scratch_.data(),
                 choices_, state_.data(), state_.data() + 1});
}

void Decoder::launch_layer(int layer, int64_t keys, Probe* probe) {
  for (const FusedGroup& group : groups_) {
    switch (group.kind) {
      case FusedKind::kQkv:
        launch_qkv(group, layer, probe);
        break;
      case FusedKind::kAttention:
        fused_.attention(
            {q_.data(), kv_.layer(layer), shape_, token_, keys, attention_scratch_.data(),
             attn_.data(),
             weights_.layers[static_cast<size_t>(layer)].linear(Checkpoint::kAttnOut).weight.type});
        break;
      case FusedKind::kResidual:
        launch_residual(group, layer, probe);
        break;
      case FusedKind::kActivation:
        launch_activation(group, layer, probe);
        break;
    }
    for (const OpSpec& op : group.ops) {
      observe(probe, op.out, layer, value(op), config_.width(op.width));
    }
  }
}

// Where the result of an op stands once its group is done, if anybody sees it.
const float* Decoder::value(const OpSpec& op) const {
  switch (op.kind) {
    case OpKind::kAttention:
      return attn_.data();
    case OpKind::kActivation:
      return act_.data();
    case OpKind::kAdd:
      return x_.data();
    case OpKind::kRope:
      if (op.width == Width::kQ) return q_.data();
      break;
    default:
      break;
  }
  return probe_buffers_[static_cast<size_t>(op.out)].data();
}

void Decoder::launch_qkv(const FusedGroup& group, int layer, Probe* probe) {
  const Layer& weights = weights_.layers[static_cast<size_t>(layer)];
  const bool rotates = group.find(Checkpoint::kQRope) != nullptr;
  FusedQkv qkv;
  qkv.x = x_.data();
  qkv.norm = fused(weights.norm(Checkpoint::kAttnNorm));
  qkv.q = linear(weights.linear(Checkpoint::kQ));
  qkv.k = linear(weights.linear(Checkpoint::kK));
  qkv.v = linear(weights.linear(Checkpoint::kV));
  qkv.head_dim = config_.head_dim;
  qkv.rotary_dim = rotates ? config_.rotary_dim : 0;
  qkv.pairing = config_.architecture->rope_pairing;
  qkv.token = token_;
  qkv.kv_type = kv_.type();
  qkv.k_cache = kv_.k_slot(layer, 0);
  qkv.v_cache = kv_.v_slot(layer, 0);
  qkv.q_out = q_.data();
  qkv.normed_seen = probe_buffer(probe, Checkpoint::kAttnNorm, layer);
  qkv.q_seen = probe_buffer(probe, Checkpoint::kQ, layer);
  qkv.k_seen = probe_buffer(probe, Checkpoint::kK, layer);
  qkv.v_seen = probe_buffer(probe, Checkpoint::kV, layer);
  if (rotates) qkv.k_rope_seen = probe_buffer(probe, Checkpoint::kKRope, layer);
  fused_.qkv(qkv);
}

void Decoder::launch_residual(const FusedGroup& group, int layer, Probe* probe) {
  const OpSpec& product = group.ops.front();
  const Layer& weights = weights_.layers[static_cast<size_t>(layer)];
  const float* x = product.in.front() == Checkpoint::kAttn ? attn_.data() : act_.data();
  fused_.residual(
      {x, linear(weights.linear(product.out)), x_.data(), probe_buffer(probe, product.out, layer)});
}

void Decoder::launch_activation(const FusedGroup& group, int layer, Probe* probe) {
  const Layer& weights = weights_.layers[static_cast<size_t>(layer)];
  const bool gated = group.find(Checkpoint::kFfnGate) != nullptr;
  FusedActivation activation;
  activation.x = x_.data();
  activation.norm = fused(weights.norm(Checkpoint::kFfnNorm));
  activation.gate = linear(weights.linear(Checkpoint::kFfnGate));
  activation.up = linear(weights.linear(Checkpoint::kFfnUp));
  activation.act = act_.data();
  activation.normed_seen = probe_buffer(probe, Checkpoint::kFfnNorm, layer);
  if (gated) activation.gate_seen = probe_buffer(probe, Checkpoint::kFfnGate, layer);
  activation.up_seen = probe_buffer(probe, Checkpoint::kFfnUp, layer);
  fused_.activation(activation);
}

void Decoder::launch_logits(Probe* probe) {
  fused_.logits({x_.data(), fused(weights_.output_norm), weights_.output.weight, logits_.data(),
                 probe_buffer(probe, Checkpoint::kFinalNorm, 0)});
  observe(probe, Checkpoint::kFinalNorm, 0,
          probe_buffers_[static_cast<size_t>(Checkpoint::kFinalNorm)].data(),
          config_.embedding_length);
}

FusedNorm Decoder::fused(const Norm& norm) const {
  return {config_.norm, norm.weight, norm.bias, config_.norm_eps};
}

float* Decoder::probe_buffer(Probe* probe, Checkpoint checkpoint, int layer) {
  if (probe == nullptr || !probe->wants(checkpoint, layer)) return nullptr;
  Buffer<float>& buffer = probe_buffers_[static_cast<size_t>(checkpoint)];
  if (buffer.size() == 0) {
    buffer = Buffer<float>(memory_, static_cast<size_t>(config_.width(checkpoint)));
  }
  return buffer.data();
}

void Decoder::observe(Probe* probe, Checkpoint checkpoint, int layer, const float* values,
                      int64_t width) {
  if (probe == nullptr || !probe->wants(checkpoint, layer)) return;
  host_values_.resize(static_cast<size_t>(width));
  memory_.download(values, static_cast<size_t>(width) * sizeof(float), host_values_.data());
  probe->observe(checkpoint, layer, position_, 1, width, host_values_.data());
}

}  // namespace assay
