#include "engine/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

Product product(const Linear& linear, Buffer<float>& out) {
  return {linear.weight, linear.bias, out.data()};
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
  x_ = rows(config_.embedding_length);
  normed_ = rows(config_.embedding_length);
  q_ = rows(config_.q_width());
  k_ = rows(config_.kv_width());
  v_ = rows(config_.kv_width());
  attn_ = rows(config_.q_width());
  projected_ = rows(config_.embedding_length);
  gate_ = rows(config_.feed_forward_length);
  up_ = rows(config_.feed_forward_length);
  act_ = rows(config_.feed_forward_length);
  cos_sin_ = rows(config_.rotary_dim);
  logits_ = Buffer<float>(memory_, static_cast<size_t>(config_.n_vocab));
  decoder_ = Decoder::make(config_, weights_, kernels_, kv_, rope_factors_);
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
  embed(tokens);
  for (int layer = 0; layer < config_.n_layers; ++layer) {
    replace_input(layer, n_tokens);
    run_attention(layer, n_tokens);
    run_ffn(layer, n_tokens);
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
  const int64_t width = config_.embedding_length;
  const size_t bytes = static_cast<size_t>(n_tokens * width) * sizeof(float);
  std::vector<float> values(static_cast<size_t>(n_tokens * width));
  memory_.download(x_.data(), bytes, values.data());
  if (!layer_input_->replace(layer, n_positions_, n_tokens, width, values.data())) return;
  memory_.upload(values.data(), bytes, x_.data());
}

void Session::embed(std::span<const int32_t> tokens) {
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  const int64_t width = config_.embedding_length;
  memory_.upload(tokens.data(), tokens.size_bytes(), ids_.data());
  kernels_.get_rows(weights_.token_embedding, ids_.data(), n_tokens, x_.data());
  if (config_.architecture->position == PositionKind::kLearned) {
    std::vector<int32_t> positions(tokens.size());
    for (int64_t t = 0; t < n_tokens; ++t) {
      positions[static_cast<size_t>(t)] = static_cast<int32_t>(n_positions_ + t);
    }
    memory_.upload(positions.data(), positions.size() * sizeof(int32_t), ids_.data());
    kernels_.get_rows(weights_.position_embedding, ids_.data(), n_tokens, normed_.data());
    kernels_.add(x_.data(), normed_.data(), n_tokens * width, x_.data());
  } else {
    const auto angles = rope_table(config_, rope_factors_, n_positions_, n_tokens);
    memory_.upload(angles.data(), angles.size() * sizeof(float), cos_sin_.data());
  }
  observe(Checkpoint::kEmbedding, 0, n_tokens, width, x_.data());
}

// x += attn_out · attention(rope(q · norm(x)), rope(k · norm(x)), v · norm(x))
void Session::run_attention(int layer, int64_t n_tokens) {
  const Layer& weights = weights_.layers[static_cast<size_t>(layer)];
  const int64_t width = config_.embedding_length;
  const int64_t q_width = config_.q_width();
  const int64_t kv_width = config_.kv_width();

  normalize(weights.attn_norm, x_.data(), n_tokens, normed_.data());
  observe(Checkpoint::kAttnNorm, layer, n_tokens, width, normed_.data());
  const std::array qkv = {product(weights.q, q_), product(weights.k, k_), product(weights.v, v_)};
  kernels_.matmuls(qkv, normed_.data(), n_tokens);
  observe(Checkpoint::kQ, layer, n_tokens, q_width, q_.data());
  observe(Checkpoint::kK, layer, n_tokens, kv_width, k_.data());
  observe(Checkpoint::kV, layer, n_tokens, kv_width, v_.data());

  if (config_.architecture->position == PositionKind::kRotary) {
    const RopePairing pairing = config_.architecture->rope_pairing;
    kernels_.rope(q_.data(), cos_sin_.data(), pairing, n_tokens, config_.n_heads, config_.head_dim,
                  config_.rotary_dim, q_.data());
    observe(Checkpoint::kQRope, layer, n_tokens, q_width, q_.data());
    kernels_.rope(k_.data(), cos_sin_.data(), pairing, n_tokens, config_.n_kv_heads,
                  config_.head_dim, config_.rotary_dim, k_.data());
    observe(Checkpoint::kKRope, layer, n_tokens, kv_width, k_.data());
  }
  kernels_.store_kv(k_.data(), kv_.type(), n_tokens * kv_width, kv_.k_slot(layer, n_positions_));
  kernels_.store_kv(v_.data(), kv_.type(), n_tokens * kv_width, kv_.v_slot(layer, n_positions_));

  kernels_.attention(q_.data(), kv_.layer(layer), config_.attention_shape(), n_positions_, n_tokens,
                     attn_.data());
  observe(Checkpoint::kAttn, layer, n_tokens, q_width, attn_.data());
  multiply(weights.attn_out, attn_, n_tokens, projected_);
  observe(Checkpoint::kAttnOut, layer, n_tokens, width, projected_.data());
  kernels_.add(x_.data(), projected_.data(), n_tokens * width, x_.data());
  observe(Checkpoint::kAttnResidual, layer, n_tokens, width, x_.data());
}

// x += down · act(gate · norm(x), up · norm(x)), or down · act(up · norm(x)) without a gate
void Session::run_ffn(int layer, int64_t n_tokens) {
  const Layer& weights = weights_.layers[static_cast<size_t>(layer)];
  const int64_t width = config_.embedding_length;
  const int64_t inner = config_.feed_forward_length;

  normalize(weights.ffn_norm, x_.data(), n_tokens, normed_.data());
  observe(Checkpoint::kFfnNorm, layer, n_tokens, width, normed_.data());
  if (config_.architecture->ffn == FfnKind::kSiluGated) {
    const std::array both = {product(weights.ffn_gate, gate_), product(weights.ffn_up, up_)};
    kernels_.matmuls(both, normed_.data(), n_tokens);
    observe(Checkpoint::kFfnGate, layer, n_tokens, inner, gate_.data());
    observe(Checkpoint::kFfnUp, layer, n_tokens, inner, up_.data());
    kernels_.silu_mul(gate_.data(), up_.data(), n_tokens * inner, act_.data());
  } else {
    multiply(weights.ffn_up, normed_, n_tokens, up_);
    observe(Checkpoint::kFfnUp, layer, n_tokens, inner, up_.data());
    kernels_.gelu_tanh(up_.data(), n_tokens * inner, act_.data());
  }
  observe(Checkpoint::kFfnAct, layer, n_tokens, inner, act_.data());
  multiply(weights.ffn_down, act_, n_tokens, projected_);
  observe(Checkpoint::kFfnOut, layer, n_tokens, width, projected_.data());
  kernels_.add(x_.data(), projected_.data(), n_tokens * width, x_.data());
  observe(Checkpoint::kOutput, layer, n_tokens, width, x_.data());
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

  normalize(weights_.output_norm, x_.data() + first * width, n_tokens - first,
            normed_.data() + first * width);
  if (all_norms) observe(Checkpoint::kFinalNorm, 0, n_tokens, width, normed_.data());
  if (all_logits) {
    run_all_logits(n_tokens);
  } else if (last) {
    kernels_.matmul(weights_.output, nullptr, normed_.data() + (n_tokens - 1) * width, 1,
                    logits_.data());
    last_logits_ = {on_host(logits_.data(), n_vocab), n_vocab};
  }
}

void Session::run_all_logits(int64_t n_tokens) {
  const auto n_vocab = static_cast<size_t>(config_.n_vocab);
  if (logits_.size() < static_cast<size_t>(kLogitsTokens) * n_vocab) {
    logits_ = Buffer<float>(memory_, static_cast<size_t>(kLogitsTokens) * n_vocab);
  }
  for (int64_t done = 0; done < n_tokens; done += kLogitsTokens) {
    const int64_t count = std::min(kLogitsTokens, n_tokens - done);
    kernels_.matmul(weights_.output, nullptr, normed_.data() + done * config_.embedding_length,
                    count, logits_.data());
    const float* logits = on_host(logits_.data(), static_cast<size_t>(count) * n_vocab);
    probe_->observe(Checkpoint::kLogits, 0, n_positions_ + done, count, config_.n_vocab, logits);
    if (done + count == n_tokens) {
      last_logits_ = {logits + static_cast<size_t>(count - 1) * n_vocab, n_vocab};
    }
  }
}

void Session::normalize(const Norm& norm, const float* x, int64_t n_tokens, float* out) {
  const int64_t width = config_.embedding_length;
  if (config_.architecture->norm == NormKind::kRms) {
    kernels_.rms_norm(x, norm.weight, config_.norm_eps, n_tokens, width, out);
  } else {
    kernels_.layer_norm(x, norm.weight, norm.bias, config_.norm_eps, n_tokens, width, out);
  }
}

void Session::multiply(const Linear& linear, const Buffer<float>& x, int64_t n_tokens,
                       Buffer<float>& out) {
  kernels_.matmul(linear.weight, linear.bias, x.data(), n_tokens, out.data());
}

const float* Session::on_host(const float* values, size_t count) {
  if (memory_.on_host()) return values;
  if (host_values_.size() < count) host_values_.resize(count);
  memory_.download(values, count * sizeof(float), host_values_.data());
  return host_values_.data();
}

void Session::observe(Checkpoint checkpoint, int layer, int64_t n_tokens, int64_t width,
                      const float* values) {
  if (probe_ == nullptr || !probe_->wants(checkpoint, layer)) return;
  const float* seen = on_host(values, static_cast<size_t>(n_tokens * width));
  probe_->observe(checkpoint, layer, n_positions_, n_tokens, width, seen);
}

}  // namespace assay
