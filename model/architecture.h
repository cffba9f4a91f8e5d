#pragma once

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

// All that tells one architecture from another. Engine, comparison, causes and faults read this
// table; none of them asks for an architecture by name.
struct Architecture {
  std::string_view name;  // general.architecture in the model file
  std::span<const OpSpec> layer;
  NormKind norm;
  ActivationKind activation;
  PositionKind position;
  RopePairing rope_pairing;      // read only where position is kRotary
  bool rope_freqs = false;       // may hold rope_freqs.weight, which divides the frequencies
  bool rope_long_short = false;  // may hold rope_factors_long.weight and rope_factors_short.weight
  SlidingWindow sliding_window = SlidingWindow::kIgnored;
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
