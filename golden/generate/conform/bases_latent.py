"""Those of bases.py whose keys and values come of a latent vector."""

from .base_parts import RMS, TIED, UNTIED, common

LATENT_BASES = {
    "deepseek_v2": common(
        "DeepseekV2ForCausalLM", "deepseek_v2", **RMS | dict(rms_norm_eps=1e-6), num_key_value_heads=2,
        first_k_dense_replace=1, kv_lora_rank=32, q_lora_rank=40, qk_nope_head_dim=48, qk_rope_head_dim=16,
        v_head_dim=32, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=80,
        moe_layer_freq=1, topk_method="greedy", n_group=1, topk_group=1, routed_scaling_factor=1.0,
        norm_topk_prob=False, scoring_func="softmax", attention_bias=False, rope_theta=10000.0,
        rope_scaling=dict(
            type="yarn", factor=1.0, beta_fast=32, beta_slow=1, original_max_position_embeddings=512, mscale=1.0,
            mscale_all_dim=1.0
        ),
        **UNTIED
    ),
    "deepseek_v3": common(
        "DeepseekV3ForCausalLM", "deepseek_v3", **RMS | dict(rms_norm_eps=1e-6), num_key_value_heads=2,
        first_k_dense_replace=1, kv_lora_rank=32, q_lora_rank=40, qk_nope_head_dim=48, qk_rope_head_dim=16,
        v_head_dim=32, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=80,
        moe_layer_freq=1, topk_method="noaux_tc", n_group=1, topk_group=1, routed_scaling_factor=1.0,
        norm_topk_prob=True, scoring_func="sigmoid", attention_bias=False, rope_theta=10000.0, rope_scaling=None,
        **UNTIED
    ),
    "axk1": common(
        "AXK1ForCausalLM", "axk1", **RMS | dict(rms_norm_eps=1e-6), num_key_value_heads=2, first_k_dense_replace=1,
        kv_lora_rank=32, q_lora_rank=40, qk_nope_head_dim=48, qk_rope_head_dim=16, v_head_dim=32, n_routed_experts=8,
        n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=80, moe_layer_freq=1, topk_method="noaux_tc",
        n_group=1, topk_group=1, routed_scaling_factor=1.0, norm_topk_prob=True, scoring_func="sigmoid",
        attention_bias=False, rope_theta=10000.0, rope_scaling=None, **UNTIED
    ),
    "glm4_moe_lite": common(
        "Glm4MoeLiteForCausalLM", "glm4_moe_lite", **RMS, num_key_value_heads=2, first_k_dense_replace=1,
        mlp_layer_types=["dense", "sparse"], kv_lora_rank=32, q_lora_rank=40, qk_nope_head_dim=48, qk_rope_head_dim=16,
        v_head_dim=64, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=80, topk_method="noaux_tc", n_group=1,
        topk_group=1, routed_scaling_factor=1.0, norm_topk_prob=True, scoring_func="sigmoid", attention_bias=False,
        rope_theta=10000.0, rope_scaling=None, num_nextn_predict_layers=0, **UNTIED
    ),
    "deepseek_v32": common(
        "DeepseekV32ForCausalLM", "deepseek_v32", **RMS | dict(rms_norm_eps=1e-6), num_key_value_heads=2,
        mlp_layer_types=["dense", "sparse"], first_k_dense_replace=1, kv_lora_rank=32, q_lora_rank=40,
        qk_nope_head_dim=48, qk_rope_head_dim=16, v_head_dim=32, index_n_heads=8, index_head_dim=64, index_topk=512,
        n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=80, topk_method="noaux_tc",
        n_group=1, topk_group=1, routed_scaling_factor=1.0, norm_topk_prob=True, scoring_func="sigmoid",
        attention_bias=False, rope_theta=10000.0, rope_scaling=None, num_nextn_predict_layers=0, **UNTIED
    ),
    "glm_moe_dsa": common(
        "GlmMoeDsaForCausalLM", "glm_moe_dsa", **RMS, num_key_value_heads=2, mlp_layer_types=["dense", "sparse"],
        first_k_dense_replace=1, moe_layer_freq=1, kv_lora_rank=32, q_lora_rank=40,
        qk_nope_head_dim=48, qk_rope_head_dim=16, v_head_dim=64, index_n_heads=8, index_head_dim=64, index_topk=512,
        indexer_types=["full", "full"], n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2,
        moe_intermediate_size=80, topk_method="noaux_tc", n_group=1, topk_group=1, routed_scaling_factor=1.0,
        norm_topk_prob=True, scoring_func="sigmoid", attention_bias=False,
        rope_parameters={"rope_theta": 1000000.0, "rope_type": "default"},
        num_nextn_predict_layers=0, **UNTIED
    ),
    "youtu": common(
        "YoutuForCausalLM", "youtu", **RMS, num_key_value_heads=2, kv_lora_rank=32, q_lora_rank=40,
        qk_nope_head_dim=48, qk_rope_head_dim=16, v_head_dim=64, attention_bias=False, rope_interleave=True,
        rope_theta=10000.0, rope_scaling=None, **UNTIED
    ),
    "minicpm3": common(
        "MiniCPM3ForCausalLM", "minicpm3", **RMS, num_key_value_heads=2, kv_lora_rank=32, q_lora_rank=40,
        qk_nope_head_dim=48, qk_rope_head_dim=16, v_head_dim=32, attention_bias=False, rope_theta=10000.0,
        rope_scaling=None, scale_emb=1, scale_depth=1.4142135623730951, dim_model_base=64, **TIED
    ),
    "mistral4": common(
        "Mistral4ForCausalLM", "mistral4", **RMS, num_key_value_heads=2, first_k_dense_replace=0, kv_lora_rank=32,
        q_lora_rank=40, qk_nope_head_dim=48, qk_rope_head_dim=16, v_head_dim=32, n_routed_experts=4, n_shared_experts=1,
        num_experts_per_tok=2, moe_intermediate_size=80, n_group=1, topk_group=1, routed_scaling_factor=1.0,
        norm_topk_prob=True, attention_bias=False, rope_interleave=True, rope_parameters=dict(
            type="yarn", rope_type="yarn", rope_theta=10000.0, factor=1.0, original_max_position_embeddings=512,
            beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.125
        ), **UNTIED
    ),
}
