"""`python -m generate.selfcheck [MODEL…]`: checks without which the goldens would be worthless. Run from golden/.

Each check prints a line with its figure and its limit; any that fails makes the exit status 1.
"""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from assay_tap.order import order
from assay_tap.sketch import sketch, splitmix64
from transformers.utils import logging

from . import fixtures, hf, llamacpp_engine, naive, oracle, prompts, quantise, small_models
from .families import DENSE, goldens
from .families.features import GELU, NOT_BY_LLAMA_CPP
from .model_file import ModelFile, rotary_frequencies

failures = []


def check(what, figure, limit):
    passed = figure <= limit  # NaN fails
    print(f"{'ok  ' if passed else 'FAIL'} {what}: {figure:.2g} (limit {limit:.2g})", flush=True)
    if not passed:
        failures.append(what)


def check_sketch():
    known = [0x910A2DEC89025CC1, 0x975835DE1C9756CE]
    wrong = sum(int(h) != expected for h, expected in zip(splitmix64(2), known))
    check("SplitMix64 of 1 and 2 differ from the published generator", wrong, 0)
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 5000))
    estimate = np.mean((sketch(a) - sketch(b)) ** 2)
    check("a sketch misjudges a squared distance by", abs(estimate / np.sum((a - b) ** 2) - 1.0), 0.6)


def relative_l2(got, reference):
    """The greatest over tokens."""
    return float(np.max(np.linalg.norm(got - reference, axis=-1) / np.linalg.norm(reference, axis=-1)))


def worst_of(got, expected, checkpoints):
    """The greatest over checkpoints; NaN if any is, which max() of Python's loses."""
    return float(np.max([relative_l2(got[checkpoint], expected[checkpoint]) for checkpoint in checkpoints]))


def naive_checkpoints(this, tokens, window=True):
    params = this.params if window else replace(this.params, window=None)
    return naive.Naive(this.tensors, params, frequencies(this)).run(tokens)


def frequencies(this):
    return None if this.params.rope_base is None else rotary_frequencies(this.tensors, this.params, this.length)


def check_against_naive(name, this, tokens):
    """The oracle and a plain numpy pass agree at every checkpoint that both have, rotated heads in file order too."""
    seen = hf.observe(this.build(), tokens)
    expected = naive_checkpoints(this, tokens)
    both = [checkpoint for checkpoint in expected if checkpoint in seen]
    check(f"{name}: oracle against numpy, {len(both)} checkpoints", worst_of(seen, expected, both), 1e-12)
    return seen["logits"]


def check_stock_transformers(name, this, tokens, logits):
    """Shows that the replacements are needed: stock float64 transformers is much further off than 1e-12."""
    model = oracle.CLASSES[this.params.arch](oracle.config(this.params, "output.weight" not in this.tensors))
    model = model.double().eval()
    model.load_state_dict(oracle.state(this.tensors, this.params))
    with torch.no_grad():
        stock = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].numpy()
    print(f"     {name}: stock float64 transformers is off by {relative_l2(stock, logits):.2g}")


def float16_table_gelu(x):
    """GELU as llama.cpp's CPU looks it up: float16 in, float16 out, exact outside of -10 to 10."""
    looked_up = naive.gelu_tanh(x.astype(np.float16).astype(np.float64)).astype(np.float16).astype(np.float64)
    return np.where(x <= -10.0, 0.0, np.where(x >= 10.0, x, looked_up))


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
        with llamacpp_engine.LlamaCpp(widened, 256) as engine:
            seen = engine.observe(tokens)
            got = engine.logits(tokens)
    check(f"{name}: logits that the tap on llama.cpp changes", int((bits(got) != bits(seen["logits"])).sum()), 0)
    reference = hf.observe(this.build(window=False), tokens)
    if this.params.arch == "gpt2":
        check_gelu_table(name, seen, this.params.layers)
        reference = {checkpoint: rows for checkpoint, rows in reference.items() if order(checkpoint) <= BEFORE_GELU}
    worst = worst_of(seen, reference, reference)
    check(f"{name}: llama.cpp in F32 against float64, {len(reference)} checkpoints", worst, 1e-6)


BEFORE_GELU = order("layer_0_ffn_up")  # the last checkpoint of gpt2 that the table has not touched


def check_gelu_table(name, seen, layers):
    """llama.cpp's GELU of its own inputs is float64's GELU in a table of float16.

    It fills the table in float32, whose error of about 2^-22 crosses a rounding boundary of float16 once in 2^10 times.
    """
    steps = []
    for layer in range(layers):
        expected = float16_table_gelu(seen[f"layer_{layer}_ffn_up"].astype(np.float64))
        got = seen[f"layer_{layer}_ffn_act"]
        steps.append(np.abs(expected - got) / np.spacing(np.abs(expected).astype(np.float16)).astype(np.float64))
    steps = np.concatenate(steps)
    check(f"{name}: steps of float16 between llama.cpp's GELU and a table's, at most", float(steps.max()), 1)
    check(f"{name}: share of activations that are not the table's", float((steps > 0).mean()), 2**-9)


def check_family(family):
    """Every checkpoint that llama.cpp has is the oracle's: rows of q and k in file order, what is added to what."""
    path = fixtures.GOLDEN / family.name / f"{family.name}-f32.gguf"
    this = goldens.Oracle(family, ModelFile(path), 0)
    with llamacpp_engine.LlamaCpp(path, 256) as engine:
        tokens = engine.tokenize(prompts.HAIKU)
        seen = engine.observe(tokens)
    reference = this.observe(tokens)
    both = [checkpoint for checkpoint in seen if checkpoint in reference]
    if family.name in GELU:
        both = [checkpoint for checkpoint in both if order(checkpoint) <= BEFORE_GELU]
    worst = worst_of(seen, reference, both)
    check(f"{family.name}: llama.cpp in F32 against float64, {len(both)} checkpoints", worst, 2e-6)


def main():
    logging.set_verbosity_error()
    llamacpp_engine.quiet()
    check_sketch()
    specs = small_models.specs()
    families = {family.name: family for family in DENSE if family.golden and family.name not in NOT_BY_LLAMA_CPP}
    chosen = sys.argv[1:] or [*specs, *families]
    for family in [families[name] for name in chosen if name in families]:
        check_family(family)
    for spec in [specs[name] for name in chosen if name not in families]:
        for type_name in spec.types:
            path = fixtures.GOLDEN / spec.name / f"{spec.name}-{type_name.lower()}.gguf"
            with llamacpp_engine.LlamaCpp(path, 256) as engine:
                tokens = engine.tokenize(prompts.HAIKU)
            this = hf.Oracle(ModelFile(path), len(tokens))
            name = f"{spec.name} {type_name}"
            logits = check_against_naive(name, this, tokens)
            check_against_llama_cpp(name, this, tokens)
            if name == "tinyllama F32":  # the one whose rotary constants are transformers' defaults
                check_stock_transformers(name, this, tokens, logits)
    print(f"{len(failures)} checks failed" if failures else "all checks passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
