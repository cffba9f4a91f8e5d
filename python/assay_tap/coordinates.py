"""Where in a run a tensor belongs: the sequence of a batch, the forward pass, the part on one of several processes."""

import operator
import re

from .numbers import text

PHASES = ("prefill", "decode")
AXES = ("tp", "pp", "ep", "sp")  # tensor, pipeline, expert and sequence parallel
RANKS = rf"\[(?:{'|'.join(AXES)})(?:,(?:{'|'.join(AXES)}))*\]"
AXIS_OR_SUM = re.compile(rf"[^+\[\]]+(?:{RANKS})?|\+{RANKS}")
# What the program reads.
MOST = 2**63 - 1
MOST_RANKS = 2**15


def whole(number, least=0, most=MOST):
    """`number` as an int; None if it is a truth value or no whole number from `least` to `most`."""
    if isinstance(number, bool) or str(getattr(number, "dtype", "")).endswith("bool"):
        return None
    try:
        index = operator.index(number)
    except TypeError:
        return None
    return index if least <= index <= most else None


def check_rank(rank, least=0, most=MOST_RANKS - 1):
    """Raises ValueError unless `rank` is None or a dict such as {"tp": 1}."""
    if rank is None:
        return
    known = isinstance(rank, dict) and set(rank) <= set(AXES)
    if not known or any(whole(number, least, most) is None for number in rank.values()):
        raise ValueError(f"the rank {rank!r} is not a dict of {', '.join(AXES)} with numbers from {least} to {most}")


def sequence_name(sequence):
    """The text of a name or number of a sequence; ValueError if it is neither: str() of anything would be a name."""
    name = sequence if isinstance(sequence, str) else whole(sequence, least=-MOST)
    if name is None or name == "":
        raise ValueError(f"the sequence {sequence!r} is neither a name nor a whole number")
    return str(name)


def coordinates(sequence=None, step=None, phase=None, rank=None):
    """The members of a record that say so; those that are None, and the sequence 0, are not written.

    Raises ValueError if one makes no sense.
    """
    parts = []
    if sequence is not None and (name := sequence_name(sequence)) != "0":
        parts.append(f'"sequence":{text(name)}')
    if step is not None:
        if whole(step) is None:
            raise ValueError(f"the step {step!r} is not a whole number from 0 to {MOST}")
        parts.append(f'"step":{int(step)}')
    if phase is not None:
        if phase not in PHASES:
            raise ValueError(f"the phase {phase!r} is neither prefill nor decode")
        parts.append(f'"phase":"{phase}"')
    check_rank(rank)
    if rank is not None:
        given = {axis: int(rank.get(axis, 0)) for axis in AXES}
        shown = (f'"{axis}":{number}' for axis, number in given.items() if axis != "sp" or number)
        parts.append(f'"rank":{{{",".join(shown)}}}')
    return parts


def dims_member(dims, shape):
    """The member that names the axes of `shape`; no text if dims is None. Raises ValueError if they are not."""
    if dims is None:
        return ""
    words = [word for word in str(dims).split(" ") if word]
    ranks = [rank for word in words for rank in re.findall(r"[^\[,\]]+", word.partition("[")[2])]
    if not all(map(AXIS_OR_SUM.fullmatch, words)) or len(set(ranks)) < len(ranks):
        raise ValueError(f"the dims {dims!r} are not as in 't h[tp]' or '+[tp] t h'")
    axes = [word for word in words if not word.startswith("+")]
    if len(axes) != len(shape):
        raise ValueError(f"the dims {dims!r} name {len(axes)} axes of the shape {shape}")
    return f',"dims":{text(dims)}'
