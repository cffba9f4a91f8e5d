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

template <size_t... kSizes>
constexpr auto join(const std::array<OpSpec, kSizes>&... parts) {
  std::array<OpSpec, (kSizes + ...)> ops;
  auto at = ops.begin();
  ((at = std::copy(parts.begin(), parts.end(), at)), ...);
  return ops;
}

// What the layers of several architectures have in common.
constexpr std::array kAttnNorm = {norm(C::kAttnNorm, C::kOutput, "attn_norm")};
constexpr std::array kFfnNorm = {norm(C::kFfnNorm, C::kAttnResidual, "ffn_norm")};

constexpr std::array<OpSpec, 3> qkv(Checkpoint in, Presence bias) {
  return {linear(C::kQ, in, W::kQ, "attn_q", bias), linear(C::kK, in, W::kKv, "attn_k", bias),
          linear(C::kV, in, W::kKv, "attn_v", bias)};
}
constexpr std::array<OpSpec, 3> fused_qkv(Presence bias) {
  std::array<OpSpec, 3> ops = qkv(C::kAttnNorm, bias);
  for (OpSpec& op : ops) op.tensor = "attn_qkv";
  return ops;
}
// RMSNorm of q and k: over each head, or over all of it.
constexpr std::array<OpSpec, 2> qk_norms(Width of_q, Width of_k) {
  return {qk_norm(C::kQNorm, C::kQ, W::kQ, "attn_q_norm", of_q),
          qk_norm(C::kKNorm, C::kK, W::kKv, "attn_k_norm", of_k)};
}
constexpr std::array<OpSpec, 4> rotary_attention(Checkpoint q, Checkpoint k, Presence bias) {
  return {rope(C::kQRope, q, W::kQ), rope(C::kKRope, k, W::kKv),
          attention(C::kQRope, C::kKRope, C::kV),
          linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", bias)};
}
constexpr std::array<OpSpec, 4> gated_ffn(Checkpoint in, Presence bias) {
  return {linear(C::kFfnGate, in, W::kInner, "ffn_gate", bias),
          linear(C::kFfnUp, in, W::kInner, "ffn_up", bias), activation(C::kFfnUp, C::kFfnGate),
          linear(C::kFfnOut, C::kFfnAct, W::kHidden, "ffn_down", bias)};
}
// The two additions to the residual stream.
constexpr std::array<OpSpec, 1> add_attn(Checkpoint branch) {
  return {add(C::kAttnResidual, C::kOutput, branch)};
}
constexpr std::array<OpSpec, 1> add_ffn(Checkpoint branch) {
  return {add(C::kOutput, C::kAttnResidual, branch)};
}

constexpr auto gated_layer(Presence qkv_bias, Presence other_bias) {
  return join(kAttnNorm, qkv(C::kAttnNorm, qkv_bias), rotary_attention(C::kQ, C::kK, other_bias),
              add_attn(C::kAttnOut), kFfnNorm, gated_ffn(C::kFfnNorm, other_bias),
              add_ffn(C::kFfnOut));
}

constexpr auto kLlamaLayer = gated_layer(Presence::kOptional, Presence::kOptional);
constexpr auto kQwen2Layer = gated_layer(Presence::kAlways, Presence::kNever);

constexpr auto kQwen3Layer =
    join(kAttnNorm, qkv(C::kAttnNorm, Presence::kNever), qk_norms(W::kHead, W::kHead),
         rotary_attention(C::kQNorm, C::kKNorm, Presence::kNever), add_attn(C::kAttnOut), kFfnNorm,
         gated_ffn(C::kFfnNorm, Presence::kNever), add_ffn(C::kFfnOut));

// Norms of what is added to the residual stream, not of what is read from it.
constexpr auto kOlmo2Layer =
    join(qkv(C::kOutput, Presence::kNever), qk_norms(W::kQ, W::kKv),
         rotary_attention(C::kQNorm, C::kKNorm, Presence::kNever),
         std::array{norm(C::kPostAttnNorm, C::kAttnOut, "post_attention_norm")},
         add_attn(C::kPostAttnNorm), gated_ffn(C::kAttnResidual, Presence::kNever),
         std::array{norm(C::kPostFfnNorm, C::kFfnOut, "post_ffw_norm")}, add_ffn(C::kPostFfnNorm));

constexpr auto kPhi3Layer =
    join(kAttnNorm, fused_qkv(Presence::kNever), rotary_attention(C::kQ, C::kK, Presence::kNever),
         add_attn(C::kAttnOut), kFfnNorm,
         std::array{linear(C::kFfnGate, C::kFfnNorm, W::kInner, "ffn_up"),
                    linear(C::kFfnUp, C::kFfnNorm, W::kInner, "ffn_up"),
                    activation(C::kFfnUp, C::kFfnGate),
                    linear(C::kFfnOut, C::kFfnAct, W::kHidden, "ffn_down")},
         add_ffn(C::kFfnOut));

constexpr auto kGpt2Layer =
    join(std::array{norm(C::kAttnNorm, C::kOutput, "attn_norm", Presence::kAlways)},
         fused_qkv(Presence::kAlways),
         std::array{attention(C::kQ, C::kK, C::kV),
                    linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kAlways)},
         add_attn(C::kAttnOut),
         std::array{norm(C::kFfnNorm, C::kAttnResidual, "ffn_norm", Presence::kAlways),
                    linear(C::kFfnUp, C::kFfnNorm, W::kInner, "ffn_up", Presence::kAlways),
                    activation(C::kFfnUp),
                    linear(C::kFfnOut, C::kFfnAct, W::kHidden, "ffn_down", Presence::kAlways)},
         add_ffn(C::kFfnOut));

constexpr Architecture kArchitectures[] = {
    {.name = "llama",
     .layer = kLlamaLayer,
     .rope_pairing = RopePairing::kAdjacent,
     .rope_freqs = true},
    {.name = "qwen2", .layer = kQwen2Layer},
    {.name = "qwen3", .layer = kQwen3Layer},
    {.name = "phi3",
     .layer = kPhi3Layer,
     .rope_long_short = true,
     .sliding_window = SlidingWindow::kHonoured},
    {.name = "olmo2", .layer = kOlmo2Layer, .sliding_window = SlidingWindow::kRejected},
    {.name = "granite",
     .layer = kLlamaLayer,
     .rope_pairing = RopePairing::kAdjacent,
     .multipliers = true,
     .rope_switch = true},
    {.name = "gpt2",
     .layer = kGpt2Layer,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kGeluTanh,
     .position = PositionKind::kLearned},
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
