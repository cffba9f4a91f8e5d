"""assay fleet on a Ray cluster of several nodes on this machine: ray_test.py ASSAY; exit 77 without ray.

What would break: a night's runs, when a worker, a node or the driver dies, or one of them is slow.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from fleet_case import FleetCase, one_run

try:
    from ray.cluster_utils import Cluster
except ImportError as missing:
    print(missing)
    sys.exit(77)

NODE = {"num_cpus": 1, "object_store_memory": 100 << 20}


def children():
    """Of each process its children."""
    found = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            found.setdefault(int(Path(f"/proc/{int(name)}/stat").read_text().rpartition(")")[2].split()[1]), []).append(int(name))
    return found


def busy_workers():
    """The processes of this test's own cluster that judge pairs: Ray names them after the function."""
    of, left, busy = children(), [os.getpid()], []
    while left:
        process = left.pop()
        left += of.get(process, [])
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"ray::judge_on_node"):
                busy.append(process)
    return busy


class RayFleet(FleetCase):
    program = Path(sys.argv[-1]).resolve()
    CASES = 50

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        cls.nodes = [cls.cluster.add_node(**NODE) for _ in range(2)]
        cls.cluster.wait_for_nodes()
        results = Path(cls.class_folder.name) / "alone"
        subprocess.run([cls.program, "fleet", "compare", cls.dataset, "--results", results, "--threads", "1"],
                       env=cls.environment(), stdout=subprocess.DEVNULL, check=False)  # fmt: skip
        cls.alone = (results / "results.parquet").read_bytes()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.shutdown()
        super().tearDownClass()

    def start(self, results, dataset=None):
        command = [self.program, "fleet", "compare", dataset or self.dataset, "--results", results, "--ray", self.cluster.address]
        return subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, running, code=1):
        out, err = running.communicate(timeout=200)
        self.assertEqual(running.returncode, code, err)
        return out, err

    def wait_for(self, what, running):
        deadline = time.monotonic() + 100
        while not (found := what()):
            self.assertIsNone(running.poll(), "the comparison ended too early")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)
        return found

    def check(self, results, out):
        """The same table bit for bit, and no pair in two files."""
        self.assertEqual((results / "results.parquet").read_bytes(), self.alone)
        parts = [line for path in results.glob("judge=*/*.jsonl") for line in path.read_text().splitlines()]
        self.assertEqual((len(parts), len(set(parts))), (400, 400))
        self.assertIn("400 runs held to their references", out)

    def test_the_table_is_the_same_as_on_one_machine(self):
        results = self.folder / "results"
        out, _ = self.finish(self.start(results))
        self.check(results, out)

    def test_workers_may_be_killed(self):
        results = self.folder / "results"
        running = self.start(results)
        for _ in range(3):
            worker = self.wait_for(busy_workers, running)[0]
            os.kill(worker, signal.SIGKILL)
            time.sleep(0.3)
        out, _ = self.finish(running)
        self.check(results, out)

    def test_a_node_may_go_away(self):
        results = self.folder / "results"
        running = self.start(results)
        self.wait_for(lambda: list(results.glob("judge=*/*.jsonl")), running)
        self.cluster.remove_node(self.nodes.pop(), allow_graceful=False)
        self.addCleanup(lambda: self.nodes.append(self.cluster.add_node(**NODE)))
        out, _ = self.finish(running)
        self.check(results, out)

    def test_the_driver_may_be_started_again(self):
        results = self.folder / "results"
        running = self.start(results)
        self.wait_for(lambda: list(results.glob("judge=*/*.jsonl")), running)
        running.kill()
        running.communicate()
        kept = sum(len(path.read_text().splitlines()) for path in results.glob("judge=*/*.jsonl"))
        self.assertTrue(0 < kept < 400, kept)
        out, _ = self.finish(self.start(results))
        self.assertIn(f"{400 - kept} judged now, {kept} before", out)
        self.check(results, out)

    def test_a_straggler_is_overtaken(self):
        results = self.folder / "results"
        running = self.start(results)
        worker = self.wait_for(busy_workers, running)[0]
        os.kill(worker, signal.SIGSTOP)
        try:
            out, _ = self.finish(running)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        self.check(results, out)

    def test_poisoned_runs_are_told_as_on_one_machine(self):
        copy = self.copy()
        poisoned, missing = (one_run(copy, '"engine": "a"', number) for number in (0, 1))
        size = (poisoned / "log.parquet").stat().st_size
        (poisoned / "log.parquet").write_bytes(bytes(size))
        (missing / "log.parquet").unlink()
        alone, here = self.compare(copy)
        results = self.folder / "results"
        out, err = self.finish(self.start(results, copy))
        self.assertEqual((results / "results.parquet").read_bytes(), alone.read_bytes())
        self.assertEqual(err, here.stderr)
        self.assertEqual(err.count("\n"), 2)
        self.assertIn("2 not judged", out)

    def test_a_cluster_that_is_not_there_is_one_line(self):
        self.expect_error(self.fleet("compare", self.dataset, "--results", "r", "--ray", "127.0.0.1:1"), "--ray 127.0.0.1:1")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
