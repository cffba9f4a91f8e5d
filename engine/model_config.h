#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include "engine/gguf.h"
#include "kernels/kernels.h"
#include "model/architecture.h"

namespace assay {

constexpr int64_t kMaxHeads = 65535;  // as many rows of blocks as a CUDA device can launch

// The hyperparameters of a model, under the names that GGUF gives them.
struct ModelConfig {
  const Architecture* architecture = nullptr;
  std::string name;  // general.name, or the file's name
  int64_t n_layers = 0;
  int64_t n_vocab = 0;  // rows of the output matrix, padding included
  int64_t embedding_length = 0;
  int64_t feed_forward_length = 0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t context_length = 0;  // positions the model was made for
  int64_t sliding_window = 0;  // 0: none
  float norm_eps = 0.0F;
  std::array<double, kMultiplierKeys.size()> multipliers = {};  // 0: the default

  // Rotary embedding; not read where the architecture has learned positions.
  int64_t rotary_dim = 0;
  double rope_freq_base = 10000.0;
  double rope_freq_scale = 1.0;              // 1 / factor of linear scaling
  double rope_attn_factor = 1.0;             // multiplies cos and sin (long/short factors)
  int64_t rope_original_context_length = 0;  // up to here the short factors hold

  int64_t q_width() const { return n_heads * head_dim; }
  int64_t kv_width() const { return n_kv_heads * head_dim; }
  int64_t width(Width width) const {
    switch (width) {
      case Width::kQ:
        return q_width();
      case Width::kKv:
        return kv_width();
      case Width::kHead:
        return head_dim;
      case Width::kInner:
        return feed_forward_length;
      case Width::kVocab:
        return n_vocab;
      case Width::kHidden:
        break;
    }
    return embedding_length;
  }
  // Elements of a checkpoint that the architecture has.
  int64_t width(Checkpoint checkpoint) const {
    if (checkpoint == Checkpoint::kLogits) return n_vocab;
    const OpSpec* op = find_spec(architecture->layer, checkpoint);
    return op == nullptr ? embedding_length : width(op->width);
  }
  double multiplier(Multiplier which) const {
    const double stated = multipliers[static_cast<size_t>(which)];
    if (stated > 0.0) return stated;
    return which == Multiplier::kAttention ? 1.0 / std::sqrt(static_cast<double>(head_dim)) : 1.0;
  }
  // What a result is multiplied by; 1 in most networks.
  float embedding_factor() const { return static_cast<float>(multiplier(Multiplier::kEmbedding)); }
  float residual_factor() const { return static_cast<float>(multiplier(Multiplier::kResidual)); }
  float logit_factor() const { return static_cast<float>(1.0 / multiplier(Multiplier::kLogits)); }

  AttentionShape attention_shape() const {
    return {.n_heads = n_heads,
            .n_kv_heads = n_kv_heads,
            .head_dim = head_dim,
            .scale = static_cast<float>(multiplier(Multiplier::kAttention)),
            .window = sliding_window};
  }

  // Throws Error that names the key if one is missing, out of range, or asks for what Assay does
  // not compute.
  static ModelConfig from_gguf(const Gguf& gguf);
};

// Whether the number above 0 is neither infinite nor 0, and keeps its precision, as a 32-bit float.
bool is_in_float_range(double value);

}  // namespace assay
