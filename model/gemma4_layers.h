#pragma once

#include <array>
#include <string_view>

#include "model/layer_parts.h"

// The layers of Gemma 4: dense or with experts, with an embedding of their own or without, and with
// keys and values of their own, values that are the keys, or those of an earlier layer.
namespace assay::layer_parts {

// Values are normalised, too; where there is no product of their own, they are that of the keys.
constexpr auto gemma4_attention(const auto& projections, Checkpoint values) {
  return join(projections, qk_norms(W::kHead, W::kHead), v_norm(values),
              rotary_attention(C::kQNorm, C::kKNorm, C::kVNorm, Presence::kOptional));
}
// Of layers that read the keys and values of an earlier one.
inline constexpr std::array kGemma4OfOthers = {
    linear(C::kQ, C::kAttnNorm, W::kQ, "attn_q", Presence::kOptional),
    qk_norms(W::kHead, W::kHead)[0], rope(C::kQRope, C::kQNorm, W::kQ),
    attention(C::kQRope, C::kKRope, C::kVNorm),
    linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kOptional)};
inline constexpr auto kGemma4Own = gemma4_attention(qkv(C::kAttnNorm, Presence::kOptional), C::kV);
inline constexpr auto kGemma4OfKeys =
    gemma4_attention(qk(C::kAttnNorm, Presence::kOptional), C::kK);
inline constexpr auto kGemma4Dense = gated_ffn(C::kFfnNorm, Presence::kNever);
inline constexpr auto kGemma4Experts = experts_beside_dense(C::kAttnResidual, C::kFfnNorm);
inline constexpr auto kGemma4End =
    add_scaled(C::kAttnResidual, C::kPostFfnNorm, "layer_output_scale");
// With an embedding of the layer's own.
inline constexpr auto kGemma4Ple =
    join(std::array{add(C::kFfnResidual, C::kAttnResidual, C::kPostFfnNorm)},
         layer_embedding(C::kFfnResidual),
         add_scaled(C::kFfnResidual, C::kPleNorm, "layer_output_scale"));
template <const auto& kAttention, const auto& kFfn, const auto& kEnd>
inline constexpr auto kGemma4 = join(kAttnNorm, kAttention, kPostAttnNorm,
                                     add_attn(C::kPostAttnNorm), kFfnNorm, kFfn, kPostFfnNorm,
                                     kEnd);
template <const auto& kFfn, const auto& kEnd>
constexpr std::array<LayerVariant, 3> gemma4_variants(std::string_view experts,
                                                      std::string_view ple) {
  return {{{.ops = kGemma4<kGemma4OfOthers, kFfn, kEnd>,
            .tensor = experts,
            .also = ple,
            .without = "attn_k"},
           {.ops = kGemma4<kGemma4OfKeys, kFfn, kEnd>,
            .tensor = experts,
            .also = ple,
            .without = "attn_v"},
           {.ops = kGemma4<kGemma4Own, kFfn, kEnd>, .tensor = experts, .also = ple}}};
}
inline constexpr auto kGemma4Variants =
    joined_variants(gemma4_variants<kGemma4Experts, kGemma4Ple>("ffn_gate_inp", "inp_gate"),
                    gemma4_variants<kGemma4Experts, kGemma4End>("ffn_gate_inp", {}),
                    gemma4_variants<kGemma4Dense, kGemma4Ple>({}, "inp_gate"),
                    gemma4_variants<kGemma4Dense, kGemma4End>({}, {}));
inline constexpr auto& kGemma4Layer = kGemma4<kGemma4Own, kGemma4Dense, kGemma4End>;

}  // namespace assay::layer_parts
