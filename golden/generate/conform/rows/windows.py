"""Sliding windows: their width, and which layers have one."""

from ..bases import config
from ..case import Row, ignored, misread

GROUP = "sliding windows"
SLIDING, FULL = "sliding_attention", "full_attention"
WIDE = 1 << 20


def widths(width):
    return (
        misread("attention_window", "is one token shorter", {"sliding_window": width - 1}),
        misread("attention_window", "is one token longer", {"sliding_window": width + 1}),
    )


def types(*kinds):
    return {"layer_types": list(kinds)}


NONE = ignored("attention_window", "leaves the window out", {"sliding_window": WIDE})
# With a window, and rotated.
ALL_ALIKE = misread("rope_unwanted", "has global layers like the others", types(*[SLIDING] * 4))
ONES = dict(type="longrope", short_factor=[1.0] * 16, long_factor=[1.0] * 16)

WINDOWS = [
    Row(
        "window_of_all_layers", GROUP, "A window in every layer", config("mistral", sliding_window=4),
        ("sliding_window",),
        (ignored("attention_window", "leaves the window out", {"sliding_window": None}), *widths(4)),
    ),
    Row(
        "attention_chunk_size", GROUP, "Attention in chunks",
        config("llama4_text", use_qk_norm=True, attention_chunk_size=4), ("attention_chunk_size",),
        (
            ignored("attention_window", "attends beyond a chunk", {"attention_chunk_size": 512}),
            misread("attention_window", "has chunks of 3", {"attention_chunk_size": 3}),
            misread("attention_window", "has chunks of 5", {"attention_chunk_size": 5}),
            misread("attention_window", "has chunks in every layer", types(*["chunked_attention"] * 4)),
        ),
    ),
    Row(
        "window_longer_than_the_prompt", GROUP, "A window that no prompt fills",
        config("mistral", sliding_window=4096), ("sliding_window",),
        (misread("attention_window", "takes 8", {"sliding_window": 8}),),
    ),
    Row(
        "window_of_phi3", GROUP, "The window of Phi-3", config("phi3", sliding_window=4), ("sliding_window",),
        (NONE, *widths(4)),
    ),
    Row(
        "window_of_phi3_longrope", GROUP, "The window of Phi-3, beside rope_scaling",
        config("phi3", sliding_window=4, rope_scaling=ONES), ("sliding_window",), (NONE, *widths(4)),
    ),
    Row(
        "window_of_starcoder2", GROUP, "The window of StarCoder2", config("starcoder2", sliding_window=4),
        ("sliding_window",),
        (ignored("attention_window", "leaves the window out", {"sliding_window": None}), *widths(4)),
    ),
    Row(
        "use_sliding_window", GROUP, "A window that is switched off", config("qwen2", sliding_window=4),
        ("use_sliding_window",),
        (ignored("attention_window", "has a window", {"use_sliding_window": True, "layer_types": [SLIDING] * 2}),),
    ),
    Row(
        "max_window_layers", GROUP, "A window in the upper layers only",
        config("qwen2", num_hidden_layers=3, sliding_window=4, use_sliding_window=True, max_window_layers=1),
        ("sliding_window", "use_sliding_window", "max_window_layers"),
        (
            ignored("attention_window", "leaves the window out", {"use_sliding_window": False}),
            misread("attention_window", "has it in all layers", types(SLIDING, SLIDING, SLIDING)),
            misread("attention_window", "has it in the lower layers", types(SLIDING, FULL, FULL)),
            misread("attention_window", "counts one layer too many", {"max_window_layers": 2}),
            *widths(4),
        ),
    ),
    Row(
        "window_by_class", GROUP, "A window in every second layer, as Gemma 2's class has it",
        config("gemma2", num_hidden_layers=3, sliding_window=4), ("sliding_window",),
        (
            NONE,
            misread("attention_window", "has it in all layers", types(SLIDING, SLIDING, SLIDING)),
            misread("attention_window", "has it in the other layers", types(FULL, SLIDING, FULL)),
            *widths(4),
        ),
    ),
    Row(
        "window_by_layer_types", GROUP, "Windows by layer_types, against the class's pattern",
        config("gemma2", num_hidden_layers=3, sliding_window=4, layer_types=[FULL, SLIDING, SLIDING]),
        ("sliding_window", "layer_types"),
        (
            ignored("attention_window", "has the class's pattern", {"layer_types": None}),
            misread("attention_window", "leaves the window out", {"sliding_window": WIDE}),
            *widths(4),
        ),
    ),
    Row(
        "sliding_window_pattern", GROUP, "Windows by sliding_window_pattern of Gemma 3",
        config("gemma3_text", num_hidden_layers=3, sliding_window=4, sliding_window_pattern=3),
        ("sliding_window", "sliding_window_pattern"),
        (
            ignored("attention_window", "has one global layer of six", {"sliding_window_pattern": None}),
            misread("attention_window", "leaves the window out", {"sliding_window": WIDE}),
            misread("attention_window", "has the global layer first", types(FULL, SLIDING, SLIDING)),
            *widths(4),
        ),
    ),
    Row(
        "window_of_cohere2", GROUP, "Windows of Command R7B", config("cohere2", sliding_window=4),
        ("sliding_window", "sliding_window_pattern"), (NONE, ALL_ALIKE, *widths(4)),
    ),
    Row(
        "window_of_exaone4", GROUP, "Windows of EXAONE 4", config("exaone4", sliding_window=4),
        ("sliding_window", "layer_types"), (NONE, ALL_ALIKE, *widths(4)),
    ),
    Row(
        "window_of_gpt_oss", GROUP, "Windows of gpt-oss", config("gpt_oss", sliding_window=4),
        ("sliding_window", "layer_types"),
        (
            NONE,
            misread("attention_window", "has it in all layers", types(SLIDING, SLIDING)),
            misread("attention_window", "has it in the other layers", types(FULL, SLIDING)),
            *widths(4),
        ),
    ),
]
