#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "model/architecture.h"

// The keys of a model's hyperparameters in its file, behind "<architecture>.", as the GGUF format
// names them. What reads a header and what writes one take them from here.
namespace assay::hyperparameter {

inline constexpr std::string_view kVocabularySize = "vocab_size";
inline constexpr std::string_view kContextLength = "context_length";
inline constexpr std::string_view kEmbeddingLength = "embedding_length";
inline constexpr std::string_view kBlockCount = "block_count";
// Of kBlockCount, the last: they predict further tokens, and no logits depend on them.
inline constexpr std::string_view kNextnLayers = "nextn_predict_layers";  // else none
inline constexpr std::string_view kFeedForwardLength = "feed_forward_length";

inline constexpr std::string_view kExpertCount = "expert_count";
inline constexpr std::string_view kExpertUsedCount = "expert_used_count";
inline constexpr std::string_view kExpertFeedForwardLength =
    "expert_feed_forward_length";  // else feed_forward_length
inline constexpr std::string_view kSharedFeedForwardLength = "expert_shared_feed_forward_length";
inline constexpr std::string_view kExpertSharedCount = "expert_shared_count";
inline constexpr std::string_view kExpertWeightsScale = "expert_weights_scale";  // else 1
inline constexpr std::string_view kExpertWeightsNorm = "expert_weights_norm";
inline constexpr std::string_view kExpertGating = "expert_gating_func";  // Gating, from 1
inline constexpr std::string_view kExpertGroupCount = "expert_group_count";
inline constexpr std::string_view kExpertGroupUsedCount = "expert_group_used_count";

inline constexpr std::string_view kHeadCount = "attention.head_count";
// Else as many heads. Or a number for each layer, 0 for those without attention.
inline constexpr std::string_view kHeadCountKv = "attention.head_count_kv";
inline constexpr std::string_view kKeyLength = "attention.key_length";      // else width / heads
inline constexpr std::string_view kValueLength = "attention.value_length";  // else as the keys
// Of latent attention. Its files state the lengths of a head under keys of their own, and under the
// others those of the latent vectors that engines may compute with instead; older files have no
// keys of their own.
inline constexpr std::string_view kQLoraRank = "attention.q_lora_rank";
inline constexpr std::string_view kKvLoraRank = "attention.kv_lora_rank";
inline constexpr std::string_view kLatentKeyLength = "attention.key_length_mla";
inline constexpr std::string_view kLatentValueLength = "attention.value_length_mla";
inline constexpr std::string_view kConvTaps = "shortconv.l_cache";
// Of linear attention; the convolution's taps in the place of kConvTaps.
inline constexpr std::string_view kLinearTaps = "ssm.conv_kernel";
inline constexpr std::string_view kLinearKeyLength = "ssm.state_size";
inline constexpr std::string_view kLinearKeyHeads = "ssm.group_count";
inline constexpr std::string_view kLinearValueHeads = "ssm.time_step_rank";
inline constexpr std::string_view kLinearValues = "ssm.inner_size";  // of all value heads together
// Of Mamba: what the steps are a product of; and whether it and keys and queries have norms without
// weights.
inline constexpr std::string_view kSsmRank = kLinearValueHeads;
inline constexpr std::string_view kSsmNorms = "ssm.dt_b_c_rms";  // else false
inline constexpr double kDefaultSsmNormEps = 1e-6;
// Which layers have it: true or false of each; else all but every nth.
inline constexpr std::string_view kLinearLayers = "attention.recurrent_layers";
inline constexpr std::string_view kAttentionPeriod = "full_attention_interval";
inline constexpr std::string_view kLeadingDense = "leading_dense_block_count";
// n: of the layers behind those, every nth of all has experts.
inline constexpr std::string_view kExpertStep = "interleave_moe_layer_step";    // else 1
inline constexpr std::string_view kSlidingWindow = "attention.sliding_window";  // else, and 0: none
// Which layers have the window: a number as Architecture::window_period, or true or false of each,
// or 1 or 0.
inline constexpr std::string_view kWindowPattern = "attention.sliding_window_pattern";
// Scores of a query at p are scaled by 1 + this ln(1 + floor(p / original_context_length)), too.
inline constexpr std::string_view kTemperature = "attention.temperature_scale";  // else 0
// In the place of that length, where Architecture::default_temperature_span is one.
inline constexpr std::string_view kTemperatureSpan = "attention.temperature_length";
// The slope of the last of 2^n heads is 2^-this.
inline constexpr std::string_view kMaxAlibiBias = "attention.max_alibi_bias";
// Multiplies what attention gives.
inline constexpr std::string_view kValueScale = "attention.value_scale";  // else 1
inline constexpr std::string_view kClip =
    "attention.clamp_kqv";  // of q, k and v; else, and 0: none
inline constexpr std::string_view kAttentionSoftCap = "attn_logit_softcapping";
inline constexpr std::string_view kLogitSoftCap = "final_logit_softcapping";
inline constexpr std::string_view kCausal = "attention.causal";  // else true

inline constexpr std::string_view kRopeDimensions = "rope.dimension_count";  // else all of a head
// Whether each layer is rotated: true or false of each, or 1 or 0.
inline constexpr std::string_view kRopePattern = "attention.rope_pattern";  // else all are
inline constexpr std::string_view kRopeSections =
    "rope.dimension_sections";  // of positions in images
// In layers with a window, where heads are of another size there; else as in the others.
inline constexpr std::string_view kWindowedKeyLength = "attention.key_length_swa";
inline constexpr std::string_view kWindowedValueLength = "attention.value_length_swa";
inline constexpr std::string_view kWindowedRopeDimensions = "rope.dimension_count_swa";
inline constexpr std::string_view kRopeBase = "rope.freq_base";
inline constexpr std::string_view kRopeAlpha = "rope.scaling.alpha";  // stretches the base
inline constexpr double kDefaultRopeBase = 10000.0;
inline constexpr std::string_view kLocalRopeBase = "rope.freq_base_swa";  // of layers with a window
inline constexpr std::string_view kRopeScaling = "rope.scaling.type";  // else linear, by the factor
inline constexpr std::string_view kRopeFactor = "rope.scaling.factor";
inline constexpr std::string_view kOldRopeFactor = "rope.scale_linear";  // in older files
inline constexpr std::string_view kRopeAttentionFactor = "rope.scaling.attn_factor";
inline constexpr std::string_view kRopeOriginalContext = "rope.scaling.original_context_length";
inline constexpr std::string_view kYarnExtFactor = "rope.scaling.yarn_ext_factor";  // else 1
inline constexpr std::string_view kYarnAttentionFactor =
    "rope.scaling.yarn_attn_factor";  // else 0.1 ln(factor) + 1
// Scores are scaled by (1 + this ln(factor))^2; cos and sin then not, unless the file says so. Or
// cos and sin by (0.1 ln(factor) + 1) / (0.1 this ln(factor) + 1), where that is what it does.
inline constexpr std::string_view kYarnLogMultiplier = "rope.scaling.yarn_log_multiplier";
inline constexpr std::string_view kYarnBetaFast = "rope.scaling.yarn_beta_fast";  // else 32
inline constexpr std::string_view kYarnBetaSlow = "rope.scaling.yarn_beta_slow";  // else 1
inline constexpr std::string_view kRopeSwitch = "rope.scaling.finetuned";         // else true

// Of the norms of a layer and of the last one.
constexpr std::string_view norm_eps(NormKind kind) {
  return kind == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                : "attention.layer_norm_epsilon";
}
// As files of the architecture have it: those of phimoe, whose norms are LayerNorms, as of RMSNorm.
constexpr std::string_view norm_eps(const Architecture& architecture) {
  return norm_eps(architecture.eps_of_other_norm ? NormKind::kRms : architecture.norm);
}

// Of kIndex: heads, their length, positions that it chooses; and whether each layer has one.
inline constexpr std::string_view kIndexHeads = "attention.indexer.head_count";
inline constexpr std::string_view kIndexKeyLength = "attention.indexer.key_length";
inline constexpr std::string_view kIndexTopK = "attention.indexer.top_k";
inline constexpr std::string_view kIndexTypes = "attention.indexer.types";

// How many of the last layers read keys and values of earlier ones, and how long the embeddings are
// that each layer has of its own.
inline constexpr std::string_view kSharedKvLayers = "attention.shared_kv_layers";
inline constexpr std::string_view kLayerEmbeddingLength = "embedding_length_per_layer_input";

// Of several residual streams: how many, and which of them goes through the layers; and by how many
// deviations what passes a layer's activation lies above the mean, of each layer, -infinity where
// all passes.
inline constexpr std::string_view kStreamCount = "altup.num_inputs";
inline constexpr std::string_view kActiveStream = "altup.active_idx";  // else 0
inline constexpr std::string_view kCutoffs = "activation_sparsity_scale";

// llama_model_save_to_file() of llama.cpp states all of its variables, also those that it never
// read for the file's architecture and that have these values then. Files that it wrote have a
// negative rope.scaling.yarn_ext_factor.
struct UnsetValue {
  std::string_view key;
  double value;
};
inline constexpr UnsetValue kUnsetInSavedFiles[] = {{kLocalRopeBase, kDefaultRopeBase},
                                                    {kYarnExtFactor, -1.0},
                                                    {kYarnAttentionFactor, 1.0},
                                                    {kYarnBetaFast, 32.0},
                                                    {kYarnBetaSlow, 1.0},
                                                    {kAttentionSoftCap, 50.0},
                                                    {kLogitSoftCap, 30.0},
                                                    {kExpertWeightsNorm, 0.0}};

// The numbers of xIELU, one for all layers or one for each, in the order of Xielu; they stand
// without the architecture in front. What is multiplied is the softplus of alpha_p, and that of
// alpha_n plus beta.
inline constexpr std::array<std::string_view, 4> kXieluKeys = {"xielu.alpha_p", "xielu.alpha_n",
                                                               "xielu.beta", "xielu.eps"};

// What a config.json of Hugging Face may say and a GGUF file has no key for. Assay keeps it under
// keys of its own, which stand without the architecture in front, and honours them in a GGUF file
// as well.
namespace own {
// The activation, where it is another one than the architecture's: of kActivationNames.
inline constexpr std::string_view kActivation = "assay.activation";
// That attention.sliding_window is to be honoured, whatever Architecture::sliding_window is.
inline constexpr std::string_view kHonoursWindow = "assay.honours_sliding_window";
// Whether each layer is rotated; it takes the place of all other rules.
inline constexpr std::string_view kRotaryLayers = "assay.rotary_layers";
// Whether rotated q and k have norms without weights.
inline constexpr std::string_view kPlainQkNorm = "assay.use_qk_norm";
// The eps of norms without weights within Mamba.
inline constexpr std::string_view kSsmNormEps = "assay.mixer_rms_eps";  // else that of the class
// That routed and shared experts are added, where the architecture takes half of each.
inline constexpr std::string_view kWholeShared = "assay.adds_whole_shared_expert";
// Routing::jitter.
inline constexpr std::string_view kRouterJitter = "assay.router_jitter_noise";
// That pairs for which rope.dimension_sections has no room are turned, too.
inline constexpr std::string_view kTurnsAllPairs = "assay.turns_all_pairs";
// As Architecture::yarn_whole_pairs.
inline constexpr std::string_view kYarnWholePairs = "assay.yarn_whole_pairs";
}  // namespace own

// In the order of ActivationKind.
inline constexpr std::array<std::string_view, 5> kActivationNames = {"silu", "gelu_tanh", "gelu",
                                                                     "relu", "relu_squared"};

}  // namespace assay::hyperparameter
