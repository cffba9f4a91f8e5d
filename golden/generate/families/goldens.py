"""golden/<family>/: the model file, its fixtures and the manifest, by the family's own oracle."""

import tempfile
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from assay_tap import attach
from assay_tap.networks import MODELS
from assay_tap.order import order
from torch.utils._pytree import tree_map

from .. import fixtures, prompts, quantise, small_goldens
from ..hf import top_gap
from ..llamacpp_engine import LlamaCpp
from ..measure import distances
from ..model_file import ModelFile
from . import llamacpp_logits, oracle, stored
from .convert import convert
from .doubles import doubles
from .expert_tap import experts_into, without_experts
from .features import LLAMA_CPP_NOTES, NOT_BY_LLAMA_CPP
from .stream_tap import streams_into

POSITIONS = {("haiku", "layers"): 4, ("haiku", "ops"): 1, ("long", "layers"): 3}  # windows end within `haiku`
NARROWER = {torch.float64: torch.float32, torch.complex128: torch.complex64}


class Oracle:
    """One family in float64, and what else its floors are measured with."""

    floors = ("f32_vs_f64", "f32_with_f64_angles_vs_f64", "llamacpp_vs_f64")

    def __init__(self, family, file, _length):
        self.file = file
        self.narrow = stored.model_of(family, file) if len(family.types) > 1 else oracle.made(family)
        self.wide = oracle.in_float64(family, self.narrow.state_dict())
        if family.name in NOT_BY_LLAMA_CPP:
            self.floors = self.floors[:2]

    def observe_into(self, model, tokens, sink):
        with torch.no_grad(), attach(model, without_experts(model, sink)), experts_into(model, sink), streams_into(model, sink):
            return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].numpy()

    def observe(self, tokens):
        seen = {}
        with doubles():
            self.observe_into(self.wide, tokens, lambda name, _, rows: seen.update({name: rows.copy()}))
        return {name: seen[name] for name in sorted(seen, key=order)}

    def greedy(self, tokens, count, never=()):
        """The next `count` tokens, none of `never`, and how far the logit of each is above its runner-up's."""
        chosen, gaps = [], []
        for _ in range(count):
            logits = oracle.run(self.wide, tokens + chosen)["logits"][-1]
            logits[list(never)] = -np.inf
            chosen.append(int(np.argmax(logits)))
            gaps.append(top_gap(logits))
        return chosen, gaps

    def measure(self, floor, tokens, reference):
        found = {}
        sink = distances(reference, found)
        if floor == "llamacpp_vs_f64":
            with tempfile.TemporaryDirectory() as scratch:
                widened = Path(scratch) / "f32.gguf"
                quantise.quantise(self.file.path, widened, "F32")
                sink("logits", None, llamacpp_logits.logits(widened, tokens))
        else:
            model = self.narrow if floor == "f32_vs_f64" else self.with_wide_angles
            self.observe_into(model, tokens, sink)
        return found

    @cached_property
    def with_wide_angles(self):
        """The model in float32, but for cosines and sines, which are rounded from float64."""
        model = oracle.model_of(self.narrow.config)
        model.load_state_dict(self.narrow.state_dict())
        for name, module in list(self.wide.named_modules()):
            if type(module).__name__.endswith("RotaryEmbedding"):
                model.get_submodule(name).forward = partial(rounded, module)
        return model


def rounded(wide, *args, **kwargs):
    """What `wide` computes in float64, in float32."""
    with doubles():
        made = wide(*tree_map(widened, args), **tree_map(widened, kwargs))
    return tree_map(lambda part: part.to(NARROWER[part.dtype]), made)


def widened(value):
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def router_gap(checkpoints, used):
    """By how much the least of the chosen experts is ahead of the best of the others, over all tokens."""
    gaps = [np.inf]
    for name, rows in checkpoints.items():
        if name.endswith("_router"):
            ranked = -np.sort(-rows, axis=1)
            gaps.append(float((ranked[:, used - 1] - ranked[:, used]).min()))
    return min(gaps)


def make(family):
    kind = oracle.config_of(family).model_type
    if kind not in MODELS:  # the tap would log layers alone
        raise SystemExit(f"python/assay_tap/networks.py has no {kind}: declare its layer and its row, and write it anew")
    folder = fixtures.OUT / family.name
    folder.mkdir(parents=True, exist_ok=True)
    paths = {type_name: folder / f"{family.name}-{type_name.lower()}.gguf" for type_name in family.types}
    path = paths["F32"]
    with tempfile.TemporaryDirectory() as scratch:
        saved = Path(scratch) / "hf"
        oracle.made(family).save_pretrained(saved)
        convert(saved, path, "own", published=family.published)
        if family.proof:  # llama.cpp reads the vocabulary of a file whose network it cannot run
            saved, path_of_vocabulary = saved.with_name("proof"), Path(scratch) / "proof.gguf"
            oracle.made(replace(family, values=family.values | family.proof)).save_pretrained(saved)
            convert(saved, path_of_vocabulary, "own", published=family.published)
        with LlamaCpp(path_of_vocabulary if family.proof else path, llamacpp_logits.CONTEXT) as engine:
            texts = prompts.texts(engine.tokenize)
            given = fixtures.prompts_of(engine, {name: texts[name] for name in ("haiku", "long")})
    # Floors of `fast` are by prompt, of all checkpoints.
    positions, cases = POSITIONS | ({("long", "ops"): 1} if len(paths) > 1 else {}), []
    for type_name, made in paths.items():
        if type_name != "F32":
            quantise.quantise(path, made, type_name)
        oracle_of = partial(Oracle, family)
        cases.append(
            fixtures.Case(family.name, type_name, made, given, small_goldens.GENERATED, positions, oracle=oracle_of)
        )
    file, note = ModelFile(path), LLAMA_CPP_NOTES.get(family.name)
    fixtures.record(family.name, file.arch, cases, file.padding_ids, small_goldens.check, note=note)
