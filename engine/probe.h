#pragma once

#include <cstdint>
#include <string>

namespace assay {

// The named tensors of a forward pass, in the order in which the network computes them within a
// layer. kEmbedding comes before the layers; kFinalNorm and kLogits after them.
enum class Checkpoint : uint8_t {
  kEmbedding,
  kAttnNorm,
  kQ,
  kK,
  kV,
  kQRope,
  kKRope,
  kAttn,
  kAttnOut,
  kAttnResidual,
  kFfnNorm,
  kFfnGate,
  kFfnUp,
  kFfnAct,
  kFfnOut,
  kOutput,
  kFinalNorm,
  kLogits,
};

inline constexpr int kCheckpoints = static_cast<int>(Checkpoint::kLogits) + 1;

// Whether each layer has one.
constexpr bool is_in_layer(Checkpoint checkpoint) {
  return checkpoint > Checkpoint::kEmbedding && checkpoint < Checkpoint::kFinalNorm;
}

// "embedding", "layer_7_attn_norm", ..., "logits". `layer` is read only for the layers' own.
std::string checkpoint_name(Checkpoint checkpoint, int layer);

// Sees the values that the engine computes. It changes nothing: the same kernels run with a probe
// or without.
class Probe {
 public:
  virtual ~Probe() = default;

  // Whether observe() is to be called for this checkpoint.
  virtual bool wants(Checkpoint checkpoint, int layer) = 0;

  // values[n_tokens, width] at the token positions first_token_idx, first_token_idx + 1, ...
  // Valid during the call only.
  virtual void observe(Checkpoint checkpoint, int layer, int64_t first_token_idx, int64_t n_tokens,
                       int64_t width, const float* values) = 0;
};

}  // namespace assay
