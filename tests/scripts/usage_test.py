"""Bad usage of a script is exit code 2 and its usage on standard error, as of the program; nothing else is done. Nor is
it where help is asked for."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WRONG = {
    "golden/test_logging.sh": ([], ["gpt2", "a", "b"]),
    "scripts/fetch.sh": ([], ["nothing"]),
    "scripts/fetch_packages.py": ([], ["a", "b"]),
    "scripts/fetch_smollm2.py": ([], ["a", "b"]),
    "scripts/fetch_vocabularies.py": ([], ["a", "b"]),
    "scripts/gpu_run.sh": ([], ["decode"], ["decode", "gpt5"], ["sanitize", "hands"], ["tests", "all"]),
    "scripts/quantise_smollm2.py": ([], ["a", "b"]),
    "scripts/setup.sh": (["nothing"],),
}
# Of what builds, or installs.
HELPED = ("demo", "gpu_test", "lint", "perf", "quick", "test")


class Usage(unittest.TestCase):
    def test_bad_usage_is_exit_code_2_and_one_line(self):
        for script, calls in WRONG.items():
            for arguments in calls:
                with self.subTest(script=script, arguments=arguments), tempfile.TemporaryDirectory() as folder:
                    runner = [sys.executable] if script.endswith(".py") else ["bash"]
                    answer = subprocess.run(
                        [*runner, ROOT / script, *arguments], cwd=folder, capture_output=True, text=True, check=False
                    )
                    self.assertEqual(answer.returncode, 2, answer.stderr)
                    self.assertIn("usage: ", answer.stderr)
                    self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
                    self.assertEqual(answer.stdout, "")
                    self.assertEqual(list(Path(folder).iterdir()), [])

    def test_help_is_the_usage_and_nothing_is_built(self):
        for name in HELPED:
            for flag in ("--help", "-h"):
                with self.subTest(script=name, flag=flag), tempfile.TemporaryDirectory() as folder:
                    # A copy, whose folder has nothing that could be built.
                    script = Path(folder) / "scripts" / f"{name}.sh"
                    script.parent.mkdir()
                    shutil.copy(ROOT / "scripts" / script.name, script)
                    answer = subprocess.run(["bash", script, flag], capture_output=True, text=True, check=False)
                    self.assertEqual((answer.returncode, answer.stderr), (0, ""))
                    head = (ROOT / "scripts" / script.name).read_text().split("\nset -")[0].splitlines()[1:]
                    self.assertEqual(answer.stdout.splitlines(), [line.removeprefix("#").removeprefix(" ") for line in head])
                    self.assertEqual(list(Path(folder).iterdir()), [script.parent])


if __name__ == "__main__":
    unittest.main()
