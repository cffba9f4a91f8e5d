"""`python -m generate.selfcheck`: what must hold for the goldens to be worth anything. Run from golden/.

Each check prints a line with its figure and its limit; any that fails makes the exit status 1.
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from transformers.utils import logging

from . import checkpoint_log, fixtures, llama_cpp_engine, naive, observe, oracle, quantise, recording, small_models
from .model_file import ModelFile, rotary_frequencies, sha256

failures = []


def check(what, figure, limit):
    passed = figure <= limit  # NaN fails
    print(f"{'ok  ' if passed else 'FAIL'} {what}: {figure:.2g} (limit {limit:.2g})", flush=True)
    if not passed:
        failures.append(what)


def check_sketch():
    known = [0x910A2DEC89025CC1, 0x975835DE1C9756CE]
    wrong = sum(int(h) != expected for h, expected in zip(checkpoint_log.splitmix64(2), known))
    check("SplitMix64 of 1 and 2 differ from the published generator", wrong, 0)
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 5000))
    estimate = np.mean((a @ checkpoint_log.sketch_signs(5000) - b @ checkpoint_log.sketch_signs(5000)) ** 2)
    check("a sketch misjudges a squared distance by", abs(estimate / np.sum((a - b) ** 2) - 1.0), 0.6)


def check_manifest(path):
    """Every file that a manifest names is there and has the sha256 that it gives."""
    manifest = json.loads(path.read_text(encoding="utf-8"))
    entries = [*manifest["files"], manifest.get("long", {})]
    logs = [(entry, name) for entry in entries for name in ("log", "ops_log") if name in entry]
    named = [(entry[name], entry[f"{name}_sha256"]) for entry, name in logs]
    named += [(entry["gguf"], entry["sha256"]) for entry in manifest["files"] if "wheel" not in entry]
    wrong = sum(sha256(path.parent / name) != digest for name, digest in named)
    check(f"{manifest['model']}: files that differ from the manifest", wrong, 0)


def naive_checkpoints(this, tokens, window=True):
    params = this.params if window else replace(this.params, window=None)
    return naive.Naive(this.tensors, params, frequencies(this)).run(tokens)


def frequencies(this):
    return None if this.params.rope_base is None else rotary_frequencies(this.tensors, this.params, this.length)


def check_against_naive(name, this, tokens):
    """The oracle and a plain numpy pass agree at every checkpoint that both have, rotated heads in file order too."""
    seen = observe.observe(this.model, this.params, tokens)
    expected = naive_checkpoints(this, tokens)
    both = [checkpoint for checkpoint in expected if checkpoint in seen]
    worst = max(recording.relative_l2(seen[checkpoint], expected[checkpoint]) for checkpoint in both)
    check(f"{name}: oracle against numpy, {len(both)} checkpoints", worst, 1e-12)
    return seen["logits"]


def check_stock_transformers(name, this, tokens, logits):
    """Shows that the replacements are needed: stock float64 transformers is much further off than 1e-12."""
    model = oracle.CLASSES[this.params.arch](oracle.config(this.params, "output.weight" not in this.tensors))
    model = model.double().eval()
    model.load_state_dict(oracle.state(this.tensors, this.params))
    with torch.no_grad():
        stock = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].numpy()
    print(f"     {name}: stock float64 transformers is off by {recording.relative_l2(stock, logits):.2g}")


def float16_table_gelu(x):
    """GELU as llama.cpp's CPU looks it up: float16 in, float16 out, exact outside of -10 to 10."""
    looked_up = GELU(x.astype(np.float16).astype(np.float64)).astype(np.float16).astype(np.float64)
    return np.where(x <= -10.0, 0.0, np.where(x >= 10.0, x, looked_up))


GELU = naive.gelu_tanh


def bits(values):
    """float64 values that came from float32, as the bits of those."""
    return values.astype(np.float32).view(np.uint32)


def check_against_llama_cpp(name, this, tokens):
    """llama.cpp over the same weights stored as F32, an engine that shares no code with the oracle."""
    with tempfile.TemporaryDirectory() as folder:
        widened = Path(folder) / "f32.gguf"
        quantise.quantise(this.file.path, widened, "F32")
        same = ModelFile(widened).tensors()
        different = sum(int((bits(same[tensor]) != bits(values)).sum()) for tensor, values in this.tensors.items())
        check(f"{name}: weights that llama.cpp dequantises to other bits", different, 0)
        with llama_cpp_engine.LlamaCpp(widened, 256) as engine:
            got = engine.logits(tokens)
    if this.params.arch != "gpt2":
        reference = naive_checkpoints(this, tokens, window=False)["logits"]
        check(f"{name}: llama.cpp in F32 against float64", recording.relative_l2(got, reference), 1e-6)
        return
    exact = best_token(got, naive_checkpoints(this, tokens)["logits"])
    naive.gelu_tanh = float16_table_gelu
    try:
        looked_up = best_token(got, naive_checkpoints(this, tokens)["logits"])
    finally:
        naive.gelu_tanh = GELU
    # Only the best token: at the others some input has fallen on the other side of a float16 rounding boundary.
    check(f"{name}: llama.cpp in F32 against float64 with its GELU table, at the best token", looked_up, 1e-6)
    check(f"{name}: the same as a share of the distance with exact GELU", looked_up / exact, 0.1)


def best_token(got, reference):
    return min(recording.relative_l2(row[None], expected[None]) for row, expected in zip(got, reference))


def main():
    logging.set_verbosity_error()
    llama_cpp_engine.quiet()
    check_sketch()
    for path in sorted(fixtures.GOLDEN.glob("*/manifest.json")):
        check_manifest(path)
    for spec in small_models.specs().values():
        for type_name in fixtures.TYPES:
            path = fixtures.GOLDEN / spec.name / f"{spec.name}-{type_name.lower()}.gguf"
            with llama_cpp_engine.LlamaCpp(path, 256) as engine:
                tokens = engine.tokenize(fixtures.PROMPT)
            this = recording.Oracle(ModelFile(path), len(tokens))
            name = f"{spec.name} {type_name}"
            logits = check_against_naive(name, this, tokens)
            check_against_llama_cpp(name, this, tokens)
            if name == "tinyllama F32":  # the one whose rotary constants are transformers' defaults
                check_stock_transformers(name, this, tokens, logits)
    print(f"{len(failures)} checks failed" if failures else "all checks passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
