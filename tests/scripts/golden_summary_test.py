#!/usr/bin/env python3
"""Whether scripts/golden_summary.sh can fail: golden_summary_test.py ASSAY."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.argv.pop(1)).resolve()


class GoldenSummary(unittest.TestCase):
    """A tree with one model, Q8_0 of TinyLlama."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name)
        self.golden = self.tree / "golden" / "tinyllama"
        for place in ("scripts", "build/release/bin", "golden/tinyllama"):
            (self.tree / place).mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "golden_summary.sh", self.tree / "scripts")
        (self.tree / "build/release/bin/assay").symlink_to(PROGRAM)
        for name in ("manifest.json", "q8_0.jsonl", "tinyllama-q8_0.gguf"):
            shutil.copy(ROOT / "golden" / "tinyllama" / name, self.golden)

    def run_script(self):
        environment = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
        return subprocess.run(["bash", self.tree / "scripts" / "golden_summary.sh"], env=environment, capture_output=True, text=True)

    def test_a_model_in_parity_is_one_line(self):
        answer = self.run_script()
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.assertEqual(answer.stdout, "- tinyllama q8_0: in parity with golden/tinyllama/q8_0.jsonl\n")

    def test_a_golden_that_differs_is_exit_code_one(self):
        path = self.golden / "q8_0.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line.replace('"values":[', '"values":[9', 1) for line in lines))
        self.assertEqual(self.run_script().returncode, 1)

    # What would break: a green job in which nothing ran.
    def test_no_model_is_exit_code_two(self):
        (self.golden / "tinyllama-q8_0.gguf").unlink()
        answer = self.run_script()
        self.assertEqual(answer.returncode, 2)
        self.assertRegex(answer.stderr, r"^golden_summary\.sh: no golden/MODEL/\*\.gguf; .*\n$")


if __name__ == "__main__":
    unittest.main()
