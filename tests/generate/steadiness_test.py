"""What golden/generate/conform/ asks of a row beside loudness: that it hangs on no choice that rounding changes, and that
transformers evaluates it with a cache. Needs torch; skips without.
"""

import json
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path

MISSING = [name for name in ("torch", "transformers", "numpy") if find_spec(name) is None]
SKIPPED = 77
ROOT = Path(__file__).resolve().parents[2]

if not MISSING:
    import numpy as np

    sys.path.insert(0, str(ROOT / "golden"))
    from generate.conform import reference, steadiness
    from generate.conform.folder import write_folder


def committed(feature):
    return json.loads((ROOT / "conform" / "suite" / feature / "case.json").read_text())


def folder_of(scratch, case):
    return write_folder(Path(scratch) / "model", case)


class Steadiness(unittest.TestCase):
    def test_a_choice_that_rounded_states_change_is_found(self):
        """Breaks if states stayed as they are: with this seed no draw of the weights changes a token's experts."""
        case = committed("family_afmoe") | {"seed": 1}
        with tempfile.TemporaryDirectory() as scratch:
            found = steadiness.wrong(folder_of(scratch, case), case["tokens"], steadiness.ROUNDED)
        self.assertEqual(len(found), 1)
        self.assertRegex(found[0], "^states rounded to bfloat16 move the logits by .* take another seed")

    def test_a_model_is_as_before_once_its_states_were_moved(self):
        import torch

        case = committed("family_llama")
        with tempfile.TemporaryDirectory() as scratch:
            model = reference.loaded(folder_of(scratch, case))
        before = reference.logits(model, case["tokens"])
        with steadiness.states_moved(model, torch.Generator().manual_seed(1)):
            far = np.linalg.norm(reference.logits(model, case["tokens"]) - before) / np.linalg.norm(before)
        self.assertGreater(far, steadiness.ROUNDING / 4)
        self.assertLess(far, 1e-1)
        np.testing.assert_array_equal(reference.logits(model, case["tokens"]), before)

    def test_a_network_that_no_cache_fits_is_found(self):
        """transformers asks the layers with attention for the length of a Jamba's cache: without one, it raises."""
        case = committed("selective_scan_norm_weights")
        with tempfile.TemporaryDirectory() as scratch:
            folder = folder_of(scratch, case)
            expected = reference.logits(reference.loaded(folder), case["tokens"])
            self.assertEqual(reference.wrong_with_a_cache(folder, case["tokens"], expected), [])
            other = reference.wrong_with_a_cache(folder, case["tokens"], expected + 1)
            self.assertRegex(other[0], "^with a cache, transformers' logits are 1.0e.00 off")
        case["config"]["num_hidden_layers"] = 1
        case["tensors"] = [row for row in case["tensors"] if ".layers.1." not in row[0]]
        with tempfile.TemporaryDirectory() as scratch:
            found = reference.wrong_with_a_cache(folder_of(scratch, case), case["tokens"], expected)
        self.assertRegex(found[0], "^transformers does not evaluate it with a cache: ")


if __name__ == "__main__":
    if MISSING:
        print(f"skipped: no {', '.join(MISSING)} here; see golden/generate/requirements.txt")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
