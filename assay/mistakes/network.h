#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/mistakes/matrix.h"
#include "assay/mistakes/ops.h"
#include "engine/model.h"
#include "model/architecture.h"

namespace assay::mistakes {

using Op = OpPlace;

// The op whose result is the input of the layer of `op`.
inline Op layer_input(Op op) {
  return op.layer == 0 ? Op{Checkpoint::kEmbedding, -1} : Op{Checkpoint::kOutput, op.layer - 1};
}

struct KernelHooks;
struct OpContext;

// What an op computes from, at some token positions.
struct Inputs {
  // Of each row. Of an attention those of the queries: its keys and values, as all that an op of
  // reads_back() reads at earlier positions, are of all positions from 0 on. None: 0, 1, ...
  std::vector<int64_t> positions = {};
  std::vector<const Matrix*> rows = {};                  // of Network::inputs(), in that order
  std::vector<std::shared_ptr<const Matrix>> held = {};  // keeps these alive
  std::vector<int32_t> tokens = {};                      // of each row; for the embedding only
  std::vector<bool> wanted = {};                         // rows that matter; all where empty
  // Another checkpoint's rows, if they are known.
  std::function<std::shared_ptr<const Matrix>(Op)> other = {};

  int64_t position_at(int64_t row) const {
    return positions.empty() ? row : positions[static_cast<size_t>(row)];
  }
  // Of the result.
  int64_t n_rows() const {
    return positions.empty() ? rows.front()->rows : static_cast<int64_t>(positions.size());
  }
};

// The numbers of a norm.
struct NormWeights {
  std::vector<float> weight;
  std::vector<float> bias;  // empty where there is none
};

// How a network computes each checkpoint from those before it, as far as is known: everything with
// its model file, and without it what a reference log shows (see infer()). Several threads may
// compute at once, each an op by itself.
struct Network {
  int n_layers = 0;
  int64_t n_heads = 0;  // 0 where unknown, as all sizes
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t own_value_dim = 0;  // of a head's values, where it is another
  int64_t window = 0;
  int64_t n_prompt = 0;  // tokens that go through it together; 0 where unknown
  std::optional<RopeSettings> rope;
  RopeSettings local_rope;          // of layers with LayerConfig::local_rope
  RopeSettings index_rope;          // of the heads that choose positions
  std::vector<float> rope_factors;  // that the model's file states, of its frequencies
  std::optional<Activation> activation;
  std::optional<NormKind> norm;
  double eps = 0;
  bool eps_known = true;            // and not only that it is small beside what is normalised
  std::map<Op, NormWeights> norms;  // of those that are known without a model
  const Model* model = nullptr;

  // The ops of a layer.
  const std::vector<OpSpec>& layer(int number) const {
    return model == nullptr || number < 0 ? layer_ : model->config().layer(number).ops;
  }
  // Whether its layers, or some of them, have an op.
  bool has(Checkpoint checkpoint) const {
    return (model == nullptr ? find_spec(layer_, checkpoint) : model->config().find(checkpoint)) !=
           nullptr;
  }
  int64_t value_dim() const { return own_value_dim == 0 ? head_dim : own_value_dim; }
  // Elements of a head, of all heads with so many.
  int64_t dim_of_head(int64_t columns) const {
    return columns == n_heads * value_dim() ? value_dim() : head_dim;
  }
  // The network as the op's layer has it, where layers differ in their heads.
  const Network& at(Op op) const {
    const bool own = own_heads_ != nullptr && op.layer >= 0 && op.layer < n_layers &&
                     model->config().layer(op.layer).own_heads;
    return own ? *own_heads_ : *this;
  }
  // Those of the op's layer.
  HeadSizes heads(Op op) const {
    if (model == nullptr || op.layer < 0) return {n_kv_heads, head_dim, value_dim(), 0};
    return model->config().heads(op.layer);
  }
  bool rotary() const { return has(Checkpoint::kQRope); }
  bool gated() const { return has(Checkpoint::kFfnGate); }
  OpKind kind_of(Op op) const;
  // The number of the first input that an op of reads_back() reads at earlier positions.
  int first_read_back(Op op) const {
    return assay::first_read_back(*find_spec(layer(op.layer), op.checkpoint));
  }
  // The rotation of the op's layer; where there is one.
  const RopeSettings& rope_at(Op op) const;
  // Without a model: whether q and k are rotated, and whether the feed-forward has a gate.
  void set_layer(bool is_rotary, bool is_gated);

  // What the op reads, in the order of Inputs::rows. Empty for the embedding.
  std::vector<Op> inputs(Op op) const {
    const bool in_model = model != nullptr && op.layer >= 0 && op.layer < n_layers;
    if (!in_model) return inputs_of(layer(op.layer), n_layers, op);
    const LayerConfig& own = model->config().layer(op.layer);
    return inputs_of(own.ops, n_layers, op, own.kv_layer, own.index_layer);
  }

  // Whether it can be computed from its inputs.
  bool can_compute(Op op) const;
  // Columns of what it gives from inputs of these columns, in the order of inputs(); nothing if it
  // cannot be computed from such. compute() trusts that it can.
  std::optional<int64_t> columns(Op op, const std::vector<int64_t>& inputs) const;
  // Elements of a checkpoint of this kind in the model; 0 without one.
  int64_t width(Op op) const {
    if (model == nullptr) return 0;
    const OpSpec* spec = op.layer < 0 ? nullptr : find_spec(layer(op.layer), op.checkpoint);
    const ModelConfig& config = model->config();
    return spec == nullptr ? config.width(op.checkpoint)
                           : config.width(spec->width, config.layer(op.layer));
  }
  Matrix compute(Op op, const Inputs& inputs) const;
  // The same with edited calls; `parameter` is for the edits.
  Matrix compute(Op op, const Inputs& inputs, const KernelHooks& hooks, double parameter) const;

  AttentionShape attention_shape(Op op) const;
  NormCall norm_call(Op op) const;  // without its rows
  // That of an activation, or of an op that ends with one.
  std::optional<Activation> activation_at(Op op) const;
  // What a sum, or what attention gives, is multiplied by; 1 of most.
  float scale_at(Op op) const;
  // Whether an op has one that is not the feed-forward's.
  bool has_own_activation(Op op) const;
  // Whether it limits the magnitude of queries, keys or values.
  bool is_clip(Op op) const {
    return model != nullptr &&
           (op.checkpoint == Checkpoint::kQClip || op.checkpoint == Checkpoint::kKClip ||
            op.checkpoint == Checkpoint::kVClip);
  }
  // Whether an op that is no norm ends with one, as the embedding of some networks does.
  bool ends_with_norm(Op op) const;
  // The weights of a linear op; null without a model or for other ops.
  const Linear* linear(Op op) const;
  // By which the weights of the op's experts are multiplied; null: by nothing.
  const float* expert_scales(Op op) const;
  // Of a norm; without, each weight is 1.
  bool has_norm_weight(Op op) const;
  // Of a linear op, a norm or a choice of experts; false without a model or for other ops.
  bool has_bias(Op op) const;

  // Of a model's own file; `n_positions` decides about phi3's long factors.
  static Network of_model(const Model& model, int64_t n_positions);

 private:
  // Of each layer, without a model.
  std::vector<OpSpec> layer_{common_layer().begin(), common_layer().end()};
  Matrix compute_hooked(const OpContext& context, const KernelHooks& hooks) const;
  Matrix look_up(const OpContext& context, const KernelHooks& hooks) const;
  Matrix look_up_of_layer(const OpContext& context, const KernelHooks& hooks) const;
  Matrix of_attention(const OpContext& context, const KernelHooks& hooks) const;
  Matrix of_index(const OpContext& context, const KernelHooks& hooks) const;
  Matrix of_convolution(const OpContext& context, const KernelHooks& hooks) const;
  Matrix of_state(const OpContext& context, const KernelHooks& hooks) const;
  void activate_in_place(const OpContext& context, const KernelHooks& hooks, const float* gate,
                         Matrix& out) const;
  Matrix of_experts(const OpContext& context, const KernelHooks& hooks) const;
  Matrix of_streams(const OpContext& context, const KernelHooks& hooks) const;
  std::vector<int32_t> expert_ids(const Matrix& logged) const;
  Linear output_linear_;
  std::shared_ptr<const Network> own_heads_;  // of layers that have own_heads
  std::shared_ptr<Kernels> reference_ = make_reference_kernels();
};

}  // namespace assay::mistakes
