"""Runs test modules: run.py MODULE... PROGRAM, where PROGRAM is assay. Exit status 77: nothing could be run here."""

import importlib
import os
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKIPPED = 77
DEBIAN = Path("/usr/bin/python3")  # the one that python3-numpy is for, where another comes first in PATH


def main():
    *names, os.environ["ASSAY"] = sys.argv[1:]
    sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]
    try:
        importlib.import_module("numpy")
    except ImportError:
        if Path(sys.executable) != DEBIAN and DEBIAN.exists():
            os.execv(DEBIAN, [str(DEBIAN), *sys.argv])
        print("skipped: this python3 has no numpy (Debian: python3-numpy)")
        return SKIPPED
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    if not result.wasSuccessful() or not result.testsRun:
        return 1
    return SKIPPED if len(result.skipped) == result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
