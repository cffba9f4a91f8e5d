#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/decoder.h"
#include "engine/kv_cache.h"
#include "engine/layer_plan.h"
#include "engine/model.h"
#include "engine/probe.h"
#include "engine/weight_copy.h"
#include "kernels/kernels.h"

namespace assay {

// Puts other values in the place of what a layer is about to read. For measuring: with a
// reference's values before each layer, what a layer gives shows its own error alone.
class LayerInput {
 public:
  virtual ~LayerInput() = default;

  // values[n_tokens, width]: the input of `layer` (n_layers: of the final norm) at the positions
  // first_token_idx, first_token_idx + 1, ... Returns whether it has changed them.
  virtual bool replace(int layer, int64_t first_token_idx, int64_t n_tokens, int64_t width,
                       float* values) = 0;
};

// Chooses experts in the place of a router. For measuring: with a reference's choice, what layers
// give shows their own error alone.
class ExpertSource {
 public:
  virtual ~ExpertSource() = default;

  // Sets ids[n_tokens, n_used], different ones for a token and each below n_experts: the experts of
  // `layer` at the positions first_token_idx, first_token_idx + 1, ...
  virtual void choose(int layer, int64_t first_token_idx, int64_t n_tokens, int32_t* ids) = 0;
};

struct SessionOptions {
  int64_t capacity = 0;  // positions to make room for; 0: the model's context length
  // Most tokens that go through the network together; on the host at most 128.
  int64_t batch = 512;
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
  //
  // `layer_input`, if there is one, is asked before each layer.
  std::span<const float> eval(std::span<const int32_t> tokens, Probe* probe = nullptr,
                              LayerInput* layer_input = nullptr);

  // The ids that eval_greedy() may choose, as Sampler::sample() has them; none before.
  void set_choosable(const std::vector<bool>& choosable);

  // eval() of one token and what a greedy Sampler makes of its logits, with the errors of both. A
  // device chooses where the logits are.
  int32_t eval_greedy(int32_t token, Probe* probe = nullptr);

  // From now on `source` chooses the experts, which their own logits weigh; null: the router does.
  void set_experts(ExpertSource* source) { expert_source_ = source; }

  // Throws what eval() would for these tokens.
  void check(std::span<const int32_t> tokens) const;

  int64_t n_positions() const { return n_positions_; }  // evaluated so far
  int64_t capacity() const { return kv_.capacity(); }
  size_t kv_bytes() const { return kv_.bytes(); }  // of keys and values

  // Forgets all positions: the next token evaluated stands at 0 again.
  void clear() { n_positions_ = 0; }

  // Writes the keys and values of the positions evaluated so far to a file, whole or not at all.
  void save(const std::string& path);

  // Goes on after the positions that save() wrote, as if this session had evaluated them, with the
  // same bits; what it had is forgotten. Any backend may restore what another saved. Throws Error,
  // and changes nothing, if the file is damaged, of another model file, type of keys and values or
  // rotary factors, or has more positions than there is room for.
  void restore(const std::string& path);

 private:
  // Of a batch.
  struct TokenRange {
    int64_t first;
    int64_t count;
  };

  void eval_batch(std::span<const int32_t> tokens, bool last);
  void decode(int32_t token, bool last);
  void embed(std::span<const int32_t> tokens);
  void replace_input(int layer, int64_t n_tokens);
  void make_plans();
  // Whether all positions of the last layer are asked for, and not only those that later positions
  // or the logits read. So it is on devices, where the bits of Math::kLibrary depend on how many
  // tokens a product has.
  bool is_all_asked_for() const;
  // For the tokens `asked_for`, and for all where later positions read what becomes of the result.
  void run_step(std::span<const OpSpec> ops, int layer, const TokenRange& all,
                const TokenRange& asked_for);
  void run_products(std::span<const OpSpec> ops, int layer, const TokenRange& tokens);
  // What the op reads at earlier positions.
  void store_kv(const OpSpec& op, int layer, int64_t n_tokens);
  void run_op(const OpSpec& op, int layer, const TokenRange& tokens);
  void route(const OpSpec& op, int layer, const TokenRange& tokens);
  void run_experts(const OpSpec& op, int layer, const TokenRange& tokens);
  // out[i, :] = row rows[i] of the table.
  void gather(const WeightMatrix& table, const std::vector<int32_t>& rows, float* out,
              const OpSite& site);
  float* room(Buffer<float>& buffer, int64_t count);
  void run_output(int64_t n_tokens, bool last);
  // logits_ of `n_tokens` tokens of the batch.
  void run_logits(int64_t first, int64_t n_tokens);
  void run_all_logits(int64_t n_tokens);

  void keep_embedding(std::span<const int32_t> tokens);
  void run_ple_embedding(const OpSpec& op, int layer, const TokenRange& tokens);
  void run_add(const OpSpec& op, int layer, const TokenRange& tokens);
  void run_attention(const OpSpec& op, int layer, const TokenRange& tokens);
  void run_conv(const OpSpec& op, int layer, const TokenRange& tokens);
  void run_index(const OpSpec& op, int layer, const TokenRange& tokens);
  int32_t* indexed_row(int64_t token) { return indexed_.data() + token * config_.index.top_k; }
  void run_norm(const OpSpec& op, int layer, const TokenRange& tokens);
  void run_streams(const OpSpec& op, int layer, const TokenRange& tokens);
  void run_stream_products(const OpSpec& op, int layer, const TokenRange& tokens);
  struct Vectors {
    void* data;
    size_t bytes;
  };
  std::vector<Vectors> stored_vectors(int64_t n_positions);
  const float* angles(int layer) const {
    return (config_.layer(layer).local_rope ? local_cos_sin_ : cos_sin_).data();
  }
  int64_t width(Width of, int layer) const { return config_.width(of, config_.layer(layer)); }
  // Where a result of the batch's tokens from `first` on stands while its layer is computed.
  float* value(Checkpoint checkpoint, int layer, int64_t first = 0) {
    if (checkpoint == Checkpoint::kEmbedding) {
      return embedding_.data() + first * config_.embedding_length;
    }
    const LayerPlan& plan = *plan_of_[static_cast<size_t>(layer)];
    const size_t buffer = plan.buffer(checkpoint);
    return values_[buffer].data() + first * plan.buffers()[buffer];
  }
  // Where an op's result is to stand. What leaves a layer may be narrower than what enters it.
  float* result(const OpSpec& op, int layer, int64_t first) {
    if (op.out != Checkpoint::kOutput) return value(op.out, layer, first);
    return residual_stream() + first * width(op.width, layer);
  }
  float* residual_stream() { return values_.front().data(); }
  OpSite site(Checkpoint checkpoint, int layer, const TokenRange& tokens) const {
    return {checkpoint, layer, n_positions_ + tokens.first, tokens.count};
  }
  // `values` on the host, where they are or in host_values_.
  const float* on_host(const float* values, size_t count);
  void observe(const OpSite& site, int64_t width, const float* values);

  const Model& model_;
  const ModelConfig& config_;
  Kernels& kernels_;
  Memory& memory_;
  int64_t batch_;
  WeightCopy weight_copy_;
  const Weights& weights_;
  KvCache kv_;
  const std::vector<float>& rope_factors_;
  std::vector<LayerPlan> plans_;           // of the layers that differ in their ops
  std::vector<const LayerPlan*> plan_of_;  // each layer's
  std::vector<MatmulCall> products_;       // of one step
  int64_t n_positions_ = 0;
  Probe* probe_ = nullptr;  // these two during eval() only
  LayerInput* layer_input_ = nullptr;
  ExpertSource* expert_source_ = nullptr;

  // Activations of one batch, [batch, width], in the backend's memory.
  Buffer<int32_t> ids_;                // tokens, or positions
  std::vector<Buffer<float>> values_;  // as plans_ say; the first is what goes from layer to layer
  Buffer<float> normed_;               // embedding_length, outside of the layers
  Buffer<float> embedding_;      // these two only where layers have embeddings: embedding_length,
  Buffer<float> ple_rows_;       // n_layers * ple_length
  Buffer<float> cos_sin_;        // rotary_dim
  Buffer<float> local_cos_sin_;  // local_rotary_dim(), of layers with local_rope
  Buffer<float> logits_;         // [1 or kLogitsTokens, n_vocab]
  std::vector<int32_t> expert_ids_;  // of the layer at hand, [n_tokens, n_used]
  std::vector<int32_t> indexed_;     // of the last kIndex, [batch, top_k], as attention reads it
  Buffer<int32_t> expert_rows_;      // these three in the backend's memory
  Buffer<float> expert_inputs_;
  Buffer<float> expert_results_;
  std::vector<float> host_values_;  // copies of what is in another memory than the host's
  std::span<const float> last_logits_;
  std::vector<bool> choosable_;
  std::unique_ptr<Decoder> decoder_;  // null where the kernels decode by single ops
};

}  // namespace assay
