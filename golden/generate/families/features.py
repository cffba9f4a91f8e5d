"""What each family has of its own, each with a change of the config that switches it off or alters it."""

from .family import rope, yarn

FULL = ["full_attention"]
NO_WINDOW = dict(sliding_window=1 << 20)


def base(theta, **more):
    return dict(rope_parameters=rope(theta, **more))


def unscaled(theta):
    return dict(rope_parameters=rope(theta))


def gemma4_rope(local, share, theta):
    whole = {"rope_type": "proportional", "partial_rotary_factor": share, "rope_theta": theta}
    return dict(rope_parameters={"sliding_attention": rope(local), "full_attention": whole})


MULTIPLIERS = {
    name: {name: 1.0}
    for name in ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling")
}
LATENT = {
    "routed scale": dict(routed_scaling_factor=1.0),
    "experts of a token": dict(num_experts_per_tok=3),
}
SIGMOID = LATENT | {
    "epsilon": dict(rms_norm_eps=1e-5),
    "weights of experts add up to 1": dict(norm_topk_prob=False),
}
GLM4_MOE = SIGMOID | {
    "rotary base": base(10000.0, partial_rotary_factor=0.5),
    "partial rotation": base(23456.0, partial_rotary_factor=1.0),
    "bias of q, k, v": dict(attention_bias=False),
}
MINISTRAL = yarn(
    16.0, 345.0, 16, beta_fast=0.5, beta_slow=0.125, mscale=1.0, mscale_all_dim=0.75, llama_4_scaling_beta=0.375
)
MINISTRAL_BOUNDS = {
    "fast bound": dict(rope_parameters=MINISTRAL | dict(beta_fast=32.0)),
    "slow bound": dict(rope_parameters=MINISTRAL | dict(beta_slow=1.0)),
    "scale of queries by position": dict(rope_parameters=MINISTRAL | dict(llama_4_scaling_beta=0.0)),
}
LINEAR_MOE = {
    "epsilon": dict(rms_norm_eps=1e-5),
    "rotary base": base(10000.0, partial_rotary_factor=0.5),
    "partial rotation": base(23456.0, partial_rotary_factor=1.0),
    "order of the layers": dict(layer_types=["linear_attention"] * 2),
    "experts of a token": dict(num_experts_per_tok=3),
}
MAMBA = MULTIPLIERS | {
    "epsilon": dict(rms_norm_eps=1e-5),
    "no rotation": dict(position_embedding_type="rope"),
    "order of the layers": dict(layer_types=["linear_attention"] * 3),
}
FALCON_H1 = ("embedding_multiplier", "lm_head_multiplier", "key_multiplier", "ssm_in_multiplier", "ssm_out_multiplier")
FALCON_H1 += ("attention_in_multiplier", "attention_out_multiplier")
FEATURES = {
    "granitehybrid": MAMBA | {"experts of a token": dict(num_experts_per_tok=3)},
    "granitehybrid-dense": MAMBA,
    "nemotron_h": {
        "epsilon": dict(layer_norm_epsilon=1e-5),
        "squared ReLU": dict(mlp_hidden_act="relu"),
        "order of the layers": dict(layers_block_type=["linear_attention", "mlp", "linear_attention", "full_attention"]),
    },
    "falcon-h1": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "rotary base": base(10000.0),
        "multipliers of Mamba-2": dict(ssm_multipliers=[1.0] * 5),
        "multipliers of the feed-forward": dict(mlp_multipliers=[1.0, 1.0]),
    }
    | {name: {name: 1.0} for name in FALCON_H1},
    "falcon-h1-normed": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "norm of what Mamba-2 gives": dict(mamba_rms_norm=False),
        "embedding_multiplier": dict(embedding_multiplier=1.0),
        "key_multiplier": dict(key_multiplier=1.0),
    },
    "nemotron_h_moe": LATENT
    | {
        "epsilon": dict(layer_norm_epsilon=1e-5),
        "squared ReLU": dict(mlp_hidden_act="relu"),
        "groups of experts": dict(n_group=1, topk_group=1),
        "weights of experts add up to 1": dict(norm_topk_prob=False),
        "order of the layers": dict(layers_block_type=["linear_attention", "moe", "moe", "full_attention"]),
    },
    "mamba2": {"epsilon": dict(layer_norm_epsilon=1e-5)},
    "starcoder2": {"epsilon": dict(norm_epsilon=1e-5), "rotary base": base(10000.0)},
    "starcoder": {
        "epsilon": dict(layer_norm_epsilon=1e-5),
        "GELU": dict(activation_function="silu"),
    },
    "exaone": {"epsilon": dict(rms_norm_eps=1e-5), "scaling": unscaled(23456.0)},
    "xverse": {"epsilon": dict(rms_norm_eps=1e-5), "rotary base": base(10000.0)},
    "hunyuan-dense": {"epsilon": dict(rms_norm_eps=1e-5), "rotary base": base(10000.0)},
    "gptneox": {
        "epsilon": dict(layer_norm_eps=1e-5),
        "partial rotation": base(10000.0, partial_rotary_factor=1.0),
        "parallel residual": dict(use_parallel_residual=False),
    },
    "gptneox-sequential": {
        "epsilon": dict(layer_norm_eps=1e-5),
        "partial rotation": base(10000.0, partial_rotary_factor=1.0),
        "sequential residual": dict(use_parallel_residual=True),
    },
    "phi2": {
        "epsilon": dict(layer_norm_eps=1e-5),
        "partial rotation": base(10000.0, partial_rotary_factor=1.0),
    },
    "stablelm": {
        "epsilon": dict(layer_norm_eps=1e-5),
        "partial rotation": base(10000.0, partial_rotary_factor=1.0),
        "sequential residual": dict(use_parallel_residual=True),
        "bias of q, k, v": dict(use_qkv_bias=False),
    },
    "stablelm-parallel": {
        "epsilon": dict(layer_norm_eps=1e-5),
        "partial rotation": base(10000.0, partial_rotary_factor=1.0),
        "norms of heads": dict(qk_layernorm=False),
    },
    "command-r": {
        "epsilon": dict(layer_norm_eps=1e-5),
        "rotary base": base(10000.0),
        "logit scale": dict(logit_scale=1.0),
    },
    "nemotron": {
        "epsilon": dict(norm_eps=1e-5),
        "rotary base": base(10000.0, partial_rotary_factor=0.5),
        "partial rotation": base(23456.0, partial_rotary_factor=1.0),
        "squared ReLU": dict(hidden_act="relu"),
    },
    "falcon": {
        "epsilon": dict(layer_norm_epsilon=1e-5),
        "rotary base": base(20000.0),
        "parallel residual": dict(parallel_attn=False),
    },
    "falcon-40b": {"epsilon": dict(layer_norm_epsilon=1e-5), "rotary base": base(20000.0)},
    "smollm3": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "rotary base": base(10000.0),
        "layers without rotation": dict(no_rope_layers=[1] * 5),
    },
    "llama-linear": {"epsilon": dict(rms_norm_eps=1e-5), "scaling": unscaled(23456.0)},
    "llama-yarn": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "scaling": unscaled(345.0),
        "scale of the angles": dict(rope_parameters=yarn(16.0, 345.0, 512, attention_factor=1.0)),
        "ramp": dict(rope_parameters=yarn(16.0, 345.0, 512, beta_fast=16.0)),
        "original context": dict(rope_parameters=yarn(16.0, 345.0, 256)),
    },
    "llama-llama3": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "scaling": unscaled(23456.0),
        "bias of attention": dict(attention_bias=False),
    },
    "qwen2-yarn": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "scaling": unscaled(123456.0),
        "given scale of the angles": dict(rope_parameters=yarn(4.0, 123456.0, 128, beta_fast=4.0, beta_slow=0.5)),
        "given fast bound": dict(rope_parameters=yarn(4.0, 123456.0, 128, beta_slow=0.5, attention_factor=1.3125)),
        "given slow bound": dict(rope_parameters=yarn(4.0, 123456.0, 128, beta_fast=4.0, attention_factor=1.3125)),
    },
    "gemma2": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "rotary base": base(20000.0),
        "windows": dict(layer_types=FULL * 3),
        "width of the windows": dict(sliding_window=7),
        "layers without a window": dict(layer_types=["sliding_attention"] * 3),
        "cap of scores": dict(attn_logit_softcapping=None),
        "cap of logits": dict(final_logit_softcapping=None),
        "scale of scores": dict(query_pre_attn_scalar=16),
    },
    "gemma3": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "windows": NO_WINDOW,
        "width of the windows": dict(sliding_window=7),
        "second rotary base": dict(
            rope_parameters={
                "sliding_attention": rope(234567.0),
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 234567.0},
            }
        ),
        "scaling in global layers": dict(
            rope_parameters={"sliding_attention": rope(3456.0), "full_attention": rope(234567.0)}
        ),
    },
    "gemma4": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "windows": NO_WINDOW,
        "width of the windows": dict(sliding_window=7),
        "second rotary base": gemma4_rope(345.0, 0.5, 345.0),
        "rotary base": gemma4_rope(3456.0, 0.5, 3456.0),
        "rotation of a part of each head": gemma4_rope(3456.0, 1.0, 345.0),
        "cap of logits": dict(final_logit_softcapping=None),
    },
    "minicpm": {"epsilon": dict(rms_norm_eps=1e-5), "rotary base": base(10000.0)}
    | {name: change for name, change in MULTIPLIERS.items() if name != "attention_multiplier"},
    "apertus": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "scaling": unscaled(23456.0),
        "xIELU": dict(hidden_act="relu2"),
    },
    "mistral3": MINISTRAL_BOUNDS
    | {
        "epsilon": dict(rms_norm_eps=1e-5),
        "scaling": dict(rope_parameters=rope(345.0, original_max_position_embeddings=16, llama_4_scaling_beta=0.375)),
        "scale of the angles": dict(rope_parameters=MINISTRAL | dict(mscale_all_dim=1.0)),
    },
    "lfm2": {"epsilon": dict(norm_eps=1e-5), "rotary base": base(10000.0)},
    "qwen35": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "rotary base": base(10000.0, partial_rotary_factor=0.5),
        "partial rotation": base(23456.0, partial_rotary_factor=1.0),
        "order of the layers": dict(layer_types=["linear_attention"] * 3),
    },
    "exaone4": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "windows, and global layers without rotation": dict(layer_types=["sliding_attention"] * 5),
        "width of the windows": dict(sliding_window=7),
        "no windows": NO_WINDOW,
    },
    "gemma": {"epsilon": dict(rms_norm_eps=1e-5), "rotary base": base(20000.0)},
    "cohere2": {
        "epsilon": dict(layer_norm_eps=1e-5),
        "windows, and global layers without rotation": dict(layer_types=["sliding_attention"] * 5),
        "width of the windows": dict(sliding_window=7),
        "logit scale": dict(logit_scale=1.0),
    },
    "command-r-plus": {
        "epsilon": dict(layer_norm_eps=1e-5),
        "norms of heads": dict(use_qk_norm=False),
        "logit scale": dict(logit_scale=1.0),
    },
    "qwen3": {"epsilon": dict(rms_norm_eps=1e-5), "rotary base": base(10000.0)},
    "olmo2": {"epsilon": dict(rms_norm_eps=1e-5), "rotary base": base(10000.0)},
    "granite": {"epsilon": dict(rms_norm_eps=1e-5), "rotary base": base(23456.0)} | MULTIPLIERS,
    "olmo3": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "windows": dict(layer_types=FULL * 3),
        "width of the windows": dict(sliding_window=7),
        "layers without a window": dict(layer_types=["sliding_attention"] * 3),
        "base in windows": dict(
            rope_parameters={"sliding_attention": rope(10000.0), "full_attention": yarn(8.0, 12345.0, 64)}
        ),
        "scaling in global layers": dict(
            rope_parameters={"sliding_attention": rope(12345.0), "full_attention": rope(12345.0)}
        ),
        "no scaling in windows": dict(
            rope_parameters={"sliding_attention": yarn(8.0, 12345.0, 64), "full_attention": yarn(8.0, 12345.0, 64)}
        ),
    },
    "glm4": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "rotary base": base(10000.0, partial_rotary_factor=0.5),
        "partial rotation": base(23456.0, partial_rotary_factor=1.0),
        "bias of q, k, v": dict(attention_bias=False),
    },
    "seed_oss": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "rotary base": base(10000.0),
        "bias of q, k, v": dict(attention_bias=False),
    },
    "arcee": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "scaling": unscaled(345.0),
        "squared ReLU": dict(hidden_act="relu"),
    },
    "ernie4_5": {"epsilon": dict(rms_norm_eps=1e-5), "rotary base": base(10000.0)},
    "mixtral": {"epsilon": dict(rms_norm_eps=1e-5), "experts of a token": dict(num_experts_per_tok=3)},
    "qwen3moe": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "weights of experts add up to 1": dict(norm_topk_prob=False),
        "experts of a token": dict(num_experts_per_tok=2),
    },
    "olmoe": {
        "weights of experts as they are": dict(norm_topk_prob=True),
        "experts of a token": dict(num_experts_per_tok=2),
    },
    "granitemoe": {"epsilon": dict(rms_norm_eps=1e-5)} | MULTIPLIERS,
    "gpt-oss": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "windows": dict(layer_types=FULL * 3),
        "width of the windows": dict(sliding_window=7),
        "scaling": unscaled(123456.0),
        "bounds not rounded": dict(rope_parameters=yarn(8.0, 123456.0, 64, beta_fast=32.0, beta_slow=1.0)),
        "clamp": dict(swiglu_limit=1e9),
        "experts of a token": dict(num_experts_per_tok=3),
    },
    "deepseek2-lite": LATENT,
    "deepseek2": LATENT
    | {
        "scaling": unscaled(23456.0),
        "scale of scores": dict(
            rope_parameters=yarn(16.0, 23456.0, 32, beta_fast=32.0, beta_slow=1.0, mscale=0.0, mscale_all_dim=0.0)
        ),
    },
    "deepseek3": LATENT
    | {
        "groups of experts": dict(n_group=1),
        "weights of experts add up to 1": dict(norm_topk_prob=False),
    },
    "minimax-m2": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "rotary base": base(10000.0, partial_rotary_factor=0.5),
        "partial rotation": base(23456.0, partial_rotary_factor=1.0),
        "experts of a token": dict(num_experts_per_tok=3),
    },
    "qwen2moe": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "rotary base": base(10000.0),
        "weights of experts as they are": dict(norm_topk_prob=True),
        "experts of a token": dict(num_experts_per_tok=3),
        "bias of q, k, v": dict(qkv_bias=False),
    },
    "ernie4_5-moe": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "rotary base": base(10000.0),
        "experts of a token": dict(moe_k=3),
    },
    "lfm2moe": {
        "epsilon": dict(norm_eps=1e-5),
        "rotary base": base(10000.0),
        "experts of a token": dict(num_experts_per_tok=3),
        "weights of experts add up to 1": dict(norm_topk_prob=False),
    },
    "exaone-moe": SIGMOID
    | {
        "rotary base": base(10000.0),
        "groups of experts": dict(n_group=1, topk_group=1),
        "windows, and global layers without rotation": dict(layer_types=["sliding_attention"] * 4),
        "width of the windows": dict(sliding_window=7),
    },
    "hunyuan-moe": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "rotary base": base(10000.0),
        "experts of a token": dict(moe_topk=3),
    },
    "llama4": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "scaling": unscaled(234.0),
        "experts of a token": dict(num_experts_per_tok=1),
        "norms of q and k": dict(use_qk_norm=False),
        "chunks": dict(attention_chunk_size=8192),
        "length of the chunks": dict(attention_chunk_size=11),
        "temperature": dict(attn_temperature_tuning=False),
        "span of the temperature": dict(floor_scale=7),
        "layers without rotation": dict(no_rope_layers=[1] * 4, layer_types=["chunked_attention"] * 3 + FULL),
    },
    "phimoe": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "scaling": unscaled(2345.0),
        "weights by near experts alone": dict(router_jitter_noise=100.0),
        "twice the jitter": dict(router_jitter_noise=0.125),
        "bias of the logits": dict(lm_head_bias=False),
        "bias of attention": dict(attention_bias=False),
    },
    "mpt": {},
    "dots1": SIGMOID | {"rotary base": base(10000.0)},
    "gemma4-ple": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "width of the windows": dict(sliding_window=7),
        "cap of logits": dict(final_logit_softcapping=None),
    },
    "gemma3n": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "width of the windows": dict(sliding_window=7),
        "base in windows": dict(rope_parameters={"sliding_attention": rope(345.0), "full_attention": rope(345.0)}),
        "cutoffs of activations": dict(activation_sparsity_pattern=[0.0] * 3),
        "cap of logits": dict(final_logit_softcapping=None),
    },
    "gemma4-moe": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "width of the windows": dict(sliding_window=7),
        "experts of a token": dict(top_k_experts=2),
        "cap of logits": dict(final_logit_softcapping=None),
    },
    "qwen35moe": LINEAR_MOE,
    "qwen3next": LINEAR_MOE,
    "glm4moe": GLM4_MOE | {"norms of heads": dict(use_qk_norm=False)},
    "glm4moe-air": GLM4_MOE,
    "solar-open": SIGMOID | {"rotary base": base(10000.0)},
    "glm4moe-lite": LATENT | {"weights of experts add up to 1": dict(norm_topk_prob=False), "rotary base": base(10000.0)},
    "mistral4": LATENT
    | MINISTRAL_BOUNDS
    | {
        "weights of experts add up to 1": dict(norm_topk_prob=False),
        "scaling": dict(rope_parameters=MINISTRAL | dict(factor=1.0)),
        "scale of scores": dict(rope_parameters=MINISTRAL | dict(mscale_all_dim=0.0)),
    },
    "afmoe": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "rotary base": base(10000.0),
        "experts of a token": dict(num_experts_per_tok=3),
        "routed scale": dict(route_scale=1.0),
        "root of the width": dict(mup_enabled=False),
        "windows, and global layers without rotation": dict(layer_types=["sliding_attention"] * 4),
        "width of the windows": dict(sliding_window=7),
    },
    "hy_v3": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "rotary base": base(10000.0),
        "experts of a token": dict(num_experts_per_tok=3),
        "routed scale": dict(router_scaling_factor=1.0),
    },
    "mellum": {
        "epsilon": dict(rms_norm_eps=1e-5),
        "experts of a token": dict(num_experts_per_tok=2),
        "weights of experts add up to 1": dict(norm_topk_prob=False),
        "windows": dict(layer_types=FULL * 4),
        "width of the windows": dict(sliding_window=7),
        "layers without a window": dict(layer_types=["sliding_attention"] * 4),
        "base in windows": dict(
            rope_parameters={"sliding_attention": rope(10000.0), "full_attention": yarn(8.0, 12345.0, 64)}
        ),
        "scaling in global layers": dict(
            rope_parameters={"sliding_attention": rope(12345.0), "full_attention": rope(12345.0)}
        ),
        "no scaling in windows": dict(
            rope_parameters={"sliding_attention": yarn(8.0, 12345.0, 64), "full_attention": yarn(8.0, 12345.0, 64)}
        ),
    },
}

LENGTHS = (
    "llama.cpp takes the epsilon of the norms for that of the lengths of queries and keys in linear attention, which is "
    "1e-6; where the norms' is 1e-6, too, as published, it is within "
)
# Families that llama.cpp does not run as they are published.
NOT_BY_LLAMA_CPP = {
    "qwen2-yarn": "llama.cpp reads neither the scale of YaRN's angles nor its two bounds from files of this "
    "architecture; without them it is within 5e-7 of float64",
    "exaone4": "llama.cpp has windows, and global layers without rotation, with 64 layers only; so many, it is within "
    "2e-6 of float64",
    "gpt-oss": "llama.cpp rounds the bounds of YaRN's ramp to whole dimensions, which this architecture does not; with "
    "rounded bounds it is within 2e-6 of float64",
    "deepseek2-lite": "llama.cpp loads files without a query of low rank with 26, 27 or 48 layers only; with 27 it is "
    "within 4e-6 of float64",
    "qwen35": LENGTHS + "5e-6 of float64",
    "qwen35moe": LENGTHS + "3e-6 of float64",
    "qwen3next": LENGTHS + "3e-6 of float64",
    "gemma4-ple": "llama.cpp looks GELU up in a table of float16 values, here twice in each layer; it is within 2e-3 of float64",
    "gemma3n": "llama.cpp cuts the activations of the first ten layers off at 0.95, by the deviation of a sample, caps the logits "
    "at 30, has embeddings of 256 numbers in a layer and branches of rank 64, and looks GELU up in a table of float16 values; "
    "with all of these it is within 2e-3 of float64",
    "llama4": "llama.cpp has chunks of 8192 positions, and a temperature of 0.1 over spans of 8192, whatever the file says; "
    "with these, as published, it is within 2e-6 of float64",
    "phimoe": "llama.cpp computes RMSNorm with a bias in place of LayerNorm, and weighs experts by a softmax over all, "
    "divided by the sum of those used, in place of SparseMixer",
    "mistral4": "llama.cpp takes 32 and 1 for the bounds of YaRN's ramp and 1 for the mscale of the angles; with these, and "
    "with 1 for that of the scores, as published, it is within 2e-6 of float64",
    "command-r-plus": "llama.cpp loads norms of heads with 64 layers only; so many, it is within 1e-6 of float64",
}
GELU_NOTES = {
    "tanh": "llama.cpp looks GELU up in a table of float16 values",
    "erf": "llama.cpp takes the GELU with tanh, from a table of float16 values, for the one with erf",
}
GELU = {"mpt": "erf", "starcoder": "tanh", "starcoder2": "tanh", "gptneox": "erf", "gptneox-sequential": "tanh", "phi2": "tanh", "falcon": "erf"}
GELU |= {"falcon-40b": "erf"} | {name: "tanh" for name in ("gemma", "gemma2", "gemma3", "gemma4", "gemma4-moe")}
LLAMA_CPP_NOTES = NOT_BY_LLAMA_CPP | {name: GELU_NOTES[kind] for name, kind in GELU.items()}
