#include "assay/synth/presets.h"

#include <iterator>
#include <vector>

namespace assay {
namespace {

constexpr Preset kPresets[] = {
    {"tinyllama-1.1b", R"({
       "_name_or_path": "TinyLlama-1.1B", "model_type": "llama", "vocab_size": 32000,
       "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
       "num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 2048,
       "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false})"},
    {"llama-3-8b", R"({
       "_name_or_path": "Llama-3-8B", "model_type": "llama", "vocab_size": 128256,
       "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
       "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": false})"},
    {"llama-3.1-8b", R"({
       "_name_or_path": "Llama-3.1-8B", "model_type": "llama", "vocab_size": 128256,
       "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
       "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "rope_scaling": {
         "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8192}, "tie_word_embeddings": false})"},
    {"llama-4-scout-17b-16e", R"({
       "_name_or_path": "Llama-4-Scout-17B-16E", "model_type": "llama4_text", "vocab_size": 202048,
       "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
       "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8,
       "head_dim": 128, "num_local_experts": 16, "num_experts_per_tok": 1,
       "interleave_moe_layer_step": 1, "use_qk_norm": true, "no_rope_layer_interval": 4,
       "attention_chunk_size": 8192, "attn_temperature_tuning": true, "floor_scale": 8192,
       "attn_scale": 0.1, "max_position_embeddings": 10485760, "rms_norm_eps": 1e-5,
       "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 16.0,
         "low_freq_factor": 1.0, "high_freq_factor": 1.0,
         "original_max_position_embeddings": 8192}, "tie_word_embeddings": false})"},
    {"llama-4-maverick-17b-128e", R"({
       "_name_or_path": "Llama-4-Maverick-17B-128E", "model_type": "llama4_text",
       "vocab_size": 202048, "hidden_size": 5120, "intermediate_size": 8192,
       "intermediate_size_mlp": 16384, "num_hidden_layers": 48, "num_attention_heads": 40,
       "num_key_value_heads": 8, "head_dim": 128, "num_local_experts": 128,
       "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "use_qk_norm": false,
       "no_rope_layer_interval": 4, "attention_chunk_size": 8192,
       "attn_temperature_tuning": true, "floor_scale": 8192, "attn_scale": 0.1,
       "max_position_embeddings": 1048576, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
       "rope_scaling": null, "tie_word_embeddings": false})"},
    {"phi-3.5-moe", R"({
       "_name_or_path": "Phi-3.5-MoE", "model_type": "phimoe", "vocab_size": 32064,
       "hidden_size": 4096, "intermediate_size": 6400, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 16,
       "num_experts_per_tok": 2, "router_jitter_noise": 0.01, "attention_bias": true,
       "lm_head_bias": true, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
       "rope_theta": 10000.0, "tie_word_embeddings": false})"},
    {"mpt-7b", R"({
       "_name_or_path": "MPT-7B", "model_type": "mpt", "vocab_size": 50432, "d_model": 4096,
       "n_heads": 32, "n_layers": 32, "max_seq_len": 2048, "expansion_ratio": 4,
       "attn_config": {"alibi": true, "alibi_bias_max": 8}, "tie_word_embeddings": true})"},
    {"mistral-7b-v0.1", R"({
       "_name_or_path": "Mistral-7B-v0.1", "model_type": "mistral", "vocab_size": 32000,
       "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 32768,
       "sliding_window": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
       "tie_word_embeddings": false})"},
    {"ministral-3-8b", R"({
       "_name_or_path": "Ministral-3-8B", "model_type": "ministral3", "vocab_size": 131072,
       "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 34,
       "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
       "max_position_embeddings": 262144, "sliding_window": null, "rms_norm_eps": 1e-5,
       "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0,
         "original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0,
         "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1},
       "tie_word_embeddings": false})"},
    {"mixtral-8x7b", R"({
       "_name_or_path": "Mixtral-8x7B-v0.1", "model_type": "mixtral", "vocab_size": 32000,
       "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 32768,
       "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": null,
       "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "tie_word_embeddings": false})"},
    {"qwen2.5-0.5b", R"({
       "_name_or_path": "Qwen2.5-0.5B", "model_type": "qwen2", "vocab_size": 151936,
       "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
       "num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 32768,
       "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": true})"},
    {"qwen2.5-7b", R"({
       "_name_or_path": "Qwen2.5-7B", "model_type": "qwen2", "vocab_size": 152064,
       "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
       "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 131072,
       "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": false})"},
    {"qwen2.5-32b", R"({
       "_name_or_path": "Qwen2.5-32B", "model_type": "qwen2", "vocab_size": 152064,
       "hidden_size": 5120, "intermediate_size": 27648, "num_hidden_layers": 64,
       "num_attention_heads": 40, "num_key_value_heads": 8, "max_position_embeddings": 131072,
       "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "tie_word_embeddings": false})"},
    {"qwen3-0.6b", R"({
       "_name_or_path": "Qwen3-0.6B", "model_type": "qwen3", "vocab_size": 151936,
       "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
       "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
       "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
       "tie_word_embeddings": true})"},
    {"qwen3-8b", R"({
       "_name_or_path": "Qwen3-8B", "model_type": "qwen3", "vocab_size": 151936,
       "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
       "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
       "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
       "tie_word_embeddings": false})"},
    {"qwen1.5-moe-a2.7b", R"({
       "_name_or_path": "Qwen1.5-MoE-A2.7B", "model_type": "qwen2_moe", "vocab_size": 151936,
       "hidden_size": 2048, "intermediate_size": 5632, "moe_intermediate_size": 1408,
       "shared_expert_intermediate_size": 5632, "num_hidden_layers": 24,
       "num_attention_heads": 16, "num_key_value_heads": 16, "num_experts": 60,
       "num_experts_per_tok": 4, "norm_topk_prob": false, "decoder_sparse_step": 1,
       "use_sliding_window": false, "max_position_embeddings": 8192, "rms_norm_eps": 1e-6,
       "rope_theta": 1000000.0, "tie_word_embeddings": false})"},
    {"qwen3-30b-a3b", R"({
       "_name_or_path": "Qwen3-30B-A3B", "model_type": "qwen3_moe", "vocab_size": 151936,
       "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
       "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
       "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": true,
       "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
       "tie_word_embeddings": false})"},
    {"phi-2", R"({
       "_name_or_path": "Phi-2", "model_type": "phi", "vocab_size": 51200, "hidden_size": 2560,
       "intermediate_size": 10240, "num_hidden_layers": 32, "num_attention_heads": 32,
       "num_key_value_heads": 32, "max_position_embeddings": 2048, "partial_rotary_factor": 0.4,
       "hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "rope_theta": 10000.0,
       "tie_word_embeddings": false})"},
    {"phi-3-mini-4k", R"({
       "_name_or_path": "Phi-3-mini-4k", "model_type": "phi3", "vocab_size": 32064,
       "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096,
       "original_max_position_embeddings": 4096, "sliding_window": 2047,
       "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false})"},
    {"phi-3-medium-4k", R"({
       "_name_or_path": "Phi-3-medium-4k", "model_type": "phi3", "vocab_size": 32064,
       "hidden_size": 5120, "intermediate_size": 17920, "num_hidden_layers": 40,
       "num_attention_heads": 40, "num_key_value_heads": 10, "max_position_embeddings": 4096,
       "original_max_position_embeddings": 4096, "sliding_window": 2047,
       "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false})"},
    {"starcoderbase-1b", R"({
       "_name_or_path": "StarCoderBase-1B", "model_type": "gpt_bigcode", "vocab_size": 49152,
       "n_embd": 2048, "n_layer": 24, "n_head": 16, "n_inner": 8192, "n_positions": 8192,
       "activation_function": "gelu_pytorch_tanh", "multi_query": true,
       "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true})"},
    {"gpt2-124m", R"({
       "_name_or_path": "GPT-2 124M", "model_type": "gpt2", "vocab_size": 50257, "n_embd": 768,
       "n_layer": 12, "n_head": 12, "n_positions": 1024, "layer_norm_epsilon": 1e-5})"},
    {"pythia-1.4b", R"({
       "_name_or_path": "Pythia-1.4B", "model_type": "gpt_neox", "vocab_size": 50304,
       "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24,
       "num_attention_heads": 16, "max_position_embeddings": 2048, "rotary_pct": 0.25,
       "rotary_emb_base": 10000, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
       "use_parallel_residual": true, "tie_word_embeddings": false})"},
    {"falcon-7b", R"({
       "_name_or_path": "Falcon-7B", "model_type": "falcon", "vocab_size": 65024,
       "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
       "max_position_embeddings": 2048, "layer_norm_epsilon": 1e-5, "rope_theta": 10000.0,
       "multi_query": true, "parallel_attn": true, "new_decoder_architecture": false,
       "bias": false, "alibi": false, "tie_word_embeddings": true})"},
    {"starcoder2-3b", R"({
       "_name_or_path": "StarCoder2-3B", "model_type": "starcoder2", "vocab_size": 49152,
       "hidden_size": 3072, "intermediate_size": 12288, "num_hidden_layers": 30,
       "num_attention_heads": 24, "num_key_value_heads": 2, "max_position_embeddings": 16384,
       "sliding_window": 4096, "use_bias": true, "hidden_act": "gelu_pytorch_tanh",
       "norm_epsilon": 1e-5, "rope_theta": 999999.4420358813, "tie_word_embeddings": true})"},
    {"stablelm-2-1.6b", R"({
       "_name_or_path": "StableLM-2-1.6B", "model_type": "stablelm", "vocab_size": 100352,
       "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24,
       "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096,
       "partial_rotary_factor": 0.25, "use_qkv_bias": true, "layer_norm_eps": 1e-5,
       "rope_theta": 10000.0, "tie_word_embeddings": false})"},
    {"command-r-35b", R"({
       "_name_or_path": "Command-R-v01", "model_type": "cohere", "vocab_size": 256000,
       "hidden_size": 8192, "intermediate_size": 22528, "num_hidden_layers": 40,
       "num_attention_heads": 64, "num_key_value_heads": 64, "max_position_embeddings": 8192,
       "logit_scale": 0.0625, "layer_norm_eps": 1e-5, "rope_theta": 8000000.0,
       "tie_word_embeddings": true})"},
    {"command-r7b", R"({
       "_name_or_path": "Command-R7B", "model_type": "cohere2", "vocab_size": 256000,
       "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
       "sliding_window": 4096, "sliding_window_pattern": 4, "logit_scale": 0.25,
       "layer_norm_eps": 1e-5, "rope_theta": 50000.0, "tie_word_embeddings": true})"},
    {"nemotron-mini-4b", R"({
       "_name_or_path": "Nemotron-Mini-4B", "model_type": "nemotron", "vocab_size": 256000,
       "hidden_size": 3072, "intermediate_size": 9216, "num_hidden_layers": 32,
       "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128,
       "max_position_embeddings": 4096, "partial_rotary_factor": 0.5, "hidden_act": "relu2",
       "norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false})"},
    {"glm-4-9b-0414", R"({
       "_name_or_path": "GLM-4-9B-0414", "model_type": "glm4", "vocab_size": 151552,
       "hidden_size": 4096, "intermediate_size": 13696, "num_hidden_layers": 40,
       "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
       "max_position_embeddings": 32768, "partial_rotary_factor": 0.5, "attention_bias": false,
       "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false})"},
    {"dots.llm1", R"({
       "_name_or_path": "dots.llm1", "model_type": "dots1", "vocab_size": 152064,
       "hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408,
       "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 32,
       "n_routed_experts": 128, "num_experts_per_tok": 6, "n_shared_experts": 2,
       "first_k_dense_replace": 1, "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1,
       "norm_topk_prob": true, "sliding_window": null, "max_position_embeddings": 32768,
       "rms_norm_eps": 1e-5, "rope_theta": 10000000.0, "tie_word_embeddings": false})"},
    {"glm-4.5-air", R"({
       "_name_or_path": "GLM-4.5-Air", "model_type": "glm4_moe", "vocab_size": 151552,
       "hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408,
       "num_hidden_layers": 46, "num_attention_heads": 96, "num_key_value_heads": 8,
       "head_dim": 128, "n_routed_experts": 128, "num_experts_per_tok": 8, "n_shared_experts": 1,
       "first_k_dense_replace": 1, "routed_scaling_factor": 1.0, "n_group": 1, "topk_group": 1,
       "norm_topk_prob": true, "use_qk_norm": false, "attention_bias": true,
       "num_nextn_predict_layers": 0, "max_position_embeddings": 131072,
       "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0,
       "tie_word_embeddings": false})"},
    {"ernie-4.5-21b-a3b", R"({
       "_name_or_path": "ERNIE-4.5-21B-A3B", "model_type": "ernie4_5_moe", "vocab_size": 103424,
       "hidden_size": 2560, "intermediate_size": 12288, "moe_intermediate_size": 1536,
       "num_hidden_layers": 28, "num_attention_heads": 20, "num_key_value_heads": 4,
       "moe_num_experts": 64, "moe_k": 6, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
       "moe_layer_interval": 1, "use_bias": false, "max_position_embeddings": 131072,
       "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": true})"},
    {"minimax-m2", R"({
       "_name_or_path": "MiniMax-M2", "model_type": "minimax_m2", "vocab_size": 200064,
       "hidden_size": 3072, "intermediate_size": 1536, "num_hidden_layers": 62,
       "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "rotary_dim": 64,
       "num_local_experts": 256, "num_experts_per_tok": 8, "max_position_embeddings": 196608,
       "rms_norm_eps": 1e-6, "rope_theta": 5000000.0, "tie_word_embeddings": false})"},
    {"hunyuan-1.8b", R"({
       "_name_or_path": "Hunyuan-1.8B", "model_type": "hunyuan_v1_dense", "vocab_size": 120818,
       "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 32,
       "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128,
       "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
       "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0},
       "tie_word_embeddings": true})"},
    {"seed-oss-36b", R"({
       "_name_or_path": "Seed-OSS-36B", "model_type": "seed_oss", "vocab_size": 155136,
       "hidden_size": 5120, "intermediate_size": 27648, "num_hidden_layers": 64,
       "num_attention_heads": 80, "num_key_value_heads": 8, "head_dim": 128,
       "max_position_embeddings": 524288, "attention_bias": true, "rms_norm_eps": 1e-6,
       "rope_theta": 10000000.0, "tie_word_embeddings": false})"},
    {"afm-4.5b", R"({
       "_name_or_path": "AFM-4.5B", "model_type": "arcee", "vocab_size": 128004,
       "hidden_size": 2560, "intermediate_size": 18432, "num_hidden_layers": 36,
       "num_attention_heads": 20, "num_key_value_heads": 4, "head_dim": 128,
       "max_position_embeddings": 65536, "hidden_act": "relu2", "rms_norm_eps": 1e-5,
       "rope_theta": 10000.0, "rope_scaling": {
         "rope_type": "yarn", "factor": 20.0, "beta_fast": 32.0, "beta_slow": 1.0,
         "mscale": 1.0, "original_max_position_embeddings": 4096},
       "tie_word_embeddings": false})"},
    {"ernie-4.5-0.3b", R"({
       "_name_or_path": "ERNIE-4.5-0.3B", "model_type": "ernie4_5", "vocab_size": 103424,
       "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 18,
       "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 128,
       "max_position_embeddings": 131072, "use_bias": false, "rms_norm_eps": 1e-5,
       "rope_theta": 500000.0, "tie_word_embeddings": true})"},
    {"olmo-3-7b", R"({
       "_name_or_path": "Olmo-3-1025-7B", "model_type": "olmo3", "vocab_size": 100278,
       "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 65536,
       "sliding_window": 4096, "rms_norm_eps": 1e-6, "rope_theta": 500000.0, "rope_scaling": {
         "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192,
         "attention_factor": 1.2079441541679836, "beta_fast": 32, "beta_slow": 1},
       "tie_word_embeddings": false})"},
    {"olmo-2-7b", R"({
       "_name_or_path": "OLMo-2-1124-7B", "model_type": "olmo2", "vocab_size": 100352,
       "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096,
       "rms_norm_eps": 1e-6, "rope_theta": 500000.0, "tie_word_embeddings": false})"},
    {"olmoe-1b-7b", R"({
       "_name_or_path": "OLMoE-1B-7B", "model_type": "olmoe", "vocab_size": 50304,
       "hidden_size": 2048, "intermediate_size": 1024, "num_hidden_layers": 16,
       "num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 4096,
       "num_experts": 64, "num_experts_per_tok": 8, "norm_topk_prob": false,
       "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false})"},
    {"granite-3.0-2b", R"({
       "_name_or_path": "Granite-3.0-2B", "model_type": "granite", "vocab_size": 49155,
       "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 40,
       "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 4096,
       "embedding_multiplier": 12.0, "attention_multiplier": 0.015625,
       "residual_multiplier": 0.22, "logits_scaling": 8.0, "rms_norm_eps": 1e-5,
       "rope_theta": 10000.0, "tie_word_embeddings": true})"},
    {"granite-3.0-1b-a400m", R"({
       "_name_or_path": "Granite-3.0-1B-A400M", "model_type": "granitemoe", "vocab_size": 49155,
       "hidden_size": 1024, "intermediate_size": 512, "num_hidden_layers": 24,
       "num_attention_heads": 16, "num_key_value_heads": 8, "max_position_embeddings": 4096,
       "num_local_experts": 32, "num_experts_per_tok": 8, "embedding_multiplier": 12.0,
       "attention_multiplier": 0.015625, "residual_multiplier": 0.22, "logits_scaling": 6.0,
       "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": true})"},
    {"gemma-2b", R"({
       "_name_or_path": "Gemma-2B", "model_type": "gemma", "vocab_size": 256000,
       "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18,
       "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256,
       "max_position_embeddings": 8192, "hidden_activation": "gelu_pytorch_tanh",
       "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": true})"},
    {"gemma-2-2b", R"({
       "_name_or_path": "Gemma-2-2B", "model_type": "gemma2", "vocab_size": 256000,
       "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
       "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
       "max_position_embeddings": 8192, "sliding_window": 4096, "query_pre_attn_scalar": 256,
       "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
       "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
       "tie_word_embeddings": true})"},
    {"gemma-2-9b", R"({
       "_name_or_path": "Gemma-2-9B", "model_type": "gemma2", "vocab_size": 256000,
       "hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42,
       "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
       "max_position_embeddings": 8192, "sliding_window": 4096, "query_pre_attn_scalar": 256,
       "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
       "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
       "tie_word_embeddings": true})"},
    {"gemma-2-27b", R"({
       "_name_or_path": "Gemma-2-27B", "model_type": "gemma2", "vocab_size": 256000,
       "hidden_size": 4608, "intermediate_size": 36864, "num_hidden_layers": 46,
       "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
       "max_position_embeddings": 8192, "sliding_window": 4096, "query_pre_attn_scalar": 144,
       "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
       "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
       "tie_word_embeddings": true})"},
    {"gemma-3-1b", R"({
       "_name_or_path": "Gemma-3-1B", "model_type": "gemma3_text", "vocab_size": 262144,
       "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26,
       "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
       "max_position_embeddings": 32768, "sliding_window": 512, "sliding_window_pattern": 6,
       "query_pre_attn_scalar": 256, "hidden_activation": "gelu_pytorch_tanh",
       "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
       "tie_word_embeddings": true})"},
    {"gemma-4-e2b", R"({
       "_name_or_path": "Gemma-4-E2B", "model_type": "gemma4_text", "vocab_size": 262144,
       "hidden_size": 1536, "intermediate_size": 6144, "use_double_wide_mlp": true,
       "num_hidden_layers": 35, "num_attention_heads": 8, "num_key_value_heads": 1,
       "head_dim": 256, "global_head_dim": 512, "num_kv_shared_layers": 20,
       "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144,
       "max_position_embeddings": 131072, "sliding_window": 512, "layer_types": [
         "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
         "full_attention",
         "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
         "full_attention",
         "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
         "full_attention",
         "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
         "full_attention",
         "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
         "full_attention",
         "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
         "full_attention",
         "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
         "full_attention"],
       "final_logit_softcapping": 30.0, "hidden_activation": "gelu_pytorch_tanh",
       "rms_norm_eps": 1e-6,
       "rope_parameters": {
         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
         "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
           "rope_theta": 1000000.0}},
       "tie_word_embeddings": true})"},
    {"gemma-4-e4b", R"({
       "_name_or_path": "Gemma-4-E4B", "model_type": "gemma4_text", "vocab_size": 262144,
       "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 42,
       "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
       "global_head_dim": 512, "num_kv_shared_layers": 18, "hidden_size_per_layer_input": 256,
       "vocab_size_per_layer_input": 262144, "max_position_embeddings": 131072,
       "sliding_window": 512, "final_logit_softcapping": 30.0,
       "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6,
       "rope_parameters": {
         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
         "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
           "rope_theta": 1000000.0}},
       "tie_word_embeddings": true})"},
    {"gemma-4-31b", R"({
       "_name_or_path": "Gemma-4-31B", "model_type": "gemma4_text", "vocab_size": 262144,
       "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 60,
       "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 256,
       "num_global_key_value_heads": 4, "global_head_dim": 512, "attention_k_eq_v": true,
       "hidden_size_per_layer_input": 0, "max_position_embeddings": 262144,
       "sliding_window": 1024, "final_logit_softcapping": 30.0,
       "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6,
       "rope_parameters": {
         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
         "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
           "rope_theta": 1000000.0}},
       "tie_word_embeddings": true})"},
    {"gemma-4-26b-a4b", R"({
       "_name_or_path": "Gemma-4-26B-A4B", "model_type": "gemma4_text", "vocab_size": 262144,
       "hidden_size": 2816, "intermediate_size": 2112, "moe_intermediate_size": 704,
       "enable_moe_block": true, "num_experts": 128, "top_k_experts": 8, "num_hidden_layers": 30,
       "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
       "num_global_key_value_heads": 2, "global_head_dim": 512, "attention_k_eq_v": true,
       "hidden_size_per_layer_input": 0, "max_position_embeddings": 262144,
       "sliding_window": 1024, "final_logit_softcapping": 30.0,
       "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6,
       "rope_parameters": {
         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
         "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
           "rope_theta": 1000000.0}},
       "tie_word_embeddings": true})"},
    {"smollm3-3b", R"({
       "_name_or_path": "SmolLM3-3B", "model_type": "smollm3", "vocab_size": 128256,
       "hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36,
       "num_attention_heads": 16, "num_key_value_heads": 4, "max_position_embeddings": 65536,
       "no_rope_layer_interval": 4, "rms_norm_eps": 1e-6, "rope_theta": 5000000.0,
       "tie_word_embeddings": true})"},
    {"exaone-4.0-1.2b", R"({
       "_name_or_path": "EXAONE-4.0-1.2B", "model_type": "exaone4", "vocab_size": 102400,
       "hidden_size": 2048, "intermediate_size": 4096, "num_hidden_layers": 30,
       "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
       "max_position_embeddings": 65536, "sliding_window": null, "rms_norm_eps": 1e-5,
       "rope_theta": 1000000.0, "rope_scaling": {
         "rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8192}, "tie_word_embeddings": true})"},
    {"gpt-oss-20b", R"({
       "_name_or_path": "gpt-oss-20b", "model_type": "gpt_oss", "vocab_size": 201088,
       "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
       "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
       "max_position_embeddings": 131072, "num_local_experts": 32, "num_experts_per_tok": 4,
       "sliding_window": 128, "attention_bias": true, "rms_norm_eps": 1e-5,
       "rope_theta": 150000.0, "rope_scaling": {
         "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
         "original_max_position_embeddings": 4096, "truncate": false},
       "tie_word_embeddings": false})"},
    {"deepseek-v2-lite", R"({
       "_name_or_path": "DeepSeek-V2-Lite", "model_type": "deepseek_v2", "vocab_size": 102400,
       "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408,
       "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
       "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
       "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64,
       "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
       "moe_layer_freq": 1, "topk_method": "greedy", "norm_topk_prob": false,
       "routed_scaling_factor": 1.0, "max_position_embeddings": 163840, "rms_norm_eps": 1e-6,
       "rope_theta": 10000.0, "rope_scaling": {
         "type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707,
         "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096},
       "tie_word_embeddings": false})"},
    {"deepseek-v3", R"({
       "_name_or_path": "DeepSeek-V3", "model_type": "deepseek_v3", "vocab_size": 129280,
       "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
       "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
       "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
       "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256,
       "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4,
       "first_k_dense_replace": 3, "moe_layer_freq": 1, "norm_topk_prob": true,
       "routed_scaling_factor": 2.5, "max_position_embeddings": 163840, "rms_norm_eps": 1e-6,
       "rope_theta": 10000.0, "rope_scaling": {
         "type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
         "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096},
       "tie_word_embeddings": false})"},
    {"apertus-8b", R"({
       "_name_or_path": "Apertus-8B-2509", "model_type": "apertus", "vocab_size": 131072,
       "hidden_size": 4096, "intermediate_size": 21504, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 65536,
       "rms_norm_eps": 1e-5, "hidden_act": "xielu", "rope_parameters": {"rope_type": "llama3",
         "rope_theta": 12000000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8192}, "tie_word_embeddings": false})"},
};

}  // namespace

std::span<const Preset> presets() {
  static const std::vector<Preset> all = [] {
    std::vector<Preset> both(std::begin(kPresets), std::end(kPresets));
    both.insert(both.end(), hybrid_presets().begin(), hybrid_presets().end());
    return both;
  }();
  return all;
}

}  // namespace assay
