#!/usr/bin/env python3
"""Whether the presets that no test run builds can be configured: those of the sanitizers, of coverage and for a debugger.

Each is configured into a folder of its own, without CUDA, whose compiler takes seconds to be looked at. `release` is what
runs this test, `program` is what scripts/demo.sh builds, `fuzz` needs clang, and `cuda` a toolkit.
"""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {"release", "program", "fuzz", "cuda"}


def presets():
    named = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]
    return {preset["name"] for preset in named if not preset.get("hidden")}


class Presets(unittest.TestCase):
    def test_can_be_configured(self):
        self.assertLess(ELSEWHERE, presets())
        for name in sorted(presets() - ELSEWHERE):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                command = ["cmake", "--preset", name, "-B", folder, "-DASSAY_CUDA=OFF"]
                ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
                self.assertEqual(ran.returncode, 0, f"{' '.join(command)}\n{ran.stderr}")


if __name__ == "__main__":
    unittest.main()
