"""`python -m generate.trained.statistics [MODEL…]`: what a model has of a trained one, as rows of golden/README.md.

Over the first tokens of the long prompt, in float64:
- the probability of the first choice, its median and its 99th percentile over the tokens;
- the greatest weight of a row of attention, its mean over heads, and the weight of the first token in the head that
  attends to it most, both from the tokens that see SEEN or more (evenly it would be 0.009);
- the loudest channel of the residual stream in medians of all channels, and the fourth moment of what enters the down
  projections (of normal values 3), each in the layer where it is greatest.
"""

import sys
from unittest import mock

import numpy as np
from transformers.utils import logging

from .. import fixtures, hf, oracle, prompts
from ..llamacpp_engine import LlamaCpp, quiet
from ..model_file import ModelFile
from . import SHAPES
from .shapes import CONTEXT

RANDOM = ("tinyllama", "qwen2.5", "gpt2")
TOKENS, SEEN = 250, 32  # within phi3's window


def observed(path):
    """(checkpoints, [layer, head] the greatest weight of a row, the same of the first token's weight)"""
    with LlamaCpp(path, CONTEXT) as engine:
        tokens = engine.tokenize(prompts.texts(engine.tokenize)["long"])[:TOKENS]
    plain, greatest, first = oracle.attention, [], []

    def attention(*args, **more):
        joined, weights = plain(*args, **more)
        rows = weights[0, :, SEEN:].numpy()
        greatest.append(rows.max(axis=-1).mean(axis=-1))
        first.append(rows[..., 0].mean(axis=-1))
        return joined, weights

    with mock.patch.object(oracle, "attention", attention):
        seen = hf.observe(hf.Oracle(ModelFile(path), len(tokens)).build(), tokens)
    return seen, np.array(greatest), np.array(first)


def loudest_channel(rows):
    channels = np.sqrt(np.mean(rows**2, axis=0))
    return channels.max() / np.median(channels)


def fourth_moment(rows):
    return np.mean(rows**4) / np.mean(rows**2) ** 2


def figures(path):
    seen, greatest, first = observed(path)
    logits = seen["logits"]
    chosen = 1.0 / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)
    loudest = max(loudest_channel(rows) for name, rows in seen.items() if name.endswith("_output"))
    moment = max(fourth_moment(rows) for name, rows in seen.items() if name.endswith("_ffn_act"))
    cells = [f"{np.median(chosen):.2f}, {np.quantile(chosen, 0.99):.2f}", f"{greatest.mean():.2f}"]
    return " | ".join([*cells, f"{first.max():.3f}", f"{loudest:.1f}", f"{moment:.0f}"])


def main():
    logging.set_verbosity_error()
    quiet()
    types = {shape.name: "f16" for shape in SHAPES} | {name: "f32" for name in RANDOM}
    for name in sys.argv[1:] or types:
        print(f"| `{name}` | {figures(fixtures.GOLDEN / name / f'{name}-{types[name]}.gguf')} |", flush=True)


if __name__ == "__main__":
    main()
