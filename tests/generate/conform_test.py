"""golden/generate/conform/ without torch: its weights are those of `assay synth`, its rows are what is committed, and
each mistake moves the logits. Needs numpy; skips without.

    conform_test.py --assay build/release/bin/assay
"""

import argparse
import json
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path

SKIPPED = 77
ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "conform" / "suite"
HAS_NUMPY = find_spec("numpy") is not None

if HAS_NUMPY:
    import numpy as np

    sys.path.insert(0, str(ROOT / "golden"))
    from generate.conform import loudness, quantised
    from generate.conform.case import merged, mistakes_of
    from generate.conform.draws import drawn, spread
    from generate.conform.folder import stored, write_folder
    from generate.conform.rows import ROWS, SEEDS


def committed(feature):
    return json.loads((SUITE / feature / "case.json").read_text())


def survey(case, expected):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        if quantised.is_quantised(case):
            quantised.write_folder(ASSAY, folder, case)
        else:
            write_folder(folder, case)
        return loudness.survey(ASSAY, case, folder, expected)


class Conform(unittest.TestCase):
    def test_weights_are_those_of_assay_synth(self):
        """The bits of tests/synth/random_weights_test.cc; others would make another model than the reference's."""
        first = drawn(1, "token_embd.weight", [8], 0.5, 0.02).view(np.uint32)
        self.assertEqual(
            [int(first[i]) for i in (0, 1, 2, 7)], [1056998369, 1057022286, 1056799041, 1056164262]
        )
        other = drawn(18446744073709551615, "blk.3.ffn_down.weight", [1], 0.5, 0.02).view(np.uint32)
        self.assertEqual(int(other[0]), 1055668234)

    def test_bfloat16_is_rounded_to_even(self):
        values = np.array([1.0, 1.00390625, 1.01171875, -3.3895e38], dtype=np.float32)  # a half up, and down
        words = np.frombuffer(stored(values, "BF16"), dtype="<u2")
        self.assertEqual(words.tolist(), [0x3F80, 0x3F80, 0x3F82, 0xFF7F])

    def test_a_merge_patch_is_that_of_its_specification(self):
        self.assertEqual(
            merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None, "e": {"f": None}}, "d": {"g": 3}}),
            {"a": {"c": 2, "e": {}}, "d": {"g": 3}},
        )

    def test_rows_are_what_is_committed(self):
        """Breaks if a row was changed and the suite not made again."""
        self.assertEqual({row.feature for row in ROWS}, {folder.name for folder in SUITE.iterdir()})
        for row in ROWS:
            with self.subTest(row.feature):
                case = committed(row.feature)
                self.assertEqual(case["config"], row.config)
                self.assertEqual((case["group"], case["title"], case["seed"]), (row.group, row.title, SEEDS.get(row.feature, 1)))
                self.assertEqual(case["states"], list(row.states))
                self.assertEqual(case["counterfactuals"], [mistake.data() for mistake in mistakes_of(row)])
                for name, shape, mean, deviation, *_ in case["tensors"]:
                    self.assertEqual((mean, deviation), spread(name, shape, row), name)

    def test_every_mistake_is_loud(self):
        """Breaks if an engine could compute a mistake unnoticed, or if Assay's engine and a reference differ."""
        for row in ROWS:
            with self.subTest(row.feature):
                expected = loudness.read_log(SUITE / row.feature / "reference.jsonl")
                self.assertEqual(survey(committed(row.feature), expected)[2], [])

    def test_a_quiet_mistake_is_found(self):
        case = committed("rope_theta")
        case["counterfactuals"] = [
            {"verdict": "misread", "name": "rope_base", "text": "nothing", "config": {"rope_theta": 64.0}}
        ]
        expected = loudness.read_log(SUITE / "rope_theta" / "reference.jsonl")
        found, error, wrong = survey(case, expected)
        self.assertLess(found[0][0], 1e-5)
        self.assertRegex(wrong[0], "'nothing' moves the logits by .* which is below 0.01")
        expected["layer_1_output"][3, 5] = np.nan
        self.assertRegex(survey(case, expected)[2][0], "is inf from the reference")


def main():
    global ASSAY
    parser = argparse.ArgumentParser()
    parser.add_argument("--assay", required=True)
    options, rest = parser.parse_known_args()
    if not HAS_NUMPY:
        print("skipped: no numpy here; see golden/generate/requirements.txt")
        return SKIPPED
    ASSAY = options.assay
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
