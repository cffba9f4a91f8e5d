"""The members of a record that describe its row, as text: values, summary and sketch."""

import numpy as np

from . import native
from .numbers import double_array, float32_array
from .sketch import sketch
from .summary import Summary


class _NumpyRow:
    """As native.Row, to the bit."""

    def __init__(self, narrow, wide):
        self._narrow = narrow
        wide = narrow.astype(np.float64) if wide is None else wide
        self._row = np.where(np.isinf(narrow), narrow, wide)

    def values(self, head):
        return float32_array(self._narrow[:head])

    def summary(self):
        return Summary(self._row).json()

    def sketch(self):
        return sketch(self._row)


@np.errstate(over="ignore", invalid="ignore")  # NaN may be of the kind that signals
def contents(row, head, summary, sketch, sketch_digits=None):
    """The members from "values" on of the record of `row`, numbers [n] of any type.

    Values print as float32; summary and sketch are those of the row itself, where an element that float32 cannot hold
    is an infinity.
    """
    narrow = np.ascontiguousarray(row, dtype=np.float32)
    wide = None if np.can_cast(row.dtype, np.float32) else np.ascontiguousarray(row, dtype=np.float64)
    held = (native.Row if native.is_there() else _NumpyRow)(narrow, wide)
    parts = [f'"values":{held.values(head)}']
    if summary:
        parts.append(f'"summary":{held.summary()}')
    if sketch:
        numbers = held.sketch()
        if sketch_digits is not None:
            numbers = [float(f"{number:.{sketch_digits}g}") for number in numbers]
        parts.append(f'"sketch":{(native.sketch_text if native.is_there() else double_array)(numbers)}')
    return ",".join(parts)
