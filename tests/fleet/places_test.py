"""Where runs, results and reports of a fleet are: places_test.py ASSAY; exit 77 without duckdb, pyarrow and numpy.

What would break: a report about another dataset, a run that is said to be added and is not, a file of the user's that is
written over.
"""

import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from fleet_case import ROOT, FleetCase, query


class Places(FleetCase):
    CASES = 1
    program = Path(sys.argv[-1]).resolve()

    def test_no_progress_is_shown_among_the_results(self):
        """DuckDB shows it on standard output in what is run with -c, once a query has taken two seconds."""
        scripts = [ROOT / "assay" / "fleet" / name for name in ("packages.py", "dataset.py", "judging.py", "table.py", "report.py")]
        self.assertEqual(sum(script.read_text().count("duckdb.connect(") for script in scripts), 1)
        asked = "\nprint(connected().execute(\"SELECT current_setting('enable_progress_bar')\").fetchall())"
        script = "".join(script.read_text() for script in scripts[:2]) + asked
        self.assertEqual(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout, "[(False,)]\n")

    def test_what_cannot_be_added_is_told(self):
        """Breaks if a run was said to be added where something else has its name."""
        log = next(self.logs.glob("*/0-a.jsonl"))
        self.assertEqual(self.fleet("add", "nights", log).returncode, 0)
        run, = (self.folder / "nights").iterdir()
        kept = shutil.move(run, self.folder / "kept")
        (kept / "log.parquet").write_bytes(b"torn")
        for put in (lambda: run.symlink_to(kept), run.touch):
            put()
            answer = self.fleet("add", "nights", log)
            self.expect_error(answer, f"{run.name}: cannot be replaced: Not a directory; remove it, and add the log again")
            run.unlink()
            self.assertEqual(os.listdir(self.folder / "nights"), [])

    def test_a_pipe_in_the_dataset_is_not_waited_for(self):
        """Breaks if a run whose run.json or log.parquet is a pipe kept the others from being judged."""
        self.assertEqual(self.fleet("add", "nights", *self.logs.glob("*/0-*.jsonl")).returncode, 0)
        runs = sorted((self.folder / "nights").iterdir())
        for run, name in zip(runs, ("run.json", "log.parquet")):
            (run / name).unlink()
            os.mkfifo(run / name)
        answer = self.fleet("compare", "nights")
        self.assertEqual(answer.returncode, 2)
        said = [line for line in answer.stderr.splitlines() if "warning" not in line]
        self.assertIn(f"assay: {runs[0].name}: {runs[0].name}/run.json: is not a regular file; add the run again", said)
        self.assertTrue(any(line.startswith(f"assay: {runs[1].name}/log.parquet: ") for line in said), said)

    def test_a_log_may_have_any_name(self):
        """As for assay compare; what is no file, and would be waited for, is an error."""
        log = next(self.logs.glob("*/0-a.jsonl"))
        torn = log.read_text() + '{"checkpoint": "torn'
        for name, text in (("run.log", log.read_text()), ("-x", torn), ("log.npz", "")):
            (self.folder / name).write_text(text)
        os.mkfifo(self.folder / "pipe")
        answer = self.fleet("add", "nights", "--commit", "1", "--", "run.log", "-x", "log.npz", "pipe", ".")
        self.assertEqual(answer.returncode, 2)
        said = [line.removeprefix("assay: ") for line in answer.stderr.splitlines()]
        self.assertEqual(len([line for line in said if line.startswith("warning: -x:42: ")]), 1, said)
        self.assertEqual(sorted(line for line in said if not line.startswith("warning")),
                         [".: is not a regular file; give the path of a log",
                          "log.npz: is a log in another format; give what assay convert log.npz LOG.jsonl writes",
                          "pipe: is not a regular file; give the path of a log"])  # fmt: skip
        runs = [sorted(os.listdir(run)) for run in (self.folder / "nights").iterdir()]
        self.assertEqual(runs, [["log.parquet", "run.json"]] * 2)

    def test_judging_a_list_ends_with_the_exit_code_of_a_comparison(self):
        logs = sorted(self.logs.glob("*/0-*.jsonl"))
        right, off = logs[0], self.folder / "off.jsonl"
        lines = [json.loads(line) for line in right.read_text().splitlines()]
        for line in lines[1:]:
            line.update(values=[2 * value for value in line["values"]], summary=None, sketch=None)
        off.write_text("".join(json.dumps({name: value for name, value in line.items() if value is not None}) + "\n" for line in lines))
        for given, code in (((right,), 0), ((right, off), 1), ((right, "none.jsonl"), 2), ((off, "none.jsonl"), 1)):
            (self.folder / "pairs").write_text("".join(f"{logs[1]}\t{got}\n" for got in given))
            answer = self.fleet("judge", "pairs")
            self.assertEqual((answer.returncode, len(answer.stdout.splitlines())), (code, len(given)), answer.stderr)

    def test_a_name_is_no_pattern(self):
        """DuckDB reads n[1] as n1, and a*b? as axbx, too."""
        for name, other in (("n[1]", "n1"), ("a*b?", "axbx")):
            for place, kept in ((name, 2), (other, 1)):  # of the first, two engines are left
                shutil.copytree(self.dataset, self.folder / place)
                for run in (self.folder / place).glob("run=*"):
                    text = (run / "run.json").read_text()
                    if not any(f'"engine": "{engine}"' in text for engine in ("oracle", *"ab"[:kept])):
                        shutil.rmtree(run)
            for place, runs in ((name, 4), (other, 2), (name, 4)):
                answer = self.fleet("compare", place)
                self.assertEqual((answer.returncode, answer.stderr), (0, ""))
                self.assertIn(f"{runs} runs held to their references: {runs} in parity", answer.stdout)
            answer = self.fleet("report", name, "--json")
            self.assertIn("b cpu fast: 1 of 1 in parity", answer.stdout)
            self.assertEqual(query(self.folder / other / "results" / "results.parquet", "SELECT count(*) FROM results"), [(2,)])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
