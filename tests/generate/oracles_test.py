"""The oracles' command lines and the resumption of `python -m generate`.

Needs what golden/generate/requirements.txt pins, and skips without.
"""

import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("torch", "transformers", "llama_cpp", "gguf", "tqdm", "numpy")
MISSING = [name for name in NEEDED if find_spec(name) is None]
SKIPPED = 77
PROMPT = "GPU haiku with word fifty-one: "
MODELS = {"tinyllama": 33, "llama3": 33, "qwen2.5": 33, "phi3": 33, "gpt2": 27}


def run(*arguments, cwd=ROOT / "golden"):
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False
    )


def records(path):
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return lines[0], {(line["checkpoint"], line["token_idx"]): line for line in lines[1:]}


def distance(a, b):
    """Estimated relative L2 of two records, from their sketches."""
    squares = [(x - y) ** 2 for x, y in zip(a["sketch"], b["sketch"], strict=True)]
    return (sum(squares) / len(squares)) ** 0.5 / a["summary"]["l2"]


class Oracles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = Path(folder.name) / "log.jsonl"

    def worst(self, oracle, model, *options):
        """The greatest distance from the committed fixture, and how many of its records were held to."""
        path = ROOT / "golden" / model / f"{model}-f32.gguf"
        answer = run(f"generate.{oracle}", path, "--prompt", PROMPT, "-n", 8, "--log", self.log, "--sketch", *options)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        _, golden = records(path.with_name("f32-ops.jsonl"))
        _, got = records(self.log)
        self.assertEqual(len({name for name, _ in got}), MODELS[model])
        distances = [distance(record, got[key]) for key, record in golden.items()]
        self.assertTrue(all(map(math.isfinite, distances)))  # max() may lose a NaN
        return max(distances)

    def test_float64_is_the_golden(self):
        for model in MODELS:
            with self.subTest(model):
                self.assertLess(self.worst("hf", model), 1e-8)  # the fixture's sketch has nine digits

    def test_bfloat16_is_off_by_its_format(self):
        worst = self.worst("hf", "tinyllama", "--dtype", "bfloat16")
        self.assertGreater(worst, 1e-3)
        self.assertLess(worst, 1e-1)

    def test_llama_cpp_is_off_by_float32(self):
        for model in ("tinyllama", "llama3", "qwen2.5"):
            with self.subTest(model):
                self.assertLess(self.worst("llamacpp", model), 2e-6)

    def test_what_cannot_be_run_is_one_line(self):
        model = ROOT / "golden" / "gpt2" / "gpt2-f32.gguf"
        for arguments in (
            ("nothing.gguf", "--prompt", "x"),
            (ROOT / "README.md", "--prompt", "x"),
            (model, "--tokens", "1,x"),
        ):
            for oracle in ("hf", "llamacpp"):
                answer = run(f"generate.{oracle}", *arguments, "--log", self.log)
                self.assertEqual(answer.returncode, 2)
                self.assertNotIn("Traceback", answer.stderr)
                self.assertFalse(self.log.exists())


class Resumption(unittest.TestCase):
    def hashes(self, folder):
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (folder / "gpt2").iterdir()}

    def test_a_killed_run_is_taken_up_and_ends_in_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            for part in ("golden/generate", "golden/gpt2", "python/assay_tap"):
                shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
            golden, units = root / "golden", root / ".cache" / "generate" / "gpt2"
            committed = self.hashes(golden)
            shutil.rmtree(golden / "gpt2")
            command = [sys.executable, "-m", "generate", "gpt2"]
            with subprocess.Popen(command, cwd=golden, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
                while len(list(units.glob("*.json"))) < 4:
                    self.assertIsNone(first.poll(), "the run ended before it could be killed")
                    time.sleep(0.05)
                os.kill(first.pid, signal.SIGKILL)
            kept = {path: path.stat().st_mtime_ns for path in units.glob("*.json")}
            self.assertFalse((golden / "gpt2" / "manifest.json").exists())
            with subprocess.Popen(command, cwd=golden, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as second:
                while second.poll() is None and len(list(units.glob("*.json"))) <= len(kept):
                    time.sleep(0.02)
                again = {path: path.stat().st_mtime_ns for path in kept if path.exists()}
                error = second.communicate()[1]
            self.assertEqual(second.returncode, 0, error)
            self.assertEqual(again, kept, "a finished unit was made again")
            self.assertFalse(units.exists())
            self.assertEqual(self.hashes(golden), committed)


def main():
    if MISSING:
        print(f"skipped: no {', '.join(MISSING)} here; see golden/generate/requirements.txt")
        return SKIPPED
    result = unittest.main(exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
