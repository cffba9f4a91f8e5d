"""The page of numbers from a small tree and made-up runs: status_test.py SCRIPT

What would break: a page that counts a failed or skipped test as passed, or leaves a part out without a word.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(sys.argv.pop())

JUNIT = """<testsuite><testcase name="a" status="run" time="1.5"/><testcase name="b" status="fail" time="2"/>
<testcase name="c" status="notrun" time="0"/></testsuite>"""
TESTS = {
    "tests": [
        {"name": "a", "properties": [{"name": "LABELS", "value": ["unit"]}]},
        {"name": "b", "properties": [{"name": "LABELS", "value": ["unit", "faults"]}]},
        {"name": "c", "properties": [{"name": "LABELS", "value": ["golden"]}]},
        {"name": "d", "properties": [{"name": "LABELS", "value": ["slow"]}]},
        {"name": "e"},
    ]
}
COVERED = {
    "files": [
        {"filename": "engine/a.cc", "line_total": 8, "line_covered": 7, "branch_total": 4, "branch_covered": 1},
        {"filename": "assay/log/b.cc", "line_total": 2, "line_covered": 2, "branch_total": 0, "branch_covered": 0},
    ]
}
PERFORMANCE = """# P

## Beside llama.cpp
`fast`, prompts:

| model | decode | llama.cpp | ratio | each round | prefill | llama.cpp | ratio |
|---|---|---|---|---|---|---|---|
| M | 4 | 2 | 2.00 | 1 to 3 | 9 | 3 | 3.00 |
| geometric mean | | | 2.00 | | | | 3.00 |

| model | than before |
|---|---|
| one more | 1.04 |

## Next
"""


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.put("HACKING.md", "| folder | what it is |\n|---|---|\n| `engine/` | x |\n| `assay/log/` | y |\n")
        self.put("engine/a.cc", "one\n\ntwo\n")
        self.put("assay/log/b.cc", "one\n")
        self.put("docs/mutation.md", "## Results\n\n- 9 of 9 faults are caught\n\nmore\n")
        self.put("docs/ci.md", "### How often it is wrong\nwords\n\n| builds | tries |\n|---|---|\n| equal | 51 |\n\nmore\n")
        self.put("docs/performance.md", PERFORMANCE)
        for preset in ("release", "coverage"):
            self.put(f"build/status/{preset}.junit.xml", JUNIT)
            self.put(f"build/status/{preset}.tests.json", json.dumps(TESTS))
            self.put(f"build/status/{preset}.run.json", json.dumps({"seconds": 61, "commit": "abc", "cores": 2, "tests": "all"}))
        self.put("build/status/coverage.json", json.dumps(COVERED))
        (self.root / "scripts").mkdir()
        shutil.copy(SCRIPT, self.root / "scripts/status.py")
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        subprocess.run(["git", "add", "engine", "assay"], cwd=self.root, check=True)

    def put(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_script(self, *arguments):
        command = [sys.executable, self.root / "scripts/status.py", *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def page(self):
        answer = self.run_script("page")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        return (self.root / "docs/status.md").read_text()

    def refused(self, message, *arguments):
        answer = self.run_script(*arguments)
        self.assertEqual(answer.returncode, 2)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(message, answer.stderr)

    def test_each_part_has_its_numbers(self):
        text = self.page()
        for line in (
            "3 tests, 1 passed, 1 skipped, 1 failed, in 61 s",
            "| faults | 1 | 0 | 0 | 1 | 0 | 2 |",
            "| golden | 1 | 0 | 1 | 0 | 0 | 0 |",
            "| slow | 1 | 0 | 0 | 0 | 1 | 0 |",
            "| unit | 2 | 1 | 0 | 1 | 0 | 4 |",
            "| `engine/` | 8 | 87.5 % | 4 | 25.0 % |",
            "| `assay/log/` | 2 | 100.0 % | 0 | - |",
            "| `engine/` | 1 | 2 |",
            "| all | 2 | 3 |",
            "1 tests, 1 failed, 0 passed, 0 skipped",
            "- 9 of 9 faults are caught",
            "tests/fuzz/results.json is not there",
            "tests/sanitizers.json is not there",
            "to a program's standard error: `b`.",
            "| fast | M | 2.00 | 3.00 |",
            "| equal | 51 |",
        ):
            self.assertIn(line, text)
        self.assertNotIn("more", text)

    def test_fuzzers_are_counted(self):
        self.put("tests/fuzz/results.json", json.dumps({"gguf": {"executions": 20000000, "seconds": 1800, "findings": 1}}))
        self.assertIn("| `gguf` | 20,000,000 | 1,800 | 1 |", self.page())

    def test_what_sanitizers_saw_is_counted(self):
        self.put("tests/sanitizers.json", json.dumps({"asan": {"commit": "abc", "run": 7, "skipped": 2, "failed": 1}}))
        self.assertIn("| `asan` | abc | 7 | 2 | 1 |", self.page())

    def test_coverage_that_was_not_measured_again_stays(self):
        before = self.page()
        (self.root / "build/status/coverage.json").unlink()
        self.assertEqual(self.page(), before)

    def test_what_is_missing_is_named(self):
        (self.root / "build/status/coverage.json").unlink()
        self.assertIn("Not measured: `scripts/status.py measure coverage`", self.page())
        (self.root / "build/status/release.junit.xml").unlink()
        self.refused("release.junit.xml: No such file or directory; run status.py measure first", "page")
        self.put("build/status/release.junit.xml", JUNIT)
        self.put("docs/performance.md", "# P\n")
        self.refused("docs/performance.md: no table of ratios", "page")
        self.refused("'nightly'", "measure", "nightly")


if __name__ == "__main__":
    unittest.main()
