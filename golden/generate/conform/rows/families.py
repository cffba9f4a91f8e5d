"""Each family that Assay knows, as published models of it are."""

from ..bases import config
from ..case import Row, ignored, misread
from .family_mistakes import (
    ALL_DIMENSIONS, ALL_EXPERTS, ALL_ROTATED, ALTUP, AS_DEEPSEEK_V32, AS_GLM_5, BASE_10000, BASE_OF_PARAMETERS,
    CHANGED_WEIGHTS, DBRX, ERF, FALCON_H1_SCALES, GELU_ERF, GEMMA4_EMBEDDINGS, GEMMA4_EXPERTS, GRANITE, GRANITE_SWA,
    HALF_A_SHARED_EXPERT, INDEXER, LINEAR_ATTENTION, LLAMA3, LLAMA4, LONGROPE, LOUD_SKIP, MAMBA, MINISTRAL,
    NO_ALPHA, NO_BIASES, NO_CHOICE_BIAS, NO_HEAD_NORMS, NO_HEAD_NORMS_AT_ALL, NO_HUNYUAN_NORMS, NO_LAUREL, NO_LOGIT_SCALE,
    NO_NORM_WEIGHTS, NO_ROUTED_SCALE, NO_SHARED_EXPERT, NO_SHARED_EXPERTS, NO_SHARED_MLP, NO_SINKS,
    NO_SSM_NORM_WEIGHTS, NO_SSM_NORMS, NO_WINDOW, OF_GRANITE_SWA, ONE_EXPERT, PHI_MSCALE, SCALES, SELECTIVE,
    OF_SAMPLE, SHARED_GATE, SOFTCAPS, SOFTPLUS_IS_1, SSM_NORMED, SUB_NORMS, UNCHANGED_WEIGHTS, WIDE, mimo_rotation, sparsity,
)

GROUP = "model families"


def family(model_type, title, *mistakes, feature=None, gain=None, **changes):
    return Row(
        feature or f"family_{model_type}", GROUP, title, config(model_type, **changes), mistakes=mistakes,
        gain=gain or {},
    )


FAMILIES = [
    family("llama", "Llama", BASE_10000, rope_theta=500000.0),
    family(
        "llama4_text", "Llama 4", *LLAMA4, BASE_10000, NO_SHARED_EXPERT, interleave_moe_layer_step=2, use_qk_norm=True,
        attention_chunk_size=3, attn_temperature_tuning=True, floor_scale=2, attn_scale=0.5, rope_theta=500000.0,
        rope_scaling=LLAMA3 | dict(low_freq_factor=1.0, high_freq_factor=1.0),
    ),
    family(
        "cwm", "CWM", BASE_10000, NO_WINDOW,
        misread("rope_scaling", "takes the angles without scaling", {"rope_scaling": {"factor": 1.0}}),
        misread(
            "attention_window", "has the window in all layers but every fourth, counted from the end",
            {"layer_types": ["sliding_attention"] * 3 + ["full_attention"]}
        ),
        num_hidden_layers=4, layer_types=["full_attention"] + ["sliding_attention"] * 3, sliding_window=4,
        rope_theta=1000000.0, rope_scaling=LLAMA3,
    ),
    family("mistral", "Mistral", BASE_10000, rope_theta=1000000.0),
    family("mixtral", "Mixtral", BASE_10000, ONE_EXPERT, ALL_EXPERTS, rope_theta=1000000.0),
    family("qwen2", "Qwen2", NO_BIASES, BASE_10000, rope_theta=1000000.0),
    family("qwen3", "Qwen3", BASE_10000, NO_NORM_WEIGHTS, rope_theta=1000000.0),
    family(
        "qwen3_moe", "Qwen3 with experts", BASE_10000, NO_NORM_WEIGHTS, ONE_EXPERT, ALL_EXPERTS, UNCHANGED_WEIGHTS,
        rope_theta=1000000.0,
    ),
    family("phi3", "Phi-3", NO_WINDOW, sliding_window=4),
    family(
        "phi3", "Phi-3 with a long context",
        misread("rope_scaling", "takes the angles without scaling", {"rope_scaling": None}),
        misread("rope_scaling", "takes the long factors", {"rope_scaling": {"short_factor": LONGROPE["long_factor"]}}),
        misread("rope_attention_factor", "takes 1 for the attention factor", {"rope_scaling": {"attention_factor": 1.0}}),
        NO_WINDOW, feature="family_phi3_longrope", gain={"*qkv*": 0.75}, sliding_window=4, rope_scaling=LONGROPE,
        original_max_position_embeddings=4096, max_position_embeddings=16384,
    ),
    family(
        "phimoe", "Phi-3.5-MoE", NO_BIASES,
        misread("rope_scaling", "takes the angles without scaling", {"rope_scaling": None}),
        misread("rope_attention_factor", "takes 1 for the scale of the angles", {"rope_scaling": {"short_mscale": 1.0, "long_mscale": 1.0}}),
        misread("router_weights", "takes the softmax over all experts", {"router_jitter_noise": 64.0}),
        misread("router_weights", "takes 1 for both weights", {"router_jitter_noise": 0.0}),
        router_jitter_noise=0.25, max_position_embeddings=2048,
        rope_scaling=LONGROPE | dict(short_mscale=PHI_MSCALE, long_mscale=PHI_MSCALE),
    ),
    family(
        "opt", "OPT", NO_BIASES,
        ignored("rope_position", "leaves the learned positions out", tensors={"*embed_positions.weight": 0.0}),
        misread("activation_kind", "takes GELU", {"activation_function": "gelu"}),
        misread("activation_kind", "takes the square of ReLU", {"activation_function": "relu2"}),
    ),
    family(
        "mpt", "MPT: a bias of scores by distance in place of positions",
        ignored("alibi_slopes", "leaves ALiBi out", {"attn_config": {"alibi_bias_max": 4096}}),
        misread("alibi_slopes", "takes 16 for alibi_bias_max, as StoryWriter has", {"attn_config": {"alibi_bias_max": 16}}),
        misread("activation_kind", "takes GELU with tanh", {"hidden_act": "gelu_new"}, small=True),
        gain={"*ffn.up_proj.weight": 2.0},
    ),
    family(
        "dbrx", "DBRX", *DBRX, rope_theta=500000.0, attn_config=dict(clip_qkv=0.75, rope_theta=500000.0),
    ),
    family(
        "bloom", "BLOOM: a norm of the embedding, and a bias of scores by distance", NO_BIASES,
        ignored("alibi_slopes", "leaves ALiBi out", {"attn_config": {"alibi_bias_max": 4096}}),
        misread(
            "norm_kind", "ignores the weights of the embedding's norm",
            tensors={"*word_embeddings_layernorm.weight": 1.0, "*word_embeddings_layernorm.bias": 0.0}
        ),
        misread("activation_kind", "takes GELU with erf", {"hidden_act": "gelu"}, small=True),
        gain={"*dense_h_to_4h.weight": 2.0, "*dense_4h_to_h.weight": 4.0},
    ),
    family(
        "phi", "Phi-2", NO_BIASES, ALL_DIMENSIONS, ERF, gain={"*fc1.weight": 2.0}, partial_rotary_factor=0.5,
    ),
    family(
        "gpt2", "GPT-2", NO_BIASES,
        ignored("rope_position", "leaves the learned positions out", tensors={"*wpe.weight": 0.0}),
        misread("activation_kind", "takes GELU with erf", {"activation_function": "gelu"}, small=True),
        gain={"*c_fc.weight": 2.0},
    ),
    family(
        "gptj", "GPT-J", NO_BIASES, misread("rope_dimensions", "rotates whole heads", {"rotary_dim": 32}),
        misread("activation_kind", "takes GELU with erf", {"activation_function": "gelu"}, small=True),
        gain={"*fc_in.weight": 2.0}, rotary_dim=16,
    ),
    family(
        "persimmon", "Persimmon", NO_BIASES, ALL_DIMENSIONS, NO_HEAD_NORMS_AT_ALL, BASE_10000,
        misread("activation_kind", "takes SiLU", {"hidden_act": "silu"}),
        partial_rotary_factor=0.5, qk_layernorm=True, rope_theta=500000.0,
    ),
    family(
        "gpt_neox", "GPT-NeoX", NO_BIASES, misread("rope_dimensions", "rotates whole heads", {"rotary_pct": 1.0}),
        misread("parallel_residual", "adds attention first", {"use_parallel_residual": False}),
        misread("activation_kind", "takes GELU with tanh", {"hidden_act": "gelu_new"}, small=True),
        gain={"*dense_h_to_4h.weight": 2.0}, rotary_pct=0.25,
    ),
    family(
        "falcon", "Falcon 7B: one head of keys, one norm",
        misread("activation_kind", "takes GELU with tanh", {"activation": "gelu_pytorch_tanh"}, small=True),
        feature="family_falcon_7b", gain={"*dense_h_to_4h.weight": 2.0},
    ),
    family(
        "falcon", "Falcon 40B: groups of heads, two norms",
        misread(
            "norm_order", "ignores the weights of the norm before the feed-forward",
            tensors={"*ln_mlp.weight": 1.0, "*ln_mlp.bias": 0.0}
        ),
        misread("activation_kind", "takes GELU with tanh", {"activation": "gelu_pytorch_tanh"}, small=True),
        feature="family_falcon_40b", new_decoder_architecture=True, num_attention_heads=4, num_kv_heads=2,
        multi_query=None, gain={"*dense_h_to_4h.weight": 2.0},
    ),
    family(
        "gemma", "Gemma", misread("activation_kind", "takes GELU with erf", {"hidden_act": "gelu_python"}, small=True),
        misread("activation_kind", "takes SiLU", {"hidden_act": "silu"}),
        gain={"*gate_proj.weight": 2.0},
    ),
    family(
        "gemma2", "Gemma 2", *SOFTCAPS, NO_WINDOW, GELU_ERF, gain={"*gate_proj.weight": 2.0}, num_hidden_layers=3,
        sliding_window=4, attn_logit_softcapping=2.0, final_logit_softcapping=4.0,
    ),
    family(
        "vaultgemma", "VaultGemma", *SOFTCAPS, NO_WINDOW, GELU_ERF,
        misread("attention_scale", "scales scores by the root of the heads' width", {"query_pre_attn_scalar": 32}),
        gain={"*gate_proj.weight": 2.0}, num_hidden_layers=3, sliding_window=4, query_pre_attn_scalar=8,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], attn_logit_softcapping=2.0,
        final_logit_softcapping=4.0,
    ),
    family(
        "gemma3_text", "Gemma 3", NO_NORM_WEIGHTS, NO_WINDOW, GELU_ERF,
        misread("rope_base", "takes one rotary base for all layers", {"rope_local_base_freq": 1000000.0}),
        misread("rope_scaling", "does not scale the angles of global layers", {"rope_scaling": None}),
        gain={"*gate_proj.weight": 2.0}, sliding_window=4, rope_theta=1000000.0,
        rope_scaling=dict(rope_type="linear", factor=8.0),
    ),
    family(
        "gemma3n_text", "Gemma 3n", *ALTUP, NO_LAUREL, *GEMMA4_EMBEDDINGS, SOFTCAPS[1], NO_WINDOW,
        NO_NORM_WEIGHTS, misread("rope_base", "takes one rotary base for all layers", {"rope_theta": 10000.0}),
        sparsity("leaves the cutoff of activations out", 0.0, 0.0),
        sparsity("takes the deviation of a sample for the cutoff", OF_SAMPLE, OF_SAMPLE, small=True),
        gain={"*gate_proj.weight": 4.0}, sliding_window=4, rope_theta=1000000.0, final_logit_softcapping=4.0,
        activation_sparsity_pattern=[0.95, 0.95],
    ),
    family(
        "gemma4_text", "Gemma 4", SOFTCAPS[1], NO_WINDOW, GELU_ERF, NO_NORM_WEIGHTS,
        misread("layer_scale", "leaves a layer's own scale out", tensors={"*layer_scalar": 1.0}),
        misread(
            "rope_dimensions", "rotates whole heads", {"rope_parameters": {"full_attention": {"partial_rotary_factor": 1.0}}}
        ),
        gain={"*gate_proj.weight": 2.0}, sliding_window=4, global_head_dim=64, attention_k_eq_v=True,
        final_logit_softcapping=4.0, rope_parameters=dict(
            full_attention=dict(partial_rotary_factor=0.25, rope_theta=1000.0)
        ),
    ),
    family(
        "gemma4_text", "Gemma 4 with experts", *GEMMA4_EXPERTS, SOFTCAPS[1], NO_WINDOW,
        feature="family_gemma4_text_moe", sliding_window=4, global_head_dim=64, attention_k_eq_v=True,
        final_logit_softcapping=4.0, enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=80,
    ),
    family(
        "gemma4_text", "Gemma 4 with embeddings of layers and shared keys and values", *GEMMA4_EMBEDDINGS, SOFTCAPS[1],
        NO_WINDOW, feature="family_gemma4_text_ple", sliding_window=4, global_head_dim=64, final_logit_softcapping=4.0,
        num_hidden_layers=4, layer_types=["sliding_attention", "full_attention"] * 2, num_kv_shared_layers=2,
        use_double_wide_mlp=True, hidden_size_per_layer_input=20, vocab_size_per_layer_input=96,
    ),
    family("cohere", "Command R", NO_LOGIT_SCALE, BASE_10000, logit_scale=0.0625, rope_theta=8000000.0),
    family(
        "cohere2", "Command R7B", BASE_10000, NO_LOGIT_SCALE, ALL_ROTATED, NO_WINDOW, logit_scale=0.25,
        rope_theta=50000.0, sliding_window=4,
    ),
    family(
        "cohere2_moe", "Command with experts", BASE_10000, NO_LOGIT_SCALE, NO_WINDOW, NO_SHARED_EXPERTS, ONE_EXPERT,
        ALL_EXPERTS, UNCHANGED_WEIGHTS,
        misread("router_weights", "takes a softmax of the experts used", {"expert_selection_fn": "softmax"}),
        misread(
            "shared_expert", "adds the shared experts to the others, without halving",
            {"shared_expert_combination_strategy": "sum"}
        ),
        misread("rope_missing", "does not rotate the first layers", {"prefix_dense_sliding_window_pattern": 4}),
        misread("norm_kind", "takes RMSNorm", {"rms_norm_eps": 1e-5}),
        logit_scale=0.25, rope_theta=50000.0, sliding_window=4,
    ),
    family("olmo", "OLMo", BASE_10000, rope_theta=500000.0),
    family("olmo2", "OLMo 2", BASE_10000, NO_NORM_WEIGHTS, rope_theta=500000.0),
    family("olmoe", "OLMoE", NO_NORM_WEIGHTS, CHANGED_WEIGHTS, ONE_EXPERT, ALL_EXPERTS),
    family(
        "flex_olmo", "FlexOlmo", BASE_10000, NO_NORM_WEIGHTS, ONE_EXPERT, ALL_EXPERTS, rope_theta=500000.0,
    ),
    family("granite", "Granite", *SCALES, **GRANITE),
    family(
        "hyperclovax", "HyperCLOVA X", *SCALES, BASE_10000,
        misread("logit_scale", "divides logits by logits_scaling", {"logits_scaling": 0.25}),
        misread(
            "norm_order", "leaves the norms of what is added out", {"use_post_norm": False}, {"*post_norm*": None}
        ),
        use_post_norm=True, rope_theta=500000.0, **GRANITE,
    ),
    family("granitemoe", "Granite with experts", *SCALES, ONE_EXPERT, ALL_EXPERTS, **GRANITE),
    family(
        "granitemoeshared", "Granite with experts and a shared one", *SCALES, ONE_EXPERT, ALL_EXPERTS, NO_SHARED_MLP, **GRANITE
    ),
    family("granite_swa", "Granite with windows", *GRANITE_SWA, **OF_GRANITE_SWA),
    family(
        "granitemoe_swa", "Granite with windows and experts", *GRANITE_SWA, ONE_EXPERT, ALL_EXPERTS, NO_SHARED_MLP,
        **OF_GRANITE_SWA,
    ),
    family(
        "granitemoehybrid", "Granite with Mamba-2 and experts", *SCALES, ONE_EXPERT, ALL_EXPERTS, *MAMBA,
        NO_SHARED_MLP, intermediate_size=80, num_local_experts=4, num_experts_per_tok=2, mamba_n_groups=2, **GRANITE,
    ),
    family(
        "bamba", "Bamba", *MAMBA, BASE_10000,
        misread(
            "rope_dimensions", "rotates whole heads",
            {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0, "partial_rotary_factor": 1.0}}
        ),
        misread("mixer", "leaves attention out", tensors={"*o_proj.weight": 0.0}),
        mamba_n_groups=2, rope_theta=500000.0,
    ),
    family(
        "nemotron_h", "Nemotron-H", *MAMBA, misread("activation_kind", "takes SiLU", {"mlp_hidden_act": "silu"}),
    ),
    family(
        "nemotron_h", "Nemotron-H with experts", *MAMBA, NO_CHOICE_BIAS, NO_SHARED_EXPERTS, NO_ROUTED_SCALE,
        UNCHANGED_WEIGHTS, ONE_EXPERT, ALL_EXPERTS, feature="family_nemotron_h_moe", hybrid_override_pattern="ME*",
        n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=80,
        moe_shared_expert_intermediate_size=88, n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=2.5,
    ),
    family("mamba", "Mamba", *SELECTIVE, SSM_NORMED, gain=LOUD_SKIP),
    family(
        "falcon_mamba", "Falcon Mamba", *SELECTIVE, NO_SSM_NORMS,
        misread("eps", "takes the other norms' epsilon for those of dt, B and C", {"mixer_rms_eps": 1e-5}, small=True),
        gain=LOUD_SKIP | {"*x_proj.weight": 0.25},  # small, or the two epsilons would be the same
    ),
    family(
        "jamba", "Jamba: Mamba beside attention without rotation, and experts", *SELECTIVE, *NO_SSM_NORM_WEIGHTS,
        ONE_EXPERT, ALL_EXPERTS, gain=LOUD_SKIP,
    ),
    family(
        "falcon_h1", "Falcon-H1", *FALCON_H1_SCALES, BASE_10000, *MAMBA,
        misread("mixer", "leaves attention out", tensors={"*o_proj.weight": 0.0}),
        misread("mixer", "leaves Mamba-2 out", tensors={"*out_proj.weight": 0.0}),
        rope_theta=1000000.0, embedding_multiplier=4.0, lm_head_multiplier=0.5, key_multiplier=0.5,
        attention_in_multiplier=2.0, attention_out_multiplier=0.5, ssm_in_multiplier=2.0, ssm_out_multiplier=0.5,
        mlp_multipliers=[2.0, 0.5], ssm_multipliers=[0.5, 2.0, 0.5, 2.0, 0.5],
    ),
    family(
        "stablelm", "StableLM", ALL_DIMENSIONS, NO_BIASES, partial_rotary_factor=0.25, use_qkv_bias=True,
    ),
    family(
        "starcoder2", "StarCoder2", NO_BIASES, BASE_10000, ERF, rope_theta=100000.0,
        gain={"*c_fc.weight": 2.0, "*mlp.c_proj.weight": 2.0},
    ),
    family(
        "bitnet", "BitNet b1.58", *SUB_NORMS, BASE_10000,
        misread("activation_kind", "takes SiLU, as llama.cpp does", {"hidden_act": "silu"}), rope_theta=500000.0,
    ),
    family(
        "nemotron", "Nemotron", ALL_DIMENSIONS, misread("activation_kind", "takes SiLU", {"hidden_act": "silu"}),
        partial_rotary_factor=0.5,
    ),
    family(
        "nanochat", "nanochat", BASE_10000, SOFTCAPS[1],
        misread("activation_kind", "takes SiLU", {"hidden_act": "silu"}),
        rope_theta=500000.0, final_logit_softcapping=4.0,
    ),
    family(
        "smollm3", "SmolLM3", BASE_10000,
        misread("rope_unwanted", "rotates every layer", {"no_rope_layers": [1, 1, 1, 1]}), rope_theta=2000000.0,
    ),
    family(
        "exaone4", "EXAONE 4", BASE_10000, NO_NORM_WEIGHTS, ALL_ROTATED, NO_WINDOW, rope_theta=1000000.0,
        sliding_window=4,
    ),
    family(
        "gpt_oss", "gpt-oss", NO_BIASES, BASE_10000, ONE_EXPERT, ALL_EXPERTS, NO_WINDOW,
        misread("rope_scaling", "takes the angles without scaling", {"rope_scaling": {"factor": 1.0}}),
        ignored("attention_sinks", "leaves the sinks out", tensors={"*.sinks": -10000.0}),
        misread(
            "rope_scaling", "rounds the borders of YaRN's ramp to whole pairs", {"rope_scaling": {"truncate": True}},
            small=True
        ),
        rope_theta=150000.0, rope_scaling=dict(factor=32.0), sliding_window=4,
    ),
    family("arcee", "Arcee", BASE_10000, misread("activation_kind", "takes SiLU", {"hidden_act": "silu"}), rope_theta=500000.0),
    family(
        "apertus", "Apertus", NO_NORM_WEIGHTS, BASE_10000,
        misread("rope_scaling", "takes the angles without scaling", {"rope_scaling": None}),
        misread("activation_kind", "takes xIELU with factors of 1", tensors={"*act_fn.alpha_*": SOFTPLUS_IS_1}),
        rope_scaling=LLAMA3, rope_theta=1000000.0,
    ),
    family("seed_oss", "Seed-OSS", NO_BIASES, BASE_10000, rope_theta=10000000.0),
    family("glm", "GLM-4 9B", NO_BIASES, ALL_DIMENSIONS, partial_rotary_factor=0.5, attention_bias=True),
    family("glm4", "GLM-4", NO_BIASES, ALL_DIMENSIONS, partial_rotary_factor=0.5, attention_bias=True),
    family("olmo3", "OLMo 3", NO_NORM_WEIGHTS, NO_WINDOW, BASE_10000, rope_theta=500000.0, sliding_window=4),
    family("ernie4_5", "ERNIE 4.5", BASE_10000, rope_theta=500000.0),
    family("hunyuan_v1_dense", "Hunyuan", NO_HUNYUAN_NORMS, NO_ALPHA),
    family("ministral", "Ministral", BASE_10000, NO_WINDOW, rope_theta=100000000.0, sliding_window=4),
    family(
        "ministral3", "Ministral 3", *MINISTRAL,
        rope_parameters=dict(factor=16.0, original_max_position_embeddings=4, llama_4_scaling_beta=0.5),
    ),
    family(
        "qwen2_moe", "Qwen2 with experts", NO_BIASES, NO_SHARED_EXPERT, HALF_A_SHARED_EXPERT, CHANGED_WEIGHTS, ONE_EXPERT,
        ALL_EXPERTS, gain=SHARED_GATE,
    ),
    family(
        "glm4_moe", "GLM-4.5", NO_BIASES, ALL_DIMENSIONS, NO_NORM_WEIGHTS, NO_CHOICE_BIAS, NO_SHARED_EXPERTS, NO_ROUTED_SCALE,
        UNCHANGED_WEIGHTS, use_qk_norm=True, routed_scaling_factor=2.5,
    ),
    family(
        "glm4_moe_lite", "GLM-4.7-Flash", BASE_10000, NO_CHOICE_BIAS, NO_SHARED_EXPERTS, NO_ROUTED_SCALE,
        UNCHANGED_WEIGHTS, rope_theta=1000000.0, routed_scaling_factor=2.5,
    ),
    family(
        "solar_open", "Solar Open", BASE_10000, NO_CHOICE_BIAS, NO_SHARED_EXPERTS, NO_ROUTED_SCALE, UNCHANGED_WEIGHTS,
        rope_theta=1000000.0, routed_scaling_factor=2.5,
    ),
    family(
        "deepseek_v32", "DeepSeek-V3.2", *INDEXER, AS_GLM_5, NO_CHOICE_BIAS, NO_SHARED_EXPERTS, NO_ROUTED_SCALE,
        index_topk=4, routed_scaling_factor=2.5,
    ),
    family(
        "glm_moe_dsa", "GLM-5", *INDEXER, AS_DEEPSEEK_V32, NO_CHOICE_BIAS, NO_SHARED_EXPERTS,
        NO_ROUTED_SCALE, index_topk=4, routed_scaling_factor=2.5,
    ),
    family("youtu", "Youtu-LLM", BASE_10000, rope_theta=1600000.0),
    family(
        "minicpm3", "MiniCPM3",
        misread("rope_scaling", "takes the angles without scaling", {"rope_scaling": {"short_factor": [1.0] * 8}}),
        misread("embedding_scale", "leaves scale_emb out", {"scale_emb": 1}),
        misread("residual_multiplier", "leaves scale_depth out", {"scale_depth": 2.0}),
        misread("logit_scale", "leaves dim_model_base out", {"dim_model_base": 64}), gain={"*q_b_proj*": 4.0},
        num_hidden_layers=4, scale_emb=12, scale_depth=1.4, dim_model_base=256, max_position_embeddings=4096,
        rope_scaling=dict(
            type="longrope", short_factor=LONGROPE["short_factor"][8:], long_factor=LONGROPE["long_factor"][8:],
            original_max_position_embeddings=4096
        ),
    ),
    family("jais2", "Jais 2", NO_BIASES, BASE_10000, rope_theta=500000.0),
    family("internlm3", "InternLM3", BASE_10000, rope_theta=50000000.0),
    family("iquestcoder", "IQuest-Coder", BASE_10000, rope_theta=500000.0),
    family("helium", "Helium", BASE_10000, rope_theta=100000.0),
    family(
        "mistral4", "Mistral Small 4", *MINISTRAL, NO_SHARED_EXPERTS, NO_ROUTED_SCALE, UNCHANGED_WEIGHTS,
        rope_parameters=dict(factor=16.0, original_max_position_embeddings=4, llama_4_scaling_beta=0.5),
        routed_scaling_factor=2.5,
    ),
    family(
        "afmoe", "Trinity", BASE_10000, NO_NORM_WEIGHTS, ALL_ROTATED, NO_WINDOW, NO_CHOICE_BIAS, NO_SHARED_EXPERTS,
        misread("router_scale", "leaves route_scale out", {"route_scale": 1.0}),
        misread("embedding_scale", "does not multiply embeddings by the root of their width", {"mup_enabled": False}),
        misread("activation_kind", "takes a half for the gate of attention", tensors={"*self_attn.gate_proj.weight": 0.0}),
        rope_theta=1000000.0, sliding_window=4, route_scale=2.5,
    ),
    family(
        "hy_v3", "Hunyuan 3", BASE_OF_PARAMETERS, NO_NORM_WEIGHTS, NO_CHOICE_BIAS,
        misread("shared_expert", "leaves the shared expert out", tensors={"*shared_*.down_proj.weight": 0.0}),
        misread("router_scale", "leaves router_scaling_factor out", {"router_scaling_factor": 1.0}),
        rope_parameters=dict(rope_theta=1000000.0), router_scaling_factor=2.5,
    ),
    family(
        "mellum", "Mellum 2", NO_NORM_WEIGHTS, NO_WINDOW, UNCHANGED_WEIGHTS, ONE_EXPERT, ALL_EXPERTS,
        misread(
            "rope_scaling", "takes the angles of global layers without scaling",
            {"rope_parameters": {"full_attention": {"rope_type": "default"}}}
        ),
        sliding_window=4, rope_parameters=dict(
            full_attention=dict(rope_type="yarn", factor=16.0, original_max_position_embeddings=16, rope_theta=10000.0)
        ),
    ),
    family(
        "exaone_moe", "K-EXAONE", BASE_10000, NO_NORM_WEIGHTS, ALL_ROTATED, NO_WINDOW, NO_CHOICE_BIAS, NO_SHARED_EXPERTS,
        NO_ROUTED_SCALE, UNCHANGED_WEIGHTS, rope_theta=1000000.0, sliding_window=4, routed_scaling_factor=2.5,
    ),
    family(
        "hunyuan_v1_moe", "Hunyuan with experts", BASE_10000, NO_HUNYUAN_NORMS,
        misread("shared_expert", "leaves the shared expert out", tensors={"*shared_mlp.down_proj.weight": 0.0}),
        misread("experts_used", "uses one expert of each token", {"moe_topk": [1, 1]}),
        misread("experts_used", "uses all experts", {"moe_topk": [4, 4]}), rope_theta=1000000.0,
    ),
    family(
        "dots1", "dots.llm1", NO_NORM_WEIGHTS, NO_CHOICE_BIAS, NO_SHARED_EXPERTS, NO_ROUTED_SCALE, UNCHANGED_WEIGHTS,
        routed_scaling_factor=2.5,
    ),
    family(
        "ernie4_5_moe", "ERNIE 4.5 with experts", BASE_10000, NO_CHOICE_BIAS, NO_SHARED_EXPERTS, rope_theta=500000.0,
    ),
    family(
        "mimo_v2_flash", "MiMo-V2-Flash",
        misread("attention_window", "leaves the window out", {"sliding_window_size": WIDE}),
        misread("attention_window", "counts a query's own position as one of the window's", {"sliding_window_size": 3}),
        NO_CHOICE_BIAS, UNCHANGED_WEIGHTS, ONE_EXPERT, ALL_EXPERTS, NO_SINKS,
        misread("scale", "leaves attention_value_scale out", {"attention_value_scale": 1.0}),
        misread("rope_dimensions", "rotates whole heads", mimo_rotation(1.0, 5000000.0, 10000.0)),
        misread("rope_base", "takes one rotary base for all layers", mimo_rotation(0.334, 5000000.0, 5000000.0)),
        misread("rope_base", "takes 10000 for the rotary base of all layers", mimo_rotation(0.334, 10000.0, 10000.0)),
        sliding_window=5, sliding_window_size=4, attention_value_scale=0.75,
    ),
    family(
        "minimax_m2", "MiniMax-M2", misread("rope_dimensions", "rotates whole heads", {"rotary_dim": 32}), NO_NORM_WEIGHTS,
        NO_CHOICE_BIAS, ONE_EXPERT, ALL_EXPERTS,
    ),
    family("lfm2", "LFM2", BASE_10000, NO_HEAD_NORMS, rope_theta=1000000.0),
    family(
        "lfm2_moe", "LFM2 with experts", BASE_10000, NO_HEAD_NORMS, NO_CHOICE_BIAS, ONE_EXPERT, ALL_EXPERTS,
        rope_theta=1000000.0,
    ),
    family(
        "qwen3_5_text", "Qwen3.5", *LINEAR_ATTENTION, NO_NORM_WEIGHTS,
        misread(
            "rope_dimensions", "rotates whole heads",
            {"rope_parameters": {"partial_rotary_factor": 1.0, "mrope_section": [6, 5, 5]}}
        ),
        misread("rope_base", "takes the rotary base for 10000", {"rope_parameters": {"rope_theta": 10000.0}}),
        rope_parameters=dict(rope_theta=10000000.0),
    ),
    family(
        "qwen3_next", "Qwen3-Next", *LINEAR_ATTENTION, NO_NORM_WEIGHTS, ALL_DIMENSIONS, NO_SHARED_EXPERT,
        HALF_A_SHARED_EXPERT, UNCHANGED_WEIGHTS, ONE_EXPERT, ALL_EXPERTS, gain=SHARED_GATE, rope_theta=10000000.0,
    ),
]
