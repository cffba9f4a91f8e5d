"""The suite's weights: the numbers of `assay synth` (assay/synth/random_weights.h), bit for bit, and how loud they are.

Number i of a tensor is output i of SplitMix64 from a state that mixes the seed with the FNV-1a hash of its name; the
sum of its four 16-bit parts has a bell's shape.
"""

import math

import numpy as np

from .case import first_match

GAMMA = np.uint64(0x9E3779B97F4A7C15)
MEAN = 2 * 65535
DEVIATION = 37837.22723720648  # of the sum of four whole numbers from 0 to 65535

# Whose norms multiply by 1 + weight.
PLUS_ONE = ("gemma", "gemma2", "gemma3_text", "vaultgemma", "nemotron", "qwen3_5_text", "qwen3_next")


def mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def state(seed, name):
    text = 0xCBF29CE484222325
    for byte in name.encode():
        text = (text ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        return mix(mix(np.uint64(seed) + GAMMA) ^ np.uint64(text))


def bits(seed, name, count):
    """`count` numbers of 64 bits."""
    with np.errstate(over="ignore"):
        return mix(state(seed, name) + np.arange(1, count + 1, dtype=np.uint64) * GAMMA)


def drawn(seed, name, shape, mean, deviation):
    """float32 numbers of the given mean and standard deviation."""
    parts = bits(seed, name, math.prod(shape))
    total = sum((parts >> np.uint64(shift) & np.uint64(0xFFFF)).astype(np.int64) for shift in (0, 16, 32, 48))
    scale = np.float32(np.float64(np.float32(deviation)) / DEVIATION)
    return (np.float32(mean) + (total - MEAN).astype(np.float32) * scale).reshape(shape)


def tokens(seed, count, first, vocabulary):
    """`count` ids from `first` on."""
    return [first + int(number % np.uint64(vocabulary - first)) for number in bits(seed, "tokens", count)]


# Deviations by part of a tensor's name, the first that fits: in units of 1 / sqrt(inputs) for matrices.
MATRICES = {
    "*q_proj*": 1.5,
    "*k_proj*": 1.5,
    "*qkv*": 1.5,
    "*c_attn*": 1.5,
    "*query_key_value*": 1.5,
    "*modality_router*": 64.0,  # whose input is divided by hidden_size
    "*prediction_coefs*": 0.5,
    "*correction_coefs*": 0.5,
    "*router*": 2.0,
    "*.gate.weight": 2.0,
    "*": 1.0,
}
# Of networks with GELU, in rows that are not about it: by erf and by tanh it is the same near 0.
NEAR_ZERO = {
    "*gate_proj.weight": 0.125,
    "*c_fc.weight": 0.125,
    "*fc1.weight": 0.125,
    "*ffn.up_proj.weight": 0.125,
    "*dense_h_to_4h.weight": 0.125,
    "*c_fc.bias": 0.25,
    "*fc1.bias": 0.25,
    "*dense_h_to_4h.bias": 0.25,
    "*down_proj.weight": 4.0,
    "*mlp.c_proj.weight": 4.0,
    "*fc2.weight": 4.0,
    "*dense_4h_to_h.weight": 4.0,
}
NO_SINK = -64.0
# Of xIELU as published, where no two layers differ; and of Gemma 4's layers.
CONSTANTS = {"*act_fn.beta": 0.5, "*act_fn.eps": -1e-6, "*layer_scalar": 0.5}
EMBEDDINGS = ("embed_tokens.weight", "embeddings.weight", "wte.weight", "wpe.weight", "embed_in.weight", "word_embeddings.weight", "embed_positions.weight")


def is_norm(name):
    name = name.replace("norm_attn_norm.", "")  # DBRX's attention between norms
    return any(part in name for part in ("norm", "ln_", "ln_attn", "ln_mlp")) and name.endswith("weight")


def fan_in(name, shape, model_type):
    """The inputs of a matrix, or of each expert's."""
    transposed = model_type == "gpt2" and not name.endswith("lm_head.weight")
    together = model_type in ("gpt_oss", "llama4_text") and len(shape) == 3
    if not shape:
        return 1
    return shape[-2] if transposed or together else shape[-1]


def has_gelu(config):
    keys = ("hidden_act", "hidden_activation", "activation_function")
    return config["model_type"] in ("falcon", "bloom", "mpt") or any("gelu" in str(config.get(key)) for key in keys)


def spread(name, shape, row):
    """(mean, deviation) of a tensor. What no mistake of the row is about is quiet, where only weights can make it so."""
    config, model_type = row.config, row.config["model_type"]
    quiet = NEAR_ZERO if has_gelu(config) and not row.hears("activation_kind") else {}
    factor = first_match(row.gain, name, first_match(quiet, name, 1.0))
    constant = first_match(CONSTANTS, name, None)
    if constant is not None:
        mean, deviation = constant, 0.0
    elif name.endswith(("sinks", "sink_bias")):
        mean, deviation = (1.0, 1.0) if row.hears("attention_sinks") else (NO_SINK, 0.0)
    elif name.endswith(("router.scale", "per_expert_scale", "correct_output_scale")):
        mean, deviation = 1.0, 0.5
    elif is_norm(name):
        plus_one = model_type in PLUS_ONE and not name.endswith("linear_attn.norm.weight")
        mean, deviation = 0.0 if plus_one else 1.0, 0.25
    elif name.endswith(("bias", "e_score_correction")):
        mean, deviation = 0.0, 0.3
    elif name.endswith(EMBEDDINGS):
        root = math.sqrt(config["hidden_size"]) if "gemma" in model_type else 1.0
        mean, deviation = 0.0, 1.0 / root
    else:
        mean, deviation = 0.0, first_match(MATRICES, name, 1.0) / math.sqrt(fan_in(name, shape, model_type))
    return mean, float(f"{deviation * factor:.4g}")
