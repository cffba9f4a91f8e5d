"""A log has the same bytes with the library of python/native.cc and without it, and without PyTorch."""

import os
import re
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np
import writer_test
from assay_tap import native
from assay_tap.contents import contents


class BytesByNumpy(writer_test.Bytes):
    """The same where there is no library."""

    def setUp(self):
        super().setUp()
        without = mock.patch.object(native, "is_there", lambda: False)
        without.start()
        self.addCleanup(without.stop)


class Import(unittest.TestCase):
    def test_needs_no_torch(self):
        """Breaks if what engines without PyTorch log with could not be imported beside numpy alone, or took seconds to."""
        code = "import sys; sys.modules['torch'] = None; import assay_tap"
        env = os.environ | {"PYTHONPATH": str(writer_test.ROOT / "python")}
        ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)


@unittest.skipUnless(native.is_there(), "ASSAY_TAP_NATIVE names no library")
class Native(unittest.TestCase):
    def rows(self):
        rng = np.random.default_rng(3)
        for n in (0, 1, 5, 8, 31, 32, 33, 576, 5000):
            yield rng.standard_normal(n)
            yield rng.standard_normal(n) * 10.0 ** rng.integers(-320, 308, n)
            yield rng.integers(0, 1 << 64, n, dtype=np.uint64).view(np.float64)  # NaN and infinities among them
            yield rng.integers(-3, 3, n) / 4  # with ties
        yield np.array([1.0, 1 + 1e-12, 1 + 2e-12, 1.0, 1 - 1e-12, 1e-12])  # alike as floats only
        for special in ([-0.0], [0.0, -0.0], [-0.0, 0.0], [1.0, 0.0] + [2.0] * 6 + [-0.0] * 9, [np.nan] * 3, [np.inf, -np.inf], [1e39, 3.0], [5e-324], [-1e300, np.nan]):
            yield np.array(special)

    def test_the_library_and_numpy_write_the_same(self):
        """Breaks if a log's bytes depended on whether the library was built."""
        for row in self.rows():
            for kind in (np.float64, np.float32, np.float16, np.int64, np.int8):
                with np.errstate(all="ignore"):
                    given = row.astype(kind)
                for head, digits in ((len(row), None), (min(3, len(row)), 9)):
                    ours = contents(given, head, True, True, digits)
                    with mock.patch.object(native, "is_there", lambda: False):
                        self.assertEqual(ours, contents(given, head, True, True, digits), (kind, row))

    def test_rows_that_are_not_in_one_piece(self):
        whole = np.arange(200, dtype=np.float64) / 7
        for row in (whole[::2], whole[::-1], whole.astype(np.float32)[::3], whole.astype(">f8")):
            self.assertEqual(contents(row, 9, True, True), contents(row.astype(row.dtype.newbyteorder("=")).copy(), 9, True, True))

    def test_a_library_that_is_none_is_refused(self):
        code = "import assay_tap"
        for library in (__file__, "/nowhere.so"):
            environment = dict(os.environ, ASSAY_TAP_NATIVE=library, PYTHONPATH=str(writer_test.ROOT / "python"))
            ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
            self.assertRegex(ran.stderr.splitlines()[-1], f"^ImportError: ASSAY_TAP_NATIVE: {re.escape(library)} is not the library")


if __name__ == "__main__":
    unittest.main()
