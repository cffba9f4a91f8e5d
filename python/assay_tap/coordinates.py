"""Where in a run a tensor belongs: the sequence of a batch, the forward pass, the part on one of several processes."""

from .numbers import text

PHASES = ("prefill", "decode")
AXES = ("tp", "pp", "ep", "sp")  # tensor, pipeline, expert and sequence parallel


def check_rank(rank):
    """Raises ValueError unless `rank` is None or a dict such as {"tp": 1}."""
    if rank is None:
        return
    if not isinstance(rank, dict) or not set(rank) <= set(AXES) or not all(map(_is_count, rank.values())):
        raise ValueError(f"the rank {rank!r} is not a dict of {', '.join(AXES)} with numbers of 0 or more")


def _is_count(number):
    return hasattr(number, "__index__") and not isinstance(number, bool) and number >= 0


def coordinates(sequence=None, step=None, phase=None, rank=None):
    """The members of a record that say so; those that are None, and the sequence 0, are not written.

    Raises ValueError if one makes no sense.
    """
    parts = []
    if sequence is not None and str(sequence) not in ("", "0"):
        parts.append(f'"sequence":{text(sequence)}')
    if step is not None:
        if not _is_count(step):
            raise ValueError(f"the step {step!r} is not a number of 0 or more")
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
    """The member that names the axes of `shape`; no text if dims is None. Raises ValueError if they are not as many."""
    if dims is None:
        return ""
    axes = [axis for axis in str(dims).split() if not axis.startswith("+")]
    if len(axes) != len(shape):
        raise ValueError(f"the dims {dims!r} name {len(axes)} axes of the shape {shape}")
    return f',"dims":{text(dims)}'
