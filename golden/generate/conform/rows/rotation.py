"""Rotary base, rotated dimensions and layers, in both spellings."""

from ..bases import config
from ..case import Row, ignored, misread
from .scaling import newer

GROUP = "rotary base and dimensions"

BASE_10000 = ignored("rope_base", "takes 10000", {"rope_theta": 10000.0})
# Of 64: some engines have kernels for 48 dimensions, and not for 24.
ONE_HEAD = dict(num_attention_heads=1, num_key_value_heads=1)


def ones(count):
    """LongRoPE that changes nothing."""
    return dict(type="longrope", short_factor=[1.0] * count, long_factor=[1.0] * count)


SLIDING, FULL = "sliding_attention", "full_attention"


def parameters(**changes):
    return {"rope_parameters": changes}


ROTATION = [
    Row(
        "rope_theta", GROUP, "A rotary base far from 10000", config("llama", rope_theta=64.0), ("rope_theta",),
        (BASE_10000, misread("rope_base", "takes 500000", {"rope_theta": 500000.0})),
    ),
    Row(
        "rope_theta_gemma", GROUP, "A rotary base far from 10000 in Gemma", config("gemma", rope_theta=64.0),
        ("rope_theta",), (BASE_10000,),
    ),
    Row(
        "rope_theta_rope_parameters", GROUP, "The rotary base in rope_parameters",
        newer("llama", dict(rope_type="default", rope_theta=64.0)), ("rope_parameters.rope_theta",),
        (
            ignored("rope_base", "takes 10000", {"rope_parameters": None}),
            misread("rope_base", "takes 500000", parameters(rope_theta=500000.0)),
        ),
    ),
    Row(
        "rope_theta_left_out", GROUP, "No rotary base: that of the class, 1000000 for Mixtral",
        {key: value for key, value in config("mixtral").items() if key != "rope_theta"}, (),
        (misread("rope_base", "takes 10000", {"rope_theta": 10000.0}),),
    ),
    Row(
        "rotary_emb_base", GROUP, "The rotary base of GPT-NeoX", config("gpt_neox", rotary_emb_base=64),
        ("rotary_emb_base",), (ignored("rope_base", "takes 10000", {"rotary_emb_base": 10000}),),
    ),
    Row(
        "rotary_pct", GROUP, "The share of each head that GPT-NeoX rotates", config("gpt_neox", rotary_pct=0.75),
        ("rotary_pct",),
        (
            ignored("rope_dimensions", "rotates a quarter", {"rotary_pct": None}),
            misread("rope_dimensions", "rotates whole heads", {"rotary_pct": 1.0}),
            misread("rope_dimensions", "rotates half of each head", {"rotary_pct": 0.5}),
        ),
    ),
    Row(
        "partial_rotary_factor", GROUP, "The share of each head that StableLM rotates",
        config("stablelm", partial_rotary_factor=0.75), ("partial_rotary_factor",),
        (
            ignored("rope_dimensions", "rotates a quarter", {"partial_rotary_factor": None}),
            misread("rope_dimensions", "rotates whole heads", {"partial_rotary_factor": 1.0}),
        ),
    ),
    Row(
        "partial_rotary_factor_phi3", GROUP, "The share of each head that Phi-4-mini rotates",
        config("phi3", partial_rotary_factor=0.75, **ONE_HEAD), ("partial_rotary_factor",),
        (
            ignored("rope_dimensions", "rotates whole heads", {"partial_rotary_factor": None}),
            misread("rope_dimensions", "rotates half of each head", {"partial_rotary_factor": 0.5}),
        ),
    ),
    Row(
        "partial_rotary_factor_longrope", GROUP, "The share of each head that Phi-4-mini rotates, beside rope_scaling",
        config("phi3", partial_rotary_factor=0.75, rope_scaling=ones(24), **ONE_HEAD), ("partial_rotary_factor",),
        (
            ignored(
                "rope_dimensions", "rotates whole heads", {"partial_rotary_factor": None, "rope_scaling": ones(32)}
            ),
            misread(
                "rope_dimensions", "rotates half of each head",
                {"partial_rotary_factor": 0.5, "rope_scaling": ones(16)}
            ),
        ),
    ),
    Row(
        "partial_rotary_factor_rope_parameters", GROUP, "The share of each head that is rotated, in rope_parameters",
        {
            key: value
            for key, value in newer(
                "nemotron", dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.75), head_dim=64
            ).items()
            if key != "partial_rotary_factor"
        },
        ("rope_parameters.partial_rotary_factor",),
        (
            ignored("rope_dimensions", "rotates half", {"rope_parameters": None}),
            misread("rope_dimensions", "rotates whole heads", parameters(partial_rotary_factor=1.0)),
        ),
    ),
    Row(
        "no_rope_layers", GROUP, "Layers without rotation, by list",
        config("smollm3", no_rope_layers=[1, 0, 0, 1]), ("no_rope_layers",),
        (
            ignored("rope_unwanted", "rotates every layer", {"no_rope_layers": [1, 1, 1, 1]}),
            misread("rope_missing", "rotates all but every fourth layer", {"no_rope_layers": [1, 1, 1, 0]}),
            misread("rope_missing", "takes 0 for layers with rotation", {"no_rope_layers": [0, 1, 1, 0]}),
        ),
    ),
    Row(
        "no_rope_layer_interval", GROUP, "Layers without rotation, by interval",
        {key: value for key, value in config("smollm3", no_rope_layer_interval=2).items()
         if key != "no_rope_layers"}, ("no_rope_layer_interval",),
        (
            ignored("rope_missing", "rotates all but every fourth layer", {"no_rope_layer_interval": 4}),
            misread("rope_unwanted", "rotates every layer", {"no_rope_layers": [1, 1, 1, 1]}),
            misread("rope_missing", "counts layers from 0", {"no_rope_layers": [0, 1, 0, 1]}),
        ),
    ),
    Row(
        "two_rotary_bases", GROUP, "A rotary base for layers with a window, another for the others",
        config("gemma3_text", rope_theta=4096.0, rope_local_base_freq=64.0),
        ("rope_theta", "rope_local_base_freq"),
        (
            ignored("rope_base", "takes that of global layers for all", {"rope_local_base_freq": 4096.0}),
            misread("rope_base", "takes that of layers with a window for all", {"rope_theta": 64.0}),
            misread("rope_base", "takes the one for the other", {"rope_theta": 64.0, "rope_local_base_freq": 4096.0}),
            misread("rope_base", "takes 10000 for layers with a window", {"rope_local_base_freq": 10000.0}),
            misread("rope_base", "takes 1000000 for global layers", {"rope_theta": 1000000.0}),
        ),
    ),
    Row(
        "two_rotary_bases_rope_parameters", GROUP, "Two rotary bases in rope_parameters",
        {
            key: value
            for key, value in newer("gemma3_text", {}).items()
            if key not in ("rope_local_base_freq", "sliding_window_pattern", "rope_parameters")
        }
        | {
            "layer_types": [SLIDING] * 5 + [FULL],
            "rope_parameters": {
                FULL: {"rope_type": "default", "rope_theta": 4096.0},
                SLIDING: {"rope_type": "default", "rope_theta": 64.0},
            },
        },
        ("rope_parameters.full_attention", "rope_parameters.sliding_attention"),
        (
            ignored("rope_base", "takes 1000000 and 10000", {"rope_parameters": None}),
            misread(
                "rope_base", "takes that of global layers for all",
                parameters(sliding_attention={"rope_theta": 4096.0})
            ),
            misread(
                "rope_base", "takes that of layers with a window for all",
                parameters(full_attention={"rope_theta": 64.0})
            ),
        ),
    ),
    Row(
        "global_layers_without_rotation", GROUP, "Global layers are not rotated, by sliding_window_pattern",
        config("cohere2", sliding_window_pattern=2), ("sliding_window_pattern",),
        (
            ignored("rope_unwanted", "rotates every layer", {"layer_types": [SLIDING] * 4}),
            misread("rope_missing", "has one global layer of four", {"layer_types": [SLIDING] * 3 + [FULL]}),
            misread("rope_missing", "rotates global layers only", {"layer_types": [FULL, SLIDING] * 2}),
        ),
    ),
    Row(
        "global_layers_by_layer_types", GROUP, "Global layers are not rotated, by layer_types",
        {
            key: value
            for key, value in config("cohere2", layer_types=[FULL, SLIDING] * 2).items()
            if key != "sliding_window_pattern"
        },
        ("layer_types",),
        (
            ignored("rope_unwanted", "rotates every layer", {"layer_types": [SLIDING] * 4}),
            misread("rope_missing", "rotates global layers only", {"layer_types": [SLIDING, FULL] * 2}),
            misread("rope_missing", "has the class's pattern: one global layer of four", {"layer_types": None}),
        ),
    ),
]
