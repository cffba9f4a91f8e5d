"""The protocol that adapters of engines share, with an engine that does as its arguments say (fake_adapter.py).

What would break: a failure that looks like a log, a crash that looks like a refusal, an answer that the engine's own
output hides, positions that a surface counts wrongly.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ADAPTER = HERE / "fake_adapter.py"
sys.path[:0] = [str(ROOT / "engines"), str(ROOT / "python")]

try:
    import numpy  # noqa: F401  the writer's
except ImportError:
    print("skipped: this python3 has no numpy")
    sys.exit(77)

import surfaces
from protocol import make_case

TOKENS = [9, 8, 7, 6, 5]


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "config.json").write_text("{}")
        self.log = self.folder / "log.jsonl"

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "ORCH_"))}
        return kept | {"PYTHONPATH": f"{ROOT / 'engines'}:{ROOT / 'python'}"} | more

    def run_once(self, tokens="9,8,7,6,5", surface="alone", **more):
        given = dict(ASSAY_MODEL_DIR=str(self.folder), ASSAY_TOKENS=tokens, ASSAY_SURFACE=surface)
        given |= {"ASSAY_LOG_FILE": str(self.log)} | more
        env = self.environment(**{name: value for name, value in given.items() if value is not None})
        return subprocess.run([sys.executable, ADAPTER], env=env, capture_output=True, text=True, check=False)

    def serve(self, lines):
        text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
        env = self.environment(ASSAY_SERVE="1")
        done = subprocess.run([sys.executable, ADAPTER], env=env, input=text, capture_output=True, text=True, check=False)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    def case(self, tokens=TOKENS, **more):
        return {"model_dir": str(self.folder), "tokens": tokens, "surface": "alone", "log": str(self.log)} | more

    def records(self):
        header, *rest = map(json.loads, self.log.read_text().splitlines())
        return header, rest

    def logits(self):
        return {one["token_idx"]: one["values"] for one in self.records()[1] if one["checkpoint"] == "logits"}


class Once(Folder):
    def test_logs_all_positions_below_a_header(self):
        self.assertEqual(self.run_once().returncode, 0)
        header, rest = self.records()
        self.assertEqual((header["tokens"], header["engine"], header["math"]), (TOKENS, "fake 1.0", "float32"))
        self.assertEqual({one["checkpoint"] for one in rest}, {"logits", "layer_0_output"})
        self.assertEqual(list(self.logits()), [0, 1, 2, 3, 4])
        self.assertEqual(self.logits()[4], [5, 35, 0, 0, 0, 0])

    def test_logs_the_checkpoints_that_are_asked_for(self):
        self.assertEqual(self.run_once(ASSAY_LOG_CHECKPOINTS="logits").returncode, 0)
        self.assertEqual({one["checkpoint"] for one in self.records()[1]}, {"logits"})

    def test_every_surface_has_the_same_positions(self):
        for surface in ("alone", "batch:3", "chunks:2", "steps", "cached"):
            self.assertEqual(self.run_once(surface=surface).returncode, 0, surface)
            self.assertEqual([row[:2] for row in self.logits().values()], [[1, 9], [2, 17], [3, 24], [4, 30], [5, 35]])

    def test_a_batch_has_as_many_sequences_of_other_lengths(self):
        self.assertIn("4 sequences of 5 4 6 3\n", self.run_once(surface="batch:4").stderr)

    def test_a_refusal_is_3_with_one_line(self):
        done = self.run_once(tokens="1")
        self.assertEqual((done.returncode, done.stderr), (3, "fake: no such architecture\n"))
        self.assertFalse(self.log.exists())

    def test_an_unknown_surface_is_a_refusal(self):
        for surface in ("batch:0", "chunks", "sideways", "batch:9999999"):
            self.assertEqual(self.run_once(surface=surface).returncode, 3, surface)

    def test_an_exception_is_a_crash(self):
        done = self.run_once(tokens="2")
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1]), (1, "fake: ValueError: a bug"))

    def test_an_abort_is_a_crash(self):
        self.assertLess(self.run_once(tokens="3").returncode, 0)

    def test_not_a_number_is_a_string(self):
        self.assertEqual(self.run_once(tokens="4").returncode, 0)
        self.assertEqual(self.logits()[0], ["NaN", "Infinity", "-Infinity", 0, 0, 0])

    def test_bad_variables_are_2_and_named(self):
        for name, value in (
            ("ASSAY_TOKENS", None),
            ("ASSAY_TOKENS", "1,x"),
            ("ASSAY_TOKENS", "-1"),
            ("ASSAY_TOKENS", "1,,2"),
            ("ASSAY_TOKENS", "²"),
            ("ASSAY_MODEL_DIR", None),
            ("ASSAY_MODEL_DIR", str(self.folder / "none")),
            ("ASSAY_LOG_FILE", None),
            ("ASSAY_LOG_FILE", str(self.folder / "none" / "log")),
            ("ASSAY_LOG_CHECKPOINTS", ","),
        ):
            environment = dict(ASSAY_TOKENS="9") | {name: value}
            given = environment.pop("ASSAY_TOKENS")
            done = self.run_once(tokens=given, **environment)
            self.assertEqual(done.returncode, 2, f"{name}={value}: {done.stderr}")
            self.assertEqual(len(done.stderr.splitlines()), 1)


class Served(Folder):
    def test_answers_each_line_and_nothing_else(self):
        code, answers = self.serve([self.case(), self.case([1]), self.case([2]), self.case()])
        self.assertEqual(code, 0)
        self.assertEqual([answer["exit"] for answer in answers], [0, 3, 1, 0])
        self.assertEqual([answer["message"] for answer in answers[1:3]], ["no such architecture", "ValueError: a bug"])
        self.assertEqual(self.logits()[4], [5, 35, 0, 0, 0, 0])

    def test_a_crash_leaves_the_answers_before_it(self):
        code, answers = self.serve([self.case(), self.case([3]), self.case()])
        self.assertLess(code, 0)
        self.assertEqual([answer["exit"] for answer in answers], [0])

    def test_bad_lines_are_answered_too(self):
        bad = ["no JSON\n", "[]\n", {}, self.case([]), self.case([-1]), self.case([True]), self.case("9")]
        bad += [self.case(log=5), self.case(log=""), self.case(model_dir=None)]
        code, answers = self.serve([*bad, self.case()])
        self.assertEqual(code, 0)
        self.assertEqual([answer["exit"] for answer in answers], [2] * len(bad) + [0])


class Parts(unittest.TestCase):
    def test_cover_the_tokens_once(self):
        for count in (1, 2, 5):
            for surface in ("alone", "steps", "cached", "chunks:2", "chunks:100"):
                case = make_case("", "", range(count), surface, "log")
                self.assertEqual([token for part in surfaces.parts(case) for token in part], list(range(count)))

    def test_fewer_rows_are_of_the_last_tokens(self):
        self.assertEqual(surfaces.placed("logits", [[1]], 4, 3)[1], range(6, 7))
        self.assertEqual(surfaces.placed("logits", [[1], [2]], 0, 2)[1], range(2))
        for rows in ([], [[1], [2], [3]]):
            with self.assertRaisesRegex(ValueError, f"'logits': {len(rows)} rows of 2 tokens"):
                surfaces.placed("logits", rows, 0, 2)

    def test_others_are_never_empty_and_of_other_lengths(self):
        for tokens in ((1,), (1, 2, 3)):
            made = surfaces.others(tokens, 9)
            self.assertEqual(len(made), 9)
            self.assertTrue(all(0 < len(one) <= 2 * len(tokens) for one in made))
        self.assertEqual([len(one) for one in surfaces.others((1, 2, 3, 4, 5), 4)], [4, 6, 3, 7])


if __name__ == "__main__":
    unittest.main()
