#pragma once

#include <array>

#include "model/gemma4_layers.h"
#include "model/layer_parts.h"

// The layers of Gemma 3n: of several residual streams, of which the first alone goes through
// attention and feed-forward (AltUp: Baykal et al. 2023), with a branch of low rank (LAuReL:
// Menghani et al. 2024), a cutoff of the activation and an embedding of the layer's own. The first
// layer makes the streams of the network's embedding, the last makes one of them.
namespace assay::layer_parts {

constexpr OpSpec stream_op(Checkpoint out, StreamStep step, Width width,
                           std::array<Checkpoint, 4> in, int n_inputs,
                           std::string_view tensor = {}) {
  OpSpec op = {OpKind::kStreams, out, width, in, n_inputs, tensor, Presence::kNever};
  op.step = step;
  return op;
}

inline constexpr auto kJoinedStreams = [] {
  OpSpec others = linear(C::kAltupProj, C::kEmbedding, W::kOtherStreams, "altup_proj");
  others.of_model = true;
  return std::array{others, stream_op(C::kStreams, StreamStep::kJoin, W::kStreams,
                                      {C::kEmbedding, C::kAltupProj}, 2)};
}();

// What a router makes of the first stream, or of what the layer has made of it.
constexpr std::array<OpSpec, 3> altup_router(Checkpoint in, Checkpoint normed, Checkpoint routed,
                                             Checkpoint modes) {
  OpSpec router_norm = norm(normed, in, "altup_router_norm");
  router_norm.over_width = true;
  OpSpec tanh = {OpKind::kActivation, modes, W::kStreamCount, {routed}, 1, {}, Presence::kNever};
  tanh.own_activation = ActivationKind::kTanh;
  return {router_norm, linear(routed, normed, W::kStreamCount, "altup_router"), tanh};
}

constexpr auto gemma3n_predictions(Checkpoint streams) {
  return join(
      altup_router(streams, C::kAltupNorm, C::kAltupRouter, C::kAltupModes),
      std::array{linear(C::kAltupCoefs, C::kAltupModes, W::kStreamPairs, "altup_predict_coef"),
                 stream_op(C::kPredictions, StreamStep::kPredict, W::kStreams,
                           {streams, C::kAltupCoefs}, 2),
                 stream_op(C::kActive, StreamStep::kFirst, W::kHidden, {C::kPredictions}, 1)});
}

inline constexpr std::array kLaurelBranch = {
    linear(C::kLaurelLeft, C::kAttnNorm, W::kLaurel, "laurel_l"),
    linear(C::kLaurelRight, C::kLaurelLeft, W::kHidden, "laurel_r"),
    norm(C::kLaurelNorm, C::kLaurelRight, "laurel_post_norm"),
    add(C::kLaurelOut, C::kAttnNorm, C::kLaurelNorm)};

// The sum of attention and LAuReL, divided by the root of 2.
inline constexpr auto kAttnAndLaurel = [] {
  OpSpec sum = add(C::kAttnLaurel, C::kAttnResidual, C::kLaurelOut);
  sum.scale = 0.70710678F;  // 1 / sqrt(2)
  return std::array{add(C::kAttnResidual, C::kActive, C::kPostAttnNorm), sum};
}();

inline constexpr auto kCutFfn = [] {
  const std::array<OpSpec, 4> ffn = gated_ffn(C::kFfnNorm, Presence::kNever);
  return std::array{
      norm(C::kFfnNorm, C::kAttnLaurel, "ffn_norm"),
      ffn[0],
      ffn[1],
      OpSpec{OpKind::kCutoff, C::kFfnCutoff, W::kInner, {C::kFfnGate}, 1, {}, Presence::kNever},
      activation(C::kFfnUp, C::kFfnCutoff),
      ffn[3],
      kPostFfnNorm[0],
      add(C::kFfnResidual, C::kAttnLaurel, C::kPostFfnNorm)};
}();

constexpr auto gemma3n_correction(Checkpoint out) {
  return join(
      altup_router(C::kFfnResidual, C::kCorrectNorm, C::kCorrectRouter, C::kCorrectModes),
      std::array{linear(C::kCorrectCoefs, C::kCorrectModes, W::kStreamCount, "altup_correct_coef"),
                 stream_op(C::kCorrected, StreamStep::kCorrect, W::kStreams,
                           {C::kPredictions, C::kFfnResidual, C::kCorrectCoefs}, 3),
                 stream_op(C::kCorrectedFirst, StreamStep::kFirst, W::kHidden, {C::kCorrected}, 1,
                           "altup_correct_scale")},
      layer_embedding(C::kCorrectedFirst),
      std::array{
          stream_op(out, StreamStep::kSpread, W::kStreams, {C::kCorrected, C::kPleNorm}, 2)});
}

inline constexpr auto kMergedStreams = [] {
  OpSpec others = {OpKind::kStreamLinear, C::kUnembedded,  W::kOtherStreams, {C::kStreamsOut}, 1,
                   "altup_unembd_proj",   Presence::kNever};
  others.of_model = true;
  return std::array{others, stream_op(C::kOutput, StreamStep::kMerge, W::kHidden,
                                      {C::kStreamsOut, C::kUnembedded}, 2)};
}();

constexpr auto gemma3n_parts(Checkpoint streams, const auto& attention, Checkpoint out) {
  return join(gemma3n_predictions(streams), std::array{norm(C::kAttnNorm, C::kActive, "attn_norm")},
              kLaurelBranch, attention, kPostAttnNorm, kAttnAndLaurel, kCutFfn,
              gemma3n_correction(out));
}
template <const auto& kAttention, LayerPlace kPlace>
constexpr auto gemma3n_layer() {
  constexpr bool kFirst = kPlace == LayerPlace::kFirst || kPlace == LayerPlace::kOnly;
  constexpr bool kLast = kPlace == LayerPlace::kLast || kPlace == LayerPlace::kOnly;
  constexpr Checkpoint kIn = kFirst ? C::kStreams : C::kOutput;
  constexpr Checkpoint kOut = kLast ? C::kStreamsOut : C::kOutput;
  constexpr auto kParts = gemma3n_parts(kIn, kAttention, kOut);
  if constexpr (kFirst && kLast) {
    return join(kJoinedStreams, kParts, kMergedStreams);
  } else if constexpr (kFirst) {
    return join(kJoinedStreams, kParts);
  } else if constexpr (kLast) {
    return join(kParts, kMergedStreams);
  } else {
    return kParts;
  }
}
template <const auto& kAttention, LayerPlace kPlace>
inline constexpr auto kGemma3n = gemma3n_layer<kAttention, kPlace>();

inline constexpr LayerVariant kGemma3nVariants[] = {
    {.ops = kGemma3n<kGemma4Own, LayerPlace::kOnly>, .place = LayerPlace::kOnly},
    {.ops = kGemma3n<kGemma4Own, LayerPlace::kFirst>, .place = LayerPlace::kFirst},
    {.ops = kGemma3n<kGemma4OfOthers, LayerPlace::kLast>,
     .without = "attn_k",
     .place = LayerPlace::kLast},
    {.ops = kGemma3n<kGemma4Own, LayerPlace::kLast>, .place = LayerPlace::kLast},
    {.ops = kGemma3n<kGemma4OfOthers, LayerPlace::kAny>, .without = "attn_k"}};
inline constexpr auto& kGemma3nLayer = kGemma3n<kGemma4Own, LayerPlace::kAny>;

}  // namespace assay::layer_parts
