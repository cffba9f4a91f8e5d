"""scripts/gpu_run.sh: the parts of a bundle, their clock and their summary, without a GPU."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIRST = '[ "$GTEST_SHARD_INDEX" = 0 ] || exit 0'  # of the processes of a step
TEST = f"""{FIRST}
echo "[       OK ] Gpu/OpTest.Matmul/cuda_seed_0 (12 ms)"
case "$1" in *LibraryTest*) echo "[  SKIPPED ] Gpu/LibraryTest.Prompts/0 (0 ms)" ;; esac
"""
BENCH = """echo "assay_bench: no benchmarks of cuBLAS: it is missing" >&2
case "$1" in *cublas*) ;; *) echo "cuda/matrix_vector/Q4_K/real_time 25.1 us 24.9 us 100 bandwidth_share=0.8/s" ;; esac
"""


class GpuRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here = Path(folder.name)
        shutil.copy(ROOT / "scripts/gpu_run.sh", self.here / "run.sh")
        (self.here / "repository").write_text(f"{ROOT}\n")
        self.program("nvidia-smi", 'echo "A GPU, 580.1"')
        self.program("emulated_test", TEST)
        self.program("golden_test", TEST)
        self.program("assay_bench", BENCH)
        self.program("assay", 'while [ "$1" != -o ]; do shift; done; : >"$2"')

    def program(self, name, text):
        path = self.here / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run_part(self, *part, seconds=470):
        environment = dict(os.environ, PATH=f"{self.here}/bin:{os.environ['PATH']}", ASSAY_PART_SECONDS=str(seconds))
        return subprocess.run(
            ["bash", self.here / "run.sh", *part], capture_output=True, text=True, check=False, env=environment
        )

    def summary(self):
        return (self.here / "results/summary.txt").read_text()

    def test_without_a_driver_it_is_one_line(self):
        self.program("nvidia-smi", "echo broken; exit 9")
        answer = self.run_part("tests")
        self.assertEqual(answer.returncode, 2)
        self.assertEqual(answer.stderr, "run.sh: no GPU or no driver here: nvidia-smi fails\n")
        self.assertEqual(answer.stdout, "")

    def test_tests_are_counted_and_kept(self):
        answer = self.run_part("tests")
        self.assertEqual(answer.returncode, 0, answer.stdout)
        self.assertRegex(self.summary(), "tests on A GPU, 580.1\n  single ops have the CPU's bits: ok, [0-9]+ s: 1 passed, 0 failed")
        self.assertRegex(self.summary(), "products against cuBLAS: ok, [0-9]+ s: 1 passed, 0 failed, 1 skipped\n")
        self.assertIn("OpTest.Matmul", (self.here / "results/tests.1.txt").read_text())

    def test_a_failure_is_named_and_the_rest_runs(self):
        self.program("emulated_test", f'{FIRST}; echo "[  FAILED  ] Gpu/OpTest.Rope/cuda_seed_0 (3 ms)"; exit 1')
        answer = self.run_part("tests")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("0 passed, 1 failed, 0 skipped\n      Gpu/OpTest.Rope/cuda_seed_0\n", self.summary())
        self.assertRegex(self.summary(), "goldens at once: ok, [0-9]+ s: 1 passed")

    def test_the_clock_cuts_a_step_off_and_keeps_what_it_wrote(self):
        self.program("emulated_test", f"{TEST}sleep 60")
        answer = self.run_part("tests", seconds=3)
        self.assertEqual(answer.returncode, 1)
        self.assertRegex(self.summary(), "single ops have the CPU's bits: cut off, [1-5]?[0-9] s: 1 passed, 0 failed, 0 skipped\n")
        self.assertIn("goldens at once: not begun: the time is over", self.summary())

    def test_benchmarks_are_listed_and_nothing_is_no_success(self):
        answer = self.run_part("kernels")
        self.assertEqual(answer.returncode, 1)
        self.assertRegex(self.summary(), r"\n      cuda/matrix_vector/Q4_K/real_time +25.1 us bandwidth_share=0.8/s\n")
        self.assertRegex(self.summary(), r"cuBLAS: NOTHING RAN, \d+ s: assay_bench: no benchmarks of cuBLAS: it is missing")

    def test_a_models_file_serves_decode_and_prefill(self):
        self.run_part("decode", "gpt2-124m")
        self.assertRegex(self.summary(), "  the model's file: ok, [0-9]+ s\n  fast: ok", self.summary())
        self.run_part("prefill", "gpt2-124m")
        self.assertEqual(self.summary().count("the model's file"), 1)
        self.assertIn("prefill-gpt2-124m on A GPU", self.summary())

    def test_the_sanitizers_errors_are_counted(self):
        self.program("compute-sanitizer", f"{FIRST}; echo '========= ERROR SUMMARY: 2 errors'; exit 1")
        answer = self.run_part("sanitize", "racecheck")
        self.assertEqual(answer.returncode, 1)
        self.assertRegex(self.summary(), r"recordings: FAILED, see \S+, \d+ s: \n      ========= ERROR SUMMARY: 2 errors")
        self.program("compute-sanitizer", 'shift 4; "$@"')
        self.assertEqual(self.run_part("sanitize", "racecheck").returncode, 0, self.summary())
        self.assertRegex(self.summary(), r"recordings: ok, \d+ s: 1 passed, 0 failed, 0 skipped\n")

    def test_a_file_that_was_not_made_is_told(self):
        self.program("assay", "exit 3")
        self.assertEqual(self.run_part("decode", "gpt2-124m").returncode, 1)
        self.assertIn("the model's file: FAILED, see ", self.summary())


if __name__ == "__main__":
    unittest.main()
