"""The folder of a case as an engine gets it: config.json and model.safetensors, without torch."""

import json
import math

import numpy as np

from .case import first_match
from .draws import drawn

SIZES = {"F32": 4, "BF16": 2, "F16": 2}


def stored(values, dtype):
    """Bytes of float32 `values`, rounded to the nearest of `dtype`, ties to even."""
    if dtype == "BF16":
        words = values.view(np.uint32)
        return ((words + 0x7FFF + (words >> 16 & 1)) >> 16).astype("<u2").tobytes()
    return values.astype("<f2" if dtype == "F16" else "<f4").tobytes()


def weights(case, filled):
    """{name: (dtype, shape, bytes)}. filled: {glob: (mean, deviation)} in place of the case's; mean None: left out."""
    made = {}
    for name, shape, mean, deviation, *rest in case["tensors"]:
        mean, deviation = first_match(filled, name, (mean, deviation))
        if mean is None:
            continue
        dtype = rest[0] if rest else "F32"
        made[name] = dtype, shape, stored(drawn(case["seed"], name, shape, mean, deviation), dtype)
    return made


def safetensors(tensors):
    """The file's bytes."""
    header, start = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        if len(data) != math.prod(shape) * SIZES[dtype]:
            raise ValueError(f"{name}: {len(data)} bytes for {dtype} {shape}")
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, start + len(data)]}
        start += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in tensors.values())


def write_folder(folder, case, config=None, constants=None):
    """Writes the case's model, or what an engine takes it for: another config, constants for tensors."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config or case["config"], indent=2) + "\n")
    for name, content in case.get("folder", {}).items():
        (folder / name).write_text(json.dumps(content))
    filled = {glob: (value, 0.0) for glob, value in (constants or {}).items()}
    (folder / "model.safetensors").write_bytes(safetensors(weights(case, filled)))
    return folder
