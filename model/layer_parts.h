#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "model/architecture.h"

// What the layers of architectures are written with (architecture.cc): ops, and parts of several
// ops that many layers have.
namespace assay::layer_parts {

using C = Checkpoint;
using W = Width;

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
  return {OpKind::kAttention, Checkpoint::kAttn, Width::kAttended, {q, k, v}, 3, {},
          Presence::kNever};
}
constexpr OpSpec attention_with_sinks(Checkpoint q, Checkpoint k, Checkpoint v) {
  OpSpec op = attention(q, k, v);
  op.tensor = "attn_sinks";
  return op;
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

template <size_t... kSizes>
constexpr auto joined_variants(const std::array<LayerVariant, kSizes>&... parts) {
  std::array<LayerVariant, (kSizes + ...)> all;
  auto at = all.begin();
  ((at = std::copy(parts.begin(), parts.end(), at)), ...);
  return all;
}

// What the layers of several architectures have in common.
inline constexpr std::array kAttnNorm = {norm(C::kAttnNorm, C::kOutput, "attn_norm")};
inline constexpr std::array kFfnNorm = {norm(C::kFfnNorm, C::kAttnResidual, "ffn_norm")};

constexpr std::array<OpSpec, 3> qkv(Checkpoint in, Presence bias) {
  return {linear(C::kQ, in, W::kQ, "attn_q", bias), linear(C::kK, in, W::kKv, "attn_k", bias),
          linear(C::kV, in, W::kValues, "attn_v", bias)};
}
constexpr std::array<OpSpec, 2> qk(Checkpoint in, Presence bias) {
  return {linear(C::kQ, in, W::kQ, "attn_q", bias), linear(C::kK, in, W::kKv, "attn_k", bias)};
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
// RMSNorm of each head of the values, without weights.
constexpr std::array<OpSpec, 1> v_norm(Checkpoint in) {
  return {qk_norm(C::kVNorm, in, W::kValues, {}, W::kHead)};
}
// RMSNorm of each head of q and k behind their rotation.
constexpr std::array<OpSpec, 2> norms_of_rotated() {
  return {qk_norm(C::kQRopeNorm, C::kQRope, W::kQ, "attn_q_norm", W::kHead),
          qk_norm(C::kKRopeNorm, C::kKRope, W::kKv, "attn_k_norm", W::kHead)};
}
// The same without weights.
constexpr std::array<OpSpec, 2> plain_norms_of_rotated() {
  std::array<OpSpec, 2> ops = norms_of_rotated();
  for (OpSpec& op : ops) op.tensor = {};
  return ops;
}
// LayerNorm of each head of q and k, with weights of its own.
constexpr std::array<OpSpec, 2> optional_head_norms() {
  std::array<OpSpec, 2> ops = qk_norms(W::kHead, W::kHead);
  for (OpSpec& op : ops) op.weight_per_head = op.if_present = true;
  return ops;
}
// GLM-4.5's norms of heads are in its larger model alone.
constexpr std::array<OpSpec, 2> norms_if_present() {
  std::array<OpSpec, 2> ops = qk_norms(W::kHead, W::kHead);
  for (OpSpec& op : ops) op.if_present = true;
  return ops;
}
constexpr std::array<OpSpec, 4> rotary_attention(Checkpoint q, Checkpoint k, Presence bias) {
  return {rope(C::kQRope, q, W::kQ), rope(C::kKRope, k, W::kKv),
          attention(C::kQRope, C::kKRope, C::kV),
          linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", bias)};
}
// The same, of other values than kV.
constexpr std::array<OpSpec, 4> rotary_attention(Checkpoint q, Checkpoint k, Checkpoint v,
                                                 Presence bias) {
  std::array<OpSpec, 4> ops = rotary_attention(q, k, bias);
  ops[2].in[2] = v;
  return ops;
}
// Latent attention (DeepSeek-AI 2024): keys and values of all heads are products of one short
// vector, `kv_a` without its end. That end is the rotated part of each key.
constexpr OpSpec latent_norm(Checkpoint out, Checkpoint in, Width width, std::string_view tensor) {
  OpSpec op = qk_norm(out, in, width, tensor, width);
  op.own_eps = 1e-6;
  return op;
}
constexpr OpSpec heads(Checkpoint out, Width width, std::array<Checkpoint, 4> in, int n_inputs) {
  return {OpKind::kHeads, out, width, in, n_inputs, {}, Presence::kNever};
}
inline constexpr std::array<OpSpec, 3> kLatentKv = {
    linear(C::kKvA, C::kAttnNorm, W::kKvA, "attn_kv_a_mqa", Presence::kOptional),
    latent_norm(C::kKvANorm, C::kKvA, W::kKvLatent, "attn_kv_a_norm"),
    linear(C::kKvB, C::kKvANorm, W::kKvB, "attn_kv_b")};
inline constexpr auto kLatentQ =
    join(std::array{linear(C::kQA, C::kAttnNorm, W::kQLatent, "attn_q_a", Presence::kOptional),
                    latent_norm(C::kQANorm, C::kQA, W::kQLatent, "attn_q_a_norm")},
         kLatentKv, std::array{linear(C::kQ, C::kQANorm, W::kQ, "attn_q_b")});
inline constexpr auto kPlainQ =
    join(kLatentKv, std::array{linear(C::kQ, C::kAttnNorm, W::kQ, "attn_q")});
constexpr auto latent_attention(const auto& projections) {
  return join(projections,
              std::array{heads(C::kK, W::kKv, {C::kKvB, C::kKvA}, 2),
                         heads(C::kV, W::kValues, {C::kKvB}, 1)},
              rotary_attention(C::kQ, C::kK, Presence::kOptional));
}

// The same, of the positions alone that have the highest scores by queries and keys of its own
// (DeepSeek-AI 2025), whose norm is a LayerNorm; or of those that an earlier layer has chosen.
constexpr std::array<OpSpec, 7> indexer(Checkpoint latent) {
  OpSpec k_norm =
      qk_norm(C::kIndexKNorm, C::kIndexK, W::kIndexHead, "indexer.k_norm", W::kIndexHead);
  k_norm.bias = Presence::kAlways;
  k_norm.own_norm = NormKind::kLayer;
  k_norm.own_eps = 1e-6;
  return {linear(C::kIndexQ, latent, W::kIndexQ, "indexer.attn_q_b"),
          linear(C::kIndexK, C::kAttnNorm, W::kIndexHead, "indexer.attn_k"),
          k_norm,
          rope(C::kIndexQRope, C::kIndexQ, W::kIndexQ),
          rope(C::kIndexKRope, C::kIndexKNorm, W::kIndexHead),
          linear(C::kIndexWeights, C::kAttnNorm, W::kIndexHeads, "indexer.proj"),
          OpSpec{OpKind::kIndex,
                 C::kIndexed,
                 W::kIndexed,
                 {C::kIndexQRope, C::kIndexWeights, C::kIndexKRope},
                 3,
                 {},
                 Presence::kNever}};
}
constexpr auto indexed_attention(const auto& indexer) {
  std::array<OpSpec, 4> attention = rotary_attention(C::kQ, C::kK, Presence::kOptional);
  attention[2].in[3] = C::kIndexed;
  attention[2].n_inputs = 4;
  return join(kLatentQ,
              std::array{heads(C::kK, W::kKv, {C::kKvB, C::kKvA}, 2),
                         heads(C::kV, W::kValues, {C::kKvB}, 1), attention[0], attention[1]},
              indexer, std::array{attention[2], attention[3]});
}

// A short convolution in the place of attention (LFM2, Liquid AI 2025).
constexpr std::array<OpSpec, 5> short_conv(Checkpoint in) {
  constexpr std::string_view kIn = "shortconv.in_proj";
  return {linear(C::kConvB, in, W::kHidden, kIn), linear(C::kConvC, in, W::kHidden, kIn),
          linear(C::kConvX, in, W::kHidden, kIn),
          OpSpec{OpKind::kConv,
                 C::kConv,
                 W::kHidden,
                 {C::kConvC, C::kConvB, C::kConvX},
                 3,
                 "shortconv.conv",
                 Presence::kNever},
          linear(C::kAttnOut, C::kConv, W::kHidden, "shortconv.out_proj")};
}
// What the gates of the delta rule are computed from.
constexpr std::array<OpSpec, 2> delta_gates(Checkpoint in) {
  return {linear(C::kLinearB, in, W::kLinearHeads, "ssm_beta"),
          linear(C::kLinearA, in, W::kLinearHeads, "ssm_alpha")};
}
// Both in one product, which has for each key head those of its value heads.
constexpr std::array<OpSpec, 3> fused_delta_gates(Checkpoint in) {
  return {linear(C::kLinearBa, in, W::kLinearGates, "ssm_ba"),
          heads(C::kLinearB, W::kLinearHeads, {C::kLinearBa}, 1),
          heads(C::kLinearA, W::kLinearHeads, {C::kLinearBa}, 1)};
}
// Linear attention in its place: a short convolution of queries, keys and values in one, and the
// gated delta rule (Yang, Kautz & Hatamizadeh 2024), whose result is normalised and gated.
constexpr auto gated_delta_net(Checkpoint in, const auto& gates) {
  OpSpec gated_norm =
      qk_norm(C::kDeltaNorm, C::kDelta, W::kLinearValues, "ssm_norm", W::kLinearHead);
  gated_norm.in[1] = C::kLinearZ;
  gated_norm.n_inputs = 2;
  gated_norm.own_activation = ActivationKind::kSilu;
  return join(std::array{linear(C::kLinearQkv, in, W::kLinearQkv, "attn_qkv"),
                         linear(C::kLinearZ, in, W::kLinearValues, "attn_gate")},
              gates,
              std::array{OpSpec{OpKind::kConv,
                                C::kLinearConv,
                                W::kLinearQkv,
                                {C::kLinearQkv},
                                1,
                                "ssm_conv1d",
                                Presence::kNever},
                         OpSpec{OpKind::kDelta,
                                C::kDelta,
                                W::kLinearValues,
                                {C::kLinearConv, C::kLinearA, C::kLinearB},
                                3,
                                "ssm_a",
                                Presence::kNever},
                         gated_norm, linear(C::kAttnOut, C::kDeltaNorm, W::kHidden, "ssm_out")});
}
// Mamba-2 (Dao & Gu 2024) in its place: a gate, what goes through a short convolution and the steps
// of the heads are one product, and what the state space model gives is gated and then normalised,
// in groups.
constexpr std::array<OpSpec, 7> mamba2(Checkpoint in) {
  constexpr std::string_view kIn = "ssm_in";
  OpSpec gated_norm = qk_norm(C::kSsmNorm, C::kSsm, W::kLinearValues, "ssm_norm", W::kSsmGroup);
  gated_norm.in[1] = C::kLinearZ;
  gated_norm.n_inputs = 2;
  gated_norm.weight_per_head = true;
  gated_norm.own_activation = ActivationKind::kSilu;
  gated_norm.gate_first = true;
  OpSpec conv = {OpKind::kConv, C::kLinearConv,     W::kLinearQkv, {C::kSsmXbc}, 1,
                 "ssm_conv1d",  Presence::kOptional};
  conv.own_activation = ActivationKind::kSilu;
  return {linear(C::kLinearZ, in, W::kLinearValues, kIn),
          linear(C::kSsmXbc, in, W::kLinearQkv, kIn),
          linear(C::kSsmDt, in, W::kLinearHeads, kIn),
          conv,
          OpSpec{OpKind::kSsm,
                 C::kSsm,
                 W::kLinearValues,
                 {C::kLinearConv, C::kSsmDt},
                 2,
                 "ssm_a",
                 Presence::kNever},
          gated_norm,
          linear(C::kAttnOut, C::kSsmNorm, W::kHidden, "ssm_out")};
}
// Attention whose result is multiplied by a sigmoid; each head's rows of the gate follow those of
// its query.
constexpr std::array<OpSpec, 12> gated_attention(Checkpoint in) {
  OpSpec gated = {OpKind::kActivation, C::kGatedAttn, W::kAttended, {C::kAttn, C::kAttnGate}, 2, {},
                  Presence::kNever};
  gated.own_activation = ActivationKind::kSigmoid;
  const std::array<OpSpec, 2> norms = qk_norms(W::kHead, W::kHead);
  return {linear(C::kGatedQ, in, W::kGatedQ, "attn_q", Presence::kOptional),
          heads(C::kQ, W::kQ, {C::kGatedQ}, 1),
          heads(C::kAttnGate, W::kQ, {C::kGatedQ}, 1),
          linear(C::kK, in, W::kKv, "attn_k", Presence::kOptional),
          linear(C::kV, in, W::kValues, "attn_v", Presence::kOptional),
          norms[0],
          norms[1],
          rope(C::kQRope, C::kQNorm, W::kQ),
          rope(C::kKRope, C::kKNorm, W::kKv),
          attention(C::kQRope, C::kKRope, C::kV),
          gated,
          linear(C::kAttnOut, C::kGatedAttn, W::kHidden, "attn_output", Presence::kOptional)};
}
constexpr std::array<OpSpec, 4> gated_ffn(Checkpoint in, Presence bias) {
  return {linear(C::kFfnGate, in, W::kInner, "ffn_gate", bias),
          linear(C::kFfnUp, in, W::kInner, "ffn_up", bias), activation(C::kFfnUp, C::kFfnGate),
          linear(C::kFfnOut, C::kFfnAct, W::kHidden, "ffn_down", bias)};
}
// With the rows of the gate, then those of up, in one tensor.
constexpr std::array<OpSpec, 4> fused_gated_ffn(Checkpoint in) {
  std::array<OpSpec, 4> ops = gated_ffn(in, Presence::kNever);
  ops[0].tensor = ops[1].tensor;
  return ops;
}
// The last addition of a layer whose result is multiplied by a number of its own.
constexpr std::array<OpSpec, 1> add_scaled(Checkpoint residual, Checkpoint branch,
                                           std::string_view tensor) {
  OpSpec op = add(C::kOutput, residual, branch);
  op.tensor = tensor;
  return {op};
}
// What a layer adds last of a token's embedding of its own (Gemma 3n, 4): gated by the stream, and
// with a norm. The embedding has a norm of a product of the network's embedding added to it.
constexpr std::array<OpSpec, 8> layer_embedding(Checkpoint stream) {
  OpSpec rows = {OpKind::kEmbedding,     C::kPleEmbedding, W::kPle, {}, 0,
                 "per_layer_token_embd", Presence::kNever};
  OpSpec product = linear(C::kPleProj, C::kEmbedding, W::kPle, "per_layer_model_proj");
  OpSpec normed = qk_norm(C::kPleProjNorm, C::kPleProj, W::kPle, "per_layer_proj_norm", W::kPle);
  normed.input_over_root = true;
  for (OpSpec* op : {&rows, &product, &normed}) op->of_model = true;
  OpSpec sum = add(C::kPleInput, C::kPleProjNorm, C::kPleEmbedding);
  sum.width = W::kPle;
  sum.scale = 0.70710678F;  // 1 / sqrt(2)
  return {rows,
          product,
          normed,
          sum,
          linear(C::kPleGate, stream, W::kPle, "inp_gate"),
          OpSpec{OpKind::kActivation,
                 C::kPleAct,
                 W::kPle,
                 {C::kPleInput, C::kPleGate},
                 2,
                 {},
                 Presence::kNever},
          linear(C::kPleOut, C::kPleAct, W::kHidden, "proj"),
          norm(C::kPleNorm, C::kPleOut, "post_norm")};
}
// The two additions to the residual stream.
constexpr std::array<OpSpec, 1> add_attn(Checkpoint branch) {
  return {add(C::kAttnResidual, C::kOutput, branch)};
}
constexpr std::array<OpSpec, 1> add_ffn(Checkpoint branch) {
  return {add(C::kOutput, C::kAttnResidual, branch)};
}

// The norm before the feed-forward, where files call it as others call that after the attention.
inline constexpr std::array kFfnNormAfterAttn = {
    norm(C::kFfnNorm, C::kAttnResidual, "post_attention_norm")};

// Norms of what is added to the residual stream.
inline constexpr std::array kPostAttnNorm = {
    norm(C::kPostAttnNorm, C::kAttnOut, "post_attention_norm")};
inline constexpr std::array kPostFfnNorm = {norm(C::kPostFfnNorm, C::kFfnOut, "post_ffw_norm")};
// Networks whose feed-forward has no gate.
constexpr std::array<OpSpec, 3> plain_ffn(Checkpoint in, Presence bias) {
  return {linear(C::kFfnUp, in, W::kInner, "ffn_up", bias), activation(C::kFfnUp),
          linear(C::kFfnOut, C::kFfnAct, W::kHidden, "ffn_down", bias)};
}
inline constexpr std::array kBiasedAttnNorm = {
    norm(C::kAttnNorm, C::kOutput, "attn_norm", Presence::kAlways)};
inline constexpr std::array kBiasedFfnNorm = {
    norm(C::kFfnNorm, C::kAttnResidual, "ffn_norm", Presence::kAlways)};

// Norms both before and after the attention and the feed-forward.
constexpr auto sandwich_layer(const auto& attention, const auto& ffn) {
  return join(kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional), attention, kPostAttnNorm,
              add_attn(C::kPostAttnNorm), kFfnNorm, ffn, kPostFfnNorm, add_ffn(C::kPostFfnNorm));
}
// Experts: a token's own few of many feed-forwards, mixed.
constexpr OpSpec expert_linear(Checkpoint out, Checkpoint in, Width width, std::string_view tensor,
                               Presence bias) {
  return {OpKind::kExpertLinear, out, width, {in, C::kExperts}, 2, tensor, bias};
}
constexpr std::array<OpSpec, 8> experts(Checkpoint in, Checkpoint out, Presence bias) {
  return {linear(C::kRouter, in, W::kExperts, "ffn_gate_inp", bias),
          OpSpec{OpKind::kSelect,
                 C::kExperts,
                 W::kUsed,
                 {C::kRouter},
                 1,
                 "exp_probs_b",
                 Presence::kOptional},
          OpSpec{OpKind::kWeigh,
                 C::kExpertWeights,
                 W::kUsed,
                 {C::kRouter, C::kExperts},
                 2,
                 {},
                 Presence::kNever},
          expert_linear(C::kFfnGate, in, W::kExpertInner, "ffn_gate_exps", bias),
          expert_linear(C::kFfnUp, in, W::kExpertInner, "ffn_up_exps", bias),
          OpSpec{OpKind::kActivation,
                 C::kFfnAct,
                 W::kExpertInner,
                 {C::kFfnUp, C::kFfnGate},
                 2,
                 {},
                 Presence::kNever},
          expert_linear(C::kExpertOut, C::kFfnAct, W::kExpertHidden, "ffn_down_exps", bias),
          OpSpec{OpKind::kMix,
                 out,
                 W::kHidden,
                 {C::kExpertOut, C::kExpertWeights},
                 2,
                 {},
                 Presence::kNever}};
}
// The same, with the weights on what goes into the experts (Llama 4).
constexpr std::array<OpSpec, 9> experts_of_weighed(Checkpoint in, Checkpoint out) {
  std::array<OpSpec, 8> usual = experts(in, out, Presence::kNever);
  const OpSpec spread = {
      OpKind::kSpread, C::kExpertIn, W::kExpertHidden, {in, C::kExpertWeights}, 2, {},
      Presence::kNever};
  usual[3].in[0] = usual[4].in[0] = C::kExpertIn;
  usual[7].in = {C::kExpertOut};
  usual[7].n_inputs = 1;
  return {usual[0], usual[1], usual[2], spread, usual[3], usual[4], usual[5], usual[6], usual[7]};
}
// Experts without a gate.
constexpr std::array<OpSpec, 7> plain_experts(Checkpoint in, Checkpoint out) {
  const std::array<OpSpec, 8> gated = experts(in, out, Presence::kNever);
  OpSpec act = activation(C::kFfnUp);
  act.width = W::kExpertInner;
  return {gated[0], gated[1], gated[2], gated[4], act, gated[6], gated[7]};
}
// One that all tokens use, beside them.
constexpr std::array<OpSpec, 5> shared_expert(Checkpoint in) {
  return {linear(C::kSharedGate, in, W::kShared, "ffn_gate_shexp"),
          linear(C::kSharedUp, in, W::kShared, "ffn_up_shexp"),
          OpSpec{OpKind::kActivation,
                 C::kSharedAct,
                 W::kShared,
                 {C::kSharedUp, C::kSharedGate},
                 2,
                 {},
                 Presence::kNever},
          linear(C::kSharedOut, C::kSharedAct, W::kHidden, "ffn_down_shexp"),
          add(C::kFfnOut, C::kRoutedOut, C::kSharedOut)};
}
// The same with the rows of the gate, then those of up, in one tensor.
constexpr std::array<OpSpec, 5> fused_shared_expert(Checkpoint in) {
  std::array<OpSpec, 5> ops = shared_expert(in);
  ops[0].tensor = ops[1].tensor;
  return ops;
}
// The same, of which half counts, and half of the routed ones.
constexpr std::array<OpSpec, 5> averaged_shared_expert(Checkpoint in) {
  std::array<OpSpec, 5> ops = shared_expert(in);
  ops[4].scale = 0.5F;
  return ops;
}
// The same without a gate.
constexpr std::array<OpSpec, 4> plain_shared_expert(Checkpoint in) {
  const std::array<OpSpec, 5> gated = shared_expert(in);
  OpSpec act = gated[2];
  act.in = {C::kSharedUp};
  act.n_inputs = 1;
  return {gated[1], act, gated[3], gated[4]};
}
// The same, of which each token has as much as a gate says.
constexpr auto gated_shared_expert(Checkpoint in) {
  const std::array<OpSpec, 5> plain = shared_expert(in);
  return join(std::array{
      plain[0], plain[1], plain[2], plain[3],
      linear(C::kSharedScore, in, W::kOne, "ffn_gate_inp_shexp"),
      OpSpec{OpKind::kWeigh, C::kSharedWeight, W::kOne, {C::kSharedScore}, 1, {}, Presence::kNever},
      OpSpec{OpKind::kMix,
             C::kSharedScaled,
             W::kHidden,
             {C::kSharedOut, C::kSharedWeight},
             2,
             {},
             Presence::kNever},
      add(C::kFfnOut, C::kRoutedOut, C::kSharedScaled)});
}
// Experts beside a dense feed-forward of `ffn_norm`, each of the two with a norm of its own result
// (Gemma 4). Experts and router have norms of the stream of their own. The router's has a tensor
// that is no norm's elsewhere.
constexpr auto experts_beside_dense(Checkpoint stream, Checkpoint ffn_norm) {
  OpSpec router_norm = norm(C::kRouterNorm, stream, "ffn_gate_inp");
  router_norm.suffix = ".scale";
  router_norm.over_root = true;
  std::array<OpSpec, 8> routed = experts(C::kExpertNorm, C::kRoutedOut, Presence::kNever);
  routed[0].in[0] = C::kRouterNorm;
  routed[1].tensor = {};
  routed[1].bias = Presence::kNever;
  routed[2].tensor = "ffn_down_exps";
  routed[2].suffix = ".scale";
  std::array<OpSpec, 5> dense = shared_expert(ffn_norm);
  constexpr std::string_view kTensors[] = {"ffn_gate", "ffn_up", {}, "ffn_down"};
  for (size_t i = 0; i < 4; ++i) dense[i].tensor = kTensors[i];
  for (size_t i = 0; i < 3; ++i) dense[i].width = W::kInner;
  dense[4].in = {C::kRoutedNorm, C::kSharedNorm};
  return join(std::array{norm(C::kExpertNorm, stream, "pre_ffw_norm_2"), router_norm}, routed,
              std::array{norm(C::kRoutedNorm, C::kRoutedOut, "post_ffw_norm_2"), dense[0], dense[1],
                         dense[2], dense[3], norm(C::kSharedNorm, C::kSharedOut, "post_ffw_norm_1"),
                         dense[4]});
}
constexpr auto expert_layer(const auto& attention, const auto& experts) {
  return join(kAttnNorm, attention, add_attn(C::kAttnOut), kFfnNorm, experts, add_ffn(C::kFfnOut));
}

}  // namespace assay::layer_parts
