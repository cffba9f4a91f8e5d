#include "engine/architecture.h"

namespace assay {
namespace {

constexpr Architecture kArchitectures[] = {
    {.name = "llama",
     .norm = NormKind::kRms,
     .ffn = FfnKind::kSiluGated,
     .position = PositionKind::kRotary,
     .rope_pairing = RopePairing::kAdjacent,
     .fused_qkv = false,
     .fused_gate_up = false,
     .qkv_bias = Presence::kOptional,
     .other_bias = Presence::kOptional,
     .rope_freqs = true,
     .rope_long_short = false,
     .sliding_window = false},
    {.name = "qwen2",
     .norm = NormKind::kRms,
     .ffn = FfnKind::kSiluGated,
     .position = PositionKind::kRotary,
     .rope_pairing = RopePairing::kHalves,
     .fused_qkv = false,
     .fused_gate_up = false,
     .qkv_bias = Presence::kAlways,
     .other_bias = Presence::kNever,
     .rope_freqs = false,
     .rope_long_short = false,
     .sliding_window = false},
    {.name = "phi3",
     .norm = NormKind::kRms,
     .ffn = FfnKind::kSiluGated,
     .position = PositionKind::kRotary,
     .rope_pairing = RopePairing::kHalves,
     .fused_qkv = true,
     .fused_gate_up = true,
     .qkv_bias = Presence::kNever,
     .other_bias = Presence::kNever,
     .rope_freqs = false,
     .rope_long_short = true,
     .sliding_window = true},
    {.name = "gpt2",
     .norm = NormKind::kLayer,
     .ffn = FfnKind::kGeluTanh,
     .position = PositionKind::kLearned,
     .rope_pairing = RopePairing::kHalves,
     .fused_qkv = true,
     .fused_gate_up = false,
     .qkv_bias = Presence::kAlways,
     .other_bias = Presence::kAlways,
     .rope_freqs = false,
     .rope_long_short = false,
     .sliding_window = false},
};

}  // namespace

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

bool has_checkpoint(const Architecture& architecture, Checkpoint checkpoint) {
  switch (checkpoint) {
    case Checkpoint::kQRope:
    case Checkpoint::kKRope:
      return architecture.position == PositionKind::kRotary;
    case Checkpoint::kFfnGate:
      return architecture.ffn == FfnKind::kSiluGated;
    default:
      return true;
  }
}

std::string architecture_names() {
  std::string names;
  for (const Architecture& architecture : kArchitectures) {
    if (!names.empty()) names += ", ";
    names += architecture.name;
  }
  return names;
}

}  // namespace assay
