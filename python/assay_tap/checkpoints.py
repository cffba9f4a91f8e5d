"""Which checkpoints are logged: `logits`, `layers`, `ops`, or comma-separated globs."""

import ctypes
import re

from .writer import LogError

SETS = {"layers": ("embedding", "layer_*_output", "logits"), "ops": ("*",)}

_fnmatch = ctypes.CDLL(None).fnmatch  # which the program and the header call; Python's own has no [^a] and no escapes


def _bytes(text):
    return text.encode("utf-8", "surrogatepass")


def _matches(glob, checkpoint):
    return _fnmatch(_bytes(glob), _bytes(checkpoint), 0) == 0


class CheckpointSet:
    def __init__(self, text, where="checkpoints"):
        self.globs = []
        self.text = text
        self.where = where
        self._typed = []  # items that are not set names
        for item in (part.strip() for part in text.split(",")):
            if not item:
                raise LogError(
                    f"{where}: {text!r} has an empty item; give logits, layers, ops, or globs such as "
                    "'layer_0_*,logits'"
                )
            self.globs += SETS.get(item, (item,))
            if item not in SETS and item != "logits":
                self._typed.append(item)

    def __contains__(self, checkpoint):
        return any(_matches(glob, checkpoint) for glob in self.globs)

    def unmatched(self, checkpoints):
        """The items that match none of these names: mistyped globs, or every item if nothing matches."""
        items = self._typed if any(name in self for name in checkpoints) else self.globs
        return [item for item in items if not any(_matches(item, name) for name in checkpoints)]


def kind(checkpoint):
    """The name without its layer: `layer_7_q_rope` is of the kind `q_rope`."""
    return re.sub(r"^layer_\d+_", "", checkpoint)
