"""golden/lint.py refuses a broken fixture of each sort. Standard library only."""

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINT = ROOT / "golden" / "lint.py"
sys.path.insert(0, str(LINT.parent))
SPEC = importlib.util.spec_from_file_location("lint", LINT)
lint = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(lint)

MODEL = "tinyllama"
LOGS = ("q8_0-long.jsonl", "q8_0-unicode-ops.jsonl", "q8_0.jsonl")


class LintTest(unittest.TestCase):
    """A copy of one model in one type, which is in order until a test breaks it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.golden = Path(folder.name) / "golden"
        self.cases = ["Every/tinyllama_Q8_0_exact_at_once"]
        self.model = self.golden / MODEL
        self.model.mkdir(parents=True)
        self.manifest = json.loads((ROOT / "golden" / MODEL / "manifest.json").read_text())
        self.manifest["files"] = [entry for entry in self.manifest["files"] if entry["type"] == "Q8_0"]
        self.entry = self.manifest["files"][0]
        self.entry["logs"] = [log for log in self.entry["logs"] if log["file"] in LOGS]
        for name in (*LOGS, self.entry["gguf"]):
            shutil.copy(ROOT / "golden" / MODEL / name, self.model)
        prompts = {log["prompt"] for log in self.entry["logs"]}
        self.snapshots = self.measured("snapshots.json", "snapshots", prompts)
        self.fast_floors = self.measured("fast_floors.json", "prompts", prompts)
        self.log = next(log for log in self.entry["logs"] if log["file"] == "q8_0.jsonl")
        self.inventory = self.golden / "inventory.txt"
        fixtures = [f"{MODEL} Q8_0 {log['prompt']} {log['set']}\n" for log in self.entry["logs"]]
        self.inventory.write_text("# a comment\n\n" + "".join(fixtures))

    def measured(self, name, key, prompts):
        """What the engine measured of that type and those prompts."""
        measured = json.loads((ROOT / "golden" / MODEL / name).read_text())
        measured[key] = [each for each in measured[key] if each["type"] == "Q8_0" and each["prompt"] in prompts]
        (self.model / name).write_text(json.dumps(measured))
        return measured

    def complaints(self):
        (self.model / "snapshots.json").write_text(json.dumps(self.snapshots))
        (self.model / "fast_floors.json").write_text(json.dumps(self.fast_floors))
        (self.model / "manifest.json").write_text(json.dumps(self.manifest))
        return lint.lint(self.golden, self.cases)[0]

    def refuses(self, *texts):
        found = self.complaints()
        for text in texts:
            self.assertTrue(any(text in complaint for complaint in found), f"no '{text}' in {found}")

    def rewrite(self, change, name="q8_0.jsonl"):
        """Changes a log's lines, and states its new hash: only the contents are wrong."""
        path = self.model / name
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(change(lines)))
        log = next(log for log in self.entry["logs"] if log["file"] == name)
        log["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()

    def edit(self, number, change):
        """Changes one record of a log, or its header (number 0)."""

        def edited(lines):
            record = json.loads(lines[number])
            change(record)
            return [*lines[:number], json.dumps(record) + "\n", *lines[number + 1 :]]

        self.rewrite(edited)

    def test_what_is_in_order_passes(self):
        self.assertEqual(self.complaints(), [])

    def test_manifest_that_is_missing_or_no_json(self):
        self.assertIn("has no manifest.json", lint.lint(self.golden, self.cases)[0][0])
        for text in ("{", '{"schema": NaN}', '{"schema": 2, "schema": 2}', "[]", "2"):
            (self.model / "manifest.json").write_text(text)
            self.assertEqual(len(lint.lint(self.golden, self.cases)[0]), 1, text)

    def test_schema(self):
        self.manifest["schema"] = 1
        self.refuses("schema is 1")

    def test_each_key_is_needed(self):
        for key in list(self.manifest):
            if key == "llama_cpp_note":
                continue
            value = self.manifest.pop(key)
            self.refuses(f"{key} is missing")
            self.manifest[key] = value
        for key in list(self.log):
            if key == "argmax_margin":
                continue
            value = self.log.pop(key)
            with self.assertRaises(AssertionError, msg=key):
                self.assertEqual(self.complaints(), [])
            self.log[key] = value
        self.assertEqual(self.complaints(), [])

    def test_hash_of_a_log(self):
        with open(self.model / "q8_0.jsonl", "a") as file:
            file.write(" ")
        self.refuses("sha256 is not that of q8_0.jsonl")

    def test_hash_of_a_model(self):
        path = self.model / self.entry["gguf"]
        contents = bytearray(path.read_bytes())
        contents[-1] ^= 1
        path.write_bytes(contents)
        self.refuses("sha256 is not that of tinyllama-q8_0.gguf")

    def test_missing_files(self):
        (self.model / "q8_0.jsonl").unlink()
        (self.model / self.entry["gguf"]).unlink()
        self.refuses("names q8_0.jsonl, which is not there", "names tinyllama-q8_0.gguf, which is not there")

    def test_orphan(self):
        (self.model / "q4_0.jsonl").write_text("")
        self.refuses("q4_0.jsonl: no manifest names it")
        (self.model / "q4_0.jsonl").rename(self.model / "q8_0.jsonl.new")
        self.assertEqual(self.complaints(), [])  # pending, and ignored by git

    def test_fixtures_that_go_or_come_without_the_inventory(self):
        whole = self.inventory.read_text()
        for more, text in (
            ("gpt2 F32 haiku ops\ngpt2 F16 haiku ops\n", "lists 2 fixtures of gpt2: all are missing"),
            (f"{MODEL} F16 haiku ops\n", f"lists 1 fixtures of {MODEL} F16: all are missing"),
            (f"{MODEL} Q8_0 haiku ops\n", f"lists {MODEL} Q8_0 haiku ops, which is missing"),
        ):
            self.inventory.write_text(whole + more)
            self.assertEqual(self.complaints(), [f"inventory.txt: {text}"])
        self.inventory.write_text(whole.replace(f"{MODEL} Q8_0 long layers\n", ""))
        self.assertEqual(
            self.complaints(), [f"inventory.txt: does not list {MODEL} Q8_0 long layers, which exists"]
        )
        self.inventory.unlink()
        self.refuses("inventory.txt: is missing")

    def test_fixtures_that_no_test_reads(self):
        for cases in (
            [],
            ["Every/tinyllama_F32_exact_at_once"],
            ["Every/tinyllama_Q8_1_exact"],
            ["Every/my_tinyllama_Q8_0"],
        ):
            self.cases = cases
            self.refuses("no test reads the fixtures of Q8_0")
        self.cases = None  # not asked for, as in the hook
        self.assertEqual(self.complaints(), [])

    def test_set_or_prompt_that_nothing_reads(self):
        self.log["set"] = "heads"
        self.manifest["prompts"]["spare"] = {"text": "x", "tokens": [1]}
        self.refuses("prompts.spare is a prompt that nothing uses")
        del self.manifest["prompts"]["spare"]
        self.refuses("set is 'heads', which no test reads")

    def test_the_same_log_twice(self):
        self.entry["logs"].append(dict(self.log))
        self.refuses("which another entry names too")

    def test_header_at_odds_with_the_manifest(self):
        changes = {
            "of the name": lambda header: header["model"].update(name="other"),
            "of the sha256": lambda header: header["model"].update(sha256="0" * 64),
            "of the arch": lambda header: header["model"].update(arch="gpt2"),
            "of the type": lambda header: header["model"].update(type="F32"),
            "another prompt": lambda header: header["tokens"].append(1),
            "of Assay's own engine": lambda header: header.update(engine="assay"),
            "of math 'float32'": lambda header: header.update(math="float32"),
            "of math None": lambda header: header.pop("math"),
            "is not a header": lambda header: header.pop("assay"),
        }
        whole = (self.model / "q8_0.jsonl").read_text()
        for text, change in changes.items():
            with self.subTest(text):
                (self.model / "q8_0.jsonl").write_text(whole)
                self.edit(0, change)
                self.refuses(text)

    def test_records_that_are_broken(self):
        changes = {
            "has no sketch of 64": lambda record: record["sketch"].pop(),
            "values that are not finite": lambda record: record["values"].__setitem__(0, "NaN"),
            "numbers missing or not finite": lambda record: record["summary"].update(nonfinite=1),
            "is all zero": lambda record: record["summary"].update(l2=0.0),
            "shape that is not its n": lambda record: record.update(shape=[3]),
            "argmax that is not its greatest": lambda record: record["summary"].update(argmax=0, top=[[1, 1.0]]),
            "has no checkpoint": lambda record: record.pop("checkpoint"),
            "every checkpoint at every position": lambda record: record.update(checkpoint="layer_9_output"),
            "more than the set layers": lambda record: record.update(checkpoint="layer_0_q"),
            "other positions than": lambda record: record.update(token_idx=99),
            "a record twice": lambda record: record.update(token_idx=record["token_idx"] + 1),
        }
        whole = (self.model / "q8_0.jsonl").read_text()
        for text, change in changes.items():
            with self.subTest(text):
                (self.model / "q8_0.jsonl").write_text(whole)
                self.edit(2, change)
                self.refuses(text)

    def test_log_that_is_torn_or_cut(self):
        whole = (self.model / "q8_0.jsonl").read_text()
        self.rewrite(lambda lines: [*lines[:-1], lines[-1][:40]])
        self.refuses("is torn")
        (self.model / "q8_0.jsonl").write_text(whole)
        self.rewrite(lambda lines: lines[:-1])
        self.refuses("every checkpoint at every position")
        (self.model / "q8_0.jsonl").write_text(whole)
        self.rewrite(lambda lines: [*lines[:3], "{nonsense\n", *lines[4:]])
        self.refuses("q8_0.jsonl:4 is not a record")

    def test_layers_said_to_be_ops(self):
        self.log["set"] = "ops"
        self.refuses("has only layers")

    def test_positions(self):
        self.log["positions"] = [0, 1]
        self.refuses("other positions than the manifest says")
        self.log["positions"] = [5, 1000]
        self.refuses("are not growing positions below")

    def test_choices_that_are_not_those_of_the_log(self):
        self.log["greedy"][2] += 1
        self.refuses("greedy has")
        self.log["greedy"][2] -= 1
        self.manifest["padding_ids"].append(self.log["greedy"][2])
        self.refuses("which is one of the padding_ids")
        self.manifest["padding_ids"].pop()
        gap = self.log["greedy_gaps"][2]
        self.log["greedy_gaps"][2] = gap * 1.1
        self.refuses("greedy_gaps has")
        self.log["greedy_gaps"][2] = gap
        self.log["argmax_min_gap"] *= 1.1
        self.refuses("argmax_min_gap is")

    def test_floors(self):
        floor = self.entry["floors_by_checkpoint"]["logits"]
        floor["f32_vs_f64"]["max"] = floor["f32_vs_f64"]["p99"] / 2
        self.refuses("has a p99 above its max")
        floor["f32_vs_f64"]["max"] = "small"
        self.refuses("max is not a number")
        floor["guessed"] = floor.pop("f32_vs_f64")
        self.refuses("guessed is not a floor")
        del self.entry["floors_by_checkpoint"]["layer_0_q"]
        self.refuses("for layer_0_q, which q8_0-unicode-ops.jsonl holds")

    def test_floors_that_no_sound_computation_shows(self):
        for table in ("floors", "floors_by_checkpoint"):
            logits = self.entry[table]["logits"]
            for name, most in lint.FLOORS.items():
                with self.subTest(f"{table} {name}"):
                    kept = dict(logits[name])
                    logits[name]["max"] = most
                    self.assertEqual(self.complaints(), [])
                    logits[name]["max"] = most * 1.01
                    self.refuses(f"logits.{name}.max is {most * 1.01}, a correct {name} is at most {most}")
                    logits[name] = kept

    def test_snapshots(self):
        first = self.snapshots["snapshots"][0]
        for change, text in (
            (lambda: first["values"].__setitem__(3, "0123 1 2 3 4 5"), "is not a hash, a norm and 4 sums"),
            (lambda: first["values"].pop(), "has not one for each checkpoint"),
            (lambda: first.update(sha256="0" * 64), "is that of another model file"),
            (lambda: first.update(math="half"), "Q8_0 exact"),
            (lambda: self.snapshots["snapshots"].pop(0), "Q8_0 exact"),
            (lambda: self.snapshots.update(model="gpt2"), "model is 'gpt2'"),
        ):
            kept = json.dumps(self.snapshots)
            change()
            self.refuses(f"{MODEL}/snapshots.json: ", text)
            self.snapshots = json.loads(kept)
            first = self.snapshots["snapshots"][0]
        self.assertEqual(self.complaints(), [])

    def test_fast_floors(self):
        first = self.fast_floors["prompts"][0]
        for change, text in (
            (lambda: first["floors"].update(logits=[0.6, 0.1]), "is not [max, median] of a plausible rounding"),
            (lambda: first["floors"].update(logits=[0.1, 0.2]), "is not [max, median] of a plausible rounding"),
            (lambda: first["floors"].pop("layer_0_q"), "has other checkpoints"),
            (lambda: first.update(prompt="none"), "is missing"),
            (lambda: first.update(math="library"), "is missing"),
        ):
            kept = json.dumps(self.fast_floors)
            change()
            self.refuses(f"{MODEL}/fast_floors.json: ", text)
            self.fast_floors = json.loads(kept)
            first = self.fast_floors["prompts"][0]
        self.assertEqual(self.complaints(), [])

    def test_tolerance_without_reason_or_of_another_size(self):
        self.manifest["tolerance"]["why"] = ""
        self.refuses("tolerance.why is not a text")
        for k in (0.5, 2, 30):
            self.manifest["tolerance"] |= {"why": "because", "k": k}
            self.refuses(f"tolerance.k is {k}, it is 3")

    def test_size(self):
        with open(self.golden / "README.md", "wb") as file:
            file.truncate(lint.BUDGET)
        self.refuses("the budget is 96 MB")

    def test_names_stay_in_the_folder(self):
        self.log["file"] = "../q8_0.jsonl"
        self.refuses("is not the name of a file in this folder")

    def test_as_a_program(self):
        self.complaints()
        command = [sys.executable, str(LINT), "--golden", str(self.golden), "golden/README.md"]
        self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 0)
        (self.model / "left").write_text("")
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(answer.returncode, 1)
        self.assertEqual(answer.stdout.splitlines()[0], "tinyllama/left: no manifest names it; delete it or record it")


if __name__ == "__main__":
    unittest.main()
