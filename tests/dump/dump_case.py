"""What the tests of dumps share: tensors, the log that they are, and how to ask the program."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    import safetensors.numpy  # noqa: F401
    import torch
except ImportError as missing:
    print(missing)
    sys.exit(77)

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import warm_python  # noqa: E402

PYTHON = warm_python.start()
TOKENS = 6
IDS = [1, 5, 9, 2, 7, 3]
WIDTHS = {"embedding": 16, "layer_0_output": 16, "layer_1_output": 16, "logits": 48}


def tensors():
    """Float32 [tokens, width] of each checkpoint."""
    random = np.random.default_rng(5)
    return {name: random.normal(size=(TOKENS, width)).astype(np.float32) for name, width in WIDTHS.items()}


class DumpCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def assay(self, *arguments, code=None, **environment):
        answer = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, errors="replace",
                                env={**os.environ, **PYTHON, **environment}, cwd=self.folder)  # fmt: skip
        if code is not None:
            self.assertEqual(answer.returncode, code, f"{arguments}\n{answer.stdout}{answer.stderr}")
        return answer

    def log(self, values, name="ref.jsonl", tokens=IDS):
        """The log of these tensors, whole."""
        with open(self.folder / name, "w") as log:
            print(json.dumps({"assay": 1, "model": {"name": "tiny"}, "tokens": tokens}), file=log)
            for checkpoint, rows in values.items():
                for token, row in enumerate(rows):
                    print(json.dumps({"checkpoint": checkpoint, "token_idx": token, "dtype": "f32", "shape": [1, len(row)],
                                      "values": [float(x) for x in row]}), file=log)  # fmt: skip
        return self.folder / name

    def refused(self, dump, *parts, command=("analyze",), **environment):
        """Bad input: exit code 2, one line on standard error that says all of `parts`."""
        answer = self.assay(*command, dump, code=2, **environment)
        lines = [line for line in answer.stderr.splitlines() if not line.startswith("assay: warning")]
        self.assertEqual(len(lines), 1, answer.stderr)
        for part in parts:
            self.assertIn(part, lines[0])
        self.assertNotIn("Traceback", answer.stderr)
