"""transformers over a GGUF file's weights, with a tap on every checkpoint.

    python -m generate.hf MODEL.gguf --prompt "The capital of France is" -n 8 --log hf.jsonl --dtype float64

logs what the model computes for the prompt and the tokens that it chooses. Run from golden/.
"""

import sys
from dataclasses import replace

import numpy as np
import torch
from assay_tap import attach
from assay_tap.order import order
from transformers import DynamicCache
from transformers.utils import logging

from . import command_line, oracle
from .model_file import hyperparameters, rotary_frequencies

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}


class Oracle:
    """A model file's weights and constants, and models over them for sequences of up to `length` tokens."""

    def __init__(self, file, length):
        self.file = file
        self.length = length
        self.tensors = file.tensors()
        self.params = hyperparameters(file, len(self.tensors["token_embd.weight"]))

    def build(self, dtype=torch.float64, angle_type=None, window=True):
        """The model in `dtype`, rotary angles in `angle_type`; without the sliding window if `window` is false."""
        params = self.params if window else replace(self.params, window=None)
        frequencies = None
        if params.rope_base is not None:
            frequencies = rotary_frequencies(self.tensors, params, self.length)
        return oracle.build(self.tensors, params, frequencies, dtype, angle_type)


def observe_into(model, tokens, sink, checkpoints="ops"):
    """One pass over `tokens`; calls sink(checkpoint, positions, rows [tokens, n]) as each is computed."""
    eager = oracle.eager_attention(model.config.model_type, oracle.attention)
    with torch.no_grad(), eager, attach(model, sink, checkpoints=checkpoints):
        model(input_ids=torch.tensor([tokens]), use_cache=False)


def observe(model, tokens, checkpoints="ops"):
    """Checkpoints of one pass by name, each [tokens, n], in the order in which the network computes them."""
    seen = {}
    observe_into(model, tokens, lambda name, _positions, rows: seen.update({name: rows.copy()}), checkpoints)
    return {name: seen[name] for name in sorted(seen, key=order)}


def greedy(model, tokens, count, never=()):
    """The next `count` tokens, none of `never`, and how far the logit of each is above its runner-up's."""
    chosen, gaps, fresh = [], [], tokens
    cache = DynamicCache(config=model.config)
    with torch.no_grad(), oracle.eager_attention(model.config.model_type, oracle.attention):
        for _ in range(count):
            answer = model(input_ids=torch.tensor([fresh]), past_key_values=cache, use_cache=True, logits_to_keep=1)
            logits = answer.logits[0, -1].double().numpy().copy()
            logits[list(never)] = -np.inf
            chosen.append(int(np.argmax(logits)))
            gaps.append(top_gap(logits))
            fresh = chosen[-1:]
    return chosen, gaps


def top_gap(logits):
    """How far the greatest value is above the next."""
    second, first = np.partition(logits, -2)[-2:]
    return float(first - second)


def main():
    parser = command_line.parser("hf", "Logs what transformers computes over a GGUF file's dequantised weights.")
    parser.add_argument("--dtype", choices=DTYPES, default="float64", help="of weights and arithmetic")
    options = parser.parse_args()
    logging.set_verbosity_error()

    def record(file, tokens, log, header):
        this = Oracle(file, len(tokens) + options.n)
        model = this.build(DTYPES[options.dtype])
        log.header(**header, engine="transformers", backend="cpu", math=options.dtype)
        chosen, _ = greedy(model, tokens, options.n, file.padding_ids)
        observe_into(model, tokens + chosen[:-1], command_line.writing(log), options.checkpoints)
        if options.n:
            print(",".join(map(str, chosen)))

    return command_line.run(options, record)


if __name__ == "__main__":
    sys.exit(main())
