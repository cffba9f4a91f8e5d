"""The order in which a network computes its checkpoints."""

import re

from .names import LAST, LAYER


def order(checkpoint):
    """A key to sort by: embedding, then layer by layer and op by op, then the end."""
    match = re.fullmatch(r"layer_(\d+)_(.+)", checkpoint)
    if match and match[2] in LAYER:
        return (1, int(match[1]), LAYER.index(match[2]))
    return (2, LAST.index(checkpoint), 0) if checkpoint in LAST else (0, 0, 0)
