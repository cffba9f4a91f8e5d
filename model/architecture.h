#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/op.h"

namespace assay {

enum class PositionKind : uint8_t { kRotary, kLearned };

// What becomes of attention.sliding_window: kIgnored where engines ignore it in such files,
// kRejected where it says that only some of the layers have a window.
enum class SlidingWindow : uint8_t { kIgnored, kHonoured, kRejected };

// Factors that some networks have, and the keys under which their files state them.
enum class Multiplier : uint8_t {
  kEmbedding,  // of the embedding
  kAttention,  // of the attention's scores, in the place of 1 / sqrt(head_dim)
  kResidual,   // of what is added to the residual stream
  kLogits,     // what the logits are divided by
};
inline constexpr std::array<std::string_view, 4> kMultiplierKeys = {
    "embedding_scale", "attention.scale", "residual_scale", "logit_scale"};

// All that tells one architecture from another. Engine, comparison, causes and faults read this
// table; none of them asks for an architecture by name. What most have is the default.
struct Architecture {
  std::string_view name;  // general.architecture in the model file
  std::span<const OpSpec> layer;
  NormKind norm = NormKind::kRms;
  ActivationKind activation = ActivationKind::kSiluGated;
  PositionKind position = PositionKind::kRotary;
  RopePairing rope_pairing = RopePairing::kHalves;  // read only where position is kRotary
  bool rope_freqs = false;       // may hold rope_freqs.weight, which divides the frequencies
  bool rope_long_short = false;  // may hold rope_factors_long.weight and rope_factors_short.weight
  SlidingWindow sliding_window = SlidingWindow::kIgnored;
  bool multipliers = false;  // honours kMultiplierKeys
  bool rope_switch = false;  // rope.scaling.finetuned says whether there is a rotation
};

// The ops of a layer that has rotary embeddings and a gate, as most have.
std::span<const OpSpec> common_layer();

// What computes a checkpoint, which is the same in all architectures that have it.
OpKind kind_of(Checkpoint checkpoint);

// Whether a model of this architecture has this checkpoint in its forward pass.
bool has_checkpoint(const Architecture& architecture, Checkpoint checkpoint);

// Whether all architectures that have the checkpoint have one row of embedding_length elements a
// token there, without heads.
bool has_model_width(Checkpoint checkpoint);

// The architecture of this name; null if Assay does not know it.
const Architecture* find_architecture(std::string_view name);

// The names of all architectures, for messages: "llama, qwen2, ...".
std::string architecture_names();

}  // namespace assay
