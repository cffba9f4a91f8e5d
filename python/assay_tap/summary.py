"""What a record states about a whole tensor of which only the head is logged."""

from dataclasses import dataclass

import numpy as np

from .numbers import float32_array, shortest

TOP = 5
LANES = 8


def _lane_sum(row):
    """The sum in the order that assay/log/sketch.cc has: eight lanes, added one after the other."""
    padded = np.zeros(-(-len(row) // LANES) * LANES)
    padded[: len(row)] = row
    total = 0.0
    for lane in np.add.reduce(padded.reshape(-1, LANES), axis=0):
        total += float(lane)
    return total


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
            least, most = self.row[finite].min(), self.row[order[0]]
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
