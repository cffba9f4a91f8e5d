"""assay fleet on this machine: fleet_test.py ASSAY; exit 77 without duckdb, pyarrow and numpy.

What would break: a night's runs. One that is lost, or counted twice, or passes unseen, because another is bad or the
comparison was interrupted.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from fleet_case import ENGINES, ROOT, FleetCase, facts, one_run, query



def without_hash(run):
    """As older programs wrote run.json."""
    return {name: value for name, value in run.items() if name != "sha256"}


TINY = ROOT / "golden" / "tinyllama" / "tinyllama-f32.gguf"


class Fleet(FleetCase):
    program = Path(sys.argv[-1]).resolve()

    def test_each_run_is_judged_once_and_each_fault_found(self):
        table, answer = self.judged()
        self.assertIn("200 runs held to their references: 195 in parity, 5 diverged, 0 not proved, 0 not judged", answer.stdout)
        self.assertEqual(query(table, "SELECT count(*), count(DISTINCT run) FROM results"), [(200, 200)])
        self.assertEqual(
            query(table, "SELECT DISTINCT engine, model, night::VARCHAR, op, layer, verdict FROM results WHERE NOT pass"),
            [("c cpu fast", "model-2", "2026-11-02", "output", 3, "wrong")])  # fmt: skip
        self.assertEqual(query(table, "SELECT DISTINCT compared, whole FROM results WHERE pass"), [(40, 40)])
        # The error is the engine's own precision.
        errors = dict(query(table, "SELECT engine[1], median(last_rel_l2) FROM results GROUP BY engine"))
        for engine, precision in zip("abcd", (1e-7, 1e-6, 1e-5, 1e-4)):
            self.assertTrue(0 < errors[engine] < 1.5 * precision, errors)

    def test_a_row_is_what_assay_compare_says(self):
        table, _ = self.judged()
        for which in ("pass", "NOT pass"):
            ref, got, verdict, failed, worst = query(
                table, f"SELECT reference, run, verdict, failed, worst_rel_l2 FROM results WHERE {which} ORDER BY run LIMIT 1")[0]
            logs = []
            for run in (ref, got):
                logs.append(self.folder / f"{run}.jsonl")
                subprocess.run([self.program, "convert", self.dataset / f"run={run}" / "log.parquet", logs[-1]],
                               check=True, env=self.environment())  # fmt: skip
            answer = subprocess.run([self.program, "compare", *logs, "--format", "json"], capture_output=True, text=True)
            report = json.loads(answer.stdout)
            self.assertEqual((report["verdict"], report["summary"]["failed"]), (verdict, failed))
            self.assertAlmostEqual(max(result["rel_l2"] for result in report["results"]) / worst, 1, places=9)

    def test_a_golden_s_floors_of_fast_are_applied(self):
        """Breaks if workers, who have the manifest as text, lacked what stands beside it, and judged nothing."""
        golden = ROOT / "golden/tinyllama"
        tokens = json.loads((golden / "manifest.json").read_text())["prompts"]["haiku"]["tokens"]
        command = [self.program, "run", golden / "tinyllama-q4_k_m.gguf", "--tokens", ",".join(map(str, tokens)), "-n", "8"]
        command += ["--math", "fast", "--sketch", "--checkpoints", "layers", "--log", self.folder / "fast.jsonl"]
        subprocess.run(command, check=True, capture_output=True)
        added = self.fleet("add", "dataset", golden / "q4_k_m.jsonl", "fast.jsonl", "--commit", "c0")
        self.assertEqual(added.returncode, 0, added.stderr)
        policy = shutil.copy(golden / "manifest.json", self.folder)
        asking = ("--policy", policy, "--floor", "assay_fast_vs_f64")
        table, answer = self.compare("dataset", *asking, code=2)
        self.assertIn("fast_floors.json: is missing", str(query(table, "SELECT problem FROM results")))
        shutil.copy(golden / "fast_floors.json", self.folder)
        table, answer = self.compare("dataset", *asking, code=0)
        self.assertEqual(query(table, "SELECT pass, problem IS NULL OR problem = '' FROM results"), [(True, True)])
        self.compare("dataset", "--policy", policy, code=1)  # by the floors of exact it is too far off

    def test_logs_of_batches_are_runs(self):
        def add(name, facts, order=1, last=0.5):
            lines = [{"assay": 1, "model": {"name": "m", "type": "F32"}, "tokens": [[1, 2], [3, 4]][::order],
                      "sequences": ["a", "b"][::order], **facts}]  # fmt: skip
            lines += [{"checkpoint": "logits", "token_idx": token, "sequence": sequence, "dtype": "f32", "shape": [3],
                       "values": [token, ord(sequence), last]} for token in (0, 1) for sequence in "ab"]  # fmt: skip
            log = self.folder / f"{name}.jsonl"
            log.write_text("".join(json.dumps(line) + "\n" for line in lines))
            answer = self.fleet("add", self.folder / "nights", "--commit", name, log)
            self.assertEqual(answer.returncode, 0, answer.stderr)

        add("ref", {"math": "float64"})
        add("right", {"engine": "x"}, order=-1)
        _, answer = self.compare(self.folder / "nights", code=0)
        self.assertIn("1 run held to its reference: 1 in parity, 0 diverged", answer.stdout)
        add("wrong", {"engine": "y"}, last=50)
        _, answer = self.compare(self.folder / "nights")
        self.assertIn("2 runs held to their references: 1 in parity, 1 diverged", answer.stdout)

    def test_values_are_read_only_where_sketches_differ(self):
        logs = []
        for engine, faulty in (("oracle", ()), ("right", ()), ("wrong", (("layer_1_output", 2), ("logits", 3)))):
            logs.append(self.folder / f"{engine}.jsonl")
            command = [self.program, "run", TINY, "--tokens", "1,5,9,12", "-n", "1", "--log", logs[-1], "--checkpoints", "layers",
                       "--values", "all", "--sketch"]  # fmt: skip
            subprocess.run(command, check=True, capture_output=True)
            header, *records = map(json.loads, logs[-1].read_text().splitlines())
            header["engine"] = engine
            for record in records:
                if (record["checkpoint"], record["token_idx"]) in faulty:
                    record["values"] = [1.25 * value for value in record["values"]]
                    record["sketch"] = [1.25 * value for value in record["sketch"]]
                    for key in ("min", "max", "mean", "l2"):
                        record["summary"][key] *= 1.25
                    record["summary"]["top"] = [[index, 1.25 * value] for index, value in record["summary"]["top"]]
            logs[-1].write_text("".join(json.dumps(line) + "\n" for line in (header, *records)))
        self.assertEqual(self.fleet("add", "whole", *logs).returncode, 0)
        table, _ = self.compare("whole", "--reference", "oracle")
        rows = query(table, "SELECT engine[1], verdict, failed, by_values, checkpoint, token_idx, value FROM results ORDER BY engine")
        self.assertEqual([row[:6] for row in rows], [("r", "match", 0, 0, None, None), ("w", "wrong", 2, 2, "layer_1_output", 2)])
        self.assertAlmostEqual(rows[1][6], 0.25, places=7)  # of the values: sketches alone estimate it

    def test_values_under_copied_sketches_are_judged(self):
        """As assay compare does: a sketch that another log's values belong to proves nothing."""
        faults = {"all_nan": lambda values: ["NaN"] * len(values), "all_big": lambda values: [1e6] * len(values),
                  "one_nan": lambda values: [*values[:3], "NaN", *values[4:]], "one_big": lambda values: [*values[:3], 1e6, *values[4:]],
                  "one_off": lambda values: [*values[:3], 10.0, *values[4:]], "head": lambda values: [0.9 * values[0], *values[1:4]],
                  "right": lambda values: values, "right_head": lambda values: values[:4]}  # fmt: skip
        oracle = self.folder / "oracle.jsonl"
        subprocess.run([self.program, "run", TINY, "--tokens", "1,5,9,12", "-n", "1", "--log", oracle, "--checkpoints", "layers",
                        "--values", "all", "--sketch"], check=True, capture_output=True)  # fmt: skip
        header, *records = map(json.loads, oracle.read_text().splitlines())
        expected = {}
        for name, fault in faults.items():
            log = self.folder / f"{name}.jsonl"
            changed = [{**record, "n": len(record["values"]), "values": fault(record["values"])} if record["token_idx"] == 2
                       else record for record in records]  # fmt: skip
            log.write_text("".join(json.dumps(line) + "\n" for line in ({**header, "engine": name}, *changed)))
            answer = subprocess.run([self.program, "compare", oracle, log, "--format", "json"], capture_output=True, text=True)
            report = json.loads(answer.stdout)
            expected[name] = (report["verdict"], report["summary"]["failed"])
        oracle.write_text("".join(json.dumps(line) + "\n" for line in ({**header, "engine": "oracle"}, *records)))
        logs = [self.folder / f"{name}.jsonl" for name in ("oracle", *faults)]
        self.assertEqual(self.fleet("add", "copied", *logs).returncode, 0)
        table, answer = self.compare("copied", "--reference", "oracle")
        found = {engine.split()[0]: tuple(row) for engine, *row in query(table, "SELECT engine, verdict, failed FROM results")}
        self.assertEqual(found, expected)
        self.assertIn("2 in parity, 6 diverged", answer.stdout)

        # A run.json that was changed is found out by what log.parquet says.
        changed = shutil.copytree(self.folder / "copied", self.folder / "changed")
        for path in changed.glob("run=*/run.json"):
            path.write_text(path.read_text().replace('"sound": false', '"sound": true'))
        _, answer = self.compare("changed", "--reference", "oracle", code=2)
        self.assertIn("2 in parity, 0 diverged, 0 not proved, 6 not judged", answer.stdout)
        self.assertIn("run.json: says that the log is sound, and log.parquet that it is not; add the run again", answer.stderr)

        # One that log.parquet says nothing of, as in older datasets, is not believed to be.
        for path in changed.glob("run=*/log.parquet"):
            content = pq.read_table(path)
            pq.write_table(content.replace_schema_metadata({"assay.header": content.schema.metadata[b"assay.header"]}), path)
            run = facts(path.parent)
            (path.parent / "run.json").write_text(json.dumps({**without_hash(run), "bytes": path.stat().st_size}))
        silent, _ = self.compare("changed", "--reference", "oracle")
        self.assertEqual({engine.split()[0]: tuple(row) for engine, *row in query(silent, "SELECT engine, verdict, failed FROM results")},
                         expected)  # fmt: skip

        # A dataset that does not say whether its runs are sound is not believed to be.
        for path in (self.folder / "copied").glob("run=*/run.json"):
            path.write_text(path.read_text().replace('"sound": true', '"old": true').replace('"sound": false', '"old": true'))
        older, _ = self.compare("copied", "--reference", "oracle")
        self.assertEqual({engine.split()[0]: tuple(row) for engine, *row in query(older, "SELECT engine, verdict, failed FROM results")},
                         expected)  # fmt: skip

    def test_a_log_that_was_changed_since_is_not_judged(self):
        """Values under the sketches, summaries and metadata that they had: nothing reads them where sketches agree."""
        logs = []
        for engine in ("oracle", "x", "y"):
            logs.append(self.folder / f"{engine}.jsonl")
            subprocess.run([self.program, "run", TINY, "--tokens", "1,5,9,12", "-n", "1", "--log", logs[-1], "--checkpoints", "layers",
                            "--values", "all", "--sketch"], check=True, capture_output=True)  # fmt: skip
            logs[-1].write_text(logs[-1].read_text().replace('"engine":"assay"', f'"engine":"{engine}"'))
        self.assertEqual(self.fleet("add", "nights", *logs).returncode, 0)
        self.compare("nights", "--reference", "oracle", code=0)
        run = one_run(self.folder / "nights", '"engine": "x"')
        path = run / "log.parquet"
        content = pq.read_table(path)
        at = content.schema.get_field_index("values")
        wrong = pa.array([[-value for value in row] for row in content.column(at).to_pylist()], content.schema.field(at).type)
        pq.write_table(content.set_column(at, content.schema.field(at), wrong), path, compression="zstd")

        stated = facts(run)
        (run / "run.json").write_text(json.dumps({**stated, "bytes": path.stat().st_size}))  # the size alone shows most
        _, answer = self.compare("nights", "--reference", "oracle", code=2)
        self.assertIn("1 in parity, 0 diverged, 0 not proved, 1 not judged", answer.stdout)
        self.assertIn(f"{run.name}/log.parquet: is not what was added, as its SHA-256 is not that in run.json; add the run again",
                      answer.stderr)  # fmt: skip

        # Without a hash, as in older datasets, what the file holds decides.
        (run / "run.json").write_text(json.dumps({**without_hash(stated), "bytes": path.stat().st_size}))
        _, answer = self.compare("nights", "--reference", "oracle", code=1)
        self.assertIn("1 in parity, 1 diverged", answer.stdout)
        self.assertIn(f"warning: nothing shows that log.parquet is what was added in 1 of 3 runs, such as {run.name}", answer.stderr)

        # A reference that has lost records demands no more than it has.
        oracle = one_run(self.folder / "nights", '"engine": "oracle"')
        whole, of_oracle = (oracle / "log.parquet").read_bytes(), facts(oracle)
        pq.write_table(pq.read_table(oracle / "log.parquet").slice(0, 1), oracle / "log.parquet")
        (oracle / "run.json").write_text(
            json.dumps({**without_hash(of_oracle), "bytes": (oracle / "log.parquet").stat().st_size}))
        _, answer = self.compare("nights", "--reference", "oracle", code=2)
        self.assertIn(f"{oracle.name}/log.parquet: has 1 records, and run.json says {of_oracle['records']}", answer.stderr)
        (oracle / "log.parquet").write_bytes(whole)
        (oracle / "run.json").write_text(json.dumps(of_oracle))

        # A run.json of another header is another case.
        (run / "run.json").write_text(json.dumps({**without_hash(stated), "bytes": path.stat().st_size,
                                                  "header": {**stated["header"], "prompt": "another"}}))  # fmt: skip
        _, answer = self.compare("nights", "--reference", "oracle", code=2)
        self.assertIn(f"{run.name}/run.json: has another header than log.parquet", answer.stderr)

        self.assertEqual(self.fleet("add", "nights", *logs).returncode, 0)
        _, answer = self.compare("nights", "--reference", "oracle", code=0)
        self.assertEqual(answer.stderr, "")

    def test_a_run_that_is_not_proved_is_named(self):
        """Exit code 2 comes with a line that says why."""
        logs = []
        for engine, n in (("oracle", "3"), ("x", "1")):
            logs.append(self.folder / f"{engine}.jsonl")
            subprocess.run([self.program, "run", TINY, "--tokens", "1,5,9,12", "-n", n, "--log", logs[-1], "--checkpoints", "layers",
                            "--sketch"], check=True, capture_output=True)  # fmt: skip
            logs[-1].write_text(logs[-1].read_text().replace('"engine":"assay"', f'"engine":"{engine}"'))
        self.assertEqual(self.fleet("add", "nights", *logs).returncode, 0)
        _, answer = self.compare("nights", "--reference", "oracle", code=2)
        self.assertIn("0 in parity, 0 diverged, 1 not proved, 0 not judged", answer.stdout)
        run, oracle = (one_run(self.folder / "nights", f'"engine": "{engine}"').name.removeprefix("run=") for engine in ("x", "oracle"))
        self.assertEqual(answer.stderr, f"assay: 1 run is not proved, such as {run}: 8 records of its reference {oracle} are unproven; "
                                        "log what the reference has, with --sketch\n")  # fmt: skip

    def test_warnings_are_counted_and_names_mapped(self):
        logs = []
        for number, engine in enumerate(("oracle", "x", "y")):
            logs.append(self.folder / f"{engine}.jsonl")
            header = {"assay": 1, "model": {"name": "m", "type": "F32"}, "tokens": [1], "engine": engine}
            lines = [json.dumps({"checkpoint": name, "token_idx": 0, "dtype": "f32", "shape": [1, 3], "values": [1.5, -2, number // 2]})
                     for name in ("attn_norm-0", "l_out-0")]  # fmt: skip
            logs[-1].write_text("\n".join([json.dumps(header), *lines, '{"checkpoint": "torn']))
        answer = self.fleet("add", "nights", *logs)
        self.assertEqual(answer.returncode, 0)
        self.assertEqual(sum("oracle.jsonl:4" in line for line in answer.stderr.splitlines()), 1, answer.stderr)
        _, answer = self.compare("nights", "--reference", "oracle")
        self.assertIn("warning, of 2 of 2 runs: the names in both logs look like those of llama.cpp: give --map llama.cpp", answer.stderr)
        own = self.folder / "map.json"
        own.write_text('{"rules": [{"name": "attn_norm-{N}", "to": "layer_{N}_attn_norm"}, {"name": "l_out-{N}", "to": "layer_{N}_output"}]}')
        for given in ("llama.cpp", own):
            table, answer = self.compare("nights", "--reference", "oracle", "--map", given)
            self.assertEqual(answer.stderr, "")
            self.assertEqual(query(table, "SELECT engine, verdict, checkpoint FROM results ORDER BY engine"),
                             [("x", "match", None), ("y", "wrong", "layer_0_attn_norm")])  # fmt: skip
        self.expect_error(self.fleet("compare", "nights", "--map", "nowhere"), "neither a ready map nor a file")

    def test_whole_values_without_sketches_are_compared_too(self):
        logs = []
        for engine, factor in (("oracle", 1.0), ("same", 1.0), ("off", 1.6)):
            logs.append(self.folder / f"{engine}.jsonl")
            header = {"assay": 1, "model": {"name": "m", "type": "F32"}, "tokens": [1], "engine": engine,
                      "math": "float64" if engine == "oracle" else "fast"}  # fmt: skip
            values = [factor * value for value in (1.5, -2.25, 0.1, 3e-40)]
            record = {"checkpoint": "logits", "token_idx": 0, "dtype": "f32", "shape": [1, 4], "values": values}
            logs[-1].write_text(json.dumps(header) + "\n" + json.dumps(record) + "\n")
        self.assertEqual(self.fleet("add", "small", *logs).returncode, 0)
        table, _ = self.compare("small")
        self.assertEqual(query(table, "SELECT engine, verdict, whole, failed FROM results ORDER BY engine"),
                         [("off fast", "wrong", 0, 1), ("same fast", "match", 1, 0)])  # fmt: skip

    def test_the_same_table_bit_for_bit_however_it_is_made(self):
        first, _ = self.compare(self.dataset, "--threads", "1")
        second, _ = self.compare(self.dataset, "--threads", "3")
        self.assertEqual(first.read_bytes(), second.read_bytes())
        by_url, _ = self.compare(f"file://{self.dataset}")
        self.assertEqual(first.read_bytes(), by_url.read_bytes())

    def test_an_interrupted_comparison_goes_on_where_it_was(self):
        whole, _ = self.judged()
        for how in (signal.SIGKILL, signal.SIGTERM):
            results = self.folder / f"cut{how}"
            command = [self.program, "fleet", "compare", self.dataset, "--results", results, "--threads", "1"]
            running = subprocess.Popen(command, env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       start_new_session=True)  # fmt: skip
            parts = []
            deadline = time.monotonic() + 60
            while len(parts) < 1 and time.monotonic() < deadline:
                parts = list(results.glob("judge=*/*.jsonl"))
                time.sleep(0.005)
            running.send_signal(how)
            running.wait(60)
            if how == signal.SIGTERM:
                self.assertEqual(running.returncode, 130)
            kept = sum(len(path.read_text().splitlines()) for path in results.glob("judge=*/*.jsonl"))
            self.assertTrue(0 < kept < 200, kept)
            self.assertFalse((results / "results.parquet").exists())
            answer = self.fleet("compare", self.dataset, "--results", results)
            self.assertIn(f"{200 - kept} judged now, {kept} before", answer.stdout)
            self.assertEqual((results / "results.parquet").read_bytes(), whole.read_bytes())

    def test_what_was_judged_before_is_held_to_what_is_there_now(self):
        results = self.folder / "kept"
        logs = []
        for engine in ("oracle", "x"):
            logs.append(self.folder / f"{engine}.jsonl")
            subprocess.run([self.program, "run", TINY, "--tokens", "1,5", "-n", "1", "--log", logs[-1]], check=True, capture_output=True)
            logs[-1].write_text(logs[-1].read_text().replace('"engine":"assay"', f'"engine":"{engine}"'))
        self.assertEqual(self.fleet("add", "nights", *logs).returncode, 0)
        asking = ("compare", "nights", "--reference", "oracle", "--results", results)
        self.assertEqual(self.fleet(*asking).returncode, 0)
        self.assertIn("0 judged now, 1 before", self.fleet(*asking).stdout)

        run = one_run(self.folder / "nights", '"engine": "x"')
        path, stated = run / "log.parquet", facts(run)
        whole = path.read_bytes()
        path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
        answer = self.fleet(*asking)
        self.assertEqual(answer.returncode, 2, answer.stdout)
        self.assertIn(f"{run.name}/log.parquet: is not what was added", answer.stderr)
        path.write_bytes(whole)
        self.assertEqual(self.fleet(*asking).returncode, 0)

        (run / "run.json").write_text(json.dumps({**stated, "records": stated["records"] + 1}))
        answer = self.fleet(*asking)
        self.assertEqual(answer.returncode, 2, answer.stdout)
        self.assertIn("1 judged now, 0 before", answer.stdout)

    def test_bad_runs_are_told_and_the_rest_judged(self):
        copy = self.copy()
        runs = [one_run(copy, '"engine": "a"', number) for number in range(6)]
        whole, _ = self.judged()
        clean = query(whole, "SELECT run, verdict FROM results ORDER BY run")
        bytes_of = {path: (path / "log.parquet").read_bytes() for path in runs}
        middle = len(bytes_of[runs[0]]) // 2
        torn = bytes_of[runs[0]][:middle]
        (runs[0] / "log.parquet").write_bytes(torn.ljust(len(bytes_of[runs[0]]), b"\0"))  # poisoned, of the right size
        damaged = bytearray(bytes_of[runs[1]])
        damaged[100:2000] = bytes(1900)
        (runs[1] / "log.parquet").write_bytes(damaged)
        (runs[2] / "log.parquet").write_bytes(bytes_of[runs[2]][:-10])
        (runs[3] / "log.parquet").unlink()
        (runs[4] / "run.json").write_text("{")
        (runs[5] / "run.json").write_text(json.dumps({**facts(runs[5]), "night": 5}))
        shutil.copytree(one_run(copy, '"engine": "b"'), copy / "run=copy")
        table, answer = self.compare(copy)
        said = answer.stderr.splitlines()
        for run, text in zip(runs, ("log.parquet", "log.parquet", "run.json says", "No such file", "Expecting", "'night' is not text")):
            lines = [line for line in said if run.name in line]
            self.assertEqual(len(lines), 1, answer.stderr)
            self.assertIn(text, lines[0])
        self.assertEqual(sum("a copy of another run" in line for line in said), 1)
        self.assertEqual(len(said), 7)
        bad = {run.name.removeprefix("run=") for run in runs} | {"copy"}
        self.assertEqual({row[0] for row in query(table, "SELECT run FROM results WHERE problem IS NOT NULL")}, bad)
        left = query(table, "SELECT run, verdict FROM results WHERE problem IS NULL ORDER BY run")
        self.assertEqual(left, [row for row in clean if row[0] not in bad])

        # Once they are whole, only they are judged.
        results = table.parent
        for run in runs:
            (run / "log.parquet").write_bytes(bytes_of[run])
            shutil.copy(self.dataset / run.name / "run.json", run)
        shutil.rmtree(copy / "run=copy")
        again = self.fleet("compare", copy, "--results", results)
        self.assertIn("6 judged now, 194 before", again.stdout)
        self.assertEqual(table.read_bytes(), whole.read_bytes())

    def test_what_is_only_bad_ends_with_2(self):
        copy = self.copy()
        for run in list(copy.iterdir()):  # leaves one engine that is right, and one bad run of it
            if f'"engine": "{"a"}"' not in (run / "run.json").read_text() and "oracle" not in (run / "run.json").read_text():
                shutil.rmtree(run)
        self.compare(copy, code=0)
        (one_run(copy, '"engine": "a"') / "log.parquet").unlink()
        _, answer = self.compare(copy, code=2)
        self.assertEqual(answer.stderr.count("\n"), 1)
        self.assertIn("49 in parity, 0 diverged, 0 not proved, 1 not judged", answer.stdout)
        shutil.rmtree(one_run(copy, "oracle"))
        _, answer = self.compare(copy, code=2)
        self.assertIn(": no run of the reference has its model, type and tokens; add one", answer.stderr)

    def test_several_engines_as_the_reference_are_told(self):
        """A run that says float64 of itself would drop out of what is judged unseen."""
        copy = self.copy()
        for path in list(copy.glob("run=*/run.json")):
            if '"engine": "d"' in path.read_text():
                shutil.rmtree(path.parent)
        logs = []
        for log in self.logs.glob("*/*-d.jsonl"):
            logs.append(self.folder / f"{log.parent.name}-{log.name}")
            logs[-1].write_text(log.read_text().replace('"math": "fast"', '"math": "float64"', 1))
        self.assertEqual(self.fleet("add", copy, *logs).returncode, 0)
        _, answer = self.compare(copy)
        told = "2 engines are the reference, so that their runs are not judged: d cpu float64, oracle cpu float64"
        self.assertIn(f"assay: {told}", answer.stderr)
        self.assertIn("150 runs held to their references", answer.stdout)
        self.assertEqual(self.judged()[1].stderr, "")
        for path in list(copy.glob("run=*/run.json")):  # leaves one engine that is right
            if all(f'"engine": "{name}"' not in path.read_text() for name in ("a", "d", "oracle")):
                shutil.rmtree(path.parent)
        _, answer = self.compare(copy, code=2)
        self.assertIn("50 in parity, 0 diverged, 0 not proved, 0 not judged", answer.stdout)
        _, answer = self.compare(copy, "--reference", "float64", code=0)
        self.assertIn(f"warning: {told}", answer.stderr)

    def test_bad_datasets_are_one_line(self):
        (self.folder / "empty").mkdir()
        self.expect_error(self.fleet("compare", "empty"), "holds no run; add logs with assay fleet add")
        self.expect_error(self.fleet("compare", "none"), "No such file")
        self.expect_error(self.fleet("compare", self.dataset, "--reference", "nobody"), "no run is of the reference (nobody)")
        self.expect_error(self.fleet("compare", "nothing://x"), "nothing://x")
        self.expect_error(self.fleet("compare", f"file://{self.dataset}"), "give --results FOLDER")
        (self.folder / "file").touch()
        self.expect_error(self.fleet("compare", self.dataset, "--results", "file"), "assay: file: File exists")
        self.expect_error(self.fleet("report", "empty"), "run assay fleet compare first")
        (self.folder / "results.parquet").write_text("not one")
        self.expect_error(self.fleet("report", "results.parquet"), "results.parquet")

    def test_missing_packages_are_one_line(self):
        bare = self.folder / "python"
        bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
        bare.chmod(0o755)
        for python, text in ((bare, "No module named 'duckdb'"), (self.folder / "none", "needs python3 with duckdb")):
            answer = subprocess.run([self.program, "fleet", "compare", self.dataset], capture_output=True, text=True,
                                    env={**os.environ, "ASSAY_PYTHON": str(python)})  # fmt: skip
            self.expect_error(answer, text)

    def test_bad_results_are_told(self):
        table, _ = self.judged()
        part = next(table.parent.glob("judge=*/*.jsonl"))
        whole = part.read_text()
        changed = whole.replace('"failed": 0', '"failed": 1', 1)
        self.assertNotEqual(changed, whole)
        for damaged in (whole[:-20], "5\n", changed, "".join(whole.splitlines(True)[1:])):
            part.write_text(damaged)
            answer = self.fleet("compare", self.dataset, "--results", table.parent)
            self.expect_error(answer, "remove it, and its pairs are judged again")

    def test_logs_are_added_once_and_bad_ones_told(self):
        log = next(self.logs.glob("*/0-a.jsonl"))
        bad, headless = self.folder / "bad.jsonl", self.folder / "headless.jsonl"
        lines = log.read_text().splitlines(keepends=True)
        bad.write_text("".join(lines[:5]) + "{]\n" + "".join(lines[5:]))
        headless.write_text("".join(lines[1:]))
        first = self.fleet("add", "new", log, bad, headless, "none.jsonl", "--commit", "1", "--night", "2026-11-01")
        self.assertEqual(first.returncode, 2)
        self.assertEqual(len(first.stderr.splitlines()), 3, first.stderr)
        for text in ("bad.jsonl:6", "headless.jsonl: no header names its model", "none.jsonl: No such file"):
            self.assertIn(text, first.stderr)
        again = self.fleet("add", "new", log, "--commit", "1", "--night", "2026-11-01")
        self.assertEqual((again.returncode, again.stdout), (0, first.stdout))
        self.assertEqual(len(os.listdir(self.folder / "new")), 1)
        self.fleet("add", "new", log, "--commit", "2", "--night", "2026-11-01")
        self.assertEqual(len(os.listdir(self.folder / "new")), 2)
        for night in ("today", "2026-13-45", "20261101"):
            self.expect_error(self.fleet("add", "new", log, "--night", night), f"--night {night}: is no date")

    def test_a_run_is_added_on_the_way(self):
        (self.folder / "bad").mkdir()
        (self.folder / "bad" / "file").touch()
        command = [self.program, "run", TINY, "--tokens", "1,5,9", "-n", "1", "--log", "log.jsonl", "--json"]
        for more in (["--fleet", "new", "--commit", "c1"], ["--fleet", "bad/file/y"]):
            answer = subprocess.run([*command, *more], capture_output=True, text=True, cwd=self.folder, env=self.environment())
            self.assertEqual(len(json.loads(answer.stdout)["generated"]), 1)
            self.assertEqual(answer.returncode, 0 if more[1] == "new" else 2, answer.stderr)
            self.assertEqual("added to new as run=" in answer.stderr, more[1] == "new")
        run, = (self.folder / "new").iterdir()
        self.assertEqual(facts(run)["commit"], "c1")
        self.assertEqual(facts(run)["header"]["tokens"], [1, 5, 9])

    def test_duckdb_reads_the_dataset_as_it_is(self):
        runs, records = duckdb.sql(
            f"SELECT count(DISTINCT run), count(*) FROM read_parquet('{self.dataset}/run=*/log.parquet', hive_partitioning = true)"
        ).fetchall()[0]
        self.assertEqual((runs, records), (25 * (1 + 2 * ENGINES), 25 * (1 + 2 * ENGINES) * 40))

    def test_a_policy_decides(self):
        policy = self.folder / "policy.json"
        policy.write_text('{"default": {"rel_l2": 5e-5}}')
        table, _ = self.compare(self.dataset, "--policy", policy)
        diverged = dict(query(table, "SELECT engine[1], count(*) FILTER (NOT pass) FROM results GROUP BY engine"))
        self.assertEqual((diverged["a"], diverged["b"], diverged["c"]), (0, 0, 5))
        self.assertGreater(diverged["d"], 10)
        wrong = {"{": "is not valid JSON", '{"default": {"rel_l2": 5}}': "lets anything pass", '{"schema": 2}': "is missing"}
        for text, problem in wrong.items():
            policy.write_text(text)
            answer = self.fleet("compare", self.dataset, "--results", "none", "--policy", policy)
            self.expect_error(answer, problem)
            self.assertIn(f"assay: {policy}: ", answer.stderr)
        self.assertFalse((self.folder / "none").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
