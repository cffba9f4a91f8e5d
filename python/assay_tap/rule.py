"""Which tensor of a PyTorch model is which checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """Which tensor is which checkpoint.

    module: path of the module, where * matches one part of it, as in `model.layers.*.mlp.down_proj`.
    checkpoint: the name, where {0}, {1} … are what the stars matched; or several names, one for each part.
    of: "output" or "input" of the module; of an output that is a tuple, the first.
    calls: instead of an output or input, the results of this function, or of any of these, which the module's own source
        file defines or imports, each time that the module calls it.
    call: of several calls of that function in one forward pass of the module, this one alone, counted from 0; of an
        output, of the calls of the module in one forward pass of the model.
    widths: splits the last axis into parts of these widths, one for each name.
    change: applied to each part before it is recorded; one function, or one for each part.
    beside: a rule, with a module within what the stars matched, whose tensor change() is given as well: for what no
        module holds, such as a sum. It must be computed before, and a record of it is not made.
    rows: "last" where the model computes the row of each sequence's last token alone, in its forward pass or right after
        it; without it there is a row for each token, or for each that the call's logits_to_keep says.
    """

    module: str
    checkpoint: str | tuple[str, ...]
    of: str = "output"
    calls: str | tuple[str, ...] | None = None
    call: int | None = None
    widths: tuple[int, ...] = ()
    change: Callable | tuple[Callable, ...] | None = None
    beside: "Rule | None" = None
    rows: str | None = None

    def names(self, stars):
        several = (self.checkpoint,) if isinstance(self.checkpoint, str) else self.checkpoint
        return [name.format(*stars) for name in several]

    def parts(self, value, *beside):
        """`value` as one tensor for each name."""
        if self.widths:
            parts = list(first(value).split(list(self.widths), dim=-1))
        elif isinstance(self.checkpoint, str):
            parts = [value if self.change else first(value)]
        else:
            parts = list(value)
        changes = self.change if isinstance(self.change, tuple) else (self.change,) * len(parts)
        return [change(part, *beside) if change else part for change, part in zip(changes, parts, strict=True)]


def first(value):
    """Of what a module returns or is given: the tensor itself, or the first of several."""
    return value[0] if isinstance(value, (tuple, list)) else value


def model_logits(output):
    """The logits [sequences, tokens, vocabulary] of what a transformers model with a language head returns."""
    if hasattr(output, "logits"):
        return output.logits
    return next(part for part in output if part is not None and part.dim() == 3)  # of a tuple; the loss may be before it
