#include "model/architecture.h"

#include <array>

#include "model/gemma4_layers.h"
#include "model/layer_parts.h"

namespace assay {
namespace {

using namespace layer_parts;

constexpr auto gated_layer(Presence qkv_bias, Presence other_bias,
                           const std::array<OpSpec, 1>& ffn_norm = kFfnNorm) {
  return join(kAttnNorm, qkv(C::kAttnNorm, qkv_bias), rotary_attention(C::kQ, C::kK, other_bias),
              add_attn(C::kAttnOut), ffn_norm, gated_ffn(C::kFfnNorm, other_bias),
              add_ffn(C::kFfnOut));
}
constexpr auto kLlamaLayer = gated_layer(Presence::kOptional, Presence::kOptional);
constexpr auto kQwen2Layer = gated_layer(Presence::kAlways, Presence::kNever);
constexpr auto kBiasedQkvLayer = gated_layer(Presence::kOptional, Presence::kNever);
constexpr auto kSeedOssLayer =
    gated_layer(Presence::kOptional, Presence::kNever, kFfnNormAfterAttn);
constexpr auto kGemmaLayer =
    join(kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional),
         rotary_attention(C::kQ, C::kK, Presence::kOptional), add_attn(C::kAttnOut), kFfnNorm,
         gated_ffn(C::kFfnNorm, Presence::kNever), add_ffn(C::kFfnOut));

constexpr auto kQwen3Layer =
    join(kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional), qk_norms(W::kHead, W::kHead),
         rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional), add_attn(C::kAttnOut),
         kFfnNorm, gated_ffn(C::kFfnNorm, Presence::kNever), add_ffn(C::kFfnOut));

constexpr auto kHunyuanLayer = join(
    kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional),
    std::array{rope(C::kQRope, C::kQ, W::kQ), rope(C::kKRope, C::kK, W::kKv)}, norms_of_rotated(),
    std::array{attention(C::kQRopeNorm, C::kKRopeNorm, C::kV),
               linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kOptional)},
    add_attn(C::kAttnOut), kFfnNorm, gated_ffn(C::kFfnNorm, Presence::kNever), add_ffn(C::kFfnOut));

// Norms of what is added to the residual stream, and none of what is read from it.
constexpr auto post_norm_layer(Width of_q, Width of_k) {
  return join(qkv(C::kOutput, Presence::kOptional), qk_norms(of_q, of_k),
              rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional), kPostAttnNorm,
              add_attn(C::kPostAttnNorm), gated_ffn(C::kAttnResidual, Presence::kNever),
              kPostFfnNorm, add_ffn(C::kPostFfnNorm));
}
constexpr auto kOlmo2Layer = post_norm_layer(W::kQ, W::kKv);
constexpr auto kExaone4Layer = post_norm_layer(W::kHead, W::kHead);

constexpr auto kPhi3Layer =
    join(kAttnNorm, fused_qkv(Presence::kNever), rotary_attention(C::kQ, C::kK, Presence::kNever),
         add_attn(C::kAttnOut), kFfnNorm, fused_gated_ffn(C::kFfnNorm), add_ffn(C::kFfnOut));

constexpr auto kGpt2Layer =
    join(kBiasedAttnNorm, fused_qkv(Presence::kAlways),
         std::array{attention(C::kQ, C::kK, C::kV),
                    linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kAlways)},
         add_attn(C::kAttnOut), kBiasedFfnNorm, plain_ffn(C::kFfnNorm, Presence::kAlways),
         add_ffn(C::kFfnOut));

constexpr auto plain_layer(const auto& attn_norm, const auto& ffn_norm) {
  return join(attn_norm, qkv(C::kAttnNorm, Presence::kOptional),
              rotary_attention(C::kQ, C::kK, Presence::kOptional), add_attn(C::kAttnOut), ffn_norm,
              plain_ffn(C::kFfnNorm, Presence::kOptional), add_ffn(C::kFfnOut));
}
constexpr auto kPlainLayer = plain_layer(kBiasedAttnNorm, kBiasedFfnNorm);
constexpr auto kArceeLayer = plain_layer(kAttnNorm, kFfnNorm);

constexpr auto kApertusLayer =
    join(kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional), qk_norms(W::kHead, W::kHead),
         rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional), add_attn(C::kAttnOut),
         kFfnNorm, plain_ffn(C::kFfnNorm, Presence::kNever), add_ffn(C::kFfnOut));

constexpr auto gptneox_layer(Checkpoint ffn_norm_in) {
  return join(kBiasedAttnNorm, fused_qkv(Presence::kOptional),
              rotary_attention(C::kQ, C::kK, Presence::kOptional), add_attn(C::kAttnOut),
              std::array{norm(C::kFfnNorm, ffn_norm_in, "ffn_norm", Presence::kAlways)},
              plain_ffn(C::kFfnNorm, Presence::kAlways), add_ffn(C::kFfnOut));
}
constexpr auto kGptneoxLayer = gptneox_layer(C::kAttnResidual);
constexpr auto kGptneoxParallel = gptneox_layer(C::kOutput);
constexpr LayerVariant kGptneoxVariants[] = {
    {.ops = kGptneoxParallel, .key = "use_parallel_residual"}};

constexpr auto kPhi2Layer =
    join(kBiasedAttnNorm, qkv(C::kAttnNorm, Presence::kAlways),
         rotary_attention(C::kQ, C::kK, Presence::kAlways), add_attn(C::kAttnOut),
         plain_ffn(C::kAttnNorm, Presence::kAlways), add_ffn(C::kFfnOut));

constexpr auto kStablelmAttention =
    join(kBiasedAttnNorm, qkv(C::kAttnNorm, Presence::kOptional), optional_head_norms(),
         rotary_attention(C::kQNorm, C::kKNorm, Presence::kNever), add_attn(C::kAttnOut));
constexpr auto kStablelmLayer = join(kStablelmAttention, kBiasedFfnNorm,
                                     gated_ffn(C::kFfnNorm, Presence::kNever), add_ffn(C::kFfnOut));
constexpr auto kStablelmParallel =
    join(kStablelmAttention, gated_ffn(C::kAttnNorm, Presence::kNever), add_ffn(C::kFfnOut));
constexpr LayerVariant kStablelmVariants[] = {{.ops = kStablelmParallel, .without = "ffn_norm"}};

constexpr auto kCommandRLayer =
    join(kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional), optional_head_norms(),
         rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional), add_attn(C::kAttnOut),
         gated_ffn(C::kAttnNorm, Presence::kNever), add_ffn(C::kFfnOut));

constexpr auto falcon_layer(std::string_view attn_norm, const auto& ffn_norm, Checkpoint ffn_in) {
  return join(std::array{norm(C::kAttnNorm, C::kOutput, attn_norm, Presence::kAlways)},
              fused_qkv(Presence::kOptional), rotary_attention(C::kQ, C::kK, Presence::kOptional),
              add_attn(C::kAttnOut), ffn_norm, plain_ffn(ffn_in, Presence::kOptional),
              add_ffn(C::kFfnOut));
}
constexpr auto kFalconLayer = falcon_layer("attn_norm", std::array<OpSpec, 0>(), C::kAttnNorm);
// With two norms of what enters the layer, of which "attn_norm" is the feed-forward's.
constexpr auto kFalconTwoNorms = falcon_layer(
    "attn_norm_2", std::array{norm(C::kFfnNorm, C::kOutput, "attn_norm", Presence::kAlways)},
    C::kFfnNorm);
constexpr LayerVariant kFalconVariants[] = {{.ops = kFalconTwoNorms, .tensor = "attn_norm_2"}};

constexpr auto kGemma2Layer = sandwich_layer(rotary_attention(C::kQ, C::kK, Presence::kOptional),
                                             gated_ffn(C::kFfnNorm, Presence::kNever));
constexpr auto kGemma3Layer = sandwich_layer(
    join(qk_norms(W::kHead, W::kHead), rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional)),
    gated_ffn(C::kFfnNorm, Presence::kNever));
constexpr auto kGlm4Layer =
    sandwich_layer(rotary_attention(C::kQ, C::kK, Presence::kNever), fused_gated_ffn(C::kFfnNorm));

constexpr auto kRoutedFfn = experts(C::kFfnNorm, C::kFfnOut, Presence::kNever);
constexpr auto kRoutedAndShared =
    join(experts(C::kFfnNorm, C::kRoutedOut, Presence::kNever), shared_expert(C::kFfnNorm));
constexpr auto kRoutedAndGatedShared =
    join(experts(C::kFfnNorm, C::kRoutedOut, Presence::kNever), gated_shared_expert(C::kFfnNorm));

constexpr auto kLlamaAttention = join(qkv(C::kAttnNorm, Presence::kOptional),
                                      rotary_attention(C::kQ, C::kK, Presence::kOptional));
constexpr auto kLlamaExperts = expert_layer(kLlamaAttention, kRoutedFfn);
constexpr LayerVariant kLlamaVariants[] = {{.ops = kLlamaExperts, .tensor = "ffn_gate_inp"}};
constexpr auto kLlamaShared = expert_layer(kLlamaAttention, kRoutedAndShared);
constexpr LayerVariant kGraniteMoeVariants[] = {{.ops = kLlamaShared, .tensor = "ffn_gate_shexp"}};
constexpr LayerVariant kErnieMoeVariants[] = {{.ops = kLlamaLayer, .without = "ffn_gate_inp"},
                                              {.ops = kLlamaExperts, .without = "ffn_gate_shexp"}};

constexpr auto kQwen2MoeLayer = expert_layer(
    join(qkv(C::kAttnNorm, Presence::kOptional), rotary_attention(C::kQ, C::kK, Presence::kNever)),
    kRoutedAndGatedShared);
constexpr LayerVariant kQwen2MoeVariants[] = {{.ops = kBiasedQkvLayer, .without = "ffn_gate_inp"}};

constexpr auto normed_attention(Width of_q, Width of_k) {
  return join(qkv(C::kAttnNorm, Presence::kOptional), qk_norms(of_q, of_k),
              rotary_attention(C::kQNorm, C::kKNorm, Presence::kOptional));
}
constexpr auto kQwen3MoeLayer = expert_layer(normed_attention(W::kHead, W::kHead), kRoutedFfn);
constexpr LayerVariant kQwen3MoeVariants[] = {{.ops = kQwen3Layer, .without = "ffn_gate_inp"}};
constexpr auto glm4moe_layer(const auto& ffn) {
  return join(kAttnNorm, qkv(C::kAttnNorm, Presence::kOptional), norms_if_present(),
              rotary_attention(C::kQNorm, C::kKNorm, Presence::kNever), add_attn(C::kAttnOut),
              kFfnNormAfterAttn, ffn, add_ffn(C::kFfnOut));
}
constexpr auto kGlm4MoeLayer = glm4moe_layer(kRoutedAndShared);
constexpr auto kGlm4MoeDense = glm4moe_layer(gated_ffn(C::kFfnNorm, Presence::kNever));
constexpr LayerVariant kGlm4MoeVariants[] = {{.ops = kGlm4MoeDense, .without = "ffn_gate_inp"}};
constexpr auto kDots1Layer = expert_layer(normed_attention(W::kHead, W::kHead), kRoutedAndShared);
constexpr auto kOlmoeLayer = expert_layer(normed_attention(W::kQ, W::kKv), kRoutedFfn);

constexpr auto kGptOssLayer =
    join(kAttnNorm, qkv(C::kAttnNorm, Presence::kAlways),
         std::array{rope(C::kQRope, C::kQ, W::kQ), rope(C::kKRope, C::kK, W::kKv),
                    attention_with_sinks(C::kQRope, C::kKRope, C::kV),
                    linear(C::kAttnOut, C::kAttn, W::kHidden, "attn_output", Presence::kAlways)},
         add_attn(C::kAttnOut), kFfnNormAfterAttn,
         experts(C::kFfnNorm, C::kFfnOut, Presence::kAlways), add_ffn(C::kFfnOut));

constexpr auto kDeepseekLayer = expert_layer(latent_attention(kLatentQ), kRoutedAndShared);
constexpr auto kDeepseekDense =
    expert_layer(latent_attention(kLatentQ), gated_ffn(C::kFfnNorm, Presence::kNever));
constexpr auto kDeepseekLite = expert_layer(latent_attention(kPlainQ), kRoutedAndShared);
constexpr auto kDeepseekLiteDense =
    expert_layer(latent_attention(kPlainQ), gated_ffn(C::kFfnNorm, Presence::kNever));
constexpr LayerVariant kDeepseekVariants[] = {
    {.ops = kDeepseekLiteDense, .tensor = "attn_q", .without = "ffn_gate_inp"},
    {.ops = kDeepseekLite, .tensor = "attn_q"},
    {.ops = kDeepseekDense, .without = "ffn_gate_inp"}};

constexpr auto kLfm2Ffn = gated_ffn(C::kFfnNorm, Presence::kNever);
constexpr auto kLfm2Conv = expert_layer(short_conv(C::kAttnNorm), kLfm2Ffn);
constexpr auto kLfm2Attention = expert_layer(normed_attention(W::kHead, W::kHead), kLfm2Ffn);
constexpr LayerVariant kLfm2Variants[] = {{.ops = kLfm2Attention, .tensor = "attn_q"}};
constexpr auto kLfm2MoeConv = expert_layer(short_conv(C::kAttnNorm), kRoutedFfn);
constexpr LayerVariant kLfm2MoeVariants[] = {
    {.ops = kLfm2Attention, .tensor = "attn_q", .without = "ffn_gate_inp"},
    {.ops = kQwen3MoeLayer, .tensor = "attn_q"},
    {.ops = kLfm2Conv, .without = "ffn_gate_inp"}};

constexpr auto qwen35_layer(const auto& attention, const auto& ffn) {
  return join(kAttnNorm, attention, add_attn(C::kAttnOut), kFfnNormAfterAttn, ffn,
              add_ffn(C::kFfnOut));
}
constexpr auto kQwen35Ffn = gated_ffn(C::kFfnNorm, Presence::kNever);
constexpr auto kQwen35Delta = gated_delta_net(C::kAttnNorm, delta_gates(C::kAttnNorm));
constexpr auto kQwen35Linear = qwen35_layer(kQwen35Delta, kQwen35Ffn);
constexpr auto kQwen35Attention = qwen35_layer(gated_attention(C::kAttnNorm), kQwen35Ffn);
constexpr LayerVariant kQwen35Variants[] = {{.ops = kQwen35Attention, .tensor = "attn_q"}};
constexpr auto kQwen35MoeLinear = qwen35_layer(kQwen35Delta, kRoutedAndGatedShared);
constexpr auto kQwen35MoeAttention =
    qwen35_layer(gated_attention(C::kAttnNorm), kRoutedAndGatedShared);
constexpr LayerVariant kQwen35MoeVariants[] = {{.ops = kQwen35MoeAttention, .tensor = "attn_q"}};

constexpr auto kQwen3NextDelta = gated_delta_net(C::kAttnNorm, fused_delta_gates(C::kAttnNorm));
constexpr auto kQwen3NextLinear = qwen35_layer(kQwen3NextDelta, kRoutedAndGatedShared);
constexpr auto kQwen3NextDense = qwen35_layer(kQwen3NextDelta, kQwen35Ffn);
constexpr LayerVariant kQwen3NextVariants[] = {
    {.ops = kQwen35Attention, .tensor = "attn_q", .without = "ffn_gate_inp"},
    {.ops = kQwen35MoeAttention, .tensor = "attn_q"},
    {.ops = kQwen3NextDense, .without = "ffn_gate_inp"}};

constexpr Architecture kArchitectures[] = {
    {.name = "llama",
     .layer = kLlamaLayer,
     .variants = kLlamaVariants,
     .rope_pairing = RopePairing::kAdjacent,
     .rope_freqs = true},
    {.name = "mistral3",
     .layer = kLlamaLayer,
     .rope_pairing = RopePairing::kAdjacent,
     .rope_freqs = true,
     .yarn_log_multiplier = YarnLog::kOfAngles,
     .temperature = true},
    {.name = "qwen2", .layer = kQwen2Layer},
    {.name = "qwen3", .layer = kQwen3Layer},
    {.name = "phi3",
     .layer = kPhi3Layer,
     .rope_long_short = true,
     .sliding_window = SlidingWindow::kHonoured},
    {.name = "olmo2",
     .layer = kOlmo2Layer,
     .sliding_window = SlidingWindow::kHonoured,
     .window_period = 4,
     .local_rope = true},
    {.name = "granite",
     .layer = kLlamaLayer,
     .rope_pairing = RopePairing::kAdjacent,
     .multipliers = kAllMultipliers,
     .rope_switch = true},
    {.name = "minicpm",
     .layer = kLlamaLayer,
     .rope_pairing = RopePairing::kAdjacent,
     .multipliers =
         bit(Multiplier::kEmbedding) | bit(Multiplier::kResidual) | bit(Multiplier::kLogits),
     .default_embedding_scale = 12.0,
     .default_depth_scale = 1.4,
     .default_logits_width = 256.0},
    {.name = "gpt2",
     .layer = kGpt2Layer,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kGeluTanh,
     .position = PositionKind::kLearned},
    {.name = "starcoder",
     .layer = kGpt2Layer,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kGeluTanh,
     .position = PositionKind::kLearned},
    {.name = "starcoder2",
     .layer = kPlainLayer,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kGeluTanh},
    {.name = "gptneox",
     .layer = kGptneoxLayer,
     .variants = kGptneoxVariants,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kGelu},
    {.name = "phi2",
     .layer = kPhi2Layer,
     .norm = NormKind::kLayer,
     .output_bias = true,
     .activation = ActivationKind::kGeluTanh},
    {.name = "stablelm",
     .layer = kStablelmLayer,
     .variants = kStablelmVariants,
     .norm = NormKind::kLayer},
    {.name = "command-r",
     .layer = kCommandRLayer,
     .norm = NormKind::kLayer,
     .norm_bias = false,
     .rope_pairing = RopePairing::kAdjacent,
     .multipliers = bit(Multiplier::kLogits),
     .logits_times = true},
    {.name = "cohere2",
     .layer = kCommandRLayer,
     .norm = NormKind::kLayer,
     .norm_bias = false,
     .rope_pairing = RopePairing::kAdjacent,
     .sliding_window = SlidingWindow::kHonoured,
     .needs_window = true,
     .window_period = 4,
     .rotated = Rotated::kWindowed,
     .multipliers = bit(Multiplier::kLogits),
     .logits_times = true},
    {.name = "falcon",
     .layer = kFalconLayer,
     .variants = kFalconVariants,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kGelu},
    {.name = "nemotron",
     .layer = kPlainLayer,
     .norm = NormKind::kLayer,
     .activation = ActivationKind::kReluSquared},
    {.name = "arcee",
     .layer = kArceeLayer,
     .activation = ActivationKind::kReluSquared,
     .rope_pairing = RopePairing::kAdjacent,
     .rope_freqs = true},
    {.name = "apertus",
     .layer = kApertusLayer,
     .activation = ActivationKind::kXielu,
     .rope_freqs = true},
    {.name = "smollm3",
     .layer = kLlamaLayer,
     .rope_pairing = RopePairing::kAdjacent,
     .unrotated_period = 4},
    {.name = "exaone4",
     .layer = kExaone4Layer,
     .rope_freqs = true,
     .sliding_window = SlidingWindow::kHonoured,
     .window_period = 4,
     .rotated = Rotated::kWindowed},
    {.name = "gemma",
     .layer = kGemmaLayer,
     .activation = ActivationKind::kGeluTanh,
     .embedding_root = true},
    {.name = "gemma2",
     .layer = kGemma2Layer,
     .activation = ActivationKind::kGeluTanh,
     .sliding_window = SlidingWindow::kHonoured,
     .default_window = 4096,
     .needs_window = true,
     .window_period = 2,
     .multipliers = bit(Multiplier::kAttention),
     .embedding_root = true,
     .wide_scale_layers = 46,
     .soft_caps = true,
     .attention_soft_cap = 50.0,
     .logit_soft_cap = 30.0},
    {.name = "gemma3",
     .layer = kGemma3Layer,
     .activation = ActivationKind::kGeluTanh,
     .sliding_window = SlidingWindow::kHonoured,
     .window_period = 6,
     .local_rope = true,
     .local_rope_base = 10000.0,
     .multipliers = bit(Multiplier::kAttention),
     .embedding_root = true,
     .wide_scale_layers = 62,
     .soft_caps = true},
    {.name = "gemma4",
     .layer = kGemma4Layer,
     .variants = kGemma4Variants,
     .activation = ActivationKind::kGeluTanh,
     .rope_freqs = true,
     .sliding_window = SlidingWindow::kHonoured,
     .needs_window = true,
     .window_period = 6,
     .own_feed_forwards = true,
     .windowed_heads = true,
     .local_rope = true,
     .local_rope_base = 10000.0,
     .embedding_root = true,
     .attention_root = false,
     .soft_caps = true},
    {.name = "ernie4_5", .layer = kLlamaLayer, .rope_pairing = RopePairing::kAdjacent},
    {.name = "ernie4_5-moe",
     .layer = kLlamaShared,
     .variants = kErnieMoeVariants,
     .rope_pairing = RopePairing::kAdjacent},
    {.name = "exaone", .layer = kBiasedQkvLayer, .rope_freqs = true},
    {.name = "xverse", .layer = kBiasedQkvLayer, .rope_pairing = RopePairing::kAdjacent},
    {.name = "hunyuan-dense", .layer = kHunyuanLayer, .rope_alpha = true},
    {.name = "seed_oss", .layer = kSeedOssLayer},
    {.name = "glm4", .layer = kGlm4Layer, .rope_pairing = RopePairing::kAdjacent},
    {.name = "glm4moe",
     .layer = kGlm4MoeLayer,
     .variants = kGlm4MoeVariants,
     .gating = Gating::kSigmoid,
     .normalise_weights = false,
     .routing_keys = RoutingKeys::kAll},
    {.name = "qwen2moe",
     .layer = kQwen2MoeLayer,
     .variants = kQwen2MoeVariants,
     .normalise_weights = false,
     .routing_keys = RoutingKeys::kNormalised,
     .experts_split_ffn = true},
    {.name = "qwen3moe",
     .layer = kQwen3MoeLayer,
     .variants = kQwen3MoeVariants,
     .routing_keys = RoutingKeys::kNormalised},
    {.name = "dots1",
     .layer = kDots1Layer,
     .variants = kQwen3MoeVariants,
     .gating = Gating::kSigmoid,
     .normalise_weights = false,
     .routing_keys = RoutingKeys::kAll},
    {.name = "olmoe",
     .layer = kOlmoeLayer,
     .normalise_weights = false,
     .routing_keys = RoutingKeys::kNormalised},
    {.name = "minimax-m2", .layer = kOlmoeLayer, .gating = Gating::kSigmoid},
    {.name = "granitemoe",
     .layer = kLlamaExperts,
     .variants = kGraniteMoeVariants,
     .rope_pairing = RopePairing::kAdjacent,
     .multipliers = kAllMultipliers},
    {.name = "gpt-oss",
     .layer = kGptOssLayer,
     .activation = ActivationKind::kClampedSwiglu,
     .sliding_window = SlidingWindow::kHonoured,
     .needs_window = true,
     .window_period = 2,
     .yarn_whole_pairs = false,
     .gating = Gating::kSoftmaxOfUsed,
     .normalise_weights = false},
    {.name = "deepseek2",
     .layer = kDeepseekLayer,
     .variants = kDeepseekVariants,
     .rope_pairing = RopePairing::kAdjacent,
     .rotated_end = true,
     .yarn_log_multiplier = YarnLog::kOfScores,
     .normalise_weights = false,
     .routing_keys = RoutingKeys::kAll},
    {.name = "lfm2",
     .layer = kLfm2Conv,
     .variants = kLfm2Variants,
     .output_norm = "token_embd_norm",
     .sliding_window = SlidingWindow::kHonoured},
    {.name = "lfm2moe",
     .layer = kLfm2MoeConv,
     .variants = kLfm2MoeVariants,
     .output_norm = "token_embd_norm",
     .gating = Gating::kSigmoid,
     .added_to_weights_sum = 1e-6},
    {.name = "qwen35",
     .layer = kQwen35Linear,
     .variants = kQwen35Variants,
     .attention_period = 4,
     .rope_sections = true},
    {.name = "qwen35moe",
     .layer = kQwen35MoeLinear,
     .variants = kQwen35MoeVariants,
     .attention_period = 4,
     .rope_sections = true,
     .experts_split_ffn = true},
    {.name = "qwen3next",
     .layer = kQwen3NextLinear,
     .variants = kQwen3NextVariants,
     .attention_period = 4,
     .grouped_value_heads = true,
     .routing_keys = RoutingKeys::kNormalised,
     .experts_split_ffn = true},
};

}  // namespace

std::span<const OpSpec> common_layer() {
  return kLlamaLayer;
}

std::span<const Architecture> architectures() {
  return kArchitectures;
}

}  // namespace assay
