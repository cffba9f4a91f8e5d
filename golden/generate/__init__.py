"""The oracles of Assay: Python programs that make small models and record what they compute in float64."""

import sys
from pathlib import Path

# The one writer of logs, of this checkout and not of another one that pip may have installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
