#include "engine/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "engine/rope_table.h"
#include "engine/sampler.h"

namespace assay {
namespace {

// Logits of all positions are computed only for a probe, this many positions at a time, so that a
// long prompt needs no [n_tokens, n_vocab] of memory.
constexpr int64_t kLogitsTokens = 16;

constexpr int64_t kMaxBatch = 65536;

// On the host, 512 tokens at once are 2 % faster than 128 and take four times the memory for
// activations: 16 MB with a model of 98 MB.
constexpr int64_t kMaxHostBatch = 128;

int64_t checked_capacity(const ModelConfig& config, int64_t capacity) {
  if (capacity < 0 || capacity > config.context_length) {
    throw Error(fmt::format("{} positions are asked for, the model's context has {}", capacity,
                            config.context_length),
                {}, "use a shorter prompt or a smaller -n");
  }
  return capacity == 0 ? config.context_length : capacity;
}

int64_t checked_batch(int64_t batch) {
  if (batch < 1 || batch > kMaxBatch) {
    throw Error(fmt::format("{} is out of range", batch), "--batch",
                fmt::format("give 1 to {}", kMaxBatch));
  }
  return batch;
}

}  // namespace

Session::Session(const Model& model, Kernels& kernels, const SessionOptions& options)
    : model_(model),
      config_(model.config()),
      kernels_(kernels),
      memory_(kernels.memory()),
      batch_(checked_batch(options.batch)),
      weight_copy_(model, memory_),
      weights_(weight_copy_.weights()),
      kv_(config_, options.kv_type, checked_capacity(config_, options.capacity), memory_),
      rope_factors_(rope_factors_for(model, kv_.capacity())) {
  batch_ = std::min({batch_, kv_.capacity(), memory_.on_host() ? kMaxHostBatch : kMaxBatch});
  const auto rows = [this](int64_t width) {
    return Buffer<float>(memory_, static_cast<size_t>(batch_ * width));
  };
  ids_ = Buffer<int32_t>(memory_, static_cast<size_t>(batch_));
  make_plans();
  std::vector<int64_t> widths;
  for (const LayerPlan& plan : plans_) {
    widths.resize(std::max(widths.size(), plan.buffers().size()));
    std::ranges::transform(plan.buffers(), widths, widths.begin(), std::ranges::max);
  }
  for (const int64_t width : widths) values_.push_back(rows(width));
  normed_ = rows(config_.embedding_length);
  cos_sin_ = rows(config_.rotary_dim);
  if (config_.local_rope_freq_base > 0.0) local_cos_sin_ = rows(config_.local_rotary_dim());
  if (config_.ple_length > 0) {
    embedding_ = rows(config_.embedding_length);
    ple_rows_ = rows(config_.n_layers * config_.ple_length);
  }
  logits_ = Buffer<float>(memory_, static_cast<size_t>(config_.n_vocab));
  decoder_ = Decoder::make(config_, weights_, kernels_, kv_, rope_factors_);
}

void Session::make_plans() {
  const std::vector<LayerConfig>& layers = config_.layers;
  std::vector<size_t> which;  // of plans_
  std::vector<size_t> first;  // layer with each
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto same = std::ranges::find_if(first, [&](size_t other) {
      return layers[other].ops == layers[i].ops && layers[other].own_heads == layers[i].own_heads &&
             layers[other].feed_forward_length == layers[i].feed_forward_length;
    });
    which.push_back(static_cast<size_t>(same - first.begin()));
    if (same != first.end()) continue;
    first.push_back(i);
    plans_.emplace_back(layers[i], config_);
  }
  for (const size_t plan : which) plan_of_.push_back(&plans_[plan]);
}

std::span<const float> Session::eval(std::span<const int32_t> tokens, Probe* probe,
                                     LayerInput* layer_input) {
  check(tokens);
  probe_ = probe;
  layer_input_ = layer_input;
  for (size_t done = 0; done < tokens.size();) {
    const size_t count = std::min(static_cast<size_t>(batch_), tokens.size() - done);
    eval_batch(tokens.subspan(done, count), done + count == tokens.size());
    done += count;
  }
  probe_ = nullptr;
  layer_input_ = nullptr;
  return last_logits_;
}

void Session::check(std::span<const int32_t> tokens) const {
  if (tokens.empty()) throw Error("there are no tokens to evaluate", {}, "give a prompt");
  for (const int32_t token : tokens) {
    if (token < 0 || token >= config_.n_vocab) {
      throw Error(fmt::format("token {} is not in the vocabulary of {}", token, config_.n_vocab),
                  model_.gguf().path(), fmt::format("give ids from 0 to {}", config_.n_vocab - 1));
    }
  }
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > kv_.capacity() - n_positions_) {
    throw Error(fmt::format("the context is full: {} positions are used, {} more are asked for, "
                            "there is room for {}",
                            n_positions_, count, kv_.capacity()),
                {}, "use a shorter prompt or a smaller -n");
  }
}

void Session::eval_batch(std::span<const int32_t> tokens, bool last) {
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  if (n_tokens == 1 && decoder_ != nullptr && layer_input_ == nullptr) {
    return decode(tokens[0], last);
  }
  if (decoder_ != nullptr) decoder_->forget_next();
  embed(tokens);
  const TokenRange all = {0, n_tokens};
  const TokenRange asked_for = {last ? n_tokens - 1 : n_tokens, last ? 1 : 0};
  for (int layer = 0; layer < config_.n_layers; ++layer) {
    replace_input(layer, n_tokens);
    if (layer == 0 && config_.ple_length > 0) keep_embedding(tokens);
    const bool ends = layer + 1 == config_.n_layers && !is_all_asked_for();
    for (const std::span<const OpSpec> step : plan_of_[static_cast<size_t>(layer)]->steps()) {
      run_step(step, layer, all, ends ? asked_for : all);
    }
  }
  replace_input(static_cast<int>(config_.n_layers), n_tokens);
  run_output(n_tokens, last);
  n_positions_ += n_tokens;
}

void Session::decode(int32_t token, bool last) {
  decoder_->evaluate(token, n_positions_, probe_, last);
  const auto n_vocab = static_cast<size_t>(config_.n_vocab);
  if (last) last_logits_ = {on_host(decoder_->logits(), n_vocab), n_vocab};
  ++n_positions_;
}

void Session::set_choosable(const std::vector<bool>& choosable) {
  choosable_ = choosable;
  if (decoder_ != nullptr) decoder_->set_choosable(choosable);
}

int32_t Session::eval_greedy(int32_t token, Probe* probe) {
  if (decoder_ == nullptr || probe != nullptr) {
    return Sampler({}).sample(eval({&token, 1}, probe), choosable_);
  }
  check({&token, 1});
  const std::optional<int32_t> chosen = decoder_->evaluate_and_choose(token, n_positions_++);
  if (chosen) return *chosen;
  const auto n_vocab = static_cast<size_t>(config_.n_vocab);
  return Sampler({}).sample({on_host(decoder_->logits(), n_vocab), n_vocab}, choosable_);
}

void Session::replace_input(int layer, int64_t n_tokens) {
  if (layer_input_ == nullptr) return;
  const int64_t width = config_.entering_width(layer);
  const size_t bytes = static_cast<size_t>(n_tokens * width) * sizeof(float);
  std::vector<float> values(static_cast<size_t>(n_tokens * width));
  memory_.download(residual_stream(), bytes, values.data());
  if (!layer_input_->replace(layer, n_positions_, n_tokens, width, values.data())) return;
  memory_.upload(values.data(), bytes, residual_stream());
}

bool Session::is_all_asked_for() const {
  if (!memory_.on_host() || layer_input_ != nullptr || expert_source_ != nullptr) return true;
  if (probe_ == nullptr) return false;
  const int layer = static_cast<int>(config_.n_layers) - 1;
  return probe_->wants(Checkpoint::kFinalNorm, 0) || probe_->wants(Checkpoint::kLogits, 0) ||
         std::ranges::any_of(config_.layer(layer).ops,
                             [&](const OpSpec& op) { return probe_->wants(op.out, layer); });
}

void Session::run_step(std::span<const OpSpec> ops, int layer, const TokenRange& all,
                       const TokenRange& asked_for) {
  const LayerPlan& plan = *plan_of_[static_cast<size_t>(layer)];
  const auto tokens_of = [&](const OpSpec& op) {
    return plan.is_read_later(op.out) ? all : asked_for;
  };
  if (reads_back(ops.front().kind)) store_kv(ops.front(), layer, all.count);
  while (!ops.empty()) {
    const TokenRange tokens = tokens_of(ops.front());
    const auto end = std::ranges::find_if(
        ops, [&](const OpSpec& op) { return tokens_of(op).count != tokens.count; });
    const auto together = ops.first(static_cast<size_t>(end - ops.begin()));
    ops = ops.subspan(together.size());
    if (tokens.count == 0) continue;
    if (together.front().kind == OpKind::kLinear) {
      run_products(together, layer, tokens);
    } else {
      run_op(together.front(), layer, tokens);
    }
    for (const OpSpec& op : together) {
      observe(site(op.out, layer, tokens), width(op.width, layer), result(op, layer, tokens.first));
    }
  }
}

void Session::run_products(std::span<const OpSpec> ops, int layer, const TokenRange& tokens) {
  const Layer& weights = weights_.layers[static_cast<size_t>(layer)];
  products_.clear();
  for (const OpSpec& op : ops) {
    const Linear& linear = weights.linear(op.out);
    products_.push_back({linear.weight, linear.bias, value(op.in.front(), layer, tokens.first),
                         tokens.count, value(op.out, layer, tokens.first),
                         site(op.out, layer, tokens)});
  }
  kernels_.run(products_);
}

void Session::store_kv(const OpSpec& op, int layer, int64_t n_tokens) {
  const bool attends = op.kind == OpKind::kAttention;
  const KvType type = attends ? kv_.type(layer) : kv_.of_other(layer).type;
  const auto store = [&](Checkpoint input, void* slot, Checkpoint stored) {
    const Width width = find_spec(config_.layer(layer).ops, input)->width;
    kernels_.run(StoreKvCall{value(input, layer), type, n_tokens * this->width(width, layer), slot,
                             site(stored, layer, {0, n_tokens})});
  };
  // Which has a state instead, or reads what another layer stored.
  if (has_state(op.kind) || config_.layer(layer).kv_layer >= 0) return;
  const auto kept = op.inputs().subspan(static_cast<size_t>(first_read_back(op)));
  store(kept[0], attends ? kv_.k_slot(layer, n_positions_) : kv_.slot_of_other(layer, n_positions_),
        attends ? Checkpoint::kK : kept[0]);
  if (kept.size() < 2) return;
  store(kept[1], kv_.v_slot(layer, n_positions_), attends ? Checkpoint::kV : kept[1]);
}

void Session::run_op(const OpSpec& op, int layer, const TokenRange& tokens) {
  const OpSite here = site(op.out, layer, tokens);
  const int64_t count = tokens.count * width(op.width, layer);
  if (op.kind == OpKind::kEmbedding) return run_ple_embedding(op, layer, tokens);
  const float* x = value(op.in[0], layer, tokens.first);
  const float* second = op.n_inputs > 1 ? value(op.in[1], layer, tokens.first) : nullptr;
  float* out = result(op, layer, tokens.first);
  switch (op.kind) {
    case OpKind::kNorm:
      run_norm(op, layer, tokens);
      break;
    case OpKind::kRope: {
      const RotatedHeads heads = config_.rotated_heads(op.out, layer);
      kernels_.run(RopeCall{x, angles(layer) + tokens.first * heads.rotary_dim, heads.pairing,
                            tokens.count, width(op.width, layer) / heads.head_dim, heads.head_dim,
                            heads.rotary_dim, out, here, heads.first_turned});
      break;
    }
    case OpKind::kHeads:
      kernels_.run(HeadsCall{x, second, config_.head_parts(op), tokens.count,
                             config_.n_heads_of(op), out, here});
      break;
    case OpKind::kAttention:
      run_attention(op, layer, tokens);
      break;
    case OpKind::kIndex:
      run_index(op, layer, tokens);
      break;
    case OpKind::kConv:
      run_conv(op, layer, tokens);
      break;
    case OpKind::kDelta: {
      const Extra& extra = weights_.layers[static_cast<size_t>(layer)].extra;
      kernels_.run(DeltaCall{x, second, value(op.in[2], layer, tokens.first), extra.decay, extra.dt,
                             config_.delta, kv_.state(layer), n_positions_ + tokens.first,
                             tokens.count, out, here});
      break;
    }
    case OpKind::kSsm: {
      const Extra& extra = weights_.layers[static_cast<size_t>(layer)].extra;
      const auto input = [&](size_t i) { return value(op.in[i], layer, tokens.first); };
      const SsmInputs in = has_step_product(op)
                               ? SsmInputs::of_arrays(x, input(2), input(3), config_.delta)
                               : SsmInputs::of_rows(x, config_.delta);
      kernels_.run(SsmCall{in, second, extra.decay, extra.dt, extra.skip, config_.delta,
                           kv_.state(layer), n_positions_ + tokens.first, tokens.count, out, here});
      break;
    }
    case OpKind::kActivation: {
      const bool gated = second != nullptr;
      kernels_.run(ActivateCall{op.own_activation.value_or(config_.activation), gated ? second : x,
                                gated ? x : nullptr, count, out, here, config_.clip,
                                config_.layer(layer).xielu});
      break;
    }
    case OpKind::kAdd:
      run_add(op, layer, tokens);
      break;
    case OpKind::kCutoff:
      kernels_.run(CutoffCall{x, config_.layer(layer).cutoff, tokens.count, width(op.width, layer),
                              out, here});
      break;
    case OpKind::kStreams:
      run_streams(op, layer, tokens);
      break;
    case OpKind::kStreamLinear:
      run_stream_products(op, layer, tokens);
      break;
    case OpKind::kSelect:
    case OpKind::kWeigh:
      route(op, layer, tokens);
      break;
    case OpKind::kSpread:
      kernels_.run(SpreadCall{x, second, tokens.count, config_.routing.n_used,
                              config_.embedding_length, out, here});
      break;
    case OpKind::kExpertLinear:
      run_experts(op, layer, tokens);
      break;
    case OpKind::kMix:
      kernels_.run(MixCall{x, second, tokens.count, config_.routing_of(op.out).n_used,
                           width(op.width, layer), out, here});
      break;
    case OpKind::kEmbedding:
    case OpKind::kLinear:
      break;
  }
}

void Session::run_add(const OpSpec& op, int layer, const TokenRange& tokens) {
  const int64_t count = tokens.count * width(op.width, layer);
  const float scale =
      op.tensor.empty() ? op.scale : weights_.layers[static_cast<size_t>(layer)].extra.scale;
  const OpSite whole = site(op.out, layer, tokens);
  OpSite sum = whole;
  sum.finishes = scale == 1.0F;
  float* out = result(op, layer, tokens.first);
  kernels_.run(AddCall{value(op.in[0], layer, tokens.first), value(op.in[1], layer, tokens.first),
                       count, out, sum,
                       op.out == Checkpoint::kFfnOut ? 1.0F : config_.residual_factor()});
  if (scale != 1.0F) kernels_.run(AddCall{nullptr, out, count, out, whole, scale});
}

void Session::run_attention(const OpSpec& op, int layer, const TokenRange& tokens) {
  const float scale = config_.value_scale;
  const OpSite whole = site(op.out, layer, tokens);
  OpSite sum = whole;
  sum.finishes = scale == 1.0F;
  float* out = value(op.out, layer, tokens.first);
  kernels_.run(
      AttentionCall{value(op.in[0], layer, tokens.first), kv_.layer(config_.kv_layer(layer)),
                    config_.attention_shape(layer), n_positions_ + tokens.first, tokens.count, out,
                    sum, weights_.layers[static_cast<size_t>(layer)].extra.sinks,
                    op.n_inputs > 3 ? indexed_row(tokens.first) : nullptr, config_.index.top_k});
  if (scale == 1.0F) return;
  kernels_.run(AddCall{nullptr, out, tokens.count * width(op.width, layer), out, whole, scale});
}

void Session::run_conv(const OpSpec& op, int layer, const TokenRange& tokens) {
  const int64_t width = this->width(op.width, layer);
  const OpSite whole = site(op.out, layer, tokens);
  const bool of_one = op.n_inputs == 1;
  const Extra& extra = weights_.layers[static_cast<size_t>(layer)].extra;
  OpSite sum = whole;
  sum.finishes = !of_one;
  const KvView kv = kv_.of_other(layer);
  float* out = value(op.out, layer, tokens.first);
  kernels_.run(ConvCall{of_one ? nullptr : value(op.in[0], layer, tokens.first),
                        {kv.type, kv.k, of_one ? nullptr : kv.v},
                        extra.conv,
                        config_.conv_taps,
                        n_positions_ + tokens.first,
                        tokens.count,
                        width,
                        out,
                        sum,
                        extra.conv_bias});
  if (!of_one) return;
  kernels_.run(ActivateCall{op.own_activation.value_or(config_.activation), out, nullptr,
                            tokens.count * width, out, whole});
}

void Session::run_norm(const OpSpec& op, int layer, const TokenRange& tokens) {
  const Norm& norm = weights_.layers[static_cast<size_t>(layer)].norm(op.out);
  const LayerConfig& own = config_.layer(layer);
  const int64_t width = config_.width(op.norm_width, own);
  const int64_t rows = tokens.count * config_.width(op.width, own) / width;
  const int64_t read = config_.width(input_width(own.ops, op), own);
  const OpSite whole = site(op.out, layer, tokens);
  OpSite part = whole;
  part.finishes = false;
  const bool gated_last = op.n_inputs > 1 && !op.gate_first;
  const float* x = value(op.in[0], layer, tokens.first);
  float* out = value(op.out, layer, tokens.first);
  const auto gate = [&](const float* gated, const OpSite& at) {
    kernels_.run(ActivateCall{*op.own_activation, value(op.in[1], layer, tokens.first), gated,
                              rows * width, out, at});
  };
  if (op.gate_first) gate(x, part);
  kernels_.run(NormCall{config_.norm_of(op), op.gate_first ? out : x, norm.weight, norm.bias,
                        config_.eps_of(op), rows, width, out, gated_last ? part : whole,
                        config_.width(op.weight_width(), own) / width, tokens.count * read / rows});
  if (gated_last) gate(out, whole);
}

float* Session::room(Buffer<float>& buffer, int64_t count) {
  if (buffer.size() < static_cast<size_t>(count)) {
    buffer = {};  // before the larger one is asked for
    buffer = Buffer<float>(memory_, static_cast<size_t>(count));
  }
  return buffer.data();
}

// last_logits_ = output · norm(x) of the batch's last token; of all tokens where the probe wants
// them.
void Session::run_output(int64_t n_tokens, bool last) {
  const int64_t width = config_.embedding_length;
  const bool all_logits = probe_ != nullptr && probe_->wants(Checkpoint::kLogits, 0);
  const bool all_norms =
      all_logits || (probe_ != nullptr && probe_->wants(Checkpoint::kFinalNorm, 0));
  const int64_t first = all_norms ? 0 : n_tokens - 1;
  const auto n_vocab = static_cast<size_t>(config_.n_vocab);
  if (!all_norms && !last) return;

  const Norm& norm = weights_.output_norm;
  kernels_.run(NormCall{config_.norm, residual_stream() + first * width, norm.weight, norm.bias,
                        config_.norm_eps, n_tokens - first, width, normed_.data() + first * width,
                        site(Checkpoint::kFinalNorm, 0, {first, n_tokens - first})});
  if (all_norms) observe(site(Checkpoint::kFinalNorm, 0, {0, n_tokens}), width, normed_.data());
  if (all_logits) {
    run_all_logits(n_tokens);
  } else if (last) {
    run_logits(n_tokens - 1, 1);
    last_logits_ = {on_host(logits_.data(), n_vocab), n_vocab};
  }
}

void Session::run_logits(int64_t first, int64_t n_tokens) {
  const OpSite whole = site(Checkpoint::kLogits, 0, {first, n_tokens});
  const float factor = config_.logit_factor();
  const float cap = config_.logit_soft_cap;
  OpSite product = whole;
  product.finishes = factor == 1.0F && cap == 0.0F;
  OpSite scaling = whole;
  scaling.finishes = cap == 0.0F;
  float* logits = logits_.data();
  const int64_t count = n_tokens * config_.n_vocab;
  kernels_.run(MatmulCall{weights_.output.weight, weights_.output.bias,
                          normed_.data() + first * config_.embedding_length, n_tokens, logits,
                          product});
  if (factor != 1.0F) kernels_.run(AddCall{nullptr, logits, count, logits, scaling, factor});
  if (cap > 0.0F) {
    kernels_.run(
        ActivateCall{ActivationKind::kSoftCap, logits, nullptr, count, logits, whole, cap});
  }
}

void Session::run_all_logits(int64_t n_tokens) {
  const auto n_vocab = static_cast<size_t>(config_.n_vocab);
  if (logits_.size() < static_cast<size_t>(kLogitsTokens) * n_vocab) {
    logits_ = Buffer<float>(memory_, static_cast<size_t>(kLogitsTokens) * n_vocab);
  }
  for (int64_t done = 0; done < n_tokens; done += kLogitsTokens) {
    const int64_t count = std::min(kLogitsTokens, n_tokens - done);
    run_logits(done, count);
    observe(site(Checkpoint::kLogits, 0, {done, count}), config_.n_vocab, logits_.data());
    if (done + count < n_tokens) continue;
    const float* logits = on_host(logits_.data(), static_cast<size_t>(count) * n_vocab);
    last_logits_ = {logits + static_cast<size_t>(count - 1) * n_vocab, n_vocab};
  }
}

const float* Session::on_host(const float* values, size_t count) {
  if (memory_.on_host()) return values;
  if (host_values_.size() < count) host_values_.resize(count);
  memory_.download(values, count * sizeof(float), host_values_.data());
  return host_values_.data();
}

void Session::observe(const OpSite& site, int64_t width, const float* values) {
  if (probe_ == nullptr || !probe_->wants(site.checkpoint, site.layer)) return;
  const float* seen = on_host(values, static_cast<size_t>(site.n_tokens * width));
  probe_->observe(site.checkpoint, site.layer, site.first_position, site.n_tokens, width, seen);
}

}  // namespace assay
