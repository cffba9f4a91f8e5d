#!/usr/bin/env python3
"""Makes two logs of the layers of a large model, of random numbers: needs numpy.

usage: large.py FOLDER TOKENS [values]

82 checkpoints (80 layers, embedding, final norm) of 8192 values at each token, with summary and sketch and, if asked for,
all values: FOLDER/oracle.jsonl, and FOLDER/engine.jsonl, which is within 1e-6 but for layer 40 at token 3.
"""
import json
import os
import sys

import numpy as np

WIDTH, SKETCH = 8192, 64
NAMES = ["embedding", *(f"layer_{layer}_output" for layer in range(80)), "final_norm"]


def signs():
    """Of the sketch: [WIDTH, SKETCH], plus where bit k of the SplitMix64 of i + 1 is 1."""
    z = np.arange(1, WIDTH + 1, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.where(z[:, None] >> np.arange(SKETCH, dtype=np.uint64) & np.uint64(1), 1.0, -1.0)


def lines(name, values, projection, whole):
    """Those of all tokens of a checkpoint; values: float32 [tokens, WIDTH]."""
    exact = values.astype(np.float64)
    sketches = exact @ projection
    top = np.argsort(-exact, axis=1, kind="stable")[:, :5]
    for token, row in enumerate(exact):
        summary = {"min": row.min(), "max": row.max(), "mean": row.mean(), "l2": float(np.linalg.norm(row)),
                   "argmax": int(top[token, 0]), "top": [[int(i), row[i]] for i in top[token]], "nonfinite": 0}  # fmt: skip
        yield json.dumps({"checkpoint": name, "token_idx": token, "dtype": "f32", "shape": [1, WIDTH], "n": WIDTH,
                          "values": [float(str(x)) for x in values[token]] if whole else [], "summary": summary,
                          "sketch": sketches[token].tolist()}) + "\n"  # fmt: skip


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.split("\n\n")[1])
    folder, tokens, whole = sys.argv[1], int(sys.argv[2]), len(sys.argv) == 4
    os.makedirs(folder)
    chance, projection = np.random.default_rng(1), signs()
    with open(os.path.join(folder, "oracle.jsonl"), "w") as ref, open(os.path.join(folder, "engine.jsonl"), "w") as got:
        for log, engine, math in ((ref, "oracle", "float64"), (got, "engine", "fast")):
            header = {"assay": 1, "model": {"name": "70b", "type": "BF16"}, "tokens": list(range(tokens)), "engine": engine}
            log.write(json.dumps({**header, "math": math}) + "\n")
        for name in NAMES:
            values = chance.normal(size=(tokens, WIDTH)).astype(np.float32)
            ref.writelines(lines(name, values, projection, whole))
            values = values * np.float32(1 + 1e-6)
            if name == "layer_40_output":
                values[3] *= np.float32(1.2)
            got.writelines(lines(name, values, projection, whole))


main()
