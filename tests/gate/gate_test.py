"""bench/gate.py and scripts/perf.sh on invented benchmarks, bench/accuracy.py on real models: python3 gate_test.py, with ASSAY_PROGRAM set."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = os.environ["ASSAY_PROGRAM"]
ROOT = Path(os.environ["ASSAY_SOURCE_DIR"])

# Answers as assay_bench does; how long an iteration takes is an expression of the benchmark's name and of how many
# times this program was asked before. Notes each call.
FAKE = """#!{python} -IS
import json, random, re, sys
flags = dict(flag.lstrip("-").split("=", 1) for flag in sys.argv[1:])
names = [name for name in {names!r} if re.search(flags["benchmark_filter"], name)]
if "benchmark_list_tests" in flags:
    print("\\n".join(names))
    sys.exit()
with open({calls!r}, "a+") as file:
    file.write({side!r} + " " + " ".join(names) + "\\n")
    file.seek(0)
    n = sum(line.startswith({side!r}) for line in file)
noise = random.Random(n * 7 + len({side!r} + {text!r}))
entries = []
for name in names:
    for i in range(int(flags["benchmark_repetitions"])):
        entry = {{"name": name, "run_name": name, "run_type": "iteration", "time_unit": "us"}}
        entry["real_time"] = 100 * (1 + 0.002 * noise.random()) * ({text})
        entry.update({extra!r})
        entries.append(entry)
print(json.dumps({{"context": {{"memory_bandwidth_gb_s": "20.00", "num_cpus": 2}}, "benchmarks": entries}}))
"""


class FakeBenches(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.calls = os.path.join(self.folder.name, "calls")

    def fake(self, side, text="1", names=("add", "mul"), extra=None):
        path = os.path.join(self.folder.name, side + "_bench")
        Path(path).write_text(FAKE.format(python=sys.executable, names=list(names), calls=self.calls, side=side,
                                          text=text, extra=extra or {}))
        os.chmod(path, 0o755)
        return path


class GateTest(FakeBenches):
    def gate(self, base, head, *more, rounds=12):
        return subprocess.run([sys.executable, ROOT / "bench/gate.py", base, head, "--assay", PROGRAM, "--out",
                               os.path.join(self.folder.name, "out"), "--rounds", str(rounds), *more],
                              capture_output=True, text=True, check=False)

    def called(self):
        return Path(self.calls).read_text().splitlines()

    def test_equal_builds_pass_and_take_turns(self):
        answer = self.gate(self.fake("base"), self.fake("head"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        adds = [line.split()[0] for line in self.called() if line.endswith("add")][1:]  # the first finds repetitions
        self.assertEqual(adds[:4], ["base", "head", "head", "base"])
        self.assertEqual(len(adds), 24)

    def test_a_slowdown_is_measured_twice_and_fails(self):
        answer = self.gate(self.fake("base"), self.fake("head", "1.05 if name == 'mul' else 1"))
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertIn("measured again: mul; still slower: mul", answer.stdout)
        self.assertEqual(sum(line == "head mul" for line in self.called()), 24)
        self.assertEqual(sum(line == "head add" for line in self.called()), 12)

    # What one stretch of time did to head alone is no slowdown.
    def test_what_is_slow_only_once_passes(self):
        answer = self.gate(self.fake("base"), self.fake("head", "1.2 if n <= 24 else 1"))
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("still slower: none", answer.stdout)

    # Every fourth pair is spoilt: too few for twelve of them to be sure of 4 %.
    def test_what_is_not_sure_gets_more_pairs(self):
        answer = self.gate(self.fake("base", names=["add"]),
                           self.fake("head", "0.8 if n % 4 == 0 else 1.04", names=["add"]))
        self.assertGreaterEqual(sum(line == "head add" for line in self.called()), 24)
        self.assertIn(answer.returncode, (1, 2), answer.stderr)  # 4 % is never the same

    # Six times one round are not the eight pairs that could confirm anything.
    def test_too_few_rounds_for_what_seems_slower_are_told(self):
        answer = self.gate(self.fake("base", names=["add"]), self.fake("head", "3", names=["add"]), rounds=1)
        self.assertEqual(answer.returncode, 2, answer.stdout)
        self.assertEqual(answer.stderr.splitlines(), [
            "gate.py: the pairs are too few to tell whether something is slower: raise --rounds (ROUNDS of "
            "scripts/perf.sh)"])

    def test_what_cannot_be_measured_is_an_error(self):
        for head, message in (({"names": ["other"]}, "no benchmark that both have"),
                              ({"extra": {"error_occurred": True}}, "does not say why"),
                              ({"extra": {"error_occurred": True, "error_message": "no GPU"}}, "no GPU"),
                              (None, "/bin/false failed")):
            answer = self.gate(self.fake("base"), self.fake("head", **head) if head else "/bin/false")
            self.assertEqual(answer.returncode, 2, answer.stdout)
            self.assertEqual(len(answer.stderr.strip().splitlines()), 1, answer.stderr)
            self.assertIn(message, answer.stderr)

    def test_what_only_one_has_is_named(self):
        sides = self.fake("base", names=["add", "old"]), self.fake("head", names=["add", "new"])
        answer = self.gate(*sides)
        self.assertEqual(answer.returncode, 2, answer.stdout)
        self.assertEqual(answer.stderr, "gate.py: the head lacks a time that the base has: old\n")
        answer = self.gate(*sides, "--allow-missing", "ol?")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        out = os.path.join(self.folder.name, "out")
        judged = subprocess.run([PROGRAM, "perf", out + "/base.json", out + "/head.json", "--format", "json"],
                                capture_output=True, text=True, check=False)
        self.assertEqual(json.loads(judged.stdout)["only_base"], ["old"])
        self.assertEqual(json.loads(judged.stdout)["only_head"], ["new"])


class AccuracyTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_accuracy(self, engine, *more, models="^tinyllama-(F16|Q4_K_M)"):
        return subprocess.run([sys.executable, "bench/accuracy.py", engine, "--judge", PROGRAM, "--out",
                               os.path.join(self.folder.name, "out"), "--models", models, *more],
                              cwd=ROOT, capture_output=True, text=True, check=False)

    def test_every_prompt_of_every_math_is_held_to_its_golden(self):
        answer = self.run_accuracy(PROGRAM)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        files = sorted(os.listdir(os.path.join(self.folder.name, "out")))
        self.assertEqual(files, [f"tinyllama-{kind}-{prompt}.json" for kind in ("F16-exact", "Q4_K_M-exact", "Q4_K_M-fast")
                                 for prompt in ("haiku", "long", "unicode")])
        for file in files:
            judged = json.loads(Path(self.folder.name, "out", file).read_text())
            self.assertTrue(judged["pass"], file)
            self.assertGreater(len(judged["results"]), 5)

    # What llama.cpp's error is not known of stops nothing else.
    def test_what_has_no_floor_of_fast_is_left_out_by_name(self):
        answer = self.run_accuracy(PROGRAM, models="^granite-Q4_K_M")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stderr, "left out: granite Q4_K_M fast: golden/granite/manifest.json has no "
                                        "llamacpp_as_stored_vs_f64\n")  # fmt: skip
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder.name, "out"))),
                         ["granite-Q4_K_M-exact-haiku.json", "granite-Q4_K_M-exact-long.json"])
        answer = self.run_accuracy(PROGRAM, models="^granite-Q4_K_M-fast")
        self.assertEqual(answer.returncode, 2, answer.stdout)

    def test_an_engine_that_cannot_run_is_an_error_but_for_the_base(self):
        engine = os.path.join(self.folder.name, "engine")
        Path(engine).write_text(f"#!/bin/sh\ncase \"$*\" in *'--math fast'*) echo no fast here >&2; exit 2;; esac\nexec {PROGRAM} \"$@\"\n")
        os.chmod(engine, 0o755)
        answer = self.run_accuracy(engine)
        self.assertEqual(answer.returncode, 2)
        self.assertIn("tinyllama-Q4_K_M-fast-haiku: no fast here", answer.stderr)
        answer = self.run_accuracy(engine, "--base")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(len(os.listdir(os.path.join(self.folder.name, "out"))), 6)


# Builds nothing: the programs are there.
FAKE_CMAKE = """#!/bin/sh
[ "$1" = --build ] || exit 0
mkdir -p build/release/bin
case $PWD in */tree) bench={base};; *) bench={head};; esac
ln -sf "$bench" build/release/bin/assay_bench
ln -sf {program} build/release/bin/assay
"""


class ScriptTest(FakeBenches):
    """scripts/perf.sh in a repository that has nothing else."""

    def perf(self, base, head, rounds):
        root = Path(self.folder.name, "sources")
        for name in ("scripts/perf.sh", "bench/gate.py", "bench/accuracy.py"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
        (root / "golden").symlink_to(ROOT / "golden")
        cmake = Path(self.folder.name, "path", "cmake")
        cmake.parent.mkdir()
        cmake.write_text(FAKE_CMAKE.format(base=base, head=head, program=PROGRAM))
        cmake.chmod(0o755)
        for arguments in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty",
                                           "-m", "base"]):
            subprocess.run(["git", "-C", root, *arguments], check=True)
        self.results = root / "build/perf"
        self.results.mkdir(parents=True)
        for name in ("base.json", "head.json", "report.json", "report.html"):
            Path(self.results, name).write_text("of an earlier run")
        answer = subprocess.run([root / "scripts/perf.sh"], capture_output=True, text=True, check=False,
                                env={**os.environ, "PATH": f"{cmake.parent}:{os.environ['PATH']}", "ROUNDS": str(rounds),
                                     "FILTER": ".", "GOLDENS": "^tinyllama-F32", "GITHUB_STEP_SUMMARY": ""})
        reports = {path.name: path.read_text() for path in self.results.glob("report.[jh]*")}
        return answer, reports

    # What would break: no goldens and no report, of which docs/ci.md says that it is written all the same.
    def test_too_few_pairs_are_reported_with_the_goldens(self):
        answer, reports = self.perf(self.fake("base", names=["add"]), self.fake("head", "3", names=["add"]), 1)
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertEqual(answer.stdout.count("3 prompts compared with their goldens"), 2)
        self.assertEqual(answer.stderr.count("too few to confirm it"), 1, answer.stderr)
        judged = json.loads(reports["report.json"])
        self.assertTrue(judged["too_few_pairs"])
        self.assertEqual([model["refused"] for model in judged["models"]], [False])
        self.assertIn("<html", reports["report.html"])

    def test_slow_is_a_verdict(self):
        answer, reports = self.perf(self.fake("base", names=["add"]), self.fake("head", "1.2", names=["add"]), 12)
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertEqual(json.loads(reports["report.json"])["verdict"], "SLOW")
        self.assertIn("<html", reports["report.html"])

    # What would break: a report on the times of an earlier run.
    def test_what_cannot_be_measured_has_no_report(self):
        answer, reports = self.perf(self.fake("base"), "/bin/false", 1)
        self.assertEqual(answer.returncode, 2)
        self.assertIn("head_bench failed", answer.stderr)
        self.assertNotIn("==> goldens", answer.stdout)
        self.assertEqual(reports, {})


if __name__ == "__main__":
    unittest.main()
