"""golden/<model>/ of a trained model, from its F16 file, which train.py made."""

import shutil

from .. import fixtures, prompts, quantise, smollm2
from ..llamacpp_engine import LlamaCpp
from ..model_file import ModelFile
from .shapes import CONTEXT

TYPES = ("F16", "Q8_0", "Q4_K_M")
GENERATED = 16
POSITIONS = {("haiku", "layers"): 6, ("unicode", "layers"): 3, ("long", "layers"): 6}
POSITIONS |= {(prompt, "ops"): 1 for prompt in ("haiku", "unicode", "long")}


def make(shape):
    folder = fixtures.OUT / shape.name
    folder.mkdir(parents=True, exist_ok=True)
    paths = {type_name: folder / f"{shape.name}-{type_name.lower()}.gguf" for type_name in TYPES}
    if fixtures.OUT != fixtures.GOLDEN:
        shutil.copy(fixtures.GOLDEN / shape.name / paths["F16"].name, folder)
    for type_name in TYPES[1:]:
        quantise.quantise(paths["F16"], paths[type_name], type_name)
    file = ModelFile(paths["F16"])
    with LlamaCpp(paths["F16"], CONTEXT) as engine:
        given = fixtures.prompts_of(engine, prompts.texts(engine.tokenize))

        def finish(_, entry):
            for log in entry["logs"]:
                log["text"] = smollm2.decoded(engine, log["greedy"])

        cases = [
            fixtures.Case(shape.name, type_name, path, given, GENERATED, POSITIONS) for type_name, path in paths.items()
        ]
        fixtures.record(shape.name, file.arch, cases, file.padding_ids, finish)
