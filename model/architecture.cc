#include "model/architecture.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace assay {
namespace {

using C = Checkpoint;
using W = Width;

// What an architecture's layer is written with.
constexpr OpSpec norm(Checkpoint out, Checkpoint in, std::string_view tensor,
                      Presence bias = Presence::kNever) {
  return {OpKind::kNorm, out, Width::kHidden, {in}, 1, tensor, bias};
}
// RMSNorm of q or k, whose size is `width`, over all of it or over each head.
constexpr OpSpec qk_norm(Checkpoint out, Checkpoint in, Width width, std::string_view tensor,
                         Width norm_width) {
  return {OpKind::kNorm, out, width, {in}, 1, tensor, Presence::kNever, norm_width};
}
constexpr OpSpec linear(Checkpoint out, Checkpoint in, Width width, std::string_view tensor,
                        Presence bias = Presence::kNever) {
  return {OpKind::kLinear, out, width, {in}, 1, tensor, bias};
}
constexpr OpSpec rope(Checkpoint out, Checkpoint in, Width width) {
  return {OpKind::kRope, out, width, {in}, 1, {}, Presence::kNever};
}
constexpr OpSpec attention(Checkpoint q, Checkpoint k, Checkpoint v) {
  return {OpKind::kAttention, Checkpoint::kAttn, Width::kQ, {q, k, v}, 3, {}, Presence::kNever};
}
constexpr OpSpec activation(Checkpoint up) {
  return {OpKind::kActivation, Checkpoint::kFfnAct, Width::kInner, {up}, 1, {}, Presence::kNever};
}
constexpr OpSpec activation(Checkpoint up, Checkpoint gate) {
  return {OpKind::kActivation, Checkpoint::kFfnAct, Width::kInner, {up, gate}, 2, {},
          Presence::kNever};
}
constexpr OpSpec add(Checkpoint out, Checkpoint residual, Checkpoint branch) {
  return {OpKind::kAdd, out, Width::kHidden, {residual, branch}, 2, {}, Presence::kNever};
}

constexpr std::array<OpSpec, 15> gated_layer(Presence qkv_bias, Presence other_bias) {
  return {
      norm(C::kAttnNorm, C::kOutput, "attn_norm"),
      linear(C::kQ, C::kAttnNorm, W::kQ, "attn_q", qkv_bias),
      linear(C::kK, C::kAttnNorm, W::kKv, "attn_k", qkv_bias),
      linear(C::kV, C::kAttnNorm, W::kKv, "attn_v", qkv_bias),
      rope(C::kQRope, C::kQ, W::kQ),
      rope(C::kKRope, C::kK, W::kKv),
      attention(C::kQRope, C::kKRope, C::kV),
      linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", other_bias),
      add(C::kAttnResidual, C::kOutput, C::kAttnOut),
      norm(C::kFfnNorm, C::kAttnResidual, "ffn_norm"),
      linear(C::kFfnGate, C::kFfnNorm, W::kInner, "ffn_gate", other_bias),
      linear(C::kFfnUp, C::kFfnNorm, W::kInner, "ffn_up", other_bias),
      activation(C::kFfnUp, C::kFfnGate),
      linear(C::kFfnOut, C::kFfnAct, W::kHidden, "ffn_down", other_bias),
      add(C::kOutput, C::kAttnResidual, C::kFfnOut),
  };
}

constexpr auto kLlamaLayer = gated_layer(Presence::kOptional, Presence::kOptional);
constexpr auto kQwen2Layer = gated_layer(Presence::kAlways, Presence::kNever);

constexpr OpSpec kQwen3Layer[] = {
    norm(C::kAttnNorm, C::kOutput, "attn_norm"),
    linear(C::kQ, C::kAttnNorm, W::kQ, "attn_q"),
    linear(C::kK, C::kAttnNorm, W::kKv, "attn_k"),
    linear(C::kV, C::kAttnNorm, W::kKv, "attn_v"),
    qk_norm(C::kQNorm, C::kQ, W::kQ, "attn_q_norm", W::kHead),
    qk_norm(C::kKNorm, C::kK, W::kKv, "attn_k_norm", W::kHead),
    rope(C::kQRope, C::kQNorm, W::kQ),
    rope(C::kKRope, C::kKNorm, W::kKv),
    attention(C::kQRope, C::kKRope, C::kV),
    linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output"),
    add(C::kAttnResidual, C::kOutput, C::kAttnOut),
    norm(C::kFfnNorm, C::kAttnResidual, "ffn_norm"),
    linear(C::kFfnGate, C::kFfnNorm, W::kInner, "ffn_gate"),
    linear(C::kFfnUp, C::kFfnNorm, W::kInner, "ffn_up"),
    activation(C::kFfnUp, C::kFfnGate),
    linear(C::kFfnOut, C::kFfnAct, W::kHidden, "ffn_down"),
    add(C::kOutput, C::kAttnResidual, C::kFfnOut),
};

constexpr OpSpec kPhi3Layer[] = {
    norm(C::kAttnNorm, C::kOutput, "attn_norm"),
    linear(C::kQ, C::kAttnNorm, W::kQ, "attn_qkv"),
    linear(C::kK, C::kAttnNorm, W::kKv, "attn_qkv"),
    linear(C::kV, C::kAttnNorm, W::kKv, "attn_qkv"),
    rope(C::kQRope, C::kQ, W::kQ),
    rope(C::kKRope, C::kK, W::kKv),
    attention(C::kQRope, C::kKRope, C::kV),
    linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output"),
    add(C::kAttnResidual, C::kOutput, C::kAttnOut),
    norm(C::kFfnNorm, C::kAttnResidual, "ffn_norm"),
    linear(C::kFfnGate, C::kFfnNorm, W::kInner, "ffn_up"),
    linear(C::kFfnUp, C::kFfnNorm, W::kInner, "ffn_up"),
    activation(C::kFfnUp, C::kFfnGate),
    linear(C::kFfnOut, C::kFfnAct, W::kHidden, "ffn_down"),
    add(C::kOutput, C::kAttnResidual, C::kFfnOut),
};

constexpr OpSpec kGpt2Layer[] = {
    norm(C::kAttnNorm, C::kOutput, "attn_norm", Presence::kAlways),
    linear(C::kQ, C::kAttnNorm, W::kQ, "attn_qkv", Presence::kAlways),
    linear(C::kK, C::kAttnNorm, W::kKv, "attn_qkv", Presence::kAlways),
    linear(C::kV, C::kAttnNorm, W::kKv, "attn_qkv", Presence::kAlways),
    attention(C::kQ, C::kK, C::kV),
    linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kAlways),
    add(C::kAttnResidual, C::kOutput, C::kAttnOut),
    norm(C::kFfnNorm, C::kAttnResidual, "ffn_norm", Presence::kAlways),
    linear(C::kFfnUp, C::kFfnNorm, W::kInner, "ffn_up", Presence::kAlways),
    activation(C::kFfnUp),
    linear(C::kFfnOut, C::kFfnAct, W::kHidden, "ffn_down", Presence::kAlways),
    add(C::kOutput, C::kAttnResidual, C::kFfnOut),
};

constexpr Architecture kArchitectures[] = {
    {.name = "llama",
     .layer = kLlamaLayer,
     .norm = NormKind::kRms,
     .activation = ActivationKind::kSiluGated,
     .position = PositionKind::kRotary,
     .rope_pairing = RopePairing::kAdjacent,
     .rope_freqs = true},
    {.name = "qwen2",
     .layer = kQwen2Layer,
     .norm = NormKind::kRms,
     .activation = ActivationKind::kSiluGated,
     .position = PositionKind::kRotary,
     .rope_pairing = RopePairing::kHalves},
    {.name = "qwen3",
     .layer = kQwen3Layer,
     .norm = NormKind::kRms,
     .activation = ActivationKind::kSiluGated,
     .position = PositionKind::kRotary,
     .rope_pairing = RopePairing::kHalves},
    {.name = "phi3",
     .layer = kPhi3Layer,
     .norm = NormKind::kRms,
     .activation = ActivationKind::kSiluGated,
     .position = PositionKind::kRotary,
     .rope_pairing = RopePairing::kHalves,
     .rope_long_short = true,
     .sliding_window = true},
    {.name = "gpt2",
     .layer = kGpt2Layer,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kGeluTanh,
     .position = PositionKind::kLearned,
     .rope_pairing = RopePairing::kHalves},
};

}  // namespace

std::span<const OpSpec> common_layer() {
  return kLlamaLayer;
}

OpKind kind_of(Checkpoint checkpoint) {
  if (checkpoint == Checkpoint::kFinalNorm) return OpKind::kNorm;
  if (checkpoint == Checkpoint::kLogits) return OpKind::kLinear;
  for (const Architecture& architecture : kArchitectures) {
    const OpSpec* op = find_spec(architecture.layer, checkpoint);
    if (op != nullptr) return op->kind;
  }
  return OpKind::kEmbedding;
}

bool has_checkpoint(const Architecture& architecture, Checkpoint checkpoint) {
  return !is_in_layer(checkpoint) || find_spec(architecture.layer, checkpoint) != nullptr;
}

bool has_model_width(Checkpoint checkpoint) {
  if (!is_in_layer(checkpoint)) return checkpoint != Checkpoint::kLogits;
  return std::all_of(std::begin(kArchitectures), std::end(kArchitectures),
                     [&](const Architecture& architecture) {
                       const OpSpec* op = find_spec(architecture.layer, checkpoint);
                       return op == nullptr || op->width == Width::kHidden;
                     });
}

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
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
