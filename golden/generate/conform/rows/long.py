"""Prompts longer than those of the other rows, for what goes wrong behind their ends: windows, tables, rings of keys.

Each is as narrow as it can be, with a vocabulary of 24: the reference of a family in full would be four times as large.
"""

from ..bases import config
from ..case import Row, misread
from .family_mistakes import LONGROPE
from .windows import FULL, SLIDING, WIDE, widths

GROUP = "prompts"
TOKENS = 40
WINDOW = 24
SMALL = dict(hidden_size=32, num_attention_heads=1, num_key_value_heads=1, vocab_size=24)
WINDOWS = (misread("attention_window", "leaves the window out", {"sliding_window": WIDE}), *widths(WINDOW))
BEYOND = dict(original_max_position_embeddings=16, max_position_embeddings=64)
WHOLE_PAIRS = misread(
    "rope_scaling", "rounds the borders of YaRN's ramp to whole pairs", {"rope_scaling": {"truncate": True}}
)
NO_SCALING = misread("rope_scaling", "takes the angles without scaling", {"rope_scaling": None})


def long(model_type, title, *mistakes, gain=None, words="forty", length=TOKENS, **changes):
    return Row(
        f"{words}_tokens_{model_type}", GROUP, title, config(model_type, **changes), (), mistakes, gain=gain or {},
        length=length,
    )


LONG = [
    long(
        "gemma2", f"A prompt longer than a window of {WINDOW} in every second layer, of Gemma 2", *WINDOWS,
        misread("attention_window", "has it in the other layer", {"layer_types": [FULL, SLIDING]}),
        misread("rope_base", "takes the rotary base for 100", {"rope_theta": 100.0}), **SMALL, head_dim=32,
        sliding_window=WINDOW,
    ),
    long(
        "gpt_oss", f"A prompt longer than a window of {WINDOW} and an original context of 16, of gpt-oss", *WINDOWS,
        misread("attention_window", "has it in the other layer", {"layer_types": [FULL, SLIDING]}),
        NO_SCALING, WHOLE_PAIRS, **SMALL, sliding_window=WINDOW, max_position_embeddings=64,
        rope_scaling=dict(
            rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, original_max_position_embeddings=16,
            truncate=False
        ),
    ),
    long(
        "phi3", f"A prompt longer than a window of {WINDOW} and an original context of 16, of Phi-3", *WINDOWS,
        NO_SCALING,
        misread("rope_scaling", "takes the short factors", {"rope_scaling": {"long_factor": LONGROPE["short_factor"]}}),
        gain={"*qkv*": 0.75}, **SMALL, num_hidden_layers=1, sliding_window=WINDOW, rope_scaling=LONGROPE, **BEYOND,
    ),
    long(
        "gpt2", "Learned positions behind a block of 32, of GPT-2",
        misread("rope_position", "leaves the learned positions out", tensors={"*wpe.weight": 0.0}),
        misread("bias_missing", "leaves all biases out", tensors={"*.bias": 0.0}), n_embd=32, n_head=1,
        vocab_size=24,
    ),
    long(
        "deepseek_v3", "A prompt longer than a block of 32, of latent keys and values",
        misread("rope_base", "takes the rotary base for 100", {"rope_theta": 100.0}), **SMALL, rope_theta=10000.0,
        kv_lora_rank=32, q_lora_rank=32,
    ),
    long(
        "qwen3_next", "A prompt longer than a chunk of 64 tokens of the delta rule",
        misread("delta_rule", "does not let the state decay", tensors={"*A_log": -10000.0}),
        words="seventy", length=70, **SMALL, linear_num_key_heads=1, linear_num_value_heads=2,
    ),
]  # fmt: skip
