# assay fleet runs this file, parquet.py and the others of this folder, one after the other, as one text with python -c.
# Ray sends functions of such a program by value, so that nodes need no installed copy.
import sys

sys.path = [folder for folder in sys.path if folder]  # as in parquet.py

try:
    import duckdb
    import pyarrow  # noqa: F401
except ImportError as missing:
    print(f"assay: fleet: {missing}; pip install duckdb pyarrow, or name a Python that has both in ASSAY_PYTHON", file=sys.stderr)
    sys.exit(2)
