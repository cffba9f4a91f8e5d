#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/probe.h"
#include "kernels/kernels.h"

namespace assay {

enum class FfnKind : uint8_t { kSiluGated, kGeluTanh };
enum class PositionKind : uint8_t { kRotary, kLearned };

// Whether a model of this architecture has a tensor.
enum class Presence : uint8_t { kNever, kOptional, kAlways };

// All that tells one architecture from another. The loader and the forward pass read this table;
// neither asks for an architecture by name.
struct Architecture {
  std::string_view name;  // general.architecture in the model file
  NormKind norm;
  FfnKind ffn;
  PositionKind position;
  RopePairing rope_pairing;  // read only where position is kRotary
  bool fused_qkv;            // one tensor attn_qkv: rows of Q, then K, then V
  bool fused_gate_up;        // one tensor ffn_up: rows of gate, then up
  Presence qkv_bias;
  Presence other_bias;   // of attn_output, ffn_up, ffn_gate and ffn_down
  bool rope_freqs;       // may hold rope_freqs.weight, which divides the frequencies
  bool rope_long_short;  // may hold rope_factors_long.weight and rope_factors_short.weight
  bool sliding_window;   // honours attention.sliding_window
};

// Whether a model of this architecture has this checkpoint in its forward pass.
bool has_checkpoint(const Architecture& architecture, Checkpoint checkpoint);

// The architecture of this name; null if Assay does not know it.
const Architecture* find_architecture(std::string_view name);

// The names of all architectures, for messages: "llama, qwen2, phi3, gpt2".
std::string architecture_names();

}  // namespace assay
