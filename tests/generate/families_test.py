"""The float64 of golden/generate/families/, and the lint of their weights. Needs torch; skips without."""

import sys
import unittest
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

MISSING = [name for name in ("torch", "transformers", "numpy") if find_spec(name) is None]
SKIPPED = 77

if not MISSING:
    import numpy as np
    import torch

    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "golden"))
    from generate.families import FAMILIES, expert_tap, loudness, oracle
    from generate.families.doubles import NarrowTensors, doubles
    from generate.families.expert_tap import experts_into
    from generate.families.features import FEATURES


class Families(unittest.TestCase):
    def test_every_family_is_computed_in_float64(self):
        """Breaks if a step of some family were left in float32: run() raises, or the two would be equally far off."""
        for family in FAMILIES:
            with self.subTest(family.name):
                model = oracle.made(family)
                tokens = oracle.prompts(320, family.seed)["short"]
                wide = oracle.run(oracle.in_float64(family, model.state_dict()), tokens)["logits"]
                with torch.no_grad():
                    narrow = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].double().numpy()
                far = np.linalg.norm(narrow - wide) / np.linalg.norm(wide)
                self.assertGreater(far, 1e-9)
                self.assertLess(far, 1e-5)

    def test_experts_are_recomputed_in_the_order_of_their_weights(self):
        """Breaks if gate and up, or two experts, were taken for each other: the sum would not be theirs."""
        for family in FAMILIES:
            if family.name not in ("mixtral", "gpt-oss", "deepseek3", "gemma4-moe"):  # llama4 has a way of its own
                continue
            with self.subTest(family.name):
                model, seen = oracle.in_float64(family, oracle.made(family).state_dict()), {}
                tokens = oracle.prompts(320, family.seed)["short"]
                with experts_into(model, lambda name, _, rows: seen.update({name: rows})):
                    oracle.run(model, tokens)
                if family.name != "gemma4-moe":  # whose sum is a module's, and has a scale of each expert in it
                    weights, out = seen["layer_1_expert_weights"], seen["layer_1_expert_out"]
                    mixed = (out.reshape(*weights.shape, -1) * weights[..., None]).sum(axis=1)
                    expected = seen.get("layer_1_routed_out", seen["layer_1_ffn_out"])
                    np.testing.assert_allclose(mixed, expected, atol=1e-12 * np.abs(expected).max())
                    self.assertTrue((np.diff(weights, axis=1) <= 0).all())
                right = expert_tap.inner
                swapped = lambda experts, x, chosen, *rest: right(experts, x, chosen.flip(1), *rest)
                with mock.patch.object(expert_tap, "inner", swapped), experts_into(model, lambda *_: None):
                    self.assertRaisesRegex(RuntimeError, "not the experts' own", oracle.run, model, tokens)

    def test_a_family_is_the_same_whenever_it_is_made(self):
        """Breaks if a weight kept a part of what transformers draws at random: model file and oracle would differ."""
        for family in FAMILIES:
            first, second = oracle.made(family).state_dict(), oracle.made(family).state_dict()
            self.assertEqual([name for name in first if not torch.equal(first[name], second[name])], [], family.name)

    def test_what_sources_make_narrow_is_made_wide(self):
        with doubles(), NarrowTensors() as narrow:
            x = torch.arange(3, dtype=torch.int64).float() + torch.ones(3, dtype=torch.float32)
            x = torch.softmax(x.to(torch.float32), dim=-1, dtype=torch.float32).type(torch.float32)
            x = torch.view_as_real(torch.polar(x, x).to(torch.complex64))
        self.assertEqual(x.dtype, torch.float64)
        self.assertEqual(narrow.found, set())

    def test_a_narrow_step_is_found(self):
        with NarrowTensors() as narrow:
            torch.ones(3, dtype=torch.float64).float().double()
        self.assertEqual(narrow.found, {"aten._to_copy.default"})

    def test_every_family_has_features_and_a_quiet_one_is_found(self):
        self.assertEqual(set(FEATURES), {family.name for family in FAMILIES})
        family = next(family for family in FAMILIES if family.name == "phi2")
        self.assertGreater(min(loudness.survey(family))[0], loudness.LIMIT)
        FEATURES["phi2"]["nothing"] = {}
        self.addCleanup(FEATURES["phi2"].pop, "nothing")
        self.assertEqual(min(loudness.survey(family)), (0.0, "nothing"))


def main():
    if MISSING:
        print(f"skipped: no {', '.join(MISSING)} here; see golden/generate/requirements.txt")
        return SKIPPED
    result = unittest.main(exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
