"""A small config.json of each model_type, as published ones are spelled: the suite's rows change what they are about.

All that a config can switch off is off, or has the value that most engines take by default: no caps, windows longer
than a prompt, one rotary base of 10000 for all dimensions, scales of 1. So an engine that does not know one feature
fails the rows of that feature, and `family_*`, which have all at once.

Heads are 32 wide, since some engines have kernels for few widths only. Numbers have few bits, so that no engine has to
round them. No two sizes are equal, since some engines choose what to do with a matrix by its shape.
"""

from .base_parts import ABSENT, GEMMA, LAYER, LINEAR, MAMBA, NO_CAP, RMS, ROOT, SELECTIVE, TIED, UNTIED, common
from .bases_latent import LATENT_BASES
from .bases_nested import NESTED_BASES
from .bases_plain import PLAIN_BASES
from .case import merged

BASES = LATENT_BASES | NESTED_BASES | PLAIN_BASES | {
    "llama": common(
        "LlamaForCausalLM", "llama", **RMS, rope_theta=10000.0, rope_scaling=None, attention_bias=False,
        mlp_bias=False, **UNTIED
    ),
    "cwm": common(
        "CwmForCausalLM", "cwm", **RMS, head_dim=32, rope_theta=10000.0, mlp_bias=False, sliding_window=512,
        layer_types=["full_attention", "sliding_attention"], rope_scaling=dict(
            rope_type="llama3", factor=1.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=512
        ),
        **UNTIED
    ),
    "mistral": common(
        "MistralForCausalLM", "mistral", **RMS, head_dim=32, rope_theta=10000.0, sliding_window=None, **UNTIED
    ),
    "mixtral": common(
        "MixtralForCausalLM", "mixtral", **RMS, rope_theta=10000.0, sliding_window=None, num_local_experts=4,
        num_experts_per_tok=2, router_aux_loss_coef=0.02, output_router_logits=False, **UNTIED
    ),
    "llama4_text": common(
        "Llama4ForCausalLM", "llama4_text", **RMS, num_hidden_layers=4, head_dim=32, intermediate_size=80,
        intermediate_size_mlp=112, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=5,
        use_qk_norm=False, no_rope_layers=[1, 1, 1, 0], no_rope_layer_interval=4, attention_chunk_size=512,
        attn_temperature_tuning=False, floor_scale=8192, attn_scale=0.1, rope_theta=10000.0, rope_scaling=None,
        attention_bias=False, router_aux_loss_coef=0.001, output_router_logits=False, **UNTIED
    ),
    "phimoe": common(
        "PhiMoEForCausalLM", "phimoe", **RMS, intermediate_size=80, num_local_experts=4, num_experts_per_tok=2,
        router_jitter_noise=0.01, input_jitter_noise=0.0, hidden_dropout=0.0, attention_bias=True, lm_head_bias=True,
        sliding_window=None, rope_theta=10000.0, original_max_position_embeddings=512, router_aux_loss_coef=0.0,
        output_router_logits=False, rope_scaling=dict(
            type="longrope", short_factor=[1.0] * 16, long_factor=[1.0] * 16, short_mscale=1.0, long_mscale=1.0,
            original_max_position_embeddings=512
        ),
        **UNTIED
    ),
    "bloom": {
        "architectures": ["BloomForCausalLM"],
        "model_type": "bloom",
        "vocab_size": 112,
        "n_embed": 96,
        "n_head": 6,  # no power of two: ALiBi's slopes are of two series
        "n_layer": 2,
        "seq_length": 512,
        "layer_norm_epsilon": 1e-5,
        "apply_residual_connection_post_layernorm": False,
        "attention_softmax_in_fp32": True,
        "bias_dropout_fusion": True,
        "masked_softmax_fusion": True,
        "n_inner": None,
        "offset_alibi": 100,
        "pretraining_tp": 1,
        "slow_but_exact": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "initializer_range": 0.02,
        "torch_dtype": "float32",
        "use_cache": True,
    },
    "qwen2": common(
        "Qwen2ForCausalLM", "qwen2", **RMS | dict(rms_norm_eps=1e-6), rope_theta=10000.0, sliding_window=512,
        use_sliding_window=False, max_window_layers=2, **TIED
    ),
    "qwen3": common(
        "Qwen3ForCausalLM", "qwen3", **RMS | dict(rms_norm_eps=1e-6), head_dim=32, rope_theta=10000.0,
        rope_scaling=None, attention_bias=False, sliding_window=None, use_sliding_window=False, max_window_layers=2,
        **TIED
    ),
    "qwen3_moe": common(
        "Qwen3MoeForCausalLM", "qwen3_moe", **RMS | dict(rms_norm_eps=1e-6), head_dim=32, rope_theta=10000.0,
        rope_scaling=None, attention_bias=False, sliding_window=None, use_sliding_window=False, max_window_layers=2,
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=80, norm_topk_prob=True, decoder_sparse_step=1,
        mlp_only_layers=[], **UNTIED
    ),
    "phi3": common(
        "Phi3ForCausalLM", "phi3", **RMS, rope_theta=10000.0, rope_scaling=None, sliding_window=None,
        original_max_position_embeddings=512, attention_bias=False, pad_token_id=0, **UNTIED
    ),
    "phi": common(
        "PhiForCausalLM", "phi", **LAYER, intermediate_size=256, num_key_value_heads=2, hidden_act="gelu_new",
        partial_rotary_factor=1.0, qk_layernorm=False, rope_theta=10000.0, rope_scaling=None, **UNTIED
    ),
    "gpt2": {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": 96,
        "n_embd": 64,
        "n_head": 2,
        "n_layer": 2,
        "n_positions": 80,
        "n_ctx": 80,
        "n_inner": None,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "float32",
    },
    "gpt_neox": common(
        "GPTNeoXForCausalLM", "gpt_neox", **LAYER, intermediate_size=256, num_key_value_heads=ABSENT,
        hidden_act="gelu", rotary_pct=1.0,
        rotary_emb_base=10000, use_parallel_residual=True, attention_bias=True, **UNTIED
    ),
    "falcon": common(
        "FalconForCausalLM", "falcon", num_key_value_heads=ABSENT, intermediate_size=ABSENT, layer_norm_epsilon=1e-5,
        alibi=False, bias=False, multi_query=True, num_kv_heads=1, new_decoder_architecture=False, parallel_attn=True,
        rope_theta=10000.0, **TIED
    ),
    "gemma": common("GemmaForCausalLM", "gemma", **GEMMA, rope_theta=10000.0),
    "gemma2": common(
        "Gemma2ForCausalLM", "gemma2", **GEMMA, rope_theta=10000.0, query_pre_attn_scalar=32, sliding_window=512,
        attn_logit_softcapping=NO_CAP, final_logit_softcapping=NO_CAP, cache_implementation="hybrid"
    ),
    "vaultgemma": common(
        "VaultGemmaForCausalLM", "vaultgemma", **GEMMA, rope_theta=10000.0, query_pre_attn_scalar=32,
        sliding_window=512, layer_types=["sliding_attention", "full_attention"], attn_logit_softcapping=NO_CAP,
        final_logit_softcapping=NO_CAP
    ),
    "gemma3_text": common(
        "Gemma3ForCausalLM", "gemma3_text", **GEMMA, num_hidden_layers=6, rope_theta=10000.0,
        rope_local_base_freq=10000.0, rope_scaling=None, query_pre_attn_scalar=32, sliding_window=512,
        sliding_window_pattern=6, attn_logit_softcapping=None, final_logit_softcapping=None
    ),
    "gemma3n_text": common(
        "Gemma3nForCausalLM", "gemma3n_text", **GEMMA, sliding_window=512,
        layer_types=["sliding_attention", "full_attention"], rope_theta=10000.0, rope_local_base_freq=10000.0,
        rope_scaling=None, final_logit_softcapping=NO_CAP, num_kv_shared_layers=0, activation_sparsity_pattern=[0.0, 0.0],
        hidden_size_per_layer_input=256, vocab_size_per_layer_input=96, laurel_rank=64, altup_num_inputs=4,
        altup_active_idx=0, altup_coef_clip=120.0, altup_correct_scale=True
    ),
    "gemma4_text": common(
        "Gemma4ForCausalLM", "gemma4_text", **GEMMA, global_head_dim=32, num_global_key_value_heads=1,
        attention_k_eq_v=False, enable_moe_block=False, hidden_size_per_layer_input=0, num_kv_shared_layers=0,
        sliding_window=512, layer_types=["sliding_attention", "full_attention"], final_logit_softcapping=NO_CAP,
        rope_parameters=dict(
            sliding_attention=dict(rope_type="default", rope_theta=10000.0),
            full_attention=dict(rope_type="proportional", partial_rotary_factor=1.0, rope_theta=10000.0)
        )
    ),
    "cohere": common(
        "CohereForCausalLM", "cohere", **LAYER, hidden_act="silu", logit_scale=1.0, use_qk_norm=False,
        rope_theta=10000.0, attention_bias=False, pad_token_id=0, **TIED
    ),
    "cohere2": common(
        "Cohere2ForCausalLM", "cohere2", **LAYER, num_hidden_layers=4, head_dim=32, hidden_act="silu", logit_scale=1.0,
        rope_theta=10000.0, attention_bias=False, sliding_window=512, sliding_window_pattern=4,
        order_of_interleaved_layers="local_attn_first", pad_token_id=0, **TIED
    ),
    "cohere2_moe": common(
        "Cohere2MoeForCausalLM", "cohere2_moe", **LAYER, num_hidden_layers=4, head_dim=32, hidden_act="silu",
        logit_scale=1.0, rope_theta=10000.0, attention_bias=False, sliding_window=512, first_k_dense_replace=1,
        layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        mlp_layer_types=["dense"] + ["sparse"] * 3, prefix_dense_sliding_window_pattern=1, intermediate_size=80,
        prefix_dense_intermediate_size=112, num_experts=4, num_experts_per_tok=2, num_shared_experts=1,
        shared_expert_combination_strategy="average", expert_selection_fn="sigmoid", norm_topk_prob=True,
        pad_token_id=0, **TIED
    ),
    "olmo": common(
        "OlmoForCausalLM", "olmo", hidden_act="silu", clip_qkv=None, rope_theta=10000.0, rope_scaling=None,
        attention_bias=False, **UNTIED
    ),
    "olmo2": common(
        "Olmo2ForCausalLM", "olmo2", **RMS | dict(rms_norm_eps=1e-6), rope_theta=10000.0, rope_scaling=None,
        attention_bias=False, **UNTIED
    ),
    "olmoe": common(
        "OlmoeForCausalLM", "olmoe", **RMS, num_key_value_heads=2, intermediate_size=80, num_experts=4,
        num_experts_per_tok=2, norm_topk_prob=False, clip_qkv=None, rope_theta=10000.0, rope_scaling=None,
        attention_bias=False, **UNTIED
    ),
    "flex_olmo": common(
        "FlexOlmoForCausalLM", "flex_olmo", **RMS | dict(rms_norm_eps=1e-6), intermediate_size=80, num_experts=4,
        num_experts_per_tok=2, norm_topk_prob=False, rope_theta=10000.0, rope_scaling=None, attention_bias=False,
        pad_token_id=0, **UNTIED
    ),
    "granite": common(
        "GraniteForCausalLM", "granite", **RMS, embedding_multiplier=1.0, attention_multiplier=ROOT,
        residual_multiplier=1.0, logits_scaling=1.0, rope_theta=10000.0, rope_scaling=None, attention_bias=False,
        mlp_bias=False, **TIED
    ),
    "hyperclovax": common(
        "HyperCLOVAXForCausalLM", "hyperclovax", **RMS, head_dim=32, embedding_multiplier=1.0,
        attention_multiplier=ROOT, residual_multiplier=1.0, logits_scaling=1.0, use_post_norm=False, rope_theta=10000.0,
        rope_scaling=None, attention_bias=False, mlp_bias=False, **UNTIED
    ),
    "granitemoe": common(
        "GraniteMoeForCausalLM", "granitemoe", **RMS, intermediate_size=80, num_local_experts=4,
        num_experts_per_tok=2, embedding_multiplier=1.0, attention_multiplier=ROOT, residual_multiplier=1.0,
        logits_scaling=1.0, rope_theta=10000.0, rope_scaling=None, attention_bias=False, **TIED
    ),
    "granitemoeshared": common(
        "GraniteMoeSharedForCausalLM", "granitemoeshared", **RMS, intermediate_size=80, shared_intermediate_size=88,
        num_local_experts=4, num_experts_per_tok=2, embedding_multiplier=1.0, attention_multiplier=ROOT,
        residual_multiplier=1.0, logits_scaling=1.0, rope_theta=10000.0, rope_scaling=None, attention_bias=False, **TIED
    ),
    "granite_swa": common(
        "GraniteSWAForCausalLM", "granite_swa", **RMS, embedding_multiplier=1.0, attention_multiplier=ROOT,
        residual_multiplier=1.0, logits_scaling=1.0, rope_theta=10000.0, rope_scaling=None, sliding_window=512,
        layer_types=["full_attention", "sliding_attention"], attention_bias=False, mlp_bias=False, **TIED
    ),
    "granitemoe_swa": common(
        "GraniteMoeSWAForCausalLM", "granitemoe_swa", **RMS, intermediate_size=80, shared_intermediate_size=88,
        num_local_experts=4, num_experts_per_tok=2, embedding_multiplier=1.0, attention_multiplier=ROOT,
        residual_multiplier=1.0, logits_scaling=1.0, rope_theta=10000.0, rope_scaling=None, sliding_window=512,
        layer_types=["full_attention", "sliding_attention"], attention_bias=False, **TIED
    ),
    "granitemoehybrid": common(
        "GraniteMoeHybridForCausalLM", "granitemoehybrid", **RMS, intermediate_size=88, shared_intermediate_size=88,
        num_local_experts=0, num_experts_per_tok=0, layer_types=["mamba", "attention"], **MAMBA,
        embedding_multiplier=1.0, attention_multiplier=ROOT, residual_multiplier=1.0, logits_scaling=1.0,
        position_embedding_type="nope", rope_theta=10000.0, rope_scaling=None, attention_bias=False, **TIED
    ),
    "bamba": common(
        "BambaForCausalLM", "bamba", **RMS, attn_layer_indices=[1], attn_rotary_emb=16, **MAMBA, z_loss_coefficient=0.0,
        rope_theta=10000.0, rope_scaling=None, attention_bias=False, mlp_bias=False, **UNTIED
    ),
    "nemotron_h": common(
        "NemotronHForCausalLM", "nemotron_h", num_hidden_layers=3, hybrid_override_pattern="M-*", head_dim=32,
        mlp_hidden_act="relu2", mamba_hidden_act="silu", layer_norm_epsilon=1e-5, mamba_num_heads=4, mamba_head_dim=32,
        n_groups=2, ssm_state_size=16, conv_kernel=4, expand=2, chunk_size=16, use_conv_bias=True, use_bias=False,
        mamba_proj_bias=False, mlp_bias=False, attention_bias=False, residual_in_fp32=False, time_step_min=0.001,
        time_step_max=0.1, time_step_floor=0.0001, **UNTIED
    ),
    "mamba": common("MambaForCausalLM", "mamba", **SELECTIVE, **TIED),
    "falcon_mamba": common("FalconMambaForCausalLM", "falcon_mamba", **SELECTIVE, mixer_rms_eps=1e-6, **UNTIED),
    "jamba": common(
        "JambaForCausalLM", "jamba", **RMS | dict(rms_norm_eps=1e-6), num_hidden_layers=3, attn_layer_period=3,
        attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1, num_experts=4, num_experts_per_tok=2,
        mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=6, mamba_conv_bias=True, mamba_proj_bias=False,
        **UNTIED
    ),
    "falcon_h1": common(
        "FalconH1ForCausalLM", "falcon_h1", **RMS, head_dim=32, rope_theta=10000.0, rope_scaling=None, mamba_d_ssm=96,
        **MAMBA | dict(mamba_n_heads=3, mamba_expand=1), mamba_rms_norm=False, mamba_norm_before_gate=False,
        projectors_bias=False, attention_bias=False, mlp_bias=False, attention_in_multiplier=1.0,
        attention_out_multiplier=1.0, embedding_multiplier=1.0, key_multiplier=1.0, lm_head_multiplier=1.0,
        mlp_multipliers=[1.0, 1.0], ssm_in_multiplier=1.0, ssm_multipliers=[1.0, 1.0, 1.0, 1.0, 1.0],
        ssm_out_multiplier=1.0, **UNTIED
    ),
    "stablelm": common(
        "StableLmForCausalLM", "stablelm", **LAYER, hidden_act="silu", partial_rotary_factor=1.0, rope_theta=10000.0,
        use_qkv_bias=False, use_parallel_residual=False, qk_layernorm=False, **UNTIED
    ),
    "starcoder2": common(
        "Starcoder2ForCausalLM", "starcoder2", norm_epsilon=1e-5, hidden_act="gelu_pytorch_tanh", use_bias=True,
        rope_theta=10000.0, sliding_window=None, **TIED
    ),
    "bitnet": common(
        "BitNetForCausalLM", "bitnet", **RMS | dict(hidden_act="relu2"), rope_theta=10000.0, attention_bias=False, **TIED
    ),
    "nemotron": common(
        "NemotronForCausalLM", "nemotron", head_dim=32, norm_eps=1e-5, hidden_act="relu2", partial_rotary_factor=1.0,
        rope_theta=10000.0, attention_bias=False, mlp_bias=False, **UNTIED
    ),
    "smollm3": common(
        "SmolLM3ForCausalLM", "smollm3", **RMS | dict(rms_norm_eps=1e-6), num_hidden_layers=4, rope_theta=10000.0,
        rope_scaling=None, no_rope_layers=[1, 1, 1, 0], no_rope_layer_interval=4, use_sliding_window=False,
        sliding_window=None, layer_types=["full_attention"] * 4, attention_bias=False, mlp_bias=False, pad_token_id=0,
        **TIED
    ),
    "exaone4": common(
        "Exaone4ForCausalLM", "exaone4", **RMS, num_hidden_layers=4, head_dim=32, rope_theta=10000.0,
        rope_scaling=None, sliding_window=512, sliding_window_pattern="LLLG",
        layer_types=["sliding_attention"] * 3 + ["full_attention"], attention_bias=False, **TIED
    ),
    "gpt_oss": common(
        "GptOssForCausalLM", "gpt_oss", **RMS, head_dim=32, num_attention_heads=4, num_key_value_heads=1,
        intermediate_size=80, num_local_experts=4, num_experts_per_tok=2, sliding_window=128, swiglu_limit=7.0,
        layer_types=["sliding_attention", "full_attention"], attention_bias=True, rope_theta=10000.0,
        max_position_embeddings=131072,
        rope_scaling=dict(
            rope_type="yarn", factor=1.0, beta_fast=32.0, beta_slow=1.0, original_max_position_embeddings=4096,
            truncate=False
        ),
        **UNTIED
    ),
    "jais2": common(
        "Jais2ForCausalLM", "jais2", **LAYER, head_dim=32, hidden_act="relu2", attention_bias=True, mlp_bias=True,
        rope_theta=10000.0, rope_scaling=None, **UNTIED
    ),
    "internlm3": common(
        "InternLM3ForCausalLM", "internlm3", **RMS, head_dim=32, qkv_bias=False, bias=False, rope_theta=10000.0,
        rope_scaling=None, **UNTIED
    ),
    "iquestcoder": common(
        "IQuestCoderForCausalLM", "iquestcoder", **RMS, head_dim=32, attention_bias=False, mlp_bias=False,
        rope_theta=10000.0, rope_scaling=None, **UNTIED
    ),
    "helium": common(
        "HeliumForCausalLM", "helium", **RMS, head_dim=32, attention_bias=False, mlp_bias=False, rope_theta=10000.0,
        rope_scaling=None, **UNTIED
    ),
    "afmoe": common(
        "AfmoeForCausalLM", "afmoe", **RMS, num_hidden_layers=4, head_dim=32, rope_theta=10000.0, rope_scaling=None,
        sliding_window=512, global_attn_every_n_layers=4, layer_types=["sliding_attention"] * 3 + ["full_attention"],
        num_dense_layers=1, num_experts=4, num_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=80,
        route_norm=True, route_scale=1.0, score_func="sigmoid", mup_enabled=True, n_group=1, topk_group=1, **UNTIED
    ),
    "solar_open": common(
        "SolarOpenForCausalLM", "solar_open", **RMS, head_dim=32, partial_rotary_factor=1.0, rope_theta=10000.0,
        rope_scaling=None, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=80,
        n_group=1, topk_group=1, routed_scaling_factor=1.0, norm_topk_prob=True, attention_bias=False, first_k_dense_replace=0, **UNTIED
    ),
    "hy_v3": common(
        "HYV3ForCausalLM", "hy_v3", **RMS, head_dim=32, rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        num_experts=4, num_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=80, expert_hidden_dim=80,
        first_k_dense_replace=1, router_scaling_factor=1.0, route_norm=True, qk_norm=True, num_nextn_predict_layers=0,
        **UNTIED
    ),
    "mellum": common(
        "MellumForCausalLM", "mellum", **RMS | dict(rms_norm_eps=1e-6), num_hidden_layers=4, head_dim=32,
        rope_parameters=dict(
            full_attention=dict(rope_type="default", rope_theta=10000.0),
            sliding_attention=dict(rope_type="default", rope_theta=10000.0)
        ), sliding_window=512, layer_types=["sliding_attention"] * 3 + ["full_attention"], num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=80, norm_topk_prob=True, attention_bias=False, **UNTIED
    ),
    "olmo3": common(
        "Olmo3ForCausalLM", "olmo3", **RMS | dict(rms_norm_eps=1e-6), rope_theta=10000.0, rope_scaling=None,
        sliding_window=512, layer_types=["sliding_attention", "full_attention"], attention_bias=False, **UNTIED
    ),
    "glm": common(
        "GlmForCausalLM", "glm", **RMS, head_dim=32, partial_rotary_factor=1.0, rope_theta=10000.0,
        attention_bias=False, pad_token_id=0, **UNTIED
    ),
    "glm4": common(
        "Glm4ForCausalLM", "glm4", **RMS, head_dim=32, partial_rotary_factor=1.0, rope_theta=10000.0,
        attention_bias=False, pad_token_id=0, **UNTIED
    ),
    "seed_oss": common(
        "SeedOssForCausalLM", "seed_oss", **RMS | dict(rms_norm_eps=1e-6), head_dim=32, rope_theta=10000.0,
        attention_bias=True, attention_out_bias=False, mlp_bias=False, **UNTIED
    ),
    "arcee": common(
        "ArceeForCausalLM", "arcee", **RMS | dict(hidden_act="relu2"), head_dim=32, rope_theta=10000.0,
        rope_scaling=None, attention_bias=False, mlp_bias=False, **UNTIED
    ),
    "apertus": common(
        "ApertusForCausalLM", "apertus", **RMS | dict(hidden_act="xielu"), rope_theta=10000.0, rope_scaling=None,
        attention_bias=False, mlp_bias=False, qk_norm=True, post_norm=False, **UNTIED
    ),
    "hunyuan_v1_dense": common(
        "HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", **RMS, head_dim=32, rope_theta=10000.0,
        rope_scaling=dict(
            type="dynamic", alpha=1000.0, factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0
        ),
        max_position_embeddings=32768, use_qk_norm=True, attention_bias=False, pad_token_id=0, **TIED
    ),
    "ernie4_5": common(
        "Ernie4_5ForCausalLM", "ernie4_5", **RMS, head_dim=32, rope_theta=10000.0, use_bias=False, **TIED
    ),
    "ernie4_5_moe": common(
        "Ernie4_5_MoeForCausalLM", "ernie4_5_moe", **RMS, num_key_value_heads=2, intermediate_size=160, rope_theta=10000.0, moe_num_experts=4, moe_k=2,
        moe_num_shared_experts=1, moe_intermediate_size=80, moe_layer_start_index=1, moe_layer_end_index=1,
        moe_layer_interval=1, moe_capacity=[64, 64, 64], moe_use_aux_free=True, use_bias=False, **TIED
    ),
    "ministral": common(
        "MinistralForCausalLM", "ministral", **RMS, head_dim=32, rope_theta=10000.0, rope_scaling=None,
        sliding_window=None, **UNTIED
    ),
    "ministral3": common(
        "Ministral3ForCausalLM", "ministral3", **RMS, head_dim=32, sliding_window=None,
        rope_parameters=dict(
            type="yarn", rope_type="yarn", rope_theta=10000.0, factor=1.0, original_max_position_embeddings=512,
            beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.125
        ),
        **UNTIED
    ),
    "qwen2_moe": common(
        "Qwen2MoeForCausalLM", "qwen2_moe", **RMS | dict(rms_norm_eps=1e-6), rope_theta=10000.0, sliding_window=512,
        use_sliding_window=False, max_window_layers=2, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=80,
        shared_expert_intermediate_size=88, norm_topk_prob=False, decoder_sparse_step=1, mlp_only_layers=[], **UNTIED
    ),
    "glm4_moe": common(
        "Glm4MoeForCausalLM", "glm4_moe", **RMS, head_dim=32, partial_rotary_factor=0.5, rope_theta=10000.0,
        rope_scaling=None, attention_bias=True, use_qk_norm=False, first_k_dense_replace=1, n_group=1, topk_group=1,
        n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=80, norm_topk_prob=True,
        routed_scaling_factor=1.0, num_nextn_predict_layers=0, **UNTIED
    ),
    "hunyuan_v1_moe": common(
        "HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", **RMS, head_dim=32, rope_theta=10000.0, rope_scaling=None,
        num_experts=4, moe_topk=[2, 2], moe_intermediate_size=[112, 112], num_shared_expert=[1, 1],
        use_mixed_mlp_moe=True, use_qk_norm=True, attention_bias=False, pad_token_id=0, **UNTIED
    ),
    "exaone_moe": common(
        "ExaoneMoeForCausalLM", "exaone_moe", **RMS, num_hidden_layers=4, head_dim=32, rope_theta=10000.0, rope_scaling=None,
        sliding_window=512, sliding_window_pattern="LLLG", layer_types=["sliding_attention"] * 3 + ["full_attention"],
        first_k_dense_replace=1, mlp_layer_types=["dense"] + ["sparse"] * 3, n_group=1, topk_group=1, num_experts=4,
        num_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=80, norm_topk_prob=True,
        routed_scaling_factor=1.0, scoring_func="sigmoid", **UNTIED
    ),
    "dots1": common(
        "Dots1ForCausalLM", "dots1", **RMS, num_key_value_heads=2, head_dim=32, rope_theta=10000.0, rope_scaling=None,
        attention_bias=False, sliding_window=None, first_k_dense_replace=1, n_group=1, topk_group=1,
        n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=80, norm_topk_prob=True,
        routed_scaling_factor=1.0, scoring_func="sigmoid", topk_method="noaux_tc", moe_layer_freq=1, **UNTIED
    ),
    # Of the published keys transformers reads few: it has the rotation, the heads and the layers' kinds by itself.
    "mimo_v2_flash": common(
        "MiMoV2FlashForCausalLM", "mimo_v2_flash", hidden_act="silu", layernorm_epsilon=1e-5, num_hidden_layers=3,
        num_attention_heads=4, head_dim=32, v_head_dim=16, attention_value_scale=1.0, attention_bias=False,
        partial_rotary_factor=0.334, rope_theta=5000000, swa_rope_theta=10000,
        sliding_window=513, sliding_window_size=512,
        layer_types=["full_attention", "sliding_attention", "full_attention"], hybrid_layer_pattern=[0, 1, 0],
        swa_num_attention_heads=4, swa_num_key_value_heads=2, swa_head_dim=32, swa_v_head_dim=16,
        add_full_attention_sink_bias=False, add_swa_attention_sink_bias=True, n_routed_experts=4, n_shared_experts=None,
        num_experts_per_tok=2, moe_intermediate_size=80, moe_layer_freq=[0, 1, 1], n_group=1, topk_group=1,
        topk_method="noaux_tc", scoring_func="sigmoid", norm_topk_prob=True, routed_scaling_factor=None, **UNTIED
    ),
    "minimax_m2": common(
        "MiniMaxM2ForCausalLM", "minimax_m2", **RMS | dict(rms_norm_eps=1e-6), head_dim=32, rotary_dim=16,
        rope_theta=10000.0, intermediate_size=80, num_local_experts=4, num_experts_per_tok=2, scoring_func="sigmoid",
        use_qk_norm=True, qk_norm_type="per_layer", use_routing_bias=True, shared_intermediate_size=0,
        attn_type_list=[1, 1], **UNTIED
    ),
    "lfm2": common(
        "Lfm2ForCausalLM", "lfm2", norm_eps=1e-5, rope_theta=10000.0, conv_L_cache=3, conv_bias=False, conv_dim=64,
        conv_dim_out=64, block_dim=64, block_ff_dim=112, block_auto_adjust_ff_dim=False,
        block_ffn_dim_multiplier=1.0, block_multiple_of=16, full_attn_idxs=[1], layer_types=["conv", "full_attention"],
        tie_embedding=True, **TIED
    ),
    "lfm2_moe": common(
        "Lfm2MoeForCausalLM", "lfm2_moe", norm_eps=1e-5, rope_theta=10000.0, conv_L_cache=3, conv_bias=False,
        layer_types=["conv", "full_attention"], num_experts=4, num_experts_per_tok=2, moe_intermediate_size=80,
        num_dense_layers=1, norm_topk_prob=True, routed_scaling_factor=1.0, use_expert_bias=True, **TIED
    ),
    "qwen3_5_text": common(
        "Qwen3_5ForCausalLM", "qwen3_5_text", **RMS | dict(rms_norm_eps=1e-6), head_dim=32, attention_bias=False,
        attn_output_gate=True, layer_types=["linear_attention", "full_attention"], full_attention_interval=2,
        **LINEAR,
        rope_parameters=dict(
            rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5, mrope_interleaved=True,
            mrope_section=[3, 3, 2]
        ),
        **TIED
    ),
    "qwen3_next": common(
        "Qwen3NextForCausalLM", "qwen3_next", **RMS | dict(rms_norm_eps=1e-6), head_dim=32, attention_bias=False,
        full_attention_interval=2, **LINEAR, partial_rotary_factor=0.5, rope_theta=10000.0, rope_scaling=None,
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=80, shared_expert_intermediate_size=88,
        norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], **UNTIED
    ),
}


def config(model_type, **changes):
    """The base of `model_type` with `changes` merged into it; what is None there is null in the file."""
    result = merged(BASES[model_type], {key: value for key, value in changes.items() if value is not None})
    return result | {key: None for key, value in changes.items() if value is None}
