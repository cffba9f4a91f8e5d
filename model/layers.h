#pragma once

#include <array>

#include "model/architecture.h"
#include "model/gemma3n_layers.h"
#include "model/gemma4_layers.h"
#include "model/layer_parts.h"

// The layers of the architectures (architecture.cc), and the other layers that some of theirs are.
namespace assay::layers {

using namespace layer_parts;

// Each element of q, k and v between two numbers, where the file states them (MosaicML 2023).
constexpr std::array<OpSpec, 3> clips() {
  const auto clip = [](Checkpoint out, Checkpoint in, Width width) {
    OpSpec op = {OpKind::kActivation, out, width, {in}, 1, {}, Presence::kNever};
    op.own_activation = ActivationKind::kClip;
    return op;
  };
  return {clip(C::kQClip, C::kQ, W::kQ), clip(C::kKClip, C::kK, W::kKv),
          clip(C::kVClip, C::kV, W::kValues)};
}

constexpr auto gated_layer(Presence qkv_bias, Presence other_bias,
                           const std::array<OpSpec, 1>& ffn_norm = kFfnNorm) {
  return join(kAttnNorm, qkv(C::kAttnNorm, qkv_bias), rotary_attention(C::kQ, C::kK, other_bias),
              add_attn(C::kAttnOut), ffn_norm, gated_ffn(C::kFfnNorm, other_bias),
              add_ffn(C::kFfnOut));
}

inline constexpr auto kLlamaLayer = gated_layer(Presence::kOptional, Presence::kOptional);
inline constexpr auto kQwen2Layer = gated_layer(Presence::kAlways, Presence::kNever);
inline constexpr auto kBiasedQkvLayer = gated_layer(Presence::kOptional, Presence::kNever);
inline constexpr auto kSeedOssLayer =
    gated_layer(Presence::kOptional, Presence::kNever, kFfnNormAfterAttn);
// With norms of what the last products of attention and feed-forward read (BitNet b1.58).
constexpr auto sub_norm_layer() {
  std::array<OpSpec, 4> attention = rotary_attention(C::kQ, C::kK, Presence::kOptional);
  attention[3].in[0] = C::kAttnSubNorm;
  std::array<OpSpec, 4> ffn = gated_ffn(C::kFfnNorm, Presence::kNever);
  ffn[3].in[0] = C::kFfnSubNorm;
  return join(
      kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional),
      std::array{attention[0], attention[1], attention[2],
                 qk_norm(C::kAttnSubNorm, C::kAttn, W::kAttended, "attn_sub_norm", W::kAttended),
                 attention[3]},
      add_attn(C::kAttnOut), kFfnNorm,
      std::array{ffn[0], ffn[1], ffn[2],
                 qk_norm(C::kFfnSubNorm, C::kFfnAct, W::kInner, "ffn_sub_norm", W::kInner), ffn[3]},
      add_ffn(C::kFfnOut));
}
inline constexpr auto kBitnetLayer = sub_norm_layer();
inline constexpr auto kGemmaLayer =
    join(kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional),
         rotary_attention(C::kQ, C::kK, Presence::kOptional), add_attn(C::kAttnOut), kFfnNorm,
         gated_ffn(C::kFfnNorm, Presence::kNever), add_ffn(C::kFfnOut));

inline constexpr auto kQwen3Layer =
    join(kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional), qk_norms(W::kHead, W::kHead),
         rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional), add_attn(C::kAttnOut),
         kFfnNorm, gated_ffn(C::kFfnNorm, Presence::kNever), add_ffn(C::kFfnOut));

inline constexpr auto kHunyuanAttention = join(
    qkv(C::kAttnNorm, Presence::kOptional),
    std::array{rope(C::kQRope, C::kQ, W::kQ), rope(C::kKRope, C::kK, W::kKv)}, norms_of_rotated(),
    std::array{attention(C::kQRopeNorm, C::kKRopeNorm, C::kV),
               linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kOptional)});
inline constexpr auto kHunyuanLayer =
    expert_layer(kHunyuanAttention, gated_ffn(C::kFfnNorm, Presence::kNever));

constexpr auto llama4_layer(const auto& ffn) {
  return join(
      kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional),
      std::array{rope(C::kQRope, C::kQ, W::kQ), rope(C::kKRope, C::kK, W::kKv)},
      plain_norms_of_rotated(),
      std::array{attention(C::kQRopeNorm, C::kKRopeNorm, C::kV),
                 linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kOptional)},
      add_attn(C::kAttnOut), kFfnNorm, ffn, add_ffn(C::kFfnOut));
}
inline constexpr auto kLlama4Layer =
    llama4_layer(join(experts_of_weighed(C::kFfnNorm, C::kRoutedOut), shared_expert(C::kFfnNorm)));
inline constexpr auto kLlama4Dense = llama4_layer(gated_ffn(C::kFfnNorm, Presence::kNever));
inline constexpr LayerVariant kLlama4Variants[] = {
    {.ops = kLlama4Dense, .without = "ffn_gate_inp"}};

// Norms of what is added to the residual stream, and none of what is read from it.
constexpr auto post_norm_layer(Width of_q, Width of_k) {
  return join(qkv(C::kOutput, Presence::kOptional), qk_norms(of_q, of_k),
              rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional), kPostAttnNorm,
              add_attn(C::kPostAttnNorm), gated_ffn(C::kAttnResidual, Presence::kNever),
              kPostFfnNorm, add_ffn(C::kPostFfnNorm));
}
inline constexpr auto kOlmo2Layer = post_norm_layer(W::kQ, W::kKv);
inline constexpr auto kExaone4Layer = post_norm_layer(W::kHead, W::kHead);

inline constexpr auto kPhi3Layer =
    join(kAttnNorm, fused_qkv(Presence::kNever), rotary_attention(C::kQ, C::kK, Presence::kNever),
         add_attn(C::kAttnOut), kFfnNorm, fused_gated_ffn(C::kFfnNorm), add_ffn(C::kFfnOut));

inline constexpr auto kGpt2Layer =
    join(kBiasedAttnNorm, fused_qkv(Presence::kAlways),
         std::array{attention(C::kQ, C::kK, C::kV),
                    linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kAlways)},
         add_attn(C::kAttnOut), kBiasedFfnNorm, plain_ffn(C::kFfnNorm, Presence::kAlways),
         add_ffn(C::kFfnOut));

inline constexpr auto kOptLayer =
    join(kBiasedAttnNorm, qkv(C::kAttnNorm, Presence::kOptional),
         std::array{attention(C::kQ, C::kK, C::kV),
                    linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kOptional)},
         add_attn(C::kAttnOut), kBiasedFfnNorm, plain_ffn(C::kFfnNorm, Presence::kOptional),
         add_ffn(C::kFfnOut));

inline constexpr auto kMptLayer = join(
    kAttnNorm, fused_qkv(Presence::kNever), clips(),
    std::array{attention(C::kQClip, C::kKClip, C::kVClip),
               linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kNever)},
    add_attn(C::kAttnOut), kFfnNorm, plain_ffn(C::kFfnNorm, Presence::kNever), add_ffn(C::kFfnOut));

constexpr auto plain_layer(const auto& attn_norm, const auto& ffn_norm) {
  return join(attn_norm, qkv(C::kAttnNorm, Presence::kOptional),
              rotary_attention(C::kQ, C::kK, Presence::kOptional), add_attn(C::kAttnOut), ffn_norm,
              plain_ffn(C::kFfnNorm, Presence::kOptional), add_ffn(C::kFfnOut));
}
inline constexpr auto kPlainLayer = plain_layer(kBiasedAttnNorm, kBiasedFfnNorm);
inline constexpr auto kArceeLayer = plain_layer(kAttnNorm, kFfnNorm);

inline constexpr auto kNanoChatLayer =
    join(std::array{norm(C::kAttnNorm, C::kOutput, {})}, qkv(C::kAttnNorm, Presence::kOptional),
         std::array{rope(C::kQRope, C::kQ, W::kQ), rope(C::kKRope, C::kK, W::kKv)},
         plain_norms_of_rotated(),
         std::array{attention(C::kQRopeNorm, C::kKRopeNorm, C::kV),
                    linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kOptional)},
         add_attn(C::kAttnOut), std::array{norm(C::kFfnNorm, C::kAttnResidual, {})},
         plain_ffn(C::kFfnNorm, Presence::kNever), add_ffn(C::kFfnOut));

inline constexpr auto kApertusLayer =
    join(kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional), qk_norms(W::kHead, W::kHead),
         rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional), add_attn(C::kAttnOut),
         kFfnNorm, plain_ffn(C::kFfnNorm, Presence::kNever), add_ffn(C::kFfnOut));

constexpr auto gptneox_layer(Checkpoint ffn_norm_in) {
  return join(kBiasedAttnNorm, fused_qkv(Presence::kOptional),
              rotary_attention(C::kQ, C::kK, Presence::kOptional), add_attn(C::kAttnOut),
              std::array{norm(C::kFfnNorm, ffn_norm_in, "ffn_norm", Presence::kAlways)},
              plain_ffn(C::kFfnNorm, Presence::kAlways), add_ffn(C::kFfnOut));
}
inline constexpr auto kGptneoxLayer = gptneox_layer(C::kAttnResidual);
inline constexpr auto kGptneoxParallel = gptneox_layer(C::kOutput);
inline constexpr LayerVariant kGptneoxVariants[] = {
    {.ops = kGptneoxParallel, .key = "use_parallel_residual"}};

// LayerNorm of each head of q and k, with a bias, where the file has it.
constexpr std::array<OpSpec, 2> optional_biased_head_norms() {
  std::array<OpSpec, 2> ops = qk_norms(W::kHead, W::kHead);
  for (OpSpec& op : ops) {
    op.bias = Presence::kAlways;
    op.if_present = true;
  }
  return ops;
}
inline constexpr auto kPersimmonLayer =
    join(kBiasedAttnNorm, fused_qkv(Presence::kAlways), optional_biased_head_norms(),
         rotary_attention(C::kQNorm, C::kKNorm, Presence::kAlways), add_attn(C::kAttnOut),
         kBiasedFfnNorm, plain_ffn(C::kFfnNorm, Presence::kAlways), add_ffn(C::kFfnOut));

inline constexpr auto kPhi2Layer =
    join(kBiasedAttnNorm, qkv(C::kAttnNorm, Presence::kAlways),
         rotary_attention(C::kQ, C::kK, Presence::kAlways), add_attn(C::kAttnOut),
         plain_ffn(C::kAttnNorm, Presence::kAlways), add_ffn(C::kFfnOut));

inline constexpr auto kGptJLayer =
    join(kBiasedAttnNorm, qkv(C::kAttnNorm, Presence::kNever),
         rotary_attention(C::kQ, C::kK, Presence::kNever), add_attn(C::kAttnOut),
         plain_ffn(C::kAttnNorm, Presence::kAlways), add_ffn(C::kFfnOut));

inline constexpr auto kStablelmAttention =
    join(kBiasedAttnNorm, qkv(C::kAttnNorm, Presence::kOptional), optional_head_norms(),
         rotary_attention(C::kQNorm, C::kKNorm, Presence::kNever), add_attn(C::kAttnOut));
inline constexpr auto kStablelmLayer =
    join(kStablelmAttention, kBiasedFfnNorm, gated_ffn(C::kFfnNorm, Presence::kNever),
         add_ffn(C::kFfnOut));
inline constexpr auto kStablelmParallel =
    join(kStablelmAttention, gated_ffn(C::kAttnNorm, Presence::kNever), add_ffn(C::kFfnOut));
inline constexpr LayerVariant kStablelmVariants[] = {
    {.ops = kStablelmParallel, .without = "ffn_norm"}};

inline constexpr auto kCommandRLayer =
    join(kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional), optional_head_norms(),
         rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional), add_attn(C::kAttnOut),
         gated_ffn(C::kAttnNorm, Presence::kNever), add_ffn(C::kFfnOut));

constexpr auto falcon_layer(std::string_view attn_norm, const auto& ffn_norm, Checkpoint ffn_in) {
  return join(std::array{norm(C::kAttnNorm, C::kOutput, attn_norm, Presence::kAlways)},
              fused_qkv(Presence::kOptional), rotary_attention(C::kQ, C::kK, Presence::kOptional),
              add_attn(C::kAttnOut), ffn_norm, plain_ffn(ffn_in, Presence::kOptional),
              add_ffn(C::kFfnOut));
}
inline constexpr auto kFalconLayer =
    falcon_layer("attn_norm", std::array<OpSpec, 0>(), C::kAttnNorm);
// With two norms of what enters the layer, of which "attn_norm" is the feed-forward's.
inline constexpr auto kFalconTwoNorms = falcon_layer(
    "attn_norm_2", std::array{norm(C::kFfnNorm, C::kOutput, "attn_norm", Presence::kAlways)},
    C::kFfnNorm);
inline constexpr LayerVariant kFalconVariants[] = {
    {.ops = kFalconTwoNorms, .tensor = "attn_norm_2"}};

inline constexpr auto kGemma2Layer = sandwich_layer(
    rotary_attention(C::kQ, C::kK, Presence::kOptional), gated_ffn(C::kFfnNorm, Presence::kNever));
inline constexpr auto kHyperClovaXLayer =
    sandwich_layer(rotary_attention(C::kQ, C::kK, Presence::kOptional),
                   gated_ffn(C::kFfnNorm, Presence::kOptional));
inline constexpr LayerVariant kHyperClovaXVariants[] = {
    {.ops = kLlamaLayer, .without = "post_attention_norm"}};
inline constexpr auto kGemma3Layer = sandwich_layer(
    join(qk_norms(W::kHead, W::kHead), rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional)),
    gated_ffn(C::kFfnNorm, Presence::kNever));
constexpr auto chatglm_layer(const auto& projections) {
  return join(kAttnNorm, projections, rotary_attention(C::kQ, C::kK, Presence::kNever),
              add_attn(C::kAttnOut), kFfnNorm, fused_gated_ffn(C::kFfnNorm), add_ffn(C::kFfnOut));
}
inline constexpr auto kChatGlmLayer = chatglm_layer(qkv(C::kAttnNorm, Presence::kOptional));
inline constexpr auto kChatGlmFused = chatglm_layer(fused_qkv(Presence::kOptional));
inline constexpr LayerVariant kChatGlmVariants[] = {{.ops = kChatGlmFused, .tensor = "attn_qkv"}};
inline constexpr auto kGlm4Layer =
    sandwich_layer(rotary_attention(C::kQ, C::kK, Presence::kNever), fused_gated_ffn(C::kFfnNorm));

inline constexpr auto kRoutedFfn = experts(C::kFfnNorm, C::kFfnOut, Presence::kNever);
inline constexpr auto kRoutedAndShared =
    join(experts(C::kFfnNorm, C::kRoutedOut, Presence::kNever), shared_expert(C::kFfnNorm));
inline constexpr auto kRoutedAndGatedShared =
    join(experts(C::kFfnNorm, C::kRoutedOut, Presence::kNever), gated_shared_expert(C::kFfnNorm));

inline constexpr auto kLlamaAttention = join(qkv(C::kAttnNorm, Presence::kOptional),
                                             rotary_attention(C::kQ, C::kK, Presence::kOptional));
inline constexpr auto kLlamaExperts = expert_layer(kLlamaAttention, kRoutedFfn);
inline constexpr LayerVariant kLlamaVariants[] = {{.ops = kLlamaExperts, .tensor = "ffn_gate_inp"}};
inline constexpr auto kLlamaShared = expert_layer(kLlamaAttention, kRoutedAndShared);
inline constexpr LayerVariant kGraniteMoeVariants[] = {
    {.ops = kLlamaShared, .tensor = "ffn_gate_shexp"}};
inline constexpr LayerVariant kErnieMoeVariants[] = {
    {.ops = kLlamaLayer, .without = "ffn_gate_inp"},
    {.ops = kLlamaExperts, .without = "ffn_gate_shexp"}};

inline constexpr auto kQwen2MoeLayer = expert_layer(
    join(qkv(C::kAttnNorm, Presence::kOptional), rotary_attention(C::kQ, C::kK, Presence::kNever)),
    kRoutedAndGatedShared);
inline constexpr LayerVariant kQwen2MoeVariants[] = {
    {.ops = kBiasedQkvLayer, .without = "ffn_gate_inp"}};

constexpr auto normed_attention(Width of_q, Width of_k) {
  return join(qkv(C::kAttnNorm, Presence::kOptional), qk_norms(of_q, of_k),
              rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional));
}
inline constexpr auto kQwen3MoeLayer =
    expert_layer(normed_attention(W::kHead, W::kHead), kRoutedFfn);
inline constexpr LayerVariant kQwen3MoeVariants[] = {
    {.ops = kQwen3Layer, .without = "ffn_gate_inp"}};
constexpr auto glm4moe_layer(const auto& ffn) {
  return join(kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional), norms_if_present(),
              rotary_attention(C::kQNorm, C::kKNorm, Presence::kNever), add_attn(C::kAttnOut),
              kFfnNormAfterAttn, ffn, add_ffn(C::kFfnOut));
}
inline constexpr auto kGlm4MoeLayer = glm4moe_layer(kRoutedAndShared);
inline constexpr auto kGlm4MoeDense = glm4moe_layer(gated_ffn(C::kFfnNorm, Presence::kNever));
inline constexpr LayerVariant kGlm4MoeVariants[] = {
    {.ops = kGlm4MoeDense, .without = "ffn_gate_inp"}};
inline constexpr auto kDots1Layer =
    expert_layer(normed_attention(W::kHead, W::kHead), kRoutedAndShared);
inline constexpr auto kBailing2Attention =
    join(fused_qkv(Presence::kNever), qk_norms(W::kHead, W::kHead),
         rotary_attention(C::kQNorm, C::kKNorm, Presence::kNever));
inline constexpr auto kBailing2Layer = expert_layer(kBailing2Attention, kRoutedAndShared);
inline constexpr auto kBailing2Dense =
    expert_layer(kBailing2Attention, gated_ffn(C::kFfnNorm, Presence::kNever));
inline constexpr LayerVariant kBailing2Variants[] = {
    {.ops = kBailing2Dense, .without = "ffn_gate_inp"}};
inline constexpr auto kHunyuanMoeLayer = expert_layer(kHunyuanAttention, kRoutedAndShared);
inline constexpr auto kOlmoeLayer = expert_layer(normed_attention(W::kQ, W::kKv), kRoutedFfn);
inline constexpr auto kDbrxLayer =
    join(kAttnNorm, fused_qkv(Presence::kNever), clips(),
         rotary_attention(C::kQClip, C::kKClip, C::kVClip, Presence::kNever), add_attn(C::kAttnOut),
         std::array{norm(C::kFfnNorm, C::kAttnResidual, "attn_output_norm")}, kRoutedFfn,
         add_ffn(C::kFfnOut));

// Attention whose result is multiplied by a sigmoid of a product of its own, between norms.
constexpr auto afmoe_layer(const auto& ffn) {
  OpSpec gated = {OpKind::kActivation, C::kGatedAttn, W::kAttended, {C::kAttn, C::kAttnGate}, 2, {},
                  Presence::kNever};
  gated.own_activation = ActivationKind::kSigmoid;
  const auto projections = qkv(C::kAttnNorm, Presence::kOptional);
  const auto attention = rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional);
  OpSpec out = attention[3];
  out.in[0] = C::kGatedAttn;
  return join(kAttnNorm,
              std::array{projections[0], linear(C::kAttnGate, C::kAttnNorm, W::kQ, "attn_gate"),
                         projections[1], projections[2]},
              qk_norms(W::kHead, W::kHead),
              std::array{attention[0], attention[1], attention[2], gated, out}, kPostAttnNorm,
              add_attn(C::kPostAttnNorm), kFfnNorm, ffn, kPostFfnNorm, add_ffn(C::kPostFfnNorm));
}
inline constexpr auto kAfmoeLayer = afmoe_layer(kRoutedAndShared);
inline constexpr auto kAfmoeDense = afmoe_layer(gated_ffn(C::kFfnNorm, Presence::kNever));
inline constexpr LayerVariant kAfmoeVariants[] = {{.ops = kAfmoeDense, .without = "ffn_gate_inp"}};

inline constexpr auto kPhiMoeLayer =
    join(kBiasedAttnNorm, qkv(C::kAttnNorm, Presence::kOptional),
         rotary_attention(C::kQ, C::kK, Presence::kOptional), add_attn(C::kAttnOut), kBiasedFfnNorm,
         kRoutedFfn, add_ffn(C::kFfnOut));

inline constexpr auto kGptOssLayer =
    join(kAttnNorm, qkv(C::kAttnNorm, Presence::kAlways),
         std::array{rope(C::kQRope, C::kQ, W::kQ), rope(C::kKRope, C::kK, W::kKv),
                    attention_with_sinks(C::kQRope, C::kKRope, C::kV),
                    linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kAlways)},
         add_attn(C::kAttnOut), kFfnNormAfterAttn,
         experts(C::kFfnNorm, C::kFfnOut, Presence::kAlways), add_ffn(C::kFfnOut));

// Sinks in all layers (Granite with windows), or in those with a window alone (MiMo-V2-Flash).
inline constexpr auto kSinkAttention =
    join(qkv(C::kAttnNorm, Presence::kOptional),
         std::array{rope(C::kQRope, C::kQ, W::kQ), rope(C::kKRope, C::kK, W::kKv),
                    attention_with_sinks(C::kQRope, C::kKRope, C::kV),
                    linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kOptional)});
inline constexpr auto kSinkExperts = expert_layer(kSinkAttention, kRoutedFfn);
inline constexpr auto kSinkDense =
    expert_layer(kSinkAttention, gated_ffn(C::kFfnNorm, Presence::kOptional));
inline constexpr LayerVariant kMimo2Variants[] = {
    {.ops = kSinkDense, .tensor = "attn_sinks", .without = "ffn_gate_inp"},
    {.ops = kSinkExperts, .tensor = "attn_sinks"},
    {.ops = kLlamaLayer, .without = "ffn_gate_inp"}};
inline constexpr auto kGraniteSwaShared = expert_layer(
    kSinkAttention,
    join(experts(C::kFfnNorm, C::kRoutedOut, Presence::kNever), fused_shared_expert(C::kFfnNorm)));
inline constexpr LayerVariant kGraniteSwaVariants[] = {
    {.ops = kSinkDense, .without = "ffn_gate_inp"},
    {.ops = kSinkExperts, .without = "ffn_up_shexp"}};

inline constexpr auto kFlexOlmoLayer =
    join(qkv(C::kOutput, Presence::kOptional), qk_norms(W::kQ, W::kKv),
         rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional), kPostAttnNorm,
         add_attn(C::kPostAttnNorm), experts(C::kAttnResidual, C::kFfnOut, Presence::kNever),
         kPostFfnNorm, add_ffn(C::kPostFfnNorm));

inline constexpr auto kOlmoLayer =
    join(std::array{norm(C::kAttnNorm, C::kOutput, {})}, qkv(C::kAttnNorm, Presence::kOptional),
         clips(), rotary_attention(C::kQClip, C::kKClip, C::kVClip, Presence::kOptional),
         add_attn(C::kAttnOut), std::array{norm(C::kFfnNorm, C::kAttnResidual, {})},
         gated_ffn(C::kFfnNorm, Presence::kNever), add_ffn(C::kFfnOut));

constexpr auto cohere2moe_layer(const auto& ffn) {
  return join(kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional),
              rotary_attention(C::kQ, C::kK, Presence::kOptional), add_attn(C::kAttnOut), ffn,
              add_ffn(C::kFfnOut));
}
inline constexpr auto kCohere2MoeLayer = cohere2moe_layer(join(
    experts(C::kAttnNorm, C::kRoutedOut, Presence::kNever), averaged_shared_expert(C::kAttnNorm)));
inline constexpr auto kCohere2MoeDense =
    cohere2moe_layer(gated_ffn(C::kAttnNorm, Presence::kNever));
inline constexpr auto kCohere2MoeExperts =
    cohere2moe_layer(experts(C::kAttnNorm, C::kFfnOut, Presence::kNever));
inline constexpr LayerVariant kCohere2MoeVariants[] = {
    {.ops = kCohere2MoeDense, .without = "ffn_gate_inp"},
    {.ops = kCohere2MoeExperts, .without = "ffn_gate_shexp"}};

inline constexpr auto kDeepseekLayer = expert_layer(latent_attention(kLatentQ), kRoutedAndShared);
inline constexpr auto kDeepseekDense =
    expert_layer(latent_attention(kLatentQ), gated_ffn(C::kFfnNorm, Presence::kNever));
inline constexpr auto kDeepseekLite = expert_layer(latent_attention(kPlainQ), kRoutedAndShared);
inline constexpr auto kDeepseekLiteDense =
    expert_layer(latent_attention(kPlainQ), gated_ffn(C::kFfnNorm, Presence::kNever));
inline constexpr LayerVariant kDeepseekVariants[] = {
    {.ops = kDeepseekLiteDense, .tensor = "attn_q", .without = "ffn_gate_inp"},
    {.ops = kDeepseekLite, .tensor = "attn_q"},
    {.ops = kDeepseekDense, .without = "ffn_gate_inp"}};

inline constexpr auto kAxk1Layer =
    join(kAttnNorm, latent_attention(kLatentQ), add_attn(C::kAttnOut), kFfnNorm, kRoutedAndShared,
         kPostFfnNorm, add_ffn(C::kPostFfnNorm));
inline constexpr LayerVariant kAxk1Variants[] = {
    {.ops = kDeepseekDense, .without = "ffn_gate_inp"}};

inline constexpr auto kDsaAttention = indexed_attention(indexer(C::kQANorm));
inline constexpr auto kDsaLayer = expert_layer(kDsaAttention, kRoutedAndShared);
inline constexpr auto kDsaDense =
    expert_layer(kDsaAttention, gated_ffn(C::kFfnNorm, Presence::kNever));
inline constexpr auto kDsaShared =
    expert_layer(indexed_attention(std::array<OpSpec, 0>()), kRoutedAndShared);
inline constexpr auto kDsaSharedDense = expert_layer(indexed_attention(std::array<OpSpec, 0>()),
                                                     gated_ffn(C::kFfnNorm, Presence::kNever));
inline constexpr LayerVariant kDeepseek32Variants[] = {
    {.ops = kDsaDense, .without = "ffn_gate_inp"}};
inline constexpr LayerVariant kGlmDsaVariants[] = {
    {.ops = kDsaSharedDense, .tensor = "ffn_gate", .without = "indexer.attn_k"},
    {.ops = kDsaShared, .without = "indexer.attn_k"},
    {.ops = kDsaDense, .without = "ffn_gate_inp"}};
inline constexpr LayerVariant kMinicpm3Variants[] = {
    {.ops = kDeepseekLiteDense, .tensor = "attn_q"}};

inline constexpr auto kLfm2Ffn = gated_ffn(C::kFfnNorm, Presence::kNever);
inline constexpr auto kLfm2Conv = expert_layer(short_conv(C::kAttnNorm), kLfm2Ffn);
inline constexpr auto kLfm2Attention = expert_layer(normed_attention(W::kHead, W::kHead), kLfm2Ffn);
inline constexpr LayerVariant kLfm2Variants[] = {{.ops = kLfm2Attention, .tensor = "attn_q"}};
inline constexpr auto kLfm2MoeConv = expert_layer(short_conv(C::kAttnNorm), kRoutedFfn);
inline constexpr LayerVariant kLfm2MoeVariants[] = {
    {.ops = kLfm2Attention, .tensor = "attn_q", .without = "ffn_gate_inp"},
    {.ops = kQwen3MoeLayer, .tensor = "attn_q"},
    {.ops = kLfm2Conv, .without = "ffn_gate_inp"}};

constexpr auto qwen35_layer(const auto& attention, const auto& ffn) {
  return join(kAttnNorm, attention, add_attn(C::kAttnOut), kFfnNormAfterAttn, ffn,
              add_ffn(C::kFfnOut));
}
inline constexpr auto kQwen35Ffn = gated_ffn(C::kFfnNorm, Presence::kNever);
inline constexpr auto kQwen35Delta = gated_delta_net(C::kAttnNorm, delta_gates(C::kAttnNorm));
inline constexpr auto kQwen35Linear = qwen35_layer(kQwen35Delta, kQwen35Ffn);
inline constexpr auto kQwen35Attention = qwen35_layer(gated_attention(C::kAttnNorm), kQwen35Ffn);
inline constexpr LayerVariant kQwen35Variants[] = {{.ops = kQwen35Attention, .tensor = "attn_q"}};
inline constexpr auto kQwen35MoeLinear = qwen35_layer(kQwen35Delta, kRoutedAndGatedShared);
inline constexpr auto kQwen35MoeAttention =
    qwen35_layer(gated_attention(C::kAttnNorm), kRoutedAndGatedShared);
inline constexpr LayerVariant kQwen35MoeVariants[] = {
    {.ops = kQwen35MoeAttention, .tensor = "attn_q"}};

inline constexpr auto kQwen3NextDelta =
    gated_delta_net(C::kAttnNorm, fused_delta_gates(C::kAttnNorm));
inline constexpr auto kQwen3NextLinear = qwen35_layer(kQwen3NextDelta, kRoutedAndGatedShared);
inline constexpr auto kQwen3NextDense = qwen35_layer(kQwen3NextDelta, kQwen35Ffn);
inline constexpr LayerVariant kQwen3NextVariants[] = {
    {.ops = kQwen35Attention, .tensor = "attn_q", .without = "ffn_gate_inp"},
    {.ops = kQwen35MoeAttention, .tensor = "attn_q"},
    {.ops = kQwen3NextDense, .without = "ffn_gate_inp"}};

}  // namespace assay::layers
