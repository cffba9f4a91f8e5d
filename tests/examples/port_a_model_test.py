"""docs/tutorial.md with its own commands: port_a_model_test.py ASSAY; exit 77 without gguf and numpy.

What would break: the tutorial, for everybody who tries Assay with an engine of their own.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import gguf  # noqa: F401
    import numpy  # noqa: F401
except ImportError as missing:
    print(missing)
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
ASSAY = sys.argv.pop()
GOLDEN = ROOT / "golden" / "tinyllama"
MANIFEST = json.loads((GOLDEN / "manifest.json").read_text())
FILE = next(file for file in MANIFEST["files"] if file["type"] == "F32")
TOKENS = MANIFEST["prompts"]["haiku"]["tokens"] + FILE["logs"][0]["greedy"][:-1]


class Tutorial(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        shutil.copytree(ROOT / "python" / "assay_tap", self.folder / "python" / "assay_tap")
        shutil.copytree(ROOT / "examples" / "port_a_model", self.folder / "examples" / "port_a_model")

    def compare(self, reference, *more, only=""):
        engine = self.folder / "examples" / "port_a_model" / "engine.py"
        log = self.folder / "mine.jsonl"
        tokens = ",".join(map(str, TOKENS))
        subprocess.run([sys.executable, engine, GOLDEN / FILE["gguf"], "--tokens", tokens, "--log", log], check=True)
        logs = [GOLDEN / reference, log]
        if only:  # records of this checkpoint, and the header
            for i, path in enumerate(logs):
                logs[i] = self.folder / f"{i}.jsonl"
                lines = path.read_text().splitlines(keepends=True)
                logs[i].write_text("".join(line for line in lines if '"tokens"' in line or f'"{only}"' in line))
        answer = subprocess.run(
            [ASSAY, "compare", *logs, "--policy", GOLDEN / "manifest.json", *more, "--format", "json"],
            capture_output=True, text=True,
        )  # fmt: skip
        self.assertIn(answer.returncode, (0, 1), answer.stderr)
        return json.loads(answer.stdout)

    def plant(self):
        patch = ROOT / "examples" / "port_a_model" / "planted_bug.patch"
        subprocess.run(["git", "apply", patch], cwd=self.folder, check=True)

    def test_the_engine_is_in_parity(self):
        for reference in ("f32.jsonl", "f32-ops.jsonl"):
            report = self.compare(reference)
            self.assertEqual(report["verdict"], "noise")
            self.assertGreater(report["summary"]["compared"], 100)
            self.assertEqual(report["summary"]["failed"], 0)

    def test_its_planted_bug_is_named(self):
        self.plant()
        report = self.compare("f32.jsonl")
        self.assertEqual(report["first_divergence"]["checkpoint"], "layer_0_output")
        model = GOLDEN / FILE["gguf"]
        for reference, where in (("f32.jsonl", "layer_0_output"), ("f32-ops.jsonl", "layer_0_q_rope")):
            report = self.compare(reference, "--model", model)
            self.assertEqual(report["verdict"], "wrong")
            self.assertEqual(report["first_divergence"]["checkpoint"], where)
            self.assertEqual([cause["name"] for cause in report["causes"]], ["rope_pairing"])

    def test_logits_alone_name_it_too(self):
        self.plant()
        report = self.compare("f32.jsonl", "--model", GOLDEN / FILE["gguf"], only="logits")
        self.assertEqual(report["first_divergence"]["checkpoint"], "logits")
        self.assertEqual([cause["name"] for cause in report["causes"]], ["rope_pairing"])


if __name__ == "__main__":
    unittest.main()
