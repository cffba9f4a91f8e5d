#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv_cache.h"
#include "engine/model.h"
#include "engine/probe.h"
#include "kernels/kernels.h"

namespace assay {

// Whether a model of this architecture has this checkpoint in its forward pass.
bool has_checkpoint(const Architecture& architecture, Checkpoint checkpoint);

struct SessionOptions {
  int64_t capacity = 0;  // positions to make room for; 0: the model's context length
  int64_t batch = 512;   // most tokens that go through the network together
  KvType kv_type = KvType::kF32;
};

// One sequence of tokens on its way through a model. The forward pass is here, one for all
// architectures; what they have is in Architecture.
class Session {
 public:
  // `model` and `kernels` must outlive the session. Throws Error if the options are out of range
  // or memory does not suffice.
  Session(const Model& model, Kernels& kernels, const SessionOptions& options);

  // Evaluates `tokens` at the positions after those already evaluated; gives the last one's logits
  // [n_vocab], valid until the next call. `probe` may be null; it changes no result. Throws Error,
  // before anything is computed, if a token is not in the vocabulary or the context is full.
  std::span<const float> eval(std::span<const int32_t> tokens, Probe* probe = nullptr);

  // Throws what eval() would for these tokens.
  void check(std::span<const int32_t> tokens) const;

  int64_t n_positions() const { return n_positions_; }  // evaluated so far
  int64_t capacity() const { return kv_.capacity(); }
  const KvCache& kv_cache() const { return kv_; }

  // Forgets all positions: the next token evaluated stands at 0 again.
  void clear() { n_positions_ = 0; }

 private:
  void eval_batch(std::span<const int32_t> tokens, bool last);
  void embed(std::span<const int32_t> tokens);
  void run_attention(int layer, int64_t n_tokens);
  void run_ffn(int layer, int64_t n_tokens);
  void run_output(int64_t n_tokens, bool last);

  void normalise(const Norm& norm, const float* x, int64_t n_tokens, float* out);
  void multiply(const Linear& linear, const std::vector<float>& x, int64_t n_tokens,
                std::vector<float>& out);
  void observe(Checkpoint checkpoint, int layer, int64_t n_tokens, int64_t width,
               const float* values);

  const Model& model_;
  const ModelConfig& config_;
  Kernels& kernels_;
  int64_t batch_;
  KvCache kv_;
  const std::vector<float>& rope_factors_;
  int64_t n_positions_ = 0;
  Probe* probe_ = nullptr;  // during eval() only

  // Activations of one batch, [batch, width].
  std::vector<float> x_;          // the residual stream
  std::vector<float> normed_;     // embedding_length
  std::vector<float> q_;          // n_heads * head_dim
  std::vector<float> k_;          // n_kv_heads * head_dim
  std::vector<float> v_;          // n_kv_heads * head_dim
  std::vector<float> attn_;       // n_heads * head_dim
  std::vector<float> projected_;  // embedding_length
  std::vector<float> gate_;       // feed_forward_length
  std::vector<float> up_;         // feed_forward_length
  std::vector<float> act_;        // feed_forward_length
  std::vector<float> cos_sin_;    // rotary_dim
  std::vector<float> logits_;     // [kLogitsTokens, n_vocab]
};

}  // namespace assay
