"""Whether what a case computes hangs on a choice too close to call: an engine that rounds to bfloat16 must not be shown
as a wrong one because a token of it goes to another expert.

    python -m generate.conform.steadiness --assay ASSAY [--rounded states] [FEATURE…]    of the suite's rows, as committed
"""

import argparse
import json
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import torch

from . import loudness, quantised, reference
from .folder import write_folder

SUITE = Path(__file__).resolve().parents[3] / "conform" / "suite"
# What rounding to bfloat16 does to a weight or a state at most. Sixteen draws of it in all weights move the logits by as
# much as transformers in bfloat16 is off, 0.3 to 1.5 % in the suite, and by 3 to 20 times that where one token chooses
# other experts. An engine that keeps weights as they are rounds states alone, at other places than the weights' rounding.
ROUNDING = 2.0**-8
DRAWS = 16
SPREAD = 2.5  # the largest distance of a draw over the smallest
ROUNDED = ("weights", "states")


def moved(values, noise):
    """`values`, each up to ROUNDING of itself away."""
    drawn = torch.rand(values.shape, generator=noise, dtype=values.dtype)
    return values * (1 + ROUNDING * (2 * drawn - 1))


@contextmanager
def states_moved(model, noise):
    """Within it, what each module returns is moved: products, norms, activations, angles, what layers leave."""

    def move(_module, _inputs, out):
        if isinstance(out, tuple):
            return tuple(move(_module, _inputs, part) for part in out)
        return moved(out, noise) if isinstance(out, torch.Tensor) and out.is_floating_point() else out

    handles = [module.register_forward_hook(move) for module in model.modules() if module is not model]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def distances(folder, tokens, rounded):
    """How far the logits move, a number for each draw of the weights, or of the states."""
    model = reference.loaded(folder)
    expected = reference.logits(model, tokens)
    weights = [(weight, weight.detach().clone()) for weight in model.parameters()]
    noise = torch.Generator().manual_seed(1)
    found = []
    for _ in range(DRAWS):
        if rounded == "weights":
            for weight, right in weights:
                weight.data = moved(right, noise)
            got = reference.logits(model, tokens)
        else:
            with states_moved(model, noise):
                got = reference.logits(model, tokens)
        found.append(loudness.distance(got, expected))
    return found


def measured(folder, tokens, kinds):
    """(what is rounded, the least and the greatest distance, whether they are near enough to each other), of each."""
    for rounded in kinds:
        found = distances(folder, tokens, rounded)
        yield rounded, min(found), max(found), max(found) <= SPREAD * min(found)


def wrong(folder, tokens, kinds=("weights",)):
    """What is wrong with the case, as a list. The suite's rows are held to weights; not all are steady in states."""
    return [
        f"{rounded} rounded to bfloat16 move the logits by {least:.1e} or {most:.1e}: a token has no margin in its choice "
        "of experts; take another seed"
        for rounded, least, most, steady in measured(folder, tokens, kinds)
        if not steady
    ]


def main():
    parser = argparse.ArgumentParser(prog="python -m generate.conform.steadiness")
    parser.add_argument("names", nargs="*", help="features; all if none is named")
    parser.add_argument("--assay", required=True, help="the program, which makes blocks of quantised weights")
    parser.add_argument("--rounded", nargs="+", choices=ROUNDED, default=ROUNDED, help="what is drawn anew (default: each)")
    options = parser.parse_args()
    failed, names = 0, options.names or sorted(folder.name for folder in SUITE.iterdir())
    for name in names:
        case = json.loads((SUITE / name / "case.json").read_text())
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            if quantised.is_quantised(case):
                quantised.write_folder(options.assay, folder, case)
            else:
                write_folder(folder, case)
            said, steady = [], True
            for rounded, least, most, near in measured(folder, case["tokens"], options.rounded):
                said.append(f"{rounded} {least:.1e} to {most:.1e}{'' if near else ' WRONG'}")
                steady = steady and near
        failed += not steady
        print(f"{name}: {', '.join(said)}", flush=True)
    print(f"{len(names)} features, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
