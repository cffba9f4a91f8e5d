"""Which checkpoints are logged: `logits`, `layers`, `ops`, or comma-separated globs."""

import ctypes
import re

from .writer import LogError

SETS = {"layers": ("embedding", "layer_*_output", "logits"), "ops": ("*",)}

_fnmatch = ctypes.CDLL(None).fnmatch  # which the program and the header call; Python's own has no [^a] and no escapes


def _bytes(text):
    return text.encode("utf-8", "surrogatepass")


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
        name = _bytes(checkpoint)
        return any(_fnmatch(_bytes(glob), name, 0) == 0 for glob in self.globs)


def kind(checkpoint):
    """The name without its layer: `layer_7_q_rope` is of the kind `q_rope`."""
    return re.sub(r"^layer_\d+_", "", checkpoint)
