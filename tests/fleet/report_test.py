"""assay fleet report: report_test.py ASSAY; exit 77 without duckdb, pyarrow and numpy.

What would break: a page that says all is well because a wrong run, or one that is not there, is not on it.
"""

import json
import shutil
import sys
import time
import unittest
from pathlib import Path

from fleet_case import ENGINES, FleetCase, facts


class Report(FleetCase):
    program = Path(sys.argv[-1]).resolve()

    def test_the_report_says_what_is_new(self):
        table, _ = self.judged()
        data = json.loads(self.fleet("report", table, "--json", "--dataset", self.dataset).stdout)
        self.assertEqual((data["night"], data["before"]), ("2026-11-02", "2026-11-01"))
        self.assertEqual({row["engine"] for row in data["new"]}, {"c cpu fast"})
        self.assertEqual({(row["model"], row["checkpoint"], row["state_before"]) for row in data["new"]},
                         {("model-2", "layer_3_output", "parity")})  # fmt: skip
        self.assertEqual({name: data["counts"][name] for name in ("runs", "parity", "diverged", "new", "still", "fixed")},
                         {"runs": 100, "parity": 95, "diverged": 5, "new": 5, "still": 0, "fixed": 0})  # fmt: skip
        self.assertEqual([(row["op"], row["runs"], row["first_layer"]) for row in data["ops"]], [("output", 5, 3)])
        self.assertEqual(len(data["trends"]), 2 * ENGINES)
        first = json.loads(self.fleet("report", table, "--json", "--night", "2026-11-01").stdout)
        self.assertEqual((first["before"], first["counts"]["new"]), (None, 0))
        self.expect_error(self.fleet("report", table, "--night", "2026-11-09"), "has no run")

    def test_the_page_goes_to_standard_output_or_to_a_file_of_its_own(self):
        table, _ = self.judged()
        answer = self.fleet("report", table)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.assertTrue(answer.stdout.startswith("<!doctype html>"), answer.stdout[:100])
        self.assertEqual(self.fleet("report", table, "-o", "night.html").returncode, 0)
        self.assertEqual(len((self.folder / "night.html").read_text()), len(answer.stdout))
        before = table.read_bytes()
        self.expect_error(self.fleet("report", table, "-o", table), "the report would overwrite its input; give another -o")
        self.assertEqual(table.read_bytes(), before)
        dataset = self.copy()
        kept = next(table.parent.glob("judge=*/*.jsonl"))
        for part in (*(next(dataset.glob(f"run=*/{name}")) for name in ("log.parquet", "run.json")), kept):
            before = part.read_bytes()
            self.expect_error(self.fleet("report", table, "--dataset", dataset, "-o", part), "the report would overwrite its input; give another -o")
            self.assertEqual(part.read_bytes(), before)
        (self.folder / "night.json").write_text(self.fleet("report", table, "--json").stdout)
        before = (self.folder / "night.json").read_bytes()
        self.expect_error(self.fleet("page", "night.json", "-o", "night.json"), "the page would overwrite its input; give another -o")
        self.assertEqual((self.folder / "night.json").read_bytes(), before)
        self.expect_error(self.fleet("report", table, "--night", "2026-11-09", "-o", "night.html"), "has no run")
        self.assertFalse((self.folder / "night.html").exists())  # that of an earlier run does not outlive the error

    def test_the_report_says_what_did_not_run_tonight(self):
        dataset = self.copy()
        gone = [path.parent for path in dataset.glob("run=*/run.json")
                if '"engine": "b"' in path.read_text() and facts(path.parent)["night"] == "2026-11-02"]  # fmt: skip
        for folder in gone:
            shutil.rmtree(folder)
        table, answer = self.compare(dataset)
        self.assertIn(f"assay: warning: {len(gone)} cases of the night of 2026-11-01 did not run in that of 2026-11-02, such as b cpu fast, ",
                      answer.stderr)  # fmt: skip
        data = json.loads(self.fleet("report", table, "--json", "--dataset", dataset).stdout)
        self.assertEqual((data["counts"]["gone"], {row["engine"] for row in data["gone"]}), (len(gone), {"b cpu fast"}))
        self.assertIn(f"{len(gone)} did not run", data["text"])
        self.assertIn("did not run: b cpu fast, model-0 F32, 'Prompt 0'", data["text"])
        self.assertEqual({row["state_before"] for row in data["gone"]}, {"parity"})

    def test_a_night_in_which_only_the_reference_ran_is_told(self):
        """The engine crashed on each prompt, and nothing of that night is judged."""
        dataset = self.copy()
        for path in list(dataset.glob("run=*/run.json")):
            if facts(path.parent)["night"] == "2026-11-02":
                shutil.rmtree(path.parent)
        oracle = next(self.logs.glob("*/0-oracle.jsonl"))
        answer = self.fleet("add", dataset, oracle, "--night", "2026-11-02")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        table, answer = self.compare(dataset, code=0)
        self.assertIn("assay: warning: 100 cases of the night of 2026-11-01 did not run in that of 2026-11-02, such as a cpu fast, ",
                      answer.stderr)  # fmt: skip
        data = json.loads(self.fleet("report", table, "--json", "--dataset", dataset).stdout)
        self.assertEqual((data["night"], data["of_references_alone"]), ("2026-11-01", ["2026-11-02"]))
        self.assertIn("2026-11-02: runs of the reference alone, nothing judged", data["text"])
        data = json.loads(self.fleet("report", table, "--json", "--dataset", dataset, "--night", "2026-11-02").stdout)
        self.assertEqual((data["before"], data["counts"]["runs"], data["counts"]["gone"]), ("2026-11-01", 0, 100))

    def test_a_wrong_run_is_not_hidden_by_a_right_one_of_its_commit(self):
        dataset = self.copy()
        right = self.logs / "2026-11-02" / "0-a.jsonl"
        lines = right.read_text().splitlines()
        lines[0] = lines[0].replace('"engine": "a"', '"engine": "again"')
        wrong = [json.loads(line) for line in lines]
        for record in wrong:
            if record.get("checkpoint") == "layer_2_output":
                record.update(values=[2 * value for value in record["values"]], sketch=None, summary=None)
        wrong = [json.dumps({key: value for key, value in record.items() if value is not None}) for record in wrong]
        states = {}
        for order, commits in (("wrong first", "aa"), ("right first", "aa"), ("mended", "ab")):
            place = shutil.copytree(dataset, self.folder / order)
            names = ("right", "wrong") if order == "right first" else ("wrong", "right")
            for name, commit in zip(names, commits):
                log = self.folder / f"{name}.jsonl"
                log.write_text("\n".join(lines if name == "right" else wrong) + "\n")
                answer = self.fleet("add", place, "--commit", commit, "--night", "2026-11-02", log)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                if name == names[0]:
                    time.sleep(1.1)  # `added` has seconds
            table, _ = self.compare(place)
            data = json.loads(self.fleet("report", table, "--json").stdout)
            states[order] = [row["diverged"] for row in data["engines"] if row["engine"] == "again cpu fast"]
        self.assertEqual(states, {"wrong first": [1], "right first": [1], "mended": [0]})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
