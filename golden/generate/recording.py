"""Records one fixture: greedy tokens, checkpoint logs and floors of one model file for one prompt."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from . import checkpoint_log, observe, oracle
from .model_file import hyperparameters, rotary_frequencies, sha256


class Oracle:
    """A model file's weights and constants, and the float64 model over them, for sequences of up to `length` tokens."""

    def __init__(self, file, length):
        self.file = file
        self.length = length
        self.tensors = file.tensors()
        self.params = hyperparameters(file, len(self.tensors["token_embd.weight"]))
        self.model = self.build()

    def build(self, dtype=torch.float64, angle_type=None, window=True):
        """The model in `dtype`, rotary angles in `angle_type`; without the sliding window if `window` is false."""
        params = self.params if window else replace(self.params, window=None)
        frequencies = None
        if params.rope_base is not None:
            frequencies = rotary_frequencies(self.tensors, params, self.length)
        return oracle.build(self.tensors, params, frequencies, dtype, angle_type)

    def header(self, model_name, type_name, prompt, tokens):
        model = {"name": model_name, "sha256": self.file.sha256, "arch": self.file.arch, "type": type_name}
        return {
            "assay": 1,
            "model": model,
            "tokens": tokens,
            "prompt": prompt,
            "engine": "transformers",
            "backend": "cpu",
            "math": "float64",
        }


def top_gap(logits):
    """How far the greatest value is above the next."""
    second, first = np.partition(logits, -2)[-2:]
    return float(first - second)


def greedy(this, tokens, count):
    """The next `count` tokens, never padding, and how far the logit of each is above its runner-up's."""
    chosen, gaps = [], []
    for _ in range(count):
        last = observe.logits(this.model, this.params, tokens + chosen)[-1].copy()
        last[this.file.padding_ids] = -np.inf
        chosen.append(int(np.argmax(last)))
        gaps.append(top_gap(last))
        if chosen[-1] in this.file.control_ids:
            raise RuntimeError(f"{this.file.path.name}: greedy text meets a control token; choose another seed")
    return chosen, gaps


def kind(checkpoint):
    return "layer_output" if checkpoint.startswith("layer_") else checkpoint


def layers_only(checkpoints):
    """The set `layers`: embedding, every layer_N_output, logits."""
    wanted = ("embedding", "logits")
    return {name: rows for name, rows in checkpoints.items() if name in wanted or name.endswith("_output")}


def relative_l2(got, reference):
    """The greatest relative L2 distance over tokens."""
    return float(np.max(np.linalg.norm(got - reference, axis=-1) / np.linalg.norm(reference, axis=-1)))


FLOAT32_ORACLES = {"f32_vs_f64": torch.float32, "f32_with_f64_angles_vs_f64": torch.float64}


def float32_floors(this, tokens, reference):
    """For each checkpoint: how far transformers in float32 is from float64, at worst over tokens.

    Once with rotary angles in float32, as transformers has them, and once with float64 angles: the angle of a late
    position loses more to float32 than all else. Returns {checkpoint: {floor: value}}.
    """
    floors = {name: {} for name in reference}
    for floor, angle_type in FLOAT32_ORACLES.items():
        got = observe.observe(this.build(torch.float32, angle_type), this.params, tokens)
        for name, rows in reference.items():
            floors[name][floor] = relative_l2(got[name].astype(np.float64), rows)
    return floors


def worst_by(key, floors):
    """The greatest of each floor over the checkpoints that have the same key, or over all entries of a list."""
    merged = {}
    for name, values in floors:
        into = merged.setdefault(key(name), {})
        for floor, value in values.items():
            into[floor] = max(into.get(floor, 0.0), value)
    return merged


def write_log(path, header, checkpoints, token_indices):
    checkpoint_log.write(path, header, checkpoints, token_indices)
    return {"log": Path(path).name, "log_sha256": sha256(path)}
