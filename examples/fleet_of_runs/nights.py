#!/usr/bin/env python3
"""Makes nights of synthetic runs for assay fleet: needs numpy.

usage: nights.py FOLDER [CASES [NIGHTS]]    2500 cases and 1 night by default

Writes FOLDER/NIGHT/*.jsonl and FOLDER/add.sh, which adds them to a dataset: add.sh ASSAY DATASET. A case is a model, a
type and a prompt; each is run by the reference, in float64, once, and by four engines in every night. A log has 40
records of 64 values, each with its first four values, summary and sketch. Of the last night's runs of engine `c`, those
of one model scale the output of layer 3 by 1.2; one run in 500 of all engines and nights holds NaN in layer 5.
"""
import json
import os
import random
import shlex
import sys

import numpy as np

LAYERS, TOKENS, WIDTH, HEAD, SKETCH = 8, 4, 64, 4, 64
PRECISION = {"a": 1e-7, "b": 1e-6, "c": 1e-5, "d": 1e-4}
MODELS, TYPES = 5, ("F32", "F16", "Q8_0", "Q4_K", "Q4_1")
NAMES = ["embedding", *(f"layer_{layer}_output" for layer in range(LAYERS)), "logits"]


def signs():
    """Of the sketch: [WIDTH, SKETCH], plus where bit k of the SplitMix64 of i + 1 is 1."""
    z = np.arange(1, WIDTH + 1, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.where(z[:, None] >> np.arange(SKETCH, dtype=np.uint64) & np.uint64(1), 1.0, -1.0)


def number(x):
    return float(x) if np.isfinite(x) else "NaN"


def write_log(path, header, values, projection):
    """values: float32 [records, WIDTH], by checkpoint, then token."""
    exact = values.astype(np.float64)
    finite = np.isfinite(exact)
    kept = np.where(finite, exact, 0.0)
    sketches = (kept @ projection).tolist()
    order = np.argsort(np.where(finite, -exact, np.inf), axis=1, kind="stable")[:, :5]
    with open(path, "w") as log:
        print(json.dumps(header), file=log)
        for i, row in enumerate(exact):
            top = [[int(j), float(row[j])] for j in order[i]]
            summary = {"min": float(row[finite[i]].min()), "max": top[0][1], "mean": float(kept[i].sum() / finite[i].sum()),
                       "l2": float(np.sqrt((kept[i] ** 2).sum())), "argmax": top[0][0], "top": top,
                       "nonfinite": int(WIDTH - finite[i].sum())}  # fmt: skip
            print(json.dumps({"checkpoint": NAMES[i // TOKENS], "token_idx": i % TOKENS, "dtype": "f32", "shape": [1, WIDTH],
                              "n": WIDTH, "values": [number(x) for x in row[:HEAD]], "summary": summary,
                              "sketch": sketches[i]}), file=log)  # fmt: skip


def run_of(truth, engine, chance, noise, is_faulty):
    values = truth * (1 + PRECISION[engine] * chance.random() * noise)
    if is_faulty:
        values[4 * TOKENS :] *= 1.2  # layer 3 is the fifth checkpoint
    values = values.astype(np.float32)
    if chance.random() < 0.002:
        values[6 * TOKENS + 1, 7] = np.nan
    return values


def make(folder, cases, nights):
    chance, projection = random.Random(1), signs()
    random_values = np.random.default_rng(1)
    noise = random_values.choice([-1.0, 1.0], (len(NAMES) * TOKENS, WIDTH))
    lines = ["#!/bin/sh", "# usage: add.sh ASSAY DATASET", 'logs=$(dirname "$0")']
    truths = [random_values.normal(size=(len(NAMES) * TOKENS, WIDTH)) for _ in range(cases)]
    for night in range(nights):
        date, commit = f"2026-11-{1 + night:02}", f"{0xc0ffee + 7919 * night:x}"
        os.makedirs(os.path.join(folder, date))
        for case, truth in enumerate(truths):
            model, kind = case % MODELS, case // MODELS % len(TYPES)
            header = {"assay": 1, "model": {"name": f"model-{model}", "type": TYPES[kind]}, "tokens": [1, 2, 3, 4 + case],
                      "prompt": f"Prompt {case // MODELS // len(TYPES)}", "backend": "cpu"}  # fmt: skip
            if night == 0:
                write_log(os.path.join(folder, date, f"{case}-oracle.jsonl"),
                          {**header, "engine": "oracle", "math": "float64"}, truth.astype(np.float32), projection)  # fmt: skip
            for engine in PRECISION:
                is_faulty = engine == "c" and model == 2 and night == nights - 1
                write_log(os.path.join(folder, date, f"{case}-{engine}.jsonl"), {**header, "engine": engine, "math": "fast"},
                          run_of(truth, engine, chance, noise, is_faulty), projection)  # fmt: skip
        lines.append(f'find "$logs/{date}" -name "*.jsonl" -print0 | sort -z | xargs -0 -n 1000 "$1" fleet add "$2" '
                     f"--commit {shlex.quote(commit)} --night {date} >/dev/null")  # fmt: skip
    with open(os.path.join(folder, "add.sh"), "w") as script:
        script.write("\n".join(lines) + "\n")
    os.chmod(os.path.join(folder, "add.sh"), 0o755)


def main():
    if not 2 <= len(sys.argv) <= 4 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.split("\n\n")[1])
    make(sys.argv[1], *(int(x) for x in (sys.argv[2:] + ["2500", "1"][len(sys.argv) - 2 :])))


main()
