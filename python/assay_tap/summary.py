"""What a record states about a whole tensor of which only the head is logged."""

from dataclasses import dataclass

import numpy as np

from .numbers import float32_array, shortest

TOP = 5
LANES = 8


def _lanes(row, fill):
    """Element i is in lane i % LANES, as in assay_tap.h."""
    padded = np.full(-(-len(row) // LANES) * LANES, fill)
    padded[: len(row)] = row
    return padded.reshape(-1, LANES)


def _lane_sum(row):
    total = 0.0
    for lane in np.add.reduce(_lanes(row, 0.0), axis=0):
        total += float(lane)
    return total


def _least(row):
    """Of -0 and 0 the first in a lane, and of the first lane."""
    lanes = _lanes(row, np.inf)
    firsts = lanes[lanes.argmin(axis=0), np.arange(LANES)]
    return firsts[firsts.argmin()]


@dataclass
class Summary:
    """Of row, float64 [n]; elements that are not finite are only counted."""

    row: np.ndarray

    def json(self):
        finite = np.isfinite(self.row)
        kept = np.where(finite, self.row, 0.0)
        count = int(finite.sum())
        nonfinite = len(self.row) - count
        order = np.argsort(np.where(finite, -self.row, np.inf), kind="stable")[: min(TOP, count)]
        if count:
            least, most = _least(np.where(finite, self.row, np.inf)), self.row[order[0]]
            mean, argmax = shortest(_lane_sum(kept) / count), int(order[0])
        else:
            least = most = np.nan
            mean, argmax = '"NaN"', -1
        top = ",".join(f"[{index},{float32_array([self.row[index]])[1:-1]}]" for index in order)
        text = (
            f'{{"min":{float32_array([least])[1:-1]},"max":{float32_array([most])[1:-1]},"mean":{mean},'
            f'"l2":{shortest(float(np.sqrt(_lane_sum(kept * kept))))},"argmax":{argmax},"top":[{top}],'
            f'"nonfinite":{nonfinite}'
        )
        return text + (f',"nan":{int(np.isnan(self.row).sum())}}}' if nonfinite else "}")
