"""What the tests of fleets share: a small fleet of two nights, and how to ask the program about it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import duckdb
    import numpy  # noqa: F401
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401
except ImportError as missing:
    print(missing)
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import warm_python  # noqa: E402

PYTHON = warm_python.start()
NIGHTS = ROOT / "examples" / "fleet_of_runs" / "nights.py"
ENGINES = 4


class FleetCase(unittest.TestCase):
    """`dataset` is of 25 cases and 2 nights: 25 references and 200 runs; do not change it."""

    CASES = 25

    @classmethod
    def setUpClass(cls):
        cls.answer = None
        cls.class_folder = tempfile.TemporaryDirectory()
        cls.logs = Path(cls.class_folder.name) / "logs"
        cls.dataset = Path(cls.class_folder.name) / "dataset"
        subprocess.run([sys.executable, NIGHTS, cls.logs, str(cls.CASES), "2"], check=True)
        subprocess.run([cls.logs / "add.sh", cls.program, cls.dataset], check=True, env={**os.environ, **PYTHON})

    @classmethod
    def tearDownClass(cls):
        cls.class_folder.cleanup()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    @staticmethod
    def environment():
        return {**os.environ, "ASSAY_PYTHON": sys.executable}

    def fleet(self, *arguments):
        return subprocess.run([self.program, "fleet", *arguments], capture_output=True, text=True, env={**os.environ, **PYTHON},
                              cwd=self.folder)  # fmt: skip

    def compare(self, dataset, *arguments, code=1):
        """Compares into a folder of its own, and returns its table and what was said."""
        results = self.folder / f"results{len(os.listdir(self.folder))}"
        answer = self.fleet("compare", dataset, "--results", results, *arguments)
        self.assertEqual(answer.returncode, code, answer.stderr)
        return results / "results.parquet", answer

    def judged(self):
        """A copy of the results of comparing `dataset`, which is done once for all tests: table, and what was said."""
        kept = Path(self.class_folder.name) / "results"
        if type(self).answer is None:
            type(self).answer = self.fleet("compare", self.dataset, "--results", kept)
            self.assertEqual(self.answer.returncode, 1, self.answer.stderr)
        return shutil.copytree(kept, self.folder / "judged") / "results.parquet", self.answer

    def copy(self):
        return shutil.copytree(self.dataset, self.folder / "copy", ignore=shutil.ignore_patterns("results"))

    def expect_error(self, answer, text):
        """One line, exit code 2, nothing else."""
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertEqual(answer.stdout, "")
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(text, answer.stderr)
        self.assertTrue(answer.stderr.startswith("assay: "), answer.stderr)


def query(table, text):
    """Rows of a query about `results`."""
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW results AS SELECT * FROM read_parquet('{table}')")
    return connection.execute(text).fetchall()


def one_run(dataset, text="", number=0):
    """The folder of a run whose run.json has this text; sorted by name."""
    found = [path.parent for path in sorted(dataset.glob("run=*/run.json")) if text in path.read_text()]
    return found[number]


def facts(folder):
    return json.loads((folder / "run.json").read_text())
