"""The sketch that docs/add-an-engine.md tells how to compute is the program's own."""

import contextlib
import io
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SECTION = (ROOT / "docs/add-an-engine.md").read_text().split("## A sketch by hand\n")[1].split("\n## ")[0]


class SketchPage(unittest.TestCase):
    def setUp(self):
        self.printed = io.StringIO()
        self.page = {}
        with contextlib.redirect_stdout(self.printed):
            exec(SECTION.split("```python\n")[1].split("```")[0], self.page)

    def test_the_page_prints_what_it_says(self):
        self.assertIn(f"It prints `{self.printed.getvalue().strip()}`.", SECTION)

    def test_every_tensor_of_a_run_has_the_sketch_of_the_page(self):
        """Breaks if an engine that follows the page logged sketches that compare takes for those of another tensor."""
        model = ROOT / "golden/tinyllama/tinyllama-f32.gguf"
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log.jsonl"
            command = [os.environ["ASSAY"], "run", model, "--tokens", "1,5,7", "--log", log]
            subprocess.run([*command, "--checkpoints", "ops", "--values", "all", "--sketch"], check=True, capture_output=True)
            records = [json.loads(line) for line in log.read_text().splitlines()[1:]]
        self.assertGreater(len(records), 50)
        for record in records:
            values = np.array(record["values"], dtype=np.float32)
            np.testing.assert_allclose(self.page["sketch"](values), record["sketch"], rtol=0, atol=1e-12 * np.abs(values).sum())

    def test_a_log_with_the_sketches_of_the_page_is_whole(self):
        """Breaks if what the page gives were less than the taps give: heads beside sketches of NaN and infinities, too."""
        values = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
        record = {"checkpoint": "layer_0_output", "token_idx": 0, "dtype": "f32", "shape": [1000]}
        with tempfile.TemporaryDirectory() as folder:
            ref, got = Path(folder) / "ref.jsonl", Path(folder) / "got.jsonl"
            ref.write_text(json.dumps(record | {"values": [float(x) for x in values]}) + "\n")

            def exit_code(x):
                got.write_text(json.dumps(record | {"n": 1000, "values": [], "sketch": self.page["sketch"](x)}) + "\n")
                return subprocess.run([os.environ["ASSAY"], "compare", "--evidence", "whole", ref, got], capture_output=True).returncode

            self.assertEqual(exit_code(values), 0)
            self.assertEqual(exit_code(np.roll(values, 1)), 1)


if __name__ == "__main__":
    unittest.main()
