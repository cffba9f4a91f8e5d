"""Writes golden/<model>/manifest.json, schema 2; golden/README.md describes it."""

import json
import re
from importlib.metadata import version

SCHEMA = 2
K = 3
TOLERANCE = {
    "k": K,
    "floor": "f32_with_f64_angles_vs_f64",
    "why": "float32 arithmetic in another order of sums is off by about as much as the floor, which is the greatest "
    "over the recorded tokens only: 3 leaves room for other tokens and for the sketch, whose estimate of a distance "
    "may be a third too large. The floor is that of float32 with rotary angles in float64, since Assay computes them "
    "so. No floor is taken as less than 2^-24, the rounding of a value to float32",
}


def oracles():
    names = ("torch", "transformers", "gguf", "numpy", "llama_cpp_python")
    return {name: version(name) for name in names}


def rounded(value):
    """Measured figures to three digits: more would only be noise in a diff."""
    if isinstance(value, float):
        return float(f"{value:.3g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def write(folder, manifest):
    text = json.dumps(rounded(manifest), ensure_ascii=False, indent=1)
    # Innermost lists and objects of numbers go on one line each: people read manifests too.
    numbers = r"\[[-+.\d\se,]+\]|\{(?:\s*\"\w+\": [-+.\de]+,?)+\s*\}"
    text = re.sub(numbers, lambda found: " ".join(found[0].split()), text)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")
