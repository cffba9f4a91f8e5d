"""The texts of a record that take time, by the C of assay_tap.h: python/native.cc, if it is there as a library.

ASSAY_TAP_NATIVE names the library, or is `off`; without it a library beside this file is taken. Where there is none,
contents.py has the same bytes from numpy.
"""

import ctypes
import os
from pathlib import Path

import numpy as np

SKETCH = 64
TEXT = 2048  # of a summary or a sketch


def _load():
    """The library's functions, or None."""
    given = os.environ.get("ASSAY_TAP_NATIVE")
    if given == "off":
        return None
    beside = sorted(Path(__file__).parent.glob("_native*.so"))
    if not given and not beside:
        return None
    try:
        library = ctypes.CDLL(given or str(beside[0]))
        for name, types in (
            ("values", "pzp"), ("summary", "ppzp"), ("sketch", "ppzp"), ("print_sketch", "pp"),
        ):  # fmt: skip
            function = getattr(library, f"assay_tap_row_{name}")
            function.argtypes = [{"p": ctypes.c_void_p, "z": ctypes.c_size_t}[letter] for letter in types]
            function.restype = None if name == "sketch" else ctypes.c_size_t
        return library
    except (OSError, AttributeError) as error:
        if given:
            raise ImportError(f"ASSAY_TAP_NATIVE: {given} is not the library of python/native.cc: {error}") from error
        return None


_library = _load()


def is_there():
    return _library is not None


def _text(size, write):
    """What write(address) writes to a buffer of `size` bytes; it returns the length."""
    buffer = np.empty(size, np.uint8)  # which nobody fills with zeros first
    return str(buffer[: write(buffer.ctypes.data)], "ascii")


class Row:
    """narrow: float32 [n]; wide: float64 [n], or None where narrow has the elements themselves. Both contiguous."""

    def __init__(self, narrow, wide):
        self._arrays = narrow, wide  # kept alive
        self._size = len(narrow)
        self._narrow, self._wide = narrow.ctypes.data, None if wide is None else wide.ctypes.data

    def values(self, head):
        """JSON array of the first `head` values."""
        return _text(17 * head + 64, lambda to: _library.assay_tap_row_values(self._narrow, head, to))

    def summary(self):
        return _text(TEXT, lambda to: _library.assay_tap_row_summary(self._narrow, self._wide, self._size, to))

    def sketch(self):
        """64 numbers."""
        numbers = (ctypes.c_double * SKETCH)()
        _library.assay_tap_row_sketch(self._narrow, self._wide, self._size, numbers)
        return numbers


def sketch_text(numbers):
    """JSON array of 64 numbers."""
    numbers = (ctypes.c_double * SKETCH)(*numbers)
    return _text(TEXT, lambda to: _library.assay_tap_row_print_sketch(numbers, to))
