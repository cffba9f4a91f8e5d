"""`python -m generate.families OUT [NAME…]`: a folder for each family under OUT, with its model and float64 logs."""

import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from assay_tap import LogWriter
from transformers.utils import logging

from ..model_file import sha256
from . import FAMILIES, llamacpp_logits, oracle
from .convert import convert
from .family import COMMON


def worst(got, expected):
    """The greatest relative L2 over positions."""
    return float(np.max(np.linalg.norm(got - expected, axis=1) / np.linalg.norm(expected, axis=1)))


def write(path, header, rows):
    with LogWriter(path, values=None, sketch=True) as log:
        log.header(**header)
        for name, values in rows.items():
            log.write_rows(name, range(len(values)), values)


def record(family, out):
    folder = out / family.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = oracle.made(family)
    model.save_pretrained(folder / "hf")
    gguf = folder / "model-f32.gguf"
    convert((folder / "hf").resolve(), gguf, "none", published=family.published)
    tokens = oracle.prompts(COMMON["vocab_size"], family.seed)
    (folder / "tokens.json").write_text(json.dumps(tokens) + "\n")
    wide = oracle.in_float64(family, model.state_dict())
    about = {"name": family.name, "sha256": sha256(gguf), "arch": wide.config.model_type, "type": "F32"}
    result = []
    for name, ids in tokens.items():
        suffix = "" if name == "short" else f"-{name}"
        seen = oracle.run(wide, ids)
        header = dict(tokens=ids, model=about, backend="cpu")
        write(folder / f"layers{suffix}.jsonl", header | dict(engine="transformers", math="float64"), seen)
        try:
            got = llamacpp_logits.logits(gguf, ids)
        except RuntimeError:
            result.append(float("nan"))
            continue
        write(folder / f"llamacpp{suffix}.jsonl", header | dict(engine="llama.cpp", math="float32"), {"logits": got})
        result.append(worst(got, seen["logits"]))
    return result, gguf.stat().st_size


def proof(family):
    """llama.cpp's errors on what it can run of this family: the same with some changes of its config."""
    with tempfile.TemporaryDirectory() as scratch:
        return record(replace(family, values=family.values | family.proof), Path(scratch))[0]


def shown(errors):
    return "  ".join(f"{error:.1e}" for error in errors)


def main():
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    out, names = Path(sys.argv[1]), sys.argv[2:]
    for family in FAMILIES:
        if names and family.name not in names:
            continue
        try:
            errors, size = record(family, out)
            line = f"{family.name:20} {size // 1024:5} KiB  llama.cpp - float64: {shown(errors)}"
            if family.proof:
                line += f"; {shown(proof(family))} with {', '.join(family.proof)} that it can run"
        except Exception as error:
            line = f"{family.name:20} FAILED {type(error).__name__}: {error}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
