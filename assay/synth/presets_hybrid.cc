#include "assay/synth/presets.h"

namespace assay {
namespace {

constexpr Preset kHybridPresets[] = {
    {"qwen3-next-80b-a3b", R"({
       "_name_or_path": "Qwen3-Next-80B-A3B", "model_type": "qwen3_next", "vocab_size": 151936,
       "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 48,
       "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
       "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
       "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
       "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
       "shared_expert_intermediate_size": 512, "norm_topk_prob": true, "decoder_sparse_step": 1,
       "mlp_only_layers": [], "max_position_embeddings": 262144, "rms_norm_eps": 1e-6,
       "partial_rotary_factor": 0.25, "rope_theta": 10000000.0, "tie_word_embeddings": false})"},
    {"qwen3.5-0.8b", R"({
       "_name_or_path": "Qwen3.5-0.8B", "model_type": "qwen3_5_text", "vocab_size": 248320,
       "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 24,
       "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
       "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
       "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 16,
       "max_position_embeddings": 262144, "rms_norm_eps": 1e-6,
       "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0,
         "partial_rotary_factor": 0.25, "mrope_interleaved": true,
         "mrope_section": [11, 11, 10]},
       "tie_word_embeddings": true})"},
    {"qwen3.5-35b-a3b", R"({
       "_name_or_path": "Qwen3.5-35B-A3B", "model_type": "qwen3_5_moe_text",
       "vocab_size": 248320, "hidden_size": 2048, "num_hidden_layers": 40,
       "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
       "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
       "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
       "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
       "shared_expert_intermediate_size": 512, "max_position_embeddings": 262144,
       "rms_norm_eps": 1e-6,
       "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0,
         "partial_rotary_factor": 0.25, "mrope_interleaved": true,
         "mrope_section": [11, 11, 10]},
       "tie_word_embeddings": false})"},
    {"granite-4.0-h-micro", R"({
       "_name_or_path": "Granite-4.0-H-Micro", "model_type": "granitemoehybrid",
       "vocab_size": 100352, "hidden_size": 2048, "intermediate_size": 8192,
       "shared_intermediate_size": 8192, "num_hidden_layers": 40, "num_attention_heads": 32,
       "num_key_value_heads": 8, "num_local_experts": 0, "num_experts_per_tok": 0,
       "mamba_n_heads": 64, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1,
       "mamba_d_conv": 4, "mamba_expand": 2, "layer_types": [
         "mamba", "mamba", "mamba", "mamba", "mamba", "attention", "mamba", "mamba", "mamba",
         "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "attention", "mamba", "mamba",
         "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "attention", "mamba",
         "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "attention",
         "mamba", "mamba", "mamba", "mamba"],
       "embedding_multiplier": 12.0, "attention_multiplier": 0.015625,
       "residual_multiplier": 0.22, "logits_scaling": 8.0, "position_embedding_type": "nope",
       "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "tie_word_embeddings": true})"},
    {"granite-4.0-h-tiny", R"({
       "_name_or_path": "Granite-4.0-H-Tiny", "model_type": "granitemoehybrid",
       "vocab_size": 100352, "hidden_size": 1536, "intermediate_size": 512,
       "shared_intermediate_size": 1024, "num_hidden_layers": 40, "num_attention_heads": 12,
       "num_key_value_heads": 4, "num_local_experts": 64, "num_experts_per_tok": 6,
       "mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1,
       "mamba_d_conv": 4, "mamba_expand": 2, "layer_types": [
         "mamba", "mamba", "mamba", "mamba", "mamba", "attention", "mamba", "mamba", "mamba",
         "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "attention", "mamba", "mamba",
         "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "attention", "mamba",
         "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "attention",
         "mamba", "mamba", "mamba", "mamba"],
       "embedding_multiplier": 12.0, "attention_multiplier": 0.0078125,
       "residual_multiplier": 0.22, "logits_scaling": 6.0, "position_embedding_type": "nope",
       "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "tie_word_embeddings": true})"},
    {"nemotron-h-8b", R"({
       "_name_or_path": "Nemotron-H-8B", "model_type": "nemotron_h", "vocab_size": 131072,
       "hidden_size": 4096, "intermediate_size": 21504, "num_hidden_layers": 52,
       "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
       "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
       "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128,
       "conv_kernel": 4, "mlp_hidden_act": "relu2", "max_position_embeddings": 8192,
       "layer_norm_epsilon": 1e-5, "tie_word_embeddings": false})"},
    {"nemotron-3-nano-30b-a3b", R"({
       "_name_or_path": "Nemotron-3-Nano-30B-A3B", "model_type": "nemotron_h",
       "vocab_size": 131072, "hidden_size": 2688, "intermediate_size": 1856,
       "num_hidden_layers": 52,
       "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
       "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
       "mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128,
       "conv_kernel": 4, "mlp_hidden_act": "relu2", "n_routed_experts": 128,
       "num_experts_per_tok": 6, "moe_intermediate_size": 1856, "n_shared_experts": 1,
       "moe_shared_expert_intermediate_size": 3712, "n_group": 1, "topk_group": 1,
       "norm_topk_prob": true, "routed_scaling_factor": 2.5, "max_position_embeddings": 262144,
       "layer_norm_epsilon": 1e-5, "tie_word_embeddings": false})"},
    {"falcon-h1-0.5b", R"({
       "_name_or_path": "Falcon-H1-0.5B", "model_type": "falcon_h1", "vocab_size": 32784,
       "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 36,
       "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64,
       "mamba_d_ssm": 1536, "mamba_n_heads": 24, "mamba_d_head": 64, "mamba_d_state": 128,
       "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_rms_norm": false,
       "mamba_norm_before_gate": false, "attention_in_multiplier": 1.0,
       "attention_out_multiplier": 0.9375, "embedding_multiplier": 5.656854249492381,
       "key_multiplier": 0.39062499999999994, "lm_head_multiplier": 0.0390625,
       "mlp_multipliers": [0.8838834764831844, 0.5859375], "ssm_in_multiplier": 1.25,
       "ssm_multipliers": [0.3535533905932738, 0.25, 0.3535533905932738, 0.5,
         0.3535533905932738],
       "ssm_out_multiplier": 0.23570226039551587, "max_position_embeddings": 16384,
       "rms_norm_eps": 1e-5, "rope_theta": 100000000000.0, "tie_word_embeddings": false})"},
    {"lfm2-1.2b", R"({
       "_name_or_path": "LFM2-1.2B", "model_type": "lfm2", "vocab_size": 65536,
       "hidden_size": 2048, "block_ff_dim": 12288, "block_auto_adjust_ff_dim": true,
       "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256, "num_hidden_layers": 16,
       "num_attention_heads": 32, "num_key_value_heads": 8, "conv_L_cache": 3,
       "conv_bias": false, "full_attn_idxs": [2, 5, 8, 10, 12, 14],
       "max_position_embeddings": 128000, "norm_eps": 1e-5, "rope_theta": 1000000.0,
       "tie_word_embeddings": true})"},
    {"lfm2-8b-a1b", R"({
       "_name_or_path": "LFM2-8B-A1B", "model_type": "lfm2_moe", "vocab_size": 65536,
       "hidden_size": 2048, "intermediate_size": 7168, "moe_intermediate_size": 1792,
       "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 8,
       "num_experts": 32, "num_experts_per_tok": 4, "num_dense_layers": 2,
       "norm_topk_prob": true, "routed_scaling_factor": 1.0, "use_expert_bias": true,
       "conv_L_cache": 3, "conv_bias": false, "layer_types": [
         "conv", "conv", "full_attention", "conv", "conv", "conv", "full_attention", "conv",
         "conv", "conv", "full_attention", "conv", "conv", "conv", "full_attention", "conv",
         "conv", "conv", "full_attention", "conv", "conv", "full_attention", "conv", "conv"],
       "max_position_embeddings": 128000, "norm_eps": 1e-5, "rope_theta": 1000000.0,
       "tie_word_embeddings": true})"},
};

}  // namespace

std::span<const Preset> hybrid_presets() {
  return kHybridPresets;
}

}  // namespace assay
