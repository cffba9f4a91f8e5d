"""64 random projections that represent a whole tensor, as assay/log/sketch.h computes them, bit for bit."""

from functools import lru_cache

import numpy as np

SIZE = 64
CHUNK = 2048  # groups of four elements whose terms are in memory at once


def splitmix64(count):
    """h(i) = the SplitMix64 output for the state i + 1, for i below count: uint64 [count], modulo 2^64.

    Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    z = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@lru_cache(maxsize=16)
def places(count):
    """For each four elements and each k the place of their sum in a table of 16: bit j is bit k of h(4g + j).

    intp [count / 4 rounded up, 64]
    """
    bits = splitmix64(-(-count // 4) * 4)[:, None] >> np.arange(SIZE, dtype=np.uint64) & np.uint64(1)
    fours = bits.astype(np.intp).reshape(-1, 4, SIZE)
    return fours[:, 0] + 2 * fours[:, 1] + 4 * fours[:, 2] + 8 * fours[:, 3]


def subset_sums(row):
    """The sums of the 16 subsets of each four elements, each in the order of the elements: float64 [n / 4, 16]."""
    fours = np.zeros(-(-len(row) // 4) * 4)
    fours[: len(row)] = row
    fours = fours.reshape(-1, 4)
    sums = np.zeros((len(fours), 16))
    for j in range(4):
        sums[:, 2**j : 2 ** (j + 1)] = sums[:, : 2**j] + fours[:, j : j + 1]
    return sums


def sketch(row):
    """sketch[k] = sum of +-row[i], plus where bit k of h(i) is 1; elements that are not finite count as 0.

    row is float64 [n]. Twice the sum of those with a plus less the sum of all, four elements at a time and the fours
    in their order, so that every machine gives the same bits.
    """
    table = subset_sums(np.where(np.isfinite(row), row, 0.0))
    chosen = places(len(row))
    added = np.zeros(SIZE)
    for first in range(0, len(table), CHUNK):
        part = table[first : first + CHUNK]
        terms = np.take_along_axis(part, chosen[first : first + CHUNK], axis=1)
        added = np.add.reduce(np.vstack([added, terms]), axis=0)  # row after row: the order of i
    total = np.add.accumulate(table[:, 15])[-1] if len(table) else 0.0
    return 2 * added - total
