#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace assay {

// The named tensors of a forward pass, in the order in which a network computes them. kEmbedding
// comes before the layers; kFinalNorm and kLogits after them; each layer has the others.
enum class Checkpoint : uint8_t {
  kEmbedding,
  kAltupProj,
  kStreams,
  kAltupNorm,
  kAltupRouter,
  kAltupModes,
  kAltupCoefs,
  kPredictions,
  kActive,
  kAttnNorm,
  kLaurelLeft,
  kLaurelRight,
  kLaurelNorm,
  kLaurelOut,
  kQA,
  kQANorm,
  kKvA,
  kKvANorm,
  kKvB,
  kGatedQ,
  kQ,
  kAttnGate,
  kK,
  kV,
  kQNorm,
  kKNorm,
  kVNorm,
  kQClip,
  kKClip,
  kVClip,
  kQRope,
  kKRope,
  kQRopeNorm,
  kKRopeNorm,
  kIndexQ,
  kIndexK,
  kIndexKNorm,
  kIndexQRope,
  kIndexKRope,
  kIndexWeights,
  kIndexed,
  kConvB,
  kConvC,
  kConvX,
  kLinearQkv,
  kSsmX,
  kLinearZ,
  kLinearBa,
  kLinearB,
  kLinearA,
  kSsmXbc,
  kSsmDt,
  kAttn,
  kGatedAttn,
  kAttnSubNorm,
  kConv,
  kLinearConv,
  kDelta,
  kDeltaNorm,
  kSsmDtIn,
  kSsmB,
  kSsmC,
  kSsmDtNorm,
  kSsmBNorm,
  kSsmCNorm,
  kSsmStep,
  kSsm,
  kSsmNorm,
  kSsmGated,
  kAttnOut,
  kSsmOut,
  kMixerOut,
  kPostAttnNorm,
  kAttnResidual,
  kAttnLaurel,
  kFfnNorm,
  kExpertNorm,
  kRouterNorm,
  kRouter,
  kExperts,
  kExpertWeights,
  kExpertIn,
  kFfnGate,
  kFfnUp,
  kFfnCutoff,
  kFfnAct,
  kFfnSubNorm,
  kExpertOut,
  kRoutedOut,
  kRoutedNorm,
  kSharedGate,
  kSharedUp,
  kSharedAct,
  kSharedOut,
  kSharedScore,
  kSharedWeight,
  kSharedScaled,
  kSharedNorm,
  kFfnOut,
  kPostFfnNorm,
  kFfnResidual,
  kCorrectNorm,
  kCorrectRouter,
  kCorrectModes,
  kCorrectCoefs,
  kCorrected,
  kCorrectedFirst,
  kPleEmbedding,
  kPleProj,
  kPleProjNorm,
  kPleInput,
  kPleGate,
  kPleAct,
  kPleOut,
  kPleNorm,
  kStreamsOut,
  kUnembedded,
  kOutput,
  kFinalNorm,
  kLogits,
};

inline constexpr int kCheckpoints = static_cast<int>(Checkpoint::kLogits) + 1;

// Whether each layer has one.
constexpr bool is_in_layer(Checkpoint checkpoint) {
  return checkpoint > Checkpoint::kEmbedding && checkpoint < Checkpoint::kFinalNorm;
}

// Whether it is of the expert that all tokens use, beside those that they choose.
constexpr bool is_of_shared_expert(Checkpoint checkpoint) {
  return checkpoint >= Checkpoint::kSharedGate && checkpoint <= Checkpoint::kSharedNorm;
}

// "q_rope", without its layer; or "embedding", "final_norm", "logits".
std::string_view checkpoint_op(Checkpoint checkpoint);

// The checkpoint of that name, within a layer or outside of the layers.
std::optional<Checkpoint> find_checkpoint(std::string_view op, bool in_layer);

// "embedding", "layer_7_attn_norm", ..., "logits". `layer` is read only for the layers' own.
std::string checkpoint_name(Checkpoint checkpoint, int layer);

// An op of a network, by the checkpoint that it computes. `layer` is -1 outside of the layers.
struct OpPlace {
  Checkpoint checkpoint = Checkpoint::kEmbedding;
  int layer = -1;

  std::string name() const { return checkpoint_name(checkpoint, layer); }
  // NOLINTNEXTLINE(modernize-use-nullptr): it takes the compiler's own comparison for a 0
  auto operator<=>(const OpPlace&) const = default;
};

}  // namespace assay
