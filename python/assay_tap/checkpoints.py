"""Which checkpoints are logged: `logits`, `layers`, `ops`, or comma-separated globs."""

import re
from fnmatch import fnmatchcase

from .writer import LogError

SETS = {"layers": ("embedding", "layer_*_output", "logits"), "ops": ("*",)}


class CheckpointSet:
    def __init__(self, text, where="checkpoints"):
        self.globs = []
        for item in (part.strip() for part in text.split(",")):
            if not item:
                raise LogError(
                    f"{where}: {text!r} has an empty item; give logits, layers, ops, or globs such as "
                    "'layer_0_*,logits'"
                )
            self.globs += SETS.get(item, (item,))

    def __contains__(self, checkpoint):
        return any(fnmatchcase(checkpoint, glob) for glob in self.globs)


def kind(checkpoint):
    """The name without its layer: `layer_7_q_rope` is of the kind `q_rope`."""
    return re.sub(r"^layer_\d+_", "", checkpoint)
