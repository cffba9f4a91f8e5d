"""golden/<model>/ of the small models: their files, their fixtures and the manifest."""

import math

from . import fixtures, manifest, prompts, small_models
from .llamacpp_engine import LlamaCpp
from .model_file import ModelFile

GENERATED = 8
# How many positions: the whole of golden/ must stay under 80 MB.
LAYERS = {("haiku", "layers"): None, ("unicode", "layers"): 12, ("long", "layers"): 10}
OPS = {("haiku", "ops"): 2, ("unicode", "ops"): 2, ("long", "ops"): 2}
OPS_OF_F32 = {("haiku", "ops"): 8, ("unicode", "ops"): 3, ("long", "ops"): 3}


def check(case, entry):
    """Random weights are free to choose: within the tolerance no argmax may flip.

    An error of relative L2 e moves the difference of two logits by at most sqrt(2) e times their norm.
    """
    allowed = math.sqrt(2) * manifest.K * entry["floors"]["logits"][manifest.TOLERANCE["floor"]]["max"]
    for log in entry["logs"]:
        if not log["argmax_margin"] > allowed:
            raise RuntimeError(
                f"{case.path.name}, {log['prompt']} {log['set']}: a choice by {log['argmax_margin']:.2g} of the "
                f"logits' norm is too close to call where {allowed:.2g} is allowed; choose another seed"
            )


def make(spec):
    folder = fixtures.OUT / spec.name
    folder.mkdir(parents=True, exist_ok=True)
    paths = small_models.make(spec, folder)
    with LlamaCpp(paths["F32"], spec.context) as engine:
        texts = prompts.texts(engine.tokenize)
        given = fixtures.prompts_of(engine, {name: texts[name] for name in spec.prompts})
    cases = [
        fixtures.Case(
            spec.name, type_name, path, given, GENERATED, LAYERS | (OPS_OF_F32 if type_name == "F32" else OPS)
        )
        for type_name, path in paths.items()
    ]
    fixtures.record(spec.name, spec.arch, cases, ModelFile(paths["F32"]).padding_ids, check)
