"""Bad usage of a script is exit code 2 and its usage on standard error, as of the program; nothing else is done."""

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


if __name__ == "__main__":
    unittest.main()
