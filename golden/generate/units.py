"""The finished parts of an interrupted run: one unit for each model file and prompt, kept until the model is done.

A unit is found again only if the model file, the prompt, the positions, the programs here and the versions of the
oracles are the same, and its logs are unchanged.
"""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np

from . import manifest
from .model_file import sha256

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "generate"


def programs():
    """One hash over the sources that a recording comes from."""
    digest = hashlib.sha256()
    for folder in (ROOT / "golden" / "generate", ROOT / "python" / "assay_tap"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


class Units:
    """The units of one model; `wanted` is everything else that a unit depends on."""

    def __init__(self, model):
        self.folder = CACHE / model
        self.common = {"programs": programs(), "oracles": manifest.oracles()}

    def find(self, name, folder, wanted):
        """(logs, samples by floor) of a finished unit with logs in `folder`, or None."""
        stated, sampled = self.folder / f"{name}.json", self.folder / f"{name}.npz"
        if not (stated.exists() and sampled.exists()):
            return None
        try:
            unit = json.loads(stated.read_text(encoding="utf-8"))
            if unit["key"] != json.loads(json.dumps(self.common | wanted)):
                return None
            if any(
                not (folder / log["file"]).exists() or sha256(folder / log["file"]) != log["sha256"]
                for log in unit["logs"]
            ):
                return None
            with np.load(sampled) as arrays:
                samples = {}
                for key in arrays.files:
                    floor, _, checkpoint = key.partition("/")
                    samples.setdefault(floor, {})[checkpoint] = arrays[key]
            return unit["logs"], samples
        except (ValueError, KeyError, OSError):  # cut off while it was written
            return None

    def keep(self, name, wanted, logs, samples):
        self.folder.mkdir(parents=True, exist_ok=True)
        flat = {
            f"{floor}/{checkpoint}": array for floor, found in samples.items() for checkpoint, array in found.items()
        }
        np.savez(self.folder / f"{name}.npz", **flat)
        part = self.folder / f"{name}.part"
        part.write_text(json.dumps({"key": self.common | wanted, "logs": logs}), encoding="utf-8")
        part.replace(self.folder / f"{name}.json")

    def drop(self):
        """The model is finished: the next run makes it again."""
        shutil.rmtree(self.folder, ignore_errors=True)
