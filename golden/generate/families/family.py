"""The families, as data: a transformers config each, with values that no default has.

Every float is rounded to float32, which is what a GGUF file holds.
"""

from dataclasses import dataclass, field

import numpy as np

COMMON = dict(vocab_size=320, max_position_embeddings=640, bos_token_id=None, eos_token_id=None, pad_token_id=None)
SMALL = dict(hidden_size=64, num_attention_heads=4, num_hidden_layers=2)
GROUPED = SMALL | dict(num_key_value_heads=2)
HEADS = GROUPED | dict(head_dim=24)

# Where llama.cpp has heads of hidden / heads only.
WHOLE = HEADS | dict(head_dim=16)


@dataclass(eq=False)
class Family:
    name: str
    config: str  # a config class of transformers
    seed: int
    values: dict
    gain: dict = field(default_factory=dict)  # of what is random, by part of its name
    golden: bool = True  # whether golden/ has a folder of it
    types: tuple[str, ...] = ("F32",)  # of its model files, all made from the first
    published: str = ""  # the class of the published models, where transformers has none and another computes the same
    proof: dict = field(default_factory=dict)  # changes with which llama.cpp can run it (it tells sizes by layers)


def rope(theta, **more):
    return {"rope_type": "default", "rope_theta": theta} | more


def yarn(factor, theta, original, **more):
    scaling = {"rope_type": "yarn", "factor": factor, "rope_theta": theta}
    return scaling | {"original_max_position_embeddings": original} | more


def float32(value):
    """`value` with each float in it rounded to float32."""
    if isinstance(value, dict):
        return {key: float32(inner) for key, inner in value.items()}
    return float(np.float32(value)) if isinstance(value, float) else value
