"""Folders of rows whose matrices are quantised in the GGUF file: the program quantises, and the folder has the numbers
that the blocks stand for, which the `gguf` package has to read from them, too."""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from .case import case_text
from .folder import SIZES


def is_quantised(case):
    return any(set(rest) - set(SIZES) for _, _, _, _, *rest in case["tensors"])


def no_reference(tokens):
    """Logits at all tokens, which the program asks for before it writes a model; nothing is held to them."""
    logits = {"checkpoint": "logits", "dtype": "f32", "shape": [1], "values": [0]}
    records = [{**logits, "token_idx": i} for i in range(len(tokens))]
    return "".join(json.dumps(line) + "\n" for line in [{"assay": 1, "tokens": tokens}, *records])


def write_folder(program, folder, case):
    """Writes the case's model, and blocks.gguf beside it."""
    with tempfile.TemporaryDirectory() as scratch:
        suite = Path(scratch) / "suite"
        (suite / case["feature"]).mkdir(parents=True)
        (suite / case["feature"] / "case.json").write_text(case_text(case))
        (suite / case["feature"] / "reference.jsonl").write_text(no_reference(case["tokens"]))
        command = [program, "conform", "--suite", suite, "--work", Path(scratch) / "work", "--command", "true"]
        done = subprocess.run(command, capture_output=True, text=True)
        made = Path(scratch) / "work" / "models" / case["feature"]
        if not (made / "model.gguf").exists():
            raise RuntimeError(done.stderr.strip())
        folder.mkdir(parents=True)
        for source, name in (("config.json",) * 2, ("model.safetensors",) * 2, ("model.gguf", "blocks.gguf")):
            (folder / name).write_bytes((made / source).read_bytes())
    return folder


def wrong_blocks(folder):
    """What is wrong with blocks.gguf, which must have the numbers of the converter's model.gguf."""
    import gguf

    floats = {tensor.name: tensor.data for tensor in gguf.GGUFReader(folder / "model.gguf").tensors}
    blocks = {tensor.name: tensor for tensor in gguf.GGUFReader(folder / "blocks.gguf").tensors}
    wrong = [f"{name} is in one GGUF file only" for name in floats.keys() ^ blocks.keys()]
    for name in floats.keys() & blocks.keys():
        kind = blocks[name].tensor_type
        if (kind == gguf.GGMLQuantizationType.F32) != (floats[name].ndim == 1):
            wrong.append(f"{name} is stored as {kind.name}")
        if not np.array_equal(gguf.quants.dequantize(blocks[name].data, kind), floats[name]):
            wrong.append(f"the package gguf reads other numbers of {name}")
    return wrong
