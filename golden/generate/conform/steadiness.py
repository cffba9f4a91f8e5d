"""Whether what a case computes hangs on a choice too close to call: an engine that rounds to bfloat16 must not be shown
as a wrong one because a token of it goes to another expert."""

import torch

from . import loudness, reference

# What rounding to bfloat16 does to a weight at most. Sixteen draws of it move the logits by as much as transformers in
# bfloat16 is off, 0.3 to 1.5 % in the suite, and by 3 to 20 times that where one token chooses other experts.
ROUNDING = 2.0**-8
DRAWS = 16
SPREAD = 2.5  # the largest distance of a draw over the smallest


def distances(folder, tokens):
    """How far the logits move, a number for each draw."""
    model = reference.loaded(folder)
    expected = reference.logits(model, tokens)
    weights = [(weight, weight.detach().clone()) for weight in model.parameters()]
    noise = torch.Generator().manual_seed(1)
    found = []
    for _ in range(DRAWS):
        for weight, right in weights:
            drawn = torch.rand(right.shape, generator=noise, dtype=right.dtype)
            weight.data = right * (1 + ROUNDING * (2 * drawn - 1))
        found.append(loudness.distance(reference.logits(model, tokens), expected))
    return found


def wrong(folder, tokens):
    """What is wrong with the case, as a list."""
    found = distances(folder, tokens)
    smallest, largest = min(found), max(found)
    if largest <= SPREAD * smallest:
        return []
    return [
        f"weights rounded to bfloat16 move the logits by {smallest:.1e} or {largest:.1e}: a token has no margin in its "
        "choice of experts; take another seed"
    ]
