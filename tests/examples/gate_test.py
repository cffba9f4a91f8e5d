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
        self.folder = Path(folder.name) / "engine"
        self.folder.mkdir()
        shutil.copy(GATE / "parity.sh", self.folder)
        shutil.copy(ROOT / "golden" / "tinyllama" / "tinyllama-f32.gguf", self.folder / "model.gguf")

    def run_gate(self, engine, *arguments):
        (self.folder / "engine").write_text(engine)
        (self.folder / "engine").chmod(0o755)
        return self.run_here("./parity.sh", *arguments)

    def run_here(self, *command):
        foreign = ("GITHUB_", "GIT_", "ORCH_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        environment["PATH"] = f"{self.folder.parent}:{ASSAY.parent}:{environment['PATH']}"
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def git(self, *arguments):
        done = self.run_here("git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def commit(self, name, engine, build="exit 0\n"):
        (self.folder / "engine").write_text(engine)
        (self.folder / "engine").chmod(0o755)
        (self.folder / "build").write_text(build)
        (self.folder / "version").write_text(name)
        self.git("add", "engine", "build", "version")
        self.git("commit", "-qm", name)

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

    # Breaks if -e stands where a shell that is given the script does not read it.
    def test_an_engine_that_fails_behind_its_log_is_no_pass(self):
        self.assertEqual(self.run_gate(RIGHT, "renew").returncode, 0)
        (self.folder / "engine").write_text(RIGHT.replace("exec ", "") + "exit 3\n")
        for command in (["./parity.sh"], ["sh", "parity.sh"]):
            self.assertEqual(self.run_here(*command).returncode, 3, command)

    # Breaks if the log of an earlier run passes for an engine that no longer logs.
    def test_an_engine_that_logs_nothing_is_no_pass(self):
        self.assertEqual(self.run_gate(RIGHT, "renew").returncode, 0)
        self.assertEqual(self.run_gate(RIGHT).returncode, 0)
        silent = "#!/bin/sh\nexit 0\n"
        for arguments in ([], ["renew"]):
            done = self.run_gate(silent, *arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("cannot open: No such file", done.stdout + done.stderr)
        self.assertEqual(self.run_gate(RIGHT).returncode, 0, "the old baseline and its policy are there")

    # Breaks if a baseline that has no policy of its own stays beside the old one, which a wrong engine then passes.
    def test_a_renewal_that_fails_changes_nothing(self):
        self.assertEqual(self.run_gate(RIGHT, "renew").returncode, 0)
        alike = FAULTY.replace('"$@"', "")  # the second run is the first, so that there are no floors
        self.assertEqual(self.run_gate(alike, "renew").returncode, 2)
        self.assertEqual(self.run_gate(alike).returncode, 1)
        self.assertEqual(self.run_gate(RIGHT).returncode, 0)

    # Breaks if a commit that tells nothing counts as wrong, as git takes every exit code but 0 and 125.
    def test_bisection_finds_the_commit_beside_some_that_cannot_be_judged(self):
        self.assertEqual(self.run_gate(RIGHT, "renew").returncode, 0)
        gate = self.folder.parent / "gate"
        shutil.copytree(self.folder / "parity", gate / "parity")
        shutil.copy(GATE / "bisect.sh", gate)
        (self.folder.parent / "make").write_text("#!/bin/sh\nexec sh build\n")
        (self.folder.parent / "make").chmod(0o755)
        self.git("init", "-q")
        self.commit("right", RIGHT)
        self.git("tag", "v1.0")
        self.commit("does not build", FAULTY, "exit 1\n")
        self.commit("crashes", "#!/bin/sh\nexit 3\n")
        self.commit("right again", RIGHT)
        self.commit("wrong", FAULTY)
        self.commit("logs nothing", "#!/bin/sh\n")
        self.commit("still wrong", FAULTY)
        self.git("bisect", "start", "HEAD", "v1.0")
        said = self.git("bisect", "run", str(gate / "bisect.sh"))
        wrong = self.git("rev-parse", "refs/bisect/bad").strip()
        self.assertIn(f"{wrong} is the first bad commit", said)
        self.assertEqual(self.git("show", "-s", "--format=%s", wrong), "wrong\n")

    # Breaks if every commit were skipped, or wrong, where nothing was compared.
    def test_bisection_stops_without_assay(self):
        gate = self.folder.parent / "gate"
        gate.mkdir()
        shutil.copy(GATE / "bisect.sh", gate)
        done = subprocess.run([gate / "bisect.sh"], cwd=self.folder, env={"PATH": "/usr/bin:/bin"}, check=False)
        self.assertGreater(done.returncode, 127)

    # Breaks if a log that cannot be removed is judged in the place of that of an engine that logs nothing.
    def test_bisection_stops_at_a_log_that_stays(self):
        gate = self.folder.parent / "gate"
        gate.mkdir()
        shutil.copy(GATE / "bisect.sh", gate)
        (self.folder.parent / "make").write_text("#!/bin/sh\n")
        (self.folder.parent / "make").chmod(0o755)
        (self.folder / "got.jsonl").mkdir()
        (self.folder / "engine").write_text("#!/bin/sh\n")
        (self.folder / "engine").chmod(0o755)
        self.assertEqual(self.run_here(str(gate / "bisect.sh")).returncode, 255)

    def test_the_page_shows_the_files(self):
        page = (ROOT / "docs" / "ci.md").read_text()
        for name in ("parity.sh", "parity.yml", "bisect.sh"):
            self.assertIn(f"```\n{(GATE / name).read_text()}```\n", page, name)


if __name__ == "__main__":
    unittest.main()
