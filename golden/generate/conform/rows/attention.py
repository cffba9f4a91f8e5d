"""Heads, norms of q and k, biases, scale and soft cap of the scores."""

from ..base_parts import NO_CAP, ROOT
from ..bases import config
from ..case import Row, ignored, misread

GROUP = "attention"

NO_BIASES = ignored("bias_missing", "leaves the biases out", tensors={"*.bias": 0.0})


def qk_norm(glob_q, glob_k, text="ignores the weights of the norms"):
    return misread("qk_norm", text, tensors={glob_q: 1.0, glob_k: 1.0})


ATTENTION = [
    Row(
        "head_dim", GROUP, "Heads whose width is not hidden_size / heads",
        config("mistral", num_attention_heads=5, num_key_value_heads=1), ("head_dim",),
    ),
    Row(
        "grouped_heads", GROUP, "Groups of heads that share keys and values",
        config("mistral", num_attention_heads=8, num_key_value_heads=4), ("num_key_value_heads",),
    ),
    Row(
        "multi_query", GROUP, "One head of keys and values for all", config("mistral", num_attention_heads=4),
        ("num_key_value_heads",),
    ),
    Row(
        "multi_query_falcon", GROUP, "One head of keys and values, whatever num_kv_heads says, as Falcon 7B has it",
        config("falcon", num_kv_heads=2), ("multi_query",),
    ),
    Row(
        "attention_bias", GROUP, "Biases of q, k, v and the output projection of Llama",
        config("llama", attention_bias=True), ("attention_bias",),
        (
            NO_BIASES,
            misread("bias_missing", "leaves that of the output projection out", tensors={"*o_proj.bias": 0.0}),
            misread("bias_missing", "leaves those of q, k and v out", tensors={
                "*q_proj.bias": 0.0, "*k_proj.bias": 0.0, "*v_proj.bias": 0.0
            }),
        ),
        gain={"*k_proj.bias": 4.0},
    ),
    Row(
        "use_qkv_bias", GROUP, "Biases of q, k and v of StableLM", config("stablelm", use_qkv_bias=True),
        ("use_qkv_bias",), (ignored(
            "bias_missing", "leaves the biases out", tensors={"*_proj.bias": 0.0}
        ),),
    ),
    Row(
        "qk_norm_per_head", GROUP, "RMSNorm of each head of q and k", config("qwen3", rms_norm_eps=0.046875),
        (), (
            qk_norm("*q_norm.weight", "*k_norm.weight"),
            misread("eps", "takes 1e-6 for the epsilon", {"rms_norm_eps": 1e-6}),
        ),
    ),
    Row(
        "qk_norm_whole", GROUP, "RMSNorm of all of q and of all of k",
        config("olmo2", num_key_value_heads=2), (), (
            qk_norm("*q_norm.weight", "*k_norm.weight"),
        ), gain={"*k_norm.weight": 2.0},
    ),
    Row(
        "qk_layernorm", GROUP, "LayerNorm of each head of q and k, with weights of its own",
        config("stablelm", qk_layernorm=True), ("qk_layernorm",), (
            qk_norm("*q_layernorm*", "*k_layernorm*"),
        ),
    ),
    Row(
        "use_qk_norm", GROUP, "Norms of the heads of Command R+", config("cohere", use_qk_norm=True),
        ("use_qk_norm",), (
            qk_norm("*q_norm.weight", "*k_norm.weight"),
        ),
    ),
    Row(
        "use_qk_norm_llama4", GROUP, "Norms without weights of rotated q and k of Llama 4",
        config("llama4_text", use_qk_norm=True, rms_norm_eps=0.046875),
        ("use_qk_norm",), (
            ignored("qk_norm", "leaves the norms of q and k out", {"use_qk_norm": False}),
            misread("eps", "takes 1e-6 for the epsilon", {"rms_norm_eps": 1e-6}),
        ),
    ),
    Row(
        "attn_temperature_tuning", GROUP, "Scores of layers without rotation scaled by the query's position",
        config("llama4_text", use_qk_norm=True, attn_temperature_tuning=True, attn_scale=0.5, floor_scale=2),
        ("attn_temperature_tuning", "attn_scale", "floor_scale"), (
            ignored("attention_scale", "leaves the scale out", {"attn_temperature_tuning": False}),
            misread("attention_scale", "takes 0.1 and 8192", {"attn_scale": 0.1, "floor_scale": 8192}),
        ),
        gain={"*layers.3.self_attn.q_proj*": 1.5}, length=12,
    ),
    Row(
        "clip_qkv", GROUP, "Queries, keys and values within clip_qkv", config("olmo", clip_qkv=0.75), ("clip_qkv",), (
            ignored("clip", "does not clip", {"clip_qkv": None}),
            misread("clip", "takes 8, as published", {"clip_qkv": 8.0}),
        ),
    ),
    Row(
        "clip_qkv_mpt", GROUP, "Queries, keys and values within clip_qkv of attn_config",
        config("mpt", attn_config={"clip_qkv": 0.75}), ("attn_config",), (
            ignored("clip", "does not clip", {"attn_config": {"clip_qkv": None}}),
            misread("clip", "takes 6, as published", {"attn_config": {"clip_qkv": 6.0}}),
        ),
    ),
    Row(
        "attention_sinks", GROUP, "Attention sinks", config("gpt_oss"), (), (
            ignored("attention_sinks", "leaves the sinks out", tensors={"*.sinks": -10000.0}),
            misread("attention_sinks", "takes 0 for each sink", tensors={"*.sinks": 0.0}),
        ),
    ),
    Row(
        "query_pre_attn_scalar", GROUP, "Scores scaled by query_pre_attn_scalar",
        config("gemma2", query_pre_attn_scalar=8), ("query_pre_attn_scalar",), (
            ignored("attention_scale", "scales by the width of heads", {"query_pre_attn_scalar": 32}),
            misread("attention_scale", "takes 256", {"query_pre_attn_scalar": None}),
            misread("attention_scale", "takes the square of the scale", {"query_pre_attn_scalar": 64}),
        ),
        gain={"*q_proj*": 0.5},
    ),
    Row(
        "attention_multiplier", GROUP, "Scores scaled by attention_multiplier",
        config("granite", attention_multiplier=0.5), ("attention_multiplier",), (
            ignored(
                "attention_scale", "scales by the root of the heads' width", {"attention_multiplier": ROOT}
            ),
            misread("attention_scale", "does not scale", {"attention_multiplier": 1.0}),
            misread("attention_scale", "multiplies with the usual scale, too", {"attention_multiplier": 0.5 * ROOT}),
        ),
    ),
    Row(
        "attn_logit_softcapping", GROUP, "Soft cap of the scores",
        config("gemma2", attn_logit_softcapping=2.0), ("attn_logit_softcapping",), (
            ignored("attention_softcap", "leaves the soft cap out", {"attn_logit_softcapping": NO_CAP}),
            misread("attention_softcap", "takes 50", {"attn_logit_softcapping": 50.0}),
            misread("attention_softcap", "takes that of the logits", {"attn_logit_softcapping": 30.0}),
        ),
    ),
    Row(
        "num_kv_shared_layers", GROUP, "A last layer that reads the keys and values of an earlier one (Gemma 3n)",
        config(
            "gemma3n_text", num_hidden_layers=3, num_kv_shared_layers=1, sliding_window=4,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            activation_sparsity_pattern=[0.0] * 3
        ),
        ("num_kv_shared_layers",),
        (
            misread(
                "kv_layer", "reads those of the layer before, and sees as much as that",
                {"layer_types": ["sliding_attention", "full_attention", "full_attention"]}
            ),
        ),
    ),
]
