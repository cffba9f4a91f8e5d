"""64 random projections that stand for a whole tensor: what assay/log/sketch.h computes, bit for bit."""

from functools import lru_cache

import numpy as np

SIZE = 64
CHUNK = 8192  # rows whose terms are held at once


def splitmix64(count):
    """h(i) = the SplitMix64 output for the state i + 1, for i below count: uint64 [count], modulo 2^64.

    Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    z = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@lru_cache(maxsize=16)
def plus(count):
    """1.0 where bit k of h(i) is set and 0.0 elsewhere: float64 [count, 64]."""
    bits = splitmix64(count)[:, None] >> np.arange(SIZE, dtype=np.uint64) & np.uint64(1)
    return bits.astype(np.float64)


def sketch(row):
    """sketch[k] = sum of +-row[i], plus where bit k of h(i) is 1; elements that are not finite count as 0.

    row is float64 [n]. The sums run in the order of i, so that every machine gives the same bits.
    """
    finite = np.where(np.isfinite(row), row, 0.0)
    total = 0.0
    added = np.zeros(SIZE)
    signs = plus(len(finite))
    for first in range(0, len(finite), CHUNK):
        part = finite[first : first + CHUNK]
        terms = np.vstack([added, signs[first : first + CHUNK] * part[:, None]])
        added = np.add.reduce(terms, axis=0)  # row after row: the order of i
    if len(finite):
        total = np.add.accumulate(finite)[-1]
    return 2 * added - total
