#pragma once

#include <array>

#include "model/layers.h"

// The layers of networks that have Mamba or Mamba-2: in the place of attention, beside it, or in
// layers of one branch.
namespace assay::layers {

// With experts or without, and attention in some of the layers.
inline constexpr auto kGraniteMamba = mamba2(C::kAttnNorm);
inline constexpr auto kGraniteDense = gated_ffn(C::kFfnNorm, Presence::kNever);
inline constexpr auto kGraniteHybridLayer = expert_layer(kGraniteMamba, kGraniteDense);
inline constexpr auto kGraniteHybridMoe = expert_layer(kGraniteMamba, kRoutedAndShared);
inline constexpr auto kGraniteHybridAttention = expert_layer(kLlamaAttention, kGraniteDense);
inline constexpr LayerVariant kGraniteHybridVariants[] = {
    {.ops = kGraniteHybridAttention, .tensor = "attn_q", .without = "ffn_gate_inp"},
    {.ops = kLlamaShared, .tensor = "attn_q"},
    {.ops = kGraniteHybridMoe, .tensor = "ffn_gate_inp"}};

// Layers of one branch, which is Mamba-2; or attention without rotation, a feed-forward or experts.
constexpr auto single_branch(const auto& ops, Checkpoint branch) {
  return join(kAttnNorm, ops, std::array{add(C::kOutput, C::kOutput, branch)});
}
inline constexpr auto kMamba2Layer = single_branch(mamba2(C::kAttnNorm), C::kAttnOut);
constexpr auto plain_attention(Presence bias) {
  return join(qkv(C::kAttnNorm, bias),
              std::array{attention(C::kQ, C::kK, C::kV),
                         linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", bias)});
}
inline constexpr auto kNemotronHAttention =
    single_branch(plain_attention(Presence::kOptional), C::kAttnOut);
inline constexpr auto kNemotronHFfn =
    single_branch(plain_ffn(C::kAttnNorm, Presence::kOptional), C::kFfnOut);
inline constexpr LayerVariant kNemotronHVariants[] = {
    {.ops = kNemotronHAttention, .tensor = "attn_q"}, {.ops = kNemotronHFfn, .tensor = "ffn_up"}};
inline constexpr auto kNemotronHExperts = single_branch(
    join(plain_experts(C::kAttnNorm, C::kRoutedOut), plain_shared_expert(C::kAttnNorm)),
    C::kFfnOut);
inline constexpr LayerVariant kNemotronHMoeVariants[] = {
    {.ops = kNemotronHAttention, .tensor = "attn_q"},
    {.ops = kNemotronHExperts, .tensor = "ffn_gate_inp"},
    {.ops = kNemotronHFfn, .tensor = "ffn_up"}};

// What a state space model gives times its gate, where no norm follows.
constexpr OpSpec gated_ssm() {
  OpSpec gated = {
      OpKind::kActivation, C::kSsmGated, W::kLinearValues, {C::kSsm, C::kLinearZ}, 2, {},
      Presence::kNever};
  gated.own_activation = ActivationKind::kSilu;
  return gated;
}

// Mamba-2 beside attention, both of the same norm, and the sum of the two (Falcon-H1). What the
// state space model gives is gated, and normalised in some models alone.
constexpr auto falcon_h1_layer(bool is_normed) {
  std::array<OpSpec, 7> ssm = mamba2(C::kAttnNorm);
  OpSpec ffn_norm = kFfnNorm[0];
  ffn_norm.bare = true;
  const OpSpec behind = is_normed ? ssm[5] : gated_ssm();
  return join(kAttnNorm, qkv(C::kAttnNorm, Presence::kNever),
              std::array{rope(C::kQRope, C::kQ, W::kQ), rope(C::kKRope, C::kK, W::kKv), ssm[0],
                         ssm[1], ssm[2], attention(C::kQRope, C::kKRope, C::kV), ssm[3], ssm[4],
                         behind, linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output"),
                         linear(C::kSsmOut, behind.out, W::kHidden, "ssm_out"),
                         add(C::kMixerOut, C::kSsmOut, C::kAttnOut)},
              add_attn(C::kMixerOut), std::array{ffn_norm},
              gated_ffn(C::kFfnNorm, Presence::kNever), add_ffn(C::kFfnOut));
}
inline constexpr auto kFalconH1Layer = falcon_h1_layer(false);
inline constexpr auto kFalconH1Normed = falcon_h1_layer(true);
inline constexpr LayerVariant kFalconH1Variants[] = {
    {.ops = kFalconH1Normed, .tensor = "ssm_norm"}};

// Mamba (Gu & Dao 2023) in its place: of what goes through the short convolution, a product gives
// the steps' low-rank form, B and C, each normalised by itself, with the weights of `dt_norm` and
// so on where there are any. What the state space model gives is gated.
constexpr auto mamba(Checkpoint in, bool has_norm_weights) {
  constexpr std::string_view kIn = "ssm_in";
  constexpr std::string_view kParts = "ssm_x";
  const auto part_norm = [&](Checkpoint out, Checkpoint of, Width width, std::string_view tensor) {
    return qk_norm(out, of, width, has_norm_weights ? tensor : std::string_view(), width);
  };
  OpSpec conv = {OpKind::kConv, C::kLinearConv,     W::kLinearValues, {C::kSsmX}, 1,
                 "ssm_conv1d",  Presence::kOptional};
  conv.own_activation = ActivationKind::kSilu;
  return std::array{linear(C::kSsmX, in, W::kLinearValues, kIn),
                    linear(C::kLinearZ, in, W::kLinearValues, kIn),
                    conv,
                    linear(C::kSsmDtIn, C::kLinearConv, W::kSsmRank, kParts),
                    linear(C::kSsmB, C::kLinearConv, W::kSsmKey, kParts),
                    linear(C::kSsmC, C::kLinearConv, W::kSsmKey, kParts),
                    part_norm(C::kSsmDtNorm, C::kSsmDtIn, W::kSsmRank, "ssm_dt_norm"),
                    part_norm(C::kSsmBNorm, C::kSsmB, W::kSsmKey, "ssm_b_norm"),
                    part_norm(C::kSsmCNorm, C::kSsmC, W::kSsmKey, "ssm_c_norm"),
                    linear(C::kSsmStep, C::kSsmDtNorm, W::kLinearHeads, kStepTensor),
                    OpSpec{OpKind::kSsm,
                           C::kSsm,
                           W::kLinearValues,
                           {C::kLinearConv, C::kSsmStep, C::kSsmBNorm, C::kSsmCNorm},
                           4,
                           "ssm_a",
                           Presence::kNever},
                    gated_ssm(),
                    linear(C::kAttnOut, C::kSsmGated, W::kHidden, "ssm_out")};
}
inline constexpr auto kMambaLayer = single_branch(mamba(C::kAttnNorm, false), C::kAttnOut);

// With experts or without, and attention without rotation in some of the layers (Jamba).
inline constexpr auto kJambaMamba = mamba(C::kAttnNorm, true);
inline constexpr auto kJambaDense = gated_ffn(C::kFfnNorm, Presence::kNever);
inline constexpr auto kJambaLayer = expert_layer(kJambaMamba, kJambaDense);
inline constexpr auto kJambaMoe = expert_layer(kJambaMamba, kRoutedFfn);
inline constexpr auto kJambaAttention =
    expert_layer(plain_attention(Presence::kNever), kJambaDense);
inline constexpr auto kJambaAttentionMoe =
    expert_layer(plain_attention(Presence::kNever), kRoutedFfn);
inline constexpr LayerVariant kJambaVariants[] = {
    {.ops = kJambaAttentionMoe, .tensor = "attn_q", .also = "ffn_gate_inp"},
    {.ops = kJambaAttention, .tensor = "attn_q"},
    {.ops = kJambaMoe, .tensor = "ffn_gate_inp"}};

}  // namespace assay::layers
