"""tests/support/run_listed.py: the exit codes of tests that are scripts."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

RUN_LISTED = Path(__file__).resolve().parents[1] / "support" / "run_listed.py"


class Listed(unittest.TestCase):
    def ends(self, name, code, required=""):
        command = [sys.executable, RUN_LISTED, name, "sh", "-c", f"exit {code}"]
        environment = dict(os.environ, ASSAY_REQUIRE_MODELS=required)
        return subprocess.run(command, capture_output=True, check=False, env=environment).returncode

    def test_what_is_installed_must_be_there_where_that_is_asked_for(self):
        self.assertEqual(self.ends("Page.InChromium", 77, "1"), 1)
        self.assertEqual(self.ends("Page.InChromium", 77, "0"), 77)
        self.assertEqual(self.ends("SkipGate.Listed", 77, "1"), 77)  # for want of a GPU
        self.assertEqual(self.ends("Page.InChromium", 0, "1"), 0)

    def test_a_listed_script_may_skip(self):
        self.assertEqual(self.ends("Page.InChromium", 77), 77)

    def test_one_that_is_not_listed_fails(self):
        for name in ("Page.InOtherBrowsers", "Page.In", "program", "#"):
            self.assertEqual(self.ends(name, 77), 1, name)

    def test_other_codes_are_the_scripts_own(self):
        for code in (0, 1, 2):
            self.assertEqual(self.ends("Page.InChromium", code), code)
            self.assertEqual(self.ends("Page.InOtherBrowsers", code), code)

    def test_a_signal_is_a_failure(self):
        command = [sys.executable, RUN_LISTED, "Page.InChromium", "sh", "-c", "kill -9 $$"]
        self.assertEqual(subprocess.run(command, check=False).returncode, 1)


if __name__ == "__main__":
    unittest.main()
