"""Writes checkpoints as the log of CONTRACT.md: one JSON object a line, with head values, a summary and a sketch."""

import json
from functools import lru_cache

import numpy as np

HEAD = 10
TOP = 5
SKETCH = 64


def splitmix64(count):
    """h(i) = the SplitMix64 output for the state i + 1, for i below count; all arithmetic is modulo 2^64."""
    z = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@lru_cache(maxsize=8)
def sketch_signs(count):
    """+1 where bit k of h(i) is set and -1 elsewhere, [count, 64]."""
    bits = splitmix64(count)[:, None] >> np.arange(SKETCH, dtype=np.uint64) & np.uint64(1)
    return bits.astype(np.float64) * 2.0 - 1.0


def as_float32(value):
    """The shortest decimal that reads back to the float32 next to `value`, which is finite."""
    return str(np.float32(value))


def summary(row):
    order = np.lexsort((np.arange(len(row)), -row))[:TOP]
    top = ",".join(f"[{index},{as_float32(row[index])}]" for index in order)
    return (
        f'{{"min":{as_float32(row.min())},"max":{as_float32(row.max())},"mean":{float(row.mean())!r},'
        f'"l2":{float(np.linalg.norm(row))!r},"argmax":{int(np.argmax(row))},"top":[{top}],'
        f'"nonfinite":{int((~np.isfinite(row)).sum())}}}'
    )


def record(checkpoint, token_idx, row):
    """One line for one checkpoint at one token; row is float64 [n], finite. A sketch has nine digits."""
    if not np.isfinite(row).all():
        raise ValueError(f"{checkpoint} at token {token_idx} is not finite")
    values = ",".join(as_float32(value) for value in row[:HEAD])
    sketch = ",".join(f"{value:.9g}" for value in row @ sketch_signs(len(row)))
    return (
        f'{{"checkpoint":"{checkpoint}","token_idx":{token_idx},"dtype":"f32","shape":[{len(row)}],"n":{len(row)},'
        f'"values":[{values}],"summary":{summary(row)},"sketch":[{sketch}]}}'
    )


def write(path, header, checkpoints, token_indices):
    """Writes the header line, then for each token its checkpoints in the order in which the network computes them."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(json.dumps(header, ensure_ascii=False, separators=(",", ":")) + "\n")
        for token_idx in token_indices:
            for name, values in checkpoints.items():
                file.write(record(name, token_idx, values[token_idx]) + "\n")
