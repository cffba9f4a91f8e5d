"""Floors: how far computations that are as right as their number format allows are from float64.

Each is measured token by token at every checkpoint; a manifest holds the greatest and the 99th percentile.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from assay_tap.checkpoints import kind
from assay_tap.order import order

from . import hf, quantise
from .llamacpp_engine import LlamaCpp

TRANSFORMERS = {
    "f32_vs_f64": dict(dtype=torch.float32),
    "f32_with_f64_angles_vs_f64": dict(dtype=torch.float32, angle_type=torch.float64),
    "bf16_vs_f64": dict(dtype=torch.bfloat16),
}
LLAMA_CPP = ("llamacpp_vs_f64", "llamacpp_as_stored_vs_f64")
FLOORS = (*TRANSFORMERS, *LLAMA_CPP)


def distances(reference, into):
    """A sink that keeps the relative L2 distance of each row from the reference's; for logits, the regret too.

    The regret of a token: by how much the reference prefers its own first choice to that of the other computation.
    """

    def sink(checkpoint, _positions, rows):
        expected = reference[checkpoint]
        length = np.linalg.norm(expected, axis=1)
        into[checkpoint] = np.linalg.norm(rows.astype(np.float64) - expected, axis=1) / length
        if checkpoint == "logits":
            into["regret"] = expected.max(axis=1) - expected[np.arange(len(rows)), rows.argmax(axis=1)]

    return sink


def transformers_floor(this, floor, tokens, reference):
    """{checkpoint: relative L2 [tokens]}, and `regret`."""
    found = {}
    hf.observe_into(this.build(**TRANSFORMERS[floor]), tokens, distances(reference, found))
    return found


def llama_cpp_floor(this, floor, tokens, reference, context, only=None):
    """The same for llama.cpp, over the file as it is or over the same weights stored as F32; `only` these checkpoints.

    llama.cpp switches phi3's sliding window off, so there the reference is float64 without the window.
    """
    if this.params.window is not None:
        reference = hf.observe(this.build(window=False), tokens)
    found = {}
    keep = distances(reference, found)

    def sink(checkpoint, positions, rows):
        if only is None or checkpoint in only:
            keep(checkpoint, positions, rows)

    if floor == "llamacpp_as_stored_vs_f64":
        with LlamaCpp(this.file.path, context) as engine:
            engine.observe_into(tokens, sink)
        return found
    with tempfile.TemporaryDirectory() as folder:
        widened = Path(folder) / "f32.gguf"
        quantise.quantise(this.file.path, widened, "F32")
        with LlamaCpp(widened, context) as engine:
            engine.observe_into(tokens, sink)
    return found


def measure(this, floor, tokens, reference, context):
    if floor in TRANSFORMERS:
        return transformers_floor(this, floor, tokens, reference)
    return llama_cpp_floor(this, floor, tokens, reference, context)


def rounded_up(value):
    """To three digits, never below the value: a floor that lost its last digits would be too low."""
    nearest = float(f"{value:.3g}")
    if nearest >= value:
        return nearest
    step = 10.0 ** (int(f"{value:.2e}".split("e")[1]) - 2)
    return float(f"{nearest + step:.3g}")


def summed_up(samples):
    """The entry of a manifest from the samples of all tokens: {max, p99}."""
    if not np.isfinite(samples).all():
        raise RuntimeError("a floor is not finite")
    p99 = np.quantile(samples, 0.99, method="higher")
    return {"max": rounded_up(samples.max()), "p99": rounded_up(p99)}


def tables(found):
    """`floors` by kind and `floors_by_checkpoint` of a manifest, from [{floor: {checkpoint: samples}}] by prompt."""
    by_checkpoint, by_kind = {}, {}
    for prompt in found:
        for floor, checkpoints in prompt.items():
            for name, samples in checkpoints.items():
                if name == "regret":
                    continue
                by_checkpoint.setdefault(name, {}).setdefault(floor, []).append(samples)
                by_kind.setdefault(kind(name), {}).setdefault(floor, []).append(samples)
    regret = {floor: rounded_up(max(prompt[floor]["regret"].max() for prompt in found)) for floor in found[0]}

    def entries(table):
        made = {
            name: {floor: summed_up(np.concatenate(floors[floor])) for floor in FLOORS if floor in floors}
            for name, floors in table.items()
        }
        for floor, entry in made["logits"].items():
            entry["regret"] = regret[floor]
        return made

    ordered = {name: by_checkpoint[name] for name in sorted(by_checkpoint, key=order)}
    return entries(by_kind), entries(ordered)
