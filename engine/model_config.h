#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/gguf.h"
#include "kernels/kernels.h"
#include "model/architecture.h"

namespace assay {

constexpr int64_t kMaxHeads = 65535;  // as many rows of blocks as a CUDA device can launch
constexpr int64_t kMaxConvTaps = 64;

// Tensors of a layer that it does without where it reads an earlier layer's keys and values; files
// may have them all the same.
constexpr bool is_of_kv(std::string_view tensor) {
  return tensor == "attn_k" || tensor == "attn_v" || tensor == "attn_k_norm";
}

// The heads of one layer, but for the number of those of queries, which is the model's.
struct HeadSizes {
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;
  int64_t rotary_dim = 0;
  bool operator==(const HeadSizes&) const = default;
};

// How a kRope turns heads.
struct RotatedHeads {
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;
  int64_t first_turned = 0;
  RopePairing pairing = RopePairing::kHalves;
};

// One layer of a model.
struct LayerConfig {
  std::vector<OpSpec> ops;
  std::optional<HeadSizes> own_heads;  // where they are not the model's
  int64_t window = 0;                  // that its attention sees; 0: all
  bool local_rope = false;             // rotates by the local base
  int kv_layer = -1;                   // whose keys and values it reads; -1: its own
  int index_layer = -1;                // whose positions it sees; -1: its own, or all
  int64_t feed_forward_length = 0;     // 0: the model's
  Xielu xielu;                         // of its activation, if that is kXielu
  float cutoff = 0.0F;                 // of kCutoff, in deviations
  bool operator==(const LayerConfig&) const = default;
};

// Rotary frequencies that are interpolated where a pair turns slowly, and kept where it turns fast
// (Peng et al. 2023).
struct Yarn {
  double extrapolation = 1.0;  // share of the pairs' own frequencies in the mixture; 0: none of it
  double beta_fast = 32.0;     // pairs that turn more often in the original context are kept
  double beta_slow = 1.0;      // and those that turn less often interpolated
  bool operator==(const Yarn&) const = default;
};

// The base of rotations of `dimensions` elements that rope.scaling.alpha makes of another.
inline double stretched_base(double base, double alpha, int64_t dimensions) {
  const auto size = static_cast<double>(dimensions);
  return base * std::pow(alpha, size / (size - 2.0));
}

// The hyperparameters of a model, under the names that GGUF gives them.
struct ModelConfig {
  const Architecture* architecture = nullptr;
  std::string name;  // general.name, or the file's name
  int64_t n_layers = 0;
  int64_t n_ignored_layers = 0;  // behind them: what predicts further tokens
  int64_t n_vocab = 0;           // rows of the output matrix, padding included
  int64_t embedding_length = 0;
  int64_t feed_forward_length = 0;
  Routing routing;                         // no experts where there are none
  int64_t expert_feed_forward_length = 0;  // of one expert
  int64_t shared_feed_forward_length = 0;  // of the expert that all tokens use; 0: none
  int64_t ple_length = 0;  // of a token's embedding in each layer; 0: layers have none
  int64_t n_streams = 1;   // residual streams
  int64_t laurel_rank = 0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;     // of a head's values
  int64_t q_lora_rank = 0;   // of latent attention; 0: q is a product of the layer's input
  int64_t kv_lora_rank = 0;  // 0: no latent attention
  int64_t conv_taps = 0;     // positions that a convolution reads, its own included
  IndexShape index;          // of attention that sees some positions alone; else without heads
  DeltaShape delta;          // of linear attention or a state space model; else without heads
  int64_t ssm_rank = 0;      // of Mamba: what the steps are a product of
  bool ssm_normed = false;   // it may have norms without weights, of this eps
  float ssm_norm_eps = 0.0F;
  int64_t context_length = 0;  // positions the model was made for
  int64_t sliding_window = 0;  // of the layers that have one; 0: none
  std::vector<LayerConfig> layers;
  float clip = 0.0F;                // largest magnitude of q, k and v; 0: none
  float attention_soft_cap = 0.0F;  // 0: none
  float logit_soft_cap = 0.0F;
  float attention_temperature = 0.0F;  // of AttentionShape; 0: none
  int64_t temperature_span = 0;
  double max_alibi_bias = 0.0;  // of AlibiSlopes; 0: none
  float value_scale = 1.0F;     // of what attention gives
  NormKind norm = NormKind::kRms;
  float norm_eps = 0.0F;
  ActivationKind activation = ActivationKind::kSilu;
  std::array<double, kMultiplierKeys.size()> multipliers = {};  // 0: the default

  // Rotary embedding; not read where the architecture has learned positions.
  int64_t rotary_dim = 0;
  std::vector<float> rope_divisors;  // of the frequencies, where text leaves pairs as they are
  double rope_freq_base = 10000.0;
  double local_rope_freq_base = 0.0;  // of layers with local_rope, which are not scaled
  double rope_freq_scale = 1.0;       // 1 / factor of linear or YaRN scaling
  std::optional<Yarn> yarn;
  bool yarn_whole_pairs = true;
  double rope_attn_factor = 1.0;             // multiplies cos and sin (long/short factors)
  double yarn_score_factor = 1.0;            // multiplies the attention's scores
  int64_t rope_original_context_length = 0;  // up to here the short factors hold

  // Of all layers but those with heads of their own.
  HeadSizes heads() const { return {n_kv_heads, head_dim, value_dim, rotary_dim}; }
  HeadSizes heads(const LayerConfig& layer) const { return layer.own_heads.value_or(heads()); }
  HeadSizes heads(int64_t number) const { return heads(layer(number)); }

  // Of layers with local_rope.
  int64_t local_rotary_dim() const {
    const auto found = std::ranges::find(layers, true, &LayerConfig::local_rope);
    return found == layers.end() ? rotary_dim : heads(*found).rotary_dim;
  }

  int64_t q_width() const { return n_heads * head_dim; }
  int64_t kv_width() const { return n_kv_heads * head_dim; }
  int64_t unrotated_dim() const { return head_dim - rotary_dim; }
  // Where the rotated part of a head begins.
  int64_t first_turned() const { return architecture->rotated_end ? unrotated_dim() : 0; }
  int64_t width(Width of) const { return width(of, heads()); }
  int64_t width(Width of, const LayerConfig& layer) const {
    const bool own = of == Width::kInner && layer.feed_forward_length > 0;
    return own ? layer.feed_forward_length : width(of, heads(layer));
  }
  int64_t width(Width width, const HeadSizes& sizes) const {
    switch (width) {
      case Width::kQ:
        return n_heads * sizes.head_dim;
      case Width::kKv:
        return sizes.n_kv_heads * sizes.head_dim;
      case Width::kValues:
        return sizes.n_kv_heads * sizes.value_dim;
      case Width::kAttended:
        return n_heads * sizes.value_dim;
      case Width::kHead:
        return sizes.head_dim;
      case Width::kQLatent:
        return q_lora_rank;
      case Width::kKvLatent:
        return kv_lora_rank;
      case Width::kKvA:
        return kv_lora_rank + rotary_dim;
      case Width::kKvB:
        return n_heads * (unrotated_dim() + value_dim);
      case Width::kInner:
        return feed_forward_length;
      case Width::kVocab:
        return n_vocab;
      case Width::kHeads:
        return n_heads;
      case Width::kExperts:
        return routing.n_experts;
      case Width::kUsed:
        return routing.n_used;
      case Width::kExpertInner:
        return routing.n_used * expert_feed_forward_length;
      case Width::kExpertHidden:
        return routing.n_used * embedding_length;
      case Width::kShared:
        return shared_feed_forward_length;
      case Width::kOne:
        return 1;
      case Width::kGatedQ:
        return 2 * n_heads * sizes.head_dim;
      case Width::kLinearQkv:
        return delta.qkv_width();
      case Width::kLinearValues:
        return delta.value_width();
      case Width::kLinearHeads:
        return delta.n_value_heads;
      case Width::kLinearGates:
        return 2 * delta.n_value_heads;
      case Width::kLinearHead:
        return delta.value_dim;
      case Width::kSsmRank:
        return ssm_rank;
      case Width::kSsmKey:
        return delta.key_dim;
      case Width::kPle:
        return ple_length;
      case Width::kStreamCount:
        return n_streams;
      case Width::kStreamPairs:
        return n_streams * n_streams;
      case Width::kStreams:
        return n_streams * embedding_length;
      case Width::kOtherStreams:
        return (n_streams - 1) * embedding_length;
      case Width::kLaurel:
        return laurel_rank;
      case Width::kSsmGroup:
        return delta.value_width() / delta.n_key_heads;
      case Width::kIndexQ:
        return index.n_heads * index.head_dim;
      case Width::kIndexHead:
        return index.head_dim;
      case Width::kIndexHeads:
        return index.n_heads;
      case Width::kIndexed:
        return index.top_k;
      case Width::kHidden:
        break;
    }
    return embedding_length;
  }
  // Of an op that weighs or mixes: the shared expert is one of one, by a sigmoid.
  Routing routing_of(Checkpoint checkpoint) const {
    if (!is_of_shared_expert(checkpoint)) return routing;
    return {.gating = Gating::kSigmoid, .n_experts = 1, .n_used = 1};
  }
  const LayerConfig& layer(int64_t number) const { return layers[static_cast<size_t>(number)]; }
  // The op of a layer that computes the checkpoint, of the first that has one; null if none has.
  const OpSpec* find(Checkpoint checkpoint) const;
  // Elements of a checkpoint that the model has.
  int64_t width(Checkpoint checkpoint) const {
    if (checkpoint == Checkpoint::kLogits) return n_vocab;
    const OpSpec* op = find(checkpoint);
    return op == nullptr ? embedding_length : width(op->width);
  }
  // As the file states it, or what the architecture has.
  double multiplier(Multiplier which) const;
  // Multiplier::kAttention, of heads of this size.
  double attention_scale(const HeadSizes& sizes) const;
  // What a result is multiplied by; 1 in most networks.
  float embedding_factor() const { return static_cast<float>(multiplier(Multiplier::kEmbedding)); }
  float residual_factor() const { return static_cast<float>(multiplier(Multiplier::kResidual)); }
  float logit_factor() const {
    const double factor = multiplier(Multiplier::kLogits);
    return static_cast<float>(architecture->logits_times ? factor : 1.0 / factor);
  }

  // Of a kHeads: how many heads its parts are of. Gates of linear attention that are one product
  // are those of key heads.
  int64_t n_heads_of(const OpSpec& op) const {
    return op.in.front() == Checkpoint::kLinearBa ? delta.n_key_heads : n_heads;
  }
  // A query or its gate, where both are in one, and likewise beta or alpha; else of latent
  // attention, with two inputs a head's first elements and the rotated ones that all share, with
  // one its values.
  HeadParts head_parts(const OpSpec& op) const {
    if (op.in.front() == Checkpoint::kLinearBa) {
      const int64_t count = delta.n_value_heads / delta.n_key_heads;
      return {2 * count, op.out == Checkpoint::kLinearB ? 0 : count, count};
    }
    if (op.in.front() == Checkpoint::kGatedQ) {
      return {2 * head_dim, op.out == Checkpoint::kQ ? 0 : head_dim, head_dim};
    }
    const int64_t own = unrotated_dim();
    if (op.n_inputs == 1) return {own + value_dim, own, value_dim};
    return {own + value_dim, 0, own, kv_lora_rank + rotary_dim, kv_lora_rank, rotary_dim};
  }

  // x / root of y / sqrt(mean(y^2) + eps), y = x / root, is x / sqrt(mean(x^2) + eps root^2).
  float eps_of(const OpSpec& op) const {
    if (op.input_over_root) return norm_eps * static_cast<float>(embedding_length);
    if (op.tensor.empty() && is_ssm_norm(op.out)) return ssm_norm_eps;
    return op.own_eps > 0.0 ? static_cast<float>(op.own_eps) : norm_eps;
  }
  // What a layer's own embedding of a token is multiplied by.
  float ple_factor() const { return std::sqrt(static_cast<float>(ple_length)); }
  // Those of a layer in the embeddings of all layers.
  HeadParts ple_parts(int64_t layer) const {
    return {n_layers * ple_length, layer * ple_length, ple_length};
  }
  // What enters a layer, or what leaves the last.
  int64_t entering_width(int64_t number) const {
    const bool one = number == 0 || number == n_layers;
    return one ? embedding_length : width(Width::kStreams);
  }
  // Whose keys and values a layer reads.
  int64_t kv_layer(int64_t number) const {
    const int other = layer(number).kv_layer;
    return other < 0 ? number : other;
  }

  NormKind norm_of(const OpSpec& op) const { return op.own_norm.value_or(norm); }

  RotatedHeads rotated_heads(Checkpoint rope, int64_t layer) const {
    const HeadSizes sizes = heads(layer);
    if (rope == Checkpoint::kIndexQRope || rope == Checkpoint::kIndexKRope) {
      return {index.head_dim, sizes.rotary_dim, 0, architecture->index_pairing};
    }
    return {sizes.head_dim, sizes.rotary_dim, first_turned(), architecture->rope_pairing};
  }

  // Whether the scores of a layer have the temperature.
  bool has_temperature(const LayerConfig& layer) const {
    return architecture->default_temperature == 0.0 ||
           find_spec(layer.ops, Checkpoint::kQRope) == nullptr;
  }

  AttentionShape attention_shape(int64_t layer) const {
    const HeadSizes sizes = heads(layer);
    const LayerConfig& own = this->layer(layer);
    return {
        .n_heads = n_heads,
        .n_kv_heads = sizes.n_kv_heads,
        .head_dim = sizes.head_dim,
        .scale = static_cast<float>(attention_scale(sizes) * yarn_score_factor),
        .window = own.window,
        .soft_cap = attention_soft_cap,
        .own_value_dim = sizes.value_dim,
        .temperature = has_temperature(own) ? attention_temperature : 0.0F,
        .temperature_span = temperature_span,
        .temperature_offset = architecture->default_temperature == 0.0 ? 0 : 1,
        .chunked = architecture->chunked,
        .alibi = max_alibi_bias > 0.0 ? AlibiSlopes::of(max_alibi_bias, n_heads) : AlibiSlopes()};
  }

  // Throws Error that names the key if one is missing, out of range, or asks for what Assay does
  // not compute.
  static ModelConfig from_gguf(const Gguf& gguf);
  bool operator==(const ModelConfig&) const = default;
};

// Whether the number above 0 is neither infinite nor 0, and keeps its precision, as a 32-bit float.
inline bool is_in_float_range(double value) {
  return value >= static_cast<double>(std::numeric_limits<float>::min()) &&
         value <= static_cast<double>(std::numeric_limits<float>::max());
}

}  // namespace assay
