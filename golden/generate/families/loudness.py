"""`python -m generate.families.loudness [NAME…]`: switches each feature off, and shows how far the logits move.

A feature that moves them by less than 1e-2 could be missing in an engine unnoticed; the exit status is 1 then.
"""

import sys

import numpy as np
from transformers.utils import logging

from . import FAMILIES, oracle
from .family import COMMON
from .features import FEATURES

LIMIT = 1e-2


def moved(got, expected):
    """The greatest relative L2 over positions; a NaN counts as not moved."""
    far = float(np.max(np.linalg.norm(got - expected, axis=1) / np.linalg.norm(expected, axis=1)))
    return far if np.isfinite(far) else 0.0


def neutral(name, tensor, start):
    """A vector as training starts with it; None for matrices, which no feature is without."""
    if name.endswith("sinks"):
        return tensor - 1e6
    return start if tensor.ndim == 1 or "norm" in name or name.endswith("bias") else None


def survey(family):
    """[(how far the logits move, what is off)], the quietest first."""
    tokens = oracle.prompts(COMMON["vocab_size"], family.seed)["long"]
    model = oracle.made(family)
    start = oracle.model_of(oracle.config_of(family)).state_dict()
    state = dict(model.state_dict())
    expected = oracle.run(oracle.in_float64(family, state), tokens)["logits"]
    found = []
    for feature, changes in FEATURES[family.name].items():
        got = oracle.run(oracle.in_float64(family, state, **changes), tokens)["logits"]
        found.append((moved(got, expected), feature))
    for name, tensor in state.items():
        plain = neutral(name, tensor, start[name])
        if plain is not None:
            got = oracle.run(oracle.in_float64(family, state | {name: plain}), tokens)["logits"]
            found.append((moved(got, expected), name))
    return sorted(found)


def main():
    logging.set_verbosity_error()
    quiet = 0
    for family in FAMILIES:
        if sys.argv[1:] and family.name not in sys.argv[1:]:
            continue
        found = survey(family)
        quiet += sum(far < LIMIT for far, _ in found)
        features = [(far, what) for far, what in found if what in FEATURES[family.name]]
        tensors = [pair for pair in found if pair not in features]
        print(f"{family.name}: " + ", ".join(f"{what} {far:.2g}" for far, what in features), flush=True)
        if tensors:
            print(f"    {len(tensors)} vectors, the quietest: " + ", ".join(f"{n} {far:.2g}" for far, n in tensors[:3]))
    print(f"{quiet} below {LIMIT}")
    return 1 if quiet else 0


if __name__ == "__main__":
    sys.exit(main())
