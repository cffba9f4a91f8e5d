"""Rotary scaling: each kind in both spellings, and each of its numbers."""

from ..bases import config
from ..case import Row, ignored, misread

GROUP = "rotary scaling"
BASE = 256.0  # so that short prompts turn every pair
LOW = dict(rope_theta=BASE, max_position_embeddings=2048)


def older(model_type, scaling, **more):
    """As files before transformers 5 state it."""
    return config(model_type, **LOW | dict(rope_scaling=scaling) | more)


def newer(model_type, parameters, **more):
    """As transformers 5 writes it."""
    made = config(model_type, **dict(max_position_embeddings=2048) | more)
    made |= {"rope_parameters": {"rope_theta": BASE} | parameters, "dtype": made["torch_dtype"]}
    return {key: value for key, value in made.items() if key not in ("rope_theta", "rope_scaling", "torch_dtype")}


def scaling(**changes):
    return {"rope_scaling": changes}


def parameters(**changes):
    return {"rope_parameters": changes}


LINEAR = dict(rope_type="linear", factor=4.0)
LLAMA3 = dict(
    rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=128
)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=512)
SHORT = [1.0 + i / 8 for i in range(16)]
LONG = [1.0 + i / 2 for i in range(16)]
LONGROPE = dict(type="longrope", short_factor=SHORT, long_factor=LONG)  # as Phi-3's files have it
# Engines may choose the factors by the context that they reserve, which is longer than a prompt.
PHI3 = dict(original_max_position_embeddings=4096, max_position_embeddings=16384)
CALM = {"*qkv*": 0.75}  # scores so high that float32 is far from float64 otherwise

DIVIDES = "divides all frequencies by the factor"
NO_SCALING = "takes the angles without scaling"
BASE_10000 = misread("rope_base", "takes the rotary base for 10000", {"rope_theta": 10000.0})
LONG_FACTORS = misread("rope_scaling", "takes the long factors", scaling(short_factor=LONG))
UNSCALED = misread("rope_scaling", NO_SCALING, {"rope_scaling": None})
LOG_FACTOR = "takes 0.1 ln(factor) + 1"

def attention_factors(place):
    """What 0.75 is taken for, where the factor is 4."""
    return (
        ignored("rope_attention_factor", LOG_FACTOR, place(attention_factor=None)),
        misread("rope_attention_factor", "takes 1", place(attention_factor=1.0)),
        misread("rope_attention_factor", "squares it", place(attention_factor=0.5625)),
        misread(
            "rope_attention_factor", "multiplies it by 0.1 ln(factor) + 1", place(attention_factor=0.853972077084)
        ),
        misread("rope_attention_factor", "takes its square root", place(attention_factor=0.866025403784)),
    )


SCALING = [
    Row(
        "linear_scaling", GROUP, "Linear scaling", older("llama", LINEAR), ("rope_scaling",),
        (
            ignored("rope_scaling", NO_SCALING, {"rope_scaling": None}),
            misread("rope_scaling", "multiplies the angles by the factor", scaling(factor=0.25)),
        ),
    ),
    Row(
        "linear_scaling_type", GROUP, "Linear scaling under the key that older files have: type",
        older("llama", dict(type="linear", factor=4.0)), ("rope_scaling.type",),
        (ignored("rope_scaling", NO_SCALING, {"rope_scaling": None}),),
    ),
    Row(
        "linear_scaling_rope_parameters", GROUP, "Linear scaling in rope_parameters",
        newer("llama", LINEAR), ("rope_parameters",),
        (
            ignored("rope_scaling", NO_SCALING, parameters(rope_type="default", factor=None)),
            misread("rope_base", "takes the base for 10000", parameters(rope_theta=10000.0)),
        ),
    ),
    Row(
        "llama3_scaling", GROUP, "The scaling of Llama 3.1", older("llama", LLAMA3), ("rope_scaling",),
        (
            ignored("rope_scaling", NO_SCALING, {"rope_scaling": None}),
            misread("rope_scaling", DIVIDES, {"rope_scaling": LINEAR | dict(factor=8.0)}),
            misread(
                "rope_scaling", "takes max_position_embeddings for the original context",
                scaling(original_max_position_embeddings=2048)
            ),
            misread("rope_scaling", "takes 2 for high_freq_factor", scaling(high_freq_factor=2.0)),
        ),
    ),
    Row(
        "llama3_scaling_rope_parameters", GROUP, "The scaling of Llama 3.1 in rope_parameters",
        newer("llama", LLAMA3), ("rope_parameters",),
        (
            ignored("rope_scaling", NO_SCALING, {"rope_parameters": {"rope_type": "default"}}),
            misread("rope_base", "takes the base for 10000", parameters(rope_theta=10000.0)),
        ),
    ),
    Row(
        "llama3_scaling_exaone4", GROUP, "The scaling of Llama 3.1 in EXAONE 4", older("exaone4", LLAMA3),
        ("rope_scaling",), (ignored("rope_scaling", NO_SCALING, {"rope_scaling": None}),),
    ),
    Row(
        "yarn_qwen3_moe", GROUP, "YaRN of Qwen3 with experts", older("qwen3_moe", YARN), ("rope_scaling",),
        (ignored("rope_scaling", NO_SCALING, {"rope_scaling": None}),),
    ),
    Row(
        "yarn", GROUP, "YaRN", older("llama", YARN), ("rope_scaling",),
        (
            ignored("rope_scaling", NO_SCALING, {"rope_scaling": None}),
            misread("rope_attention_factor", "takes 1 for the attention factor", scaling(attention_factor=1.0)),
            misread(
                "rope_attention_factor", "squares the attention factor", scaling(attention_factor=1.296477913928)
            ),
            misread(
                "rope_scaling", DIVIDES, {"rope_scaling": LINEAR | dict(original_max_position_embeddings=None)}
            ),
            misread(
                "rope_scaling", "takes max_position_embeddings for the original context",
                scaling(original_max_position_embeddings=2048)
            ),
            misread("rope_scaling", "does not round the borders of the ramp", scaling(truncate=False)),
        ),
    ),
    Row(
        "yarn_rope_parameters", GROUP, "YaRN in rope_parameters", newer("llama", YARN), ("rope_parameters",),
        (
            ignored("rope_scaling", NO_SCALING, {"rope_parameters": {"rope_type": "default"}}),
            misread("rope_base", "takes the base for 10000", parameters(rope_theta=10000.0)),
            misread("rope_attention_factor", "takes 1 for the attention factor", parameters(attention_factor=1.0)),
        ),
    ),
    Row(
        "yarn_original_context_left_out", GROUP, "YaRN without a stated original context",
        older("llama", dict(rope_type="yarn", factor=4.0), max_position_embeddings=512), ("rope_scaling",),
        (
            ignored("rope_scaling", NO_SCALING, {"rope_scaling": None}),
            misread(
                "rope_scaling", "takes max_position_embeddings / factor for the original context",
                scaling(original_max_position_embeddings=128)
            ),
            misread(
                "rope_scaling", "takes 2048 for the original context", scaling(original_max_position_embeddings=2048)
            ),
            misread(
                "rope_scaling", "takes 4096 for the original context", scaling(original_max_position_embeddings=4096)
            ),
        ),
    ),
    Row(
        "yarn_attention_factor", GROUP, "YaRN with a stated attention factor",
        older("llama", YARN | dict(attention_factor=0.75)), ("rope_scaling.attention_factor",),
        (*attention_factors(scaling), UNSCALED),
    ),
    Row(
        "yarn_attention_factor_qwen2", GROUP, "YaRN with a stated attention factor of Qwen2",
        older("qwen2", YARN | dict(attention_factor=0.75)), ("rope_scaling.attention_factor",),
        (*attention_factors(scaling), UNSCALED),
    ),
    Row(
        "yarn_attention_factor_rope_parameters", GROUP, "YaRN with a stated attention factor in rope_parameters",
        newer("llama", YARN | dict(attention_factor=0.75)), ("rope_parameters.attention_factor",),
        (
            *attention_factors(parameters),
            misread("rope_scaling", NO_SCALING, parameters(rope_type="default")),
            misread("rope_base", "takes the base for 10000", parameters(rope_theta=10000.0)),
        ),
    ),
    Row(
        "yarn_beta_fast", GROUP, "YaRN with a stated beta_fast",
        older("qwen2", YARN | dict(beta_fast=8.0)), ("rope_scaling.beta_fast",),
        (
            ignored("rope_scaling", "takes 32", scaling(beta_fast=None)),
            UNSCALED,
        ),
    ),
    Row(
        "yarn_beta_slow", GROUP, "YaRN with a stated beta_slow",
        older("qwen2", YARN | dict(beta_slow=4.0)), ("rope_scaling.beta_slow",),
        (
            ignored("rope_scaling", "takes 1", scaling(beta_slow=None)),
            UNSCALED,
        ),
    ),
    Row(
        "yarn_mscale", GROUP, "YaRN with mscale and mscale_all_dim",
        older("llama", YARN | dict(mscale=4.0, mscale_all_dim=1.0)),
        ("rope_scaling.mscale", "rope_scaling.mscale_all_dim"),
        (
            ignored("rope_attention_factor", LOG_FACTOR, scaling(mscale=None, mscale_all_dim=None)),
            misread("rope_attention_factor", "takes 1", scaling(mscale=1.0)),
            misread(
                "rope_attention_factor", "takes 0.1 mscale ln(factor) + 1", scaling(attention_factor=1.554517744448)
            ),
            misread(
                "rope_attention_factor", "takes the quotient's inverse", scaling(mscale=1.0, mscale_all_dim=4.0)
            ),
            UNSCALED,
        ),
    ),
    Row(
        "yarn_truncate", GROUP, "YaRN whose ramp has borders that are not rounded",
        older("gpt_oss", YARN | dict(beta_fast=32.0, beta_slow=1.0, truncate=False)), ("rope_scaling.truncate",),
        (
            ignored("rope_scaling", "rounds the borders to whole pairs", scaling(truncate=True)),
            UNSCALED,
            misread("rope_attention_factor", "takes 1 for the attention factor", scaling(attention_factor=1.0)),
        ),
    ),
    Row(
        "longrope_short", GROUP, "LongRoPE within the original context",
        older("phi3", LONGROPE, **PHI3), ("rope_scaling",),
        (
            ignored("rope_scaling", NO_SCALING, {"rope_scaling": None}),
            LONG_FACTORS,
            misread("rope_attention_factor", "takes 1 for the attention factor", scaling(attention_factor=1.0)),
        ),
        gain=CALM,
    ),
    Row(
        "longrope_long", GROUP, "LongRoPE beyond the original context",
        older("phi3", LONGROPE, **PHI3 | dict(original_max_position_embeddings=8, max_position_embeddings=32)),
        ("rope_scaling",),
        (
            ignored("rope_scaling", NO_SCALING, {"rope_scaling": None}),
            misread("rope_scaling", "takes the short factors", scaling(long_factor=SHORT)),
            misread("rope_attention_factor", "takes 1 for the attention factor", scaling(attention_factor=1.0)),
        ),
        gain=CALM,
    ),
    Row(
        "longrope_attention_factor", GROUP, "LongRoPE with a stated attention factor",
        older("phi3", LONGROPE | dict(attention_factor=0.75), **PHI3), ("rope_scaling.attention_factor",),
        (
            ignored(
                "rope_attention_factor", "takes sqrt(1 + ln(scale) / ln(original context))",
                scaling(attention_factor=None)
            ),
            misread("rope_attention_factor", "takes 1", scaling(attention_factor=1.0)),
            UNSCALED,
            LONG_FACTORS,
        ),
        gain=CALM,
    ),
    Row(
        "longrope_rope_type", GROUP, "LongRoPE whose kind is under rope_type",
        older("phi3", dict(rope_type="longrope", short_factor=SHORT, long_factor=LONG), **PHI3),
        ("rope_scaling.rope_type",), (ignored("rope_scaling", NO_SCALING, {"rope_scaling": None}), LONG_FACTORS),
        gain=CALM,
    ),
    Row(
        "longrope_su", GROUP, "LongRoPE under its first name, su",
        older("phi3", LONGROPE | dict(type="su", original_max_position_embeddings=4096), **PHI3),
        ("rope_scaling.type",), (ignored("rope_scaling", NO_SCALING, {"rope_scaling": None}), LONG_FACTORS),
        gain=CALM,
    ),
    Row(
        "longrope_rope_parameters", GROUP, "LongRoPE in rope_parameters",
        newer(
            "phi3",
            dict(rope_type="longrope", short_factor=SHORT, long_factor=LONG, original_max_position_embeddings=4096),
            **PHI3
        ), ("rope_parameters",),
        (
            ignored("rope_scaling", NO_SCALING, {"rope_parameters": {"rope_type": "default"}}),
            misread("rope_base", "takes the base for 10000", parameters(rope_theta=10000.0)),
            misread("rope_attention_factor", "takes 1 for the attention factor", parameters(attention_factor=1.0)),
        ),
        gain=CALM,
    ),
    Row(
        "scaling_of_global_layers", GROUP, "Linear scaling of the layers without a window only",
        config("gemma3_text", rope_theta=BASE, rope_local_base_freq=BASE, rope_scaling=LINEAR), ("rope_scaling",),
        (
            ignored("rope_scaling", NO_SCALING, {"rope_scaling": None}),
            misread("rope_base", "takes 1000000 for global layers", {"rope_theta": 1000000.0}),
            misread("rope_base", "takes 10000 for layers with a window", {"rope_local_base_freq": 10000.0}),
        ),
    ),
    Row(
        "beyond_the_original_context", GROUP, "YaRN with a prompt longer than the original context",
        older(
            "llama", YARN | dict(original_max_position_embeddings=8), max_position_embeddings=32
        ), ("rope_scaling.original_max_position_embeddings",),
        (
            ignored("rope_scaling", NO_SCALING, {"rope_scaling": None}),
            misread(
                "rope_scaling", "takes max_position_embeddings for the original context",
                scaling(original_max_position_embeddings=32)
            ),
        ),
        length=16,
    ),
]
# Engines that do not find the base would fail them all otherwise.
for row in SCALING:
    if "rope_theta" in row.config and not row.hears("rope_base"):
        row.mistakes += (BASE_10000,)
