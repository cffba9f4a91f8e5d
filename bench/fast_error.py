#!/usr/bin/env python3
"""The error of fast math beside llama.cpp's, on the same files and tokens.

fast_error.py [--assay build/release/bin/assay] [--golden golden] [--threads 2]

For each model of golden/ whose file is here, all logits of its longest prompt by `exact`, by `fast` and by llama.cpp.
`exact` replaces float64: it is within 1e-5 of it, a thousandth of the measured error. `fast` keeps keys and values as
f16 here, as llama.cpp does. The error of a position is the
relative L2 of its logits; given are the root mean square over positions, the greatest, and how many positions choose
another token. Prints Markdown. Needs llama-cpp-python 0.3.36 and numpy.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np


def ours(path, tokens, math, flags):
    """float32 [tokens, vocabulary]"""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        command = [flags.assay, "run", path, "--tokens", ",".join(map(str, tokens)), "-n", "1"]
        command += ["--math", math, "--kv", "f16" if math == "fast" else "f32"]
        logged = ["--log", log, "--checkpoints", "logits", "--values", "all", "--threads", str(flags.threads)]
        answer = subprocess.run([*command, *logged], capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            sys.exit(answer.stderr.strip())
        records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return np.array([record["values"] for record in records if "checkpoint" in record], dtype=np.float32)


def theirs(path, tokens, flags):
    import llama_cpp

    engine = llama_cpp.Llama(
        str(path),
        n_ctx=context_of(tokens),
        n_batch=512,
        n_threads=flags.threads,
        n_threads_batch=flags.threads,
        logits_all=True,
        verbose=False,
    )
    engine.eval(tokens)
    return np.array(engine.scores[: len(tokens)], dtype=np.float32)


def errors(got, reference):
    wide = reference.astype(np.float64)
    return np.linalg.norm(got - wide, axis=1) / np.linalg.norm(wide, axis=1)


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def cells(each, got, reference):
    other = int((got.argmax(axis=1) != reference.argmax(axis=1)).sum())
    return f"{rms(each):.3g} | {each.max():.3g} | {other}"


def context_of(tokens):
    return -(-(len(tokens) + 8) // 256) * 256


def model_path(manifest, file):
    beside = manifest.parent / file["gguf"]
    cache = os.environ.get("ASSAY_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay"
    return next((path for path in (beside, Path(cache) / manifest.parent.name / file["gguf"]) if path.exists()), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--assay", default="build/release/bin/assay")
    parser.add_argument("--golden", type=Path, default=Path("golden"))
    parser.add_argument("--threads", type=int, default=2)
    flags = parser.parse_args()
    heads = "rms | greatest | other tokens"
    print(f"| model | positions | fast: {heads} | llama.cpp: {heads} | fast / llama.cpp |")
    print("|" + "---|" * 9)
    for manifest in sorted(flags.golden.glob("*/manifest.json")):
        known = json.loads(manifest.read_text(encoding="utf-8"))
        for file in known["files"]:
            path = model_path(manifest, file)
            if path is None or file["type"] == "F32":  # which fast does not round
                continue
            tokens = max((prompt["tokens"] for prompt in known["prompts"].values()), key=len)
            exact = ours(path, tokens, "exact", flags)
            fast, llama = ours(path, tokens, "fast", flags), theirs(path, tokens, flags)
            fast_errors, llama_errors = errors(fast, exact), errors(llama, exact)
            print(
                f"| {known['model']} {file['type']} | {len(tokens)} | {cells(fast_errors, fast, exact)} | "
                f"{cells(llama_errors, llama, exact)} | {rms(fast_errors) / rms(llama_errors):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
