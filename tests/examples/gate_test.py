"""The gate of docs/ci.md, as its page gives it: gate_test.py ASSAY.

What would break: the CI of everybody who copies it, which would pass whatever the engine computes, or never.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ASSAY = Path(sys.argv.pop()).resolve()
GATE = ROOT / "examples" / "gate"
TOKENS = "1,287,74,83,88,279,290,292,309,299"
RIGHT = f'#!/bin/sh\nexec assay run model.gguf --tokens {TOKENS} -n 8 "$@"\n'
FAULTY = f"#!/bin/sh\nexec assay mutate model.gguf --fault scaled --tokens {TOKENS} -n 8 --checkpoints layers --log $ORCH_LOG_FILE\n"


class Gate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        shutil.copy(GATE / "parity.sh", self.folder)
        shutil.copy(ROOT / "golden" / "tinyllama" / "tinyllama-f32.gguf", self.folder / "model.gguf")

    def run_gate(self, engine, *arguments):
        (self.folder / "engine").write_text(engine)
        (self.folder / "engine").chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "ORCH_"))}
        environment["PATH"] = f"{ASSAY.parent}:{environment['PATH']}"
        return subprocess.run(
            ["./parity.sh", *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def test_what_is_right_passes_and_what_is_wrong_fails(self):
        renewed = self.run_gate(RIGHT, "renew")
        self.assertEqual(renewed.returncode, 0, renewed.stderr)
        same = self.run_gate(RIGHT)
        self.assertEqual(same.returncode, 0, same.stdout + same.stderr)
        self.assertIn("IN PARITY", same.stdout)
        faulty = self.run_gate(FAULTY)
        self.assertEqual(faulty.returncode, 1, faulty.stderr)
        self.assertIn("::error file=got.jsonl,title=first divergence%3A layer_1_output", faulty.stdout)

    def test_an_engine_that_fails_is_no_pass(self):
        self.assertEqual(self.run_gate(RIGHT, "renew").returncode, 0)
        self.assertNotEqual(self.run_gate("#!/bin/sh\nexit 3\n").returncode, 0)

    # Breaks if the log of an earlier run passes for an engine that no longer logs.
    def test_an_engine_that_logs_nothing_is_no_pass(self):
        self.assertEqual(self.run_gate(RIGHT, "renew").returncode, 0)
        self.assertEqual(self.run_gate(RIGHT).returncode, 0)
        silent = "#!/bin/sh\nexit 0\n"
        for arguments in ([], ["renew"]):
            done = self.run_gate(silent, *arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("cannot open: No such file", done.stdout + done.stderr)
        self.assertEqual(self.run_gate(RIGHT).returncode, 2, "the baseline is gone")

    def test_the_page_shows_the_files(self):
        page = (ROOT / "docs" / "ci.md").read_text()
        for name in ("parity.sh", "parity.yml"):
            self.assertIn(f"```\n{(GATE / name).read_text()}```\n", page, name)


if __name__ == "__main__":
    unittest.main()
