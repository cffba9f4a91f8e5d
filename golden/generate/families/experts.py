"""Families with experts."""

from math import log

from .family import GROUPED, HEADS, SMALL, WHOLE, Family, rope, yarn

LATENT = dict(
    hidden_size=64,
    num_attention_heads=4,
    num_key_value_heads=4,
    num_hidden_layers=2,
    intermediate_size=64,
    moe_intermediate_size=32,
    n_routed_experts=6,
    num_experts_per_tok=2,
    n_shared_experts=2,
    first_k_dense_replace=1,
    kv_lora_rank=32,
    qk_nope_head_dim=32,
    qk_rope_head_dim=16,
    v_head_dim=24,
    rms_norm_eps=1e-6,
    tie_word_embeddings=True,
)
SIGMOID = dict(
    intermediate_size=64,
    moe_intermediate_size=32,
    n_routed_experts=6,
    num_experts_per_tok=2,
    n_shared_experts=2,
    first_k_dense_replace=1,
    n_group=1,
    topk_group=1,
    norm_topk_prob=True,
    rms_norm_eps=0.046875,
)
NO_DENSE = {key: SIGMOID[key] for key in SIGMOID if key not in ("intermediate_size", "first_k_dense_replace")}
# Granite 4.0 H.
MAMBA = dict(
    layer_types=["linear_attention", "full_attention", "linear_attention"],
    mamba_n_heads=4,
    mamba_d_head=16,
    mamba_d_state=16,
    mamba_d_conv=3,
    mamba_expand=2,
    mamba_chunk_size=8,
    position_embedding_type=None,
    rms_norm_eps=0.046875,
    embedding_multiplier=3.25,
    attention_multiplier=0.1875,
    residual_multiplier=0.65625,
    logits_scaling=2.625,
)
GAIN = {"gate.weight": 2.0, "router": 2.0}
# What llama.cpp's converter makes of the two lengths; published files state 1.243163121016122.
PHI_MSCALE = (1 + log(4096 / 1024) / log(1024)) ** 0.5

EXPERTS = (
    Family(
        "mixtral", "MixtralConfig", 119,
        GROUPED | dict(
            intermediate_size=32, num_local_experts=5, num_experts_per_tok=2, rms_norm_eps=0.046875,
            sliding_window=None, rope_parameters=rope(23456.0), tie_word_embeddings=True
        ),
        GAIN,
    ),
    Family(
        "qwen3moe", "Qwen3MoeConfig", 120,
        HEADS | dict(
            moe_intermediate_size=32, intermediate_size=96, num_experts=5, num_experts_per_tok=3, norm_topk_prob=True,
            decoder_sparse_step=1, mlp_only_layers=[], rms_norm_eps=0.046875, rope_parameters=rope(234567.0),
            use_sliding_window=False, tie_word_embeddings=True
        ),
        GAIN,
    ),
    Family(
        "olmoe", "OlmoeConfig", 121,
        SMALL | dict(
            num_key_value_heads=4, intermediate_size=32, num_experts=5, num_experts_per_tok=3, norm_topk_prob=False,
            clip_qkv=None, rms_norm_eps=1e-5, rope_parameters=rope(23456.0), tie_word_embeddings=False
        ),
        GAIN,
    ),
    Family(
        "granitemoe", "GraniteMoeConfig", 122,
        GROUPED | dict(
            intermediate_size=32, num_local_experts=5, num_experts_per_tok=2, rms_norm_eps=0.046875,
            embedding_multiplier=3.25, attention_multiplier=0.1875, residual_multiplier=0.65625, logits_scaling=2.625,
            rope_parameters=rope(23456.0), tie_word_embeddings=True
        ),
        GAIN,
    ),
    Family(
        "granitehybrid", "GraniteMoeHybridConfig", 213,
        GROUPED | MAMBA | dict(
            hidden_size=32, num_hidden_layers=3, intermediate_size=16, shared_intermediate_size=24, num_local_experts=5,
            num_experts_per_tok=2, mamba_n_groups=2, tie_word_embeddings=True
        ),
        GAIN | {"dt_bias": 4.0},
    ),
    Family(
        "granitehybrid-dense", "GraniteMoeHybridConfig", 214,
        GROUPED | MAMBA | dict(
            num_hidden_layers=3, intermediate_size=48, shared_intermediate_size=48, num_local_experts=0, num_experts_per_tok=0,
            mamba_n_heads=8, mamba_n_groups=1, tie_word_embeddings=False
        ),
        {"dt_bias": 4.0, "mamba.D": 2.0},
        golden=False,
    ),
    Family(
        "nemotron_h_moe", "NemotronHConfig", 231,
        GROUPED | dict(
            hidden_size=32, layers_block_type=["linear_attention", "moe", "full_attention", "moe"], head_dim=12,
            intermediate_size=96, moe_intermediate_size=24, moe_shared_expert_intermediate_size=40, n_routed_experts=6,
            num_experts_per_tok=2, n_shared_experts=1, n_group=3, topk_group=2, norm_topk_prob=True,
            routed_scaling_factor=1.375, layer_norm_epsilon=0.046875, mamba_num_heads=4, mamba_head_dim=16, n_groups=2,
            ssm_state_size=16, conv_kernel=3, chunk_size=8, time_step_min=1e-6, tie_word_embeddings=False
        ),
        GAIN,
    ),
    Family(
        "gpt-oss", "GptOssConfig", 123,
        HEADS | dict(
            head_dim=16, num_hidden_layers=3, intermediate_size=32, num_local_experts=4, num_experts_per_tok=2,
            rms_norm_eps=0.046875, sliding_window=8,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"], attention_bias=True,
            rope_parameters=yarn(8.0, 123456.0, 64, beta_fast=32.0, beta_slow=1.0, truncate=False),
            tie_word_embeddings=False
        ),
        {
            "gate_up_proj": 2.5, "down_proj_bias": 4.0, "k_proj.bias": 4.0, "q_proj.weight": 0.6,
            "experts.down_proj": 0.3, "embed_tokens": 2.0
        },
        proof=dict(rope_parameters=yarn(8.0, 123456.0, 64)),
    ),
    Family(
        "deepseek2-lite", "DeepseekV2Config", 124,
        LATENT | dict(
            q_lora_rank=None, topk_method="greedy", n_group=1, topk_group=1, routed_scaling_factor=1.375,
            norm_topk_prob=False, rope_parameters=rope(23456.0)
        ),
        GAIN | {"embed_tokens": 3.0},
        proof=dict(num_hidden_layers=27),
        golden=False,
    ),
    Family(
        "deepseek2", "DeepseekV2Config", 125,
        LATENT | dict(
            q_lora_rank=32, topk_method="greedy", n_group=1, topk_group=1, routed_scaling_factor=2.625,
            norm_topk_prob=False,
            rope_parameters=yarn(16.0, 23456.0, 32, beta_fast=32.0, beta_slow=1.0, mscale=0.75, mscale_all_dim=0.75)
        ),
        GAIN | {"embed_tokens": 3.0},
    ),
    Family(
        "deepseek3", "DeepseekV3Config", 126,
        LATENT | dict(
            q_lora_rank=32, n_group=2, topk_group=1, routed_scaling_factor=2.375, norm_topk_prob=True,
            scoring_func="sigmoid", rope_parameters=rope(23456.0), rope_interleave=True
        ),
        GAIN | {"embed_tokens": 3.0},
    ),
    Family(
        "glm4moe", "Glm4MoeConfig", 143,
        HEADS | SIGMOID | dict(
            routed_scaling_factor=2.375, attention_bias=True, use_qk_norm=True, num_mtp_layers=0,
            rope_parameters=rope(23456.0, partial_rotary_factor=0.5), tie_word_embeddings=False
        ),
        GAIN | {"embed_tokens": 3.0},
    ),
    Family(
        "glm4moe-air", "Glm4MoeConfig", 144,
        HEADS | SIGMOID | dict(
            routed_scaling_factor=1.375, attention_bias=True, use_qk_norm=False, num_mtp_layers=0,
            rope_parameters=rope(34567.0, partial_rotary_factor=0.5), tie_word_embeddings=False
        ),
        GAIN | {"embed_tokens": 3.0},
        golden=False,
    ),
    Family(
        "solar-open", "SolarOpenConfig", 271,
        HEADS | NO_DENSE | dict(
            routed_scaling_factor=1.375, rope_parameters=rope(23456.0, partial_rotary_factor=1.0),
            tie_word_embeddings=False
        ),
        GAIN | {"embed_tokens": 3.0},
        golden=False,
    ),
    Family(
        "glm4moe-lite", "Glm4MoeLiteConfig", 272,
        LATENT | dict(
            q_lora_rank=32, n_group=1, topk_group=1, routed_scaling_factor=1.375, norm_topk_prob=True,
            mlp_layer_types=["dense", "sparse"], rope_parameters=rope(23456.0), rope_interleave=True
        ),
        GAIN | {"embed_tokens": 3.0},
        golden=False,
    ),
    Family(
        "mistral4", "Mistral4Config", 273,
        LATENT | dict(
            hidden_size=32, q_lora_rank=24, n_shared_experts=1, n_group=1, topk_group=1, routed_scaling_factor=1.375,
            norm_topk_prob=True, rope_parameters=yarn(
                16.0, 345.0, 16, beta_fast=0.5, beta_slow=0.125, mscale=1.0, mscale_all_dim=0.75,
                llama_4_scaling_beta=0.375
            ), rope_interleave=True
        ),
        GAIN | {"embed_tokens": 3.0},
        published="Ministral3ForCausalLM",
        proof=dict(rope_parameters=yarn(16.0, 345.0, 16, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.375)),
    ),
    Family(
        "afmoe", "AfmoeConfig", 274,
        HEADS | dict(
            hidden_size=32, num_hidden_layers=4, head_dim=12, intermediate_size=48, moe_intermediate_size=16,
            num_experts=5, num_experts_per_tok=2, num_shared_experts=2, num_dense_layers=1, route_scale=1.375,
            route_norm=True, mup_enabled=True, rms_norm_eps=0.046875, sliding_window=8, global_attn_every_n_layers=4,
            layer_types=["sliding_attention"] * 3 + ["full_attention"], rope_parameters=rope(23456.0),
            tie_word_embeddings=False
        ),
        GAIN | {"embed_tokens": 0.5},
    ),
    Family(
        "hy_v3", "HYV3Config", 275,
        HEADS | dict(
            hidden_size=32, head_dim=12, intermediate_size=64, moe_intermediate_size=24, num_experts=6,
            num_experts_per_tok=2, num_shared_experts=2, mlp_layer_types=["dense", "sparse"],
            router_scaling_factor=1.375, rms_norm_eps=0.046875, rope_parameters=rope(23456.0),
            tie_word_embeddings=False
        ),
        GAIN | {"embed_tokens": 3.0},
        golden=False,
    ),
    Family(
        "mellum", "MellumConfig", 276,
        HEADS | dict(
            hidden_size=32, num_hidden_layers=4, head_dim=12, intermediate_size=48, moe_intermediate_size=16,
            num_experts=5, num_experts_per_tok=3, norm_topk_prob=True, rms_norm_eps=0.046875, sliding_window=8,
            layer_types=["sliding_attention"] * 3 + ["full_attention"], rope_parameters={
                "sliding_attention": rope(12345.0), "full_attention": yarn(8.0, 12345.0, 64)
            }, tie_word_embeddings=False
        ),
        GAIN,
        golden=False,
    ),
    Family(
        "dots1", "Dots1Config", 145,
        HEADS | SIGMOID | dict(
            head_dim=16, num_key_value_heads=4, routed_scaling_factor=2.375, attention_bias=False, sliding_window=None,
            scoring_func="sigmoid", rope_parameters=rope(23456.0), tie_word_embeddings=False
        ),
        GAIN | {"embed_tokens": 3.0},
    ),
    Family(
        "ernie4_5-moe", "Ernie4_5_MoeConfig", 147,
        GROUPED | dict(
            intermediate_size=128, moe_intermediate_size=32, moe_num_experts=6, moe_k=2, moe_num_shared_experts=2,
            moe_layer_start_index=1, rms_norm_eps=0.046875, rope_parameters=rope(23456.0), use_bias=False,
            tie_word_embeddings=False
        ),
        GAIN | {"embed_tokens": 3.0},
    ),
    Family(
        "qwen2moe", "Qwen2MoeConfig", 149,
        GROUPED | dict(
            intermediate_size=96, moe_intermediate_size=32, shared_expert_intermediate_size=48, num_experts=6,
            num_experts_per_tok=2, norm_topk_prob=False, decoder_sparse_step=1, rms_norm_eps=0.046875, qkv_bias=True,
            rope_parameters=rope(23456.0), use_sliding_window=False, tie_word_embeddings=False
        ),
        GAIN | {"embed_tokens": 3.0, "shared_expert_gate": 2.0},
    ),
    Family(
        "exaone-moe", "ExaoneMoeConfig", 255,
        WHOLE | dict(
            hidden_size=32, num_hidden_layers=4, intermediate_size=48, moe_intermediate_size=16, num_experts=6, num_experts_per_tok=2,
            num_shared_experts=1, first_k_dense_replace=1, n_group=3, topk_group=2, norm_topk_prob=True,
            routed_scaling_factor=1.375, rms_norm_eps=0.046875, sliding_window=8, sliding_window_pattern=4,
            layer_types=["sliding_attention"] * 3 + ["full_attention"], rope_parameters=rope(23456.0),
            tie_word_embeddings=False
        ),
        GAIN | {"embed_tokens": 3.0, "down_proj": 0.6, "o_proj": 0.7},
    ),
    Family(
        "llama4", "Llama4TextConfig", 261,
        WHOLE | dict(
            hidden_size=32, num_hidden_layers=4, intermediate_size=16, intermediate_size_mlp=48, num_local_experts=4,
            num_experts_per_tok=2, interleave_moe_layer_step=2, use_qk_norm=True, no_rope_layer_interval=4,
            attention_chunk_size=12, floor_scale=5, attn_scale=0.375, rms_norm_eps=0.046875,
            rope_parameters=rope(234.0) | {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64
            }, tie_word_embeddings=False
        ),
        GAIN | {"embed_tokens": 3.0},
        proof=dict(attention_chunk_size=8192, floor_scale=8192, attn_scale=0.1),
    ),
    Family(
        "phimoe", "PhimoeConfig", 262,
        GROUPED | dict(
            hidden_size=32, max_position_embeddings=4096, intermediate_size=24, num_local_experts=5, num_experts_per_tok=2,
            router_jitter_noise=0.25, rms_norm_eps=0.046875, attention_bias=True, lm_head_bias=True, sliding_window=None,
            rope_parameters=rope(2345.0) | {
                "rope_type": "longrope", "short_mscale": PHI_MSCALE, "long_mscale": PHI_MSCALE,
                "short_factor": [1.0, 1.25, 1.75, 2.5], "long_factor": [1.5, 2.5, 4.0, 8.0],
                "original_max_position_embeddings": 1024
            }, tie_word_embeddings=False
        ),
        GAIN,
        published="PhiMoEForCausalLM",
    ),
    Family(
        "hunyuan-moe", "HunYuanMoEV1Config", 252,
        HEADS | dict(
            hidden_size=32, intermediate_size=24, num_experts=5, moe_topk=2, rms_norm_eps=0.046875, rope_parameters=rope(23456.0),
            attention_bias=False, tie_word_embeddings=False
        ),
        GAIN | {"wg.weight": 2.0},
    ),
    Family(
        "minimax-m2", "MiniMaxM2Config", 146,
        HEADS | dict(
            intermediate_size=32, num_local_experts=6, num_experts_per_tok=2, rms_norm_eps=0.046875, rotary_dim=12,
            scoring_func="sigmoid", rope_parameters=rope(23456.0, partial_rotary_factor=0.5), tie_word_embeddings=False
        ),
        GAIN | {"embed_tokens": 3.0},
    ),
    Family(
        "lfm2moe", "Lfm2MoeConfig", 154,
        GROUPED | dict(
            num_hidden_layers=4, intermediate_size=96, moe_intermediate_size=32, num_experts=6, num_experts_per_tok=2,
            num_dense_layers=2, norm_topk_prob=True, routed_scaling_factor=1.0, use_expert_bias=True, conv_L_cache=4,
            norm_eps=0.046875, layer_types=["full_attention", "conv", "conv", "full_attention"],
            rope_parameters=rope(23456.0), tie_word_embeddings=True
        ),
        GAIN | {"embed_tokens": 0.5, "conv.conv": 4.0},
    ),
    Family(
        "gemma4-moe", "Gemma4TextConfig", 214,
        GROUPED | dict(
            hidden_size=32, head_dim=16, global_head_dim=32, num_global_key_value_heads=1, attention_k_eq_v=True,
            intermediate_size=48, enable_moe_block=True, num_experts=6, top_k_experts=3, moe_intermediate_size=24,
            rms_norm_eps=0.046875, sliding_window=8, hidden_activation="gelu_pytorch_tanh",
            layer_types=["sliding_attention", "full_attention"],
            rope_parameters={
                "sliding_attention": rope(3456.0),
                "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 345.0}
            }, final_logit_softcapping=3.5, hidden_size_per_layer_input=0, tie_word_embeddings=True
        ),
        {"layer_scalar": 2.0, "router.proj": 12.0},
    ),
    Family(
        "qwen35moe", "Qwen3_5MoeTextConfig", 190,
        GROUPED | dict(
            head_dim=24, moe_intermediate_size=16, shared_expert_intermediate_size=24, num_experts=4,
            num_experts_per_tok=2, rms_norm_eps=0.046875, linear_conv_kernel_dim=4, linear_key_head_dim=16,
            linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
            layer_types=["linear_attention", "full_attention"],
            rope_parameters=rope(23456.0, partial_rotary_factor=0.5, mrope_section=[2, 2, 2]), tie_word_embeddings=True
        ),
        GAIN | {"embed_tokens": 0.5, "conv1d": 6.0, "dt_bias": 4.0, "shared_expert_gate": 2.0},
        proof=dict(rms_norm_eps=1e-6),
    ),
    Family(
        "qwen3next", "Qwen3NextConfig", 159,
        GROUPED | dict(
            head_dim=16, intermediate_size=96, moe_intermediate_size=16, shared_expert_intermediate_size=24, num_experts=4,
            num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], rms_norm_eps=0.046875,
            linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2,
            linear_num_value_heads=6, layer_types=["linear_attention", "full_attention"],
            rope_parameters=rope(23456.0, partial_rotary_factor=0.5), tie_word_embeddings=True
        ),
        GAIN | {"embed_tokens": 0.5, "conv1d": 6.0, "dt_bias": 4.0, "shared_expert_gate": 2.0},
        proof=dict(rms_norm_eps=1e-6),
    ),
)
