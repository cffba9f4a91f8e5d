"""Which sequence of the log each row of a batch is, pass after pass."""

import weakref

from .positions import CACHES, cached_tokens
from .writer import LogError


class Sequences:
    """Numbers sequences from 0 in the order in which they begin.

    Rows go on with the sequences that their KV cache holds, or, without a known one, with those of the latest pass
    whose last positions theirs follow.
    """

    def __init__(self):
        self._next = []  # for each sequence the position after its last
        self._of_cache = weakref.WeakKeyDictionary()
        self._latest = []  # the sequences of the latest pass
        self.fault = None  # what is wrong with it, a LogError

    def begin(self, rows, named):
        """The sequences of a pass with these positions, a list for each row; and whether they begin with it."""
        ends = [[at for at in row if at is not None] for row in rows]
        firsts = [row[0] if row else None for row in ends]
        self._latest = self._known(firsts, named)
        begins = self._latest is None
        if begins:
            self._latest = list(range(len(self._next), len(self._next) + len(rows)))
            self._next += [0] * len(rows)
        self.fault = None if begins else self._going_back(firsts)
        for sequence, row in zip(self._latest, ends, strict=True):
            self._next[sequence] = row[-1] + 1 if row else self._next[sequence]
        return self._latest, begins and all(first in (0, None) for first in firsts)

    def _going_back(self, firsts):
        """Why a pass that goes on with the latest sequences at these positions would be logged twice, if it would."""
        for first, sequence in zip(firsts, self._latest, strict=True):
            if first is not None and first < self._next[sequence]:
                return LogError(
                    f"a pass goes back to position {first} of a sequence that is logged up to {self._next[sequence] - 1}: "
                    "its cache was cut, as after tokens that were only guessed; log what is kept in passes of its own"
                )
        return None

    def _known(self, firsts, named):
        for name in CACHES:
            try:
                held = self._of_cache.get(named.get(name))
            except TypeError:  # a tuple, or nothing
                continue
            if held is not None and len(held) == len(firsts) and _is_filled(named):
                return held
        follows = len(self._latest) == len(firsts) and any(firsts)
        follows = follows and all(
            first in (None, self._next[sequence]) for first, sequence in zip(firsts, self._latest, strict=True)
        )
        return self._latest if follows else None

    def end(self, named, output):
        """After the pass: its caches hold the latest sequences."""
        for name in CACHES:
            for cache in (named.get(name), getattr(output, name, None)):
                try:
                    self._of_cache[cache] = self._latest
                except TypeError:
                    continue


def _is_filled(named):
    try:
        return cached_tokens(named) > 0
    except LogError:  # a state that does not count tokens
        return True
