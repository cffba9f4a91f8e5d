"""Of a folder of text and images or sound the text is computed as transformers does. Needs torch; skips without.

    text_parts_test.py --assay ASSAY  # a small model of each kind, given text alone: the ops and logits of both
"""

import argparse
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import configs_test
from configs_test import FAR, MISSING, SKIPPED, TOKENS, config_of, drawn, logits_of_assay

if not MISSING:
    import numpy as np
    import torch
    from transformers.utils import logging

    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    from assay_tap import attach
    from generate import text_parts


# Of kinds that scale or cap logits as their text alone does.
CHANGES = {"gemma4": {"final_logit_softcapping": 0.5}, "hyperclovax_vision_v2": {"logits_scaling": 2.5}}
# Of others whose text alone would: the logits of the whole are as they are.
REFUSED = {("granite_speech", "granite"): {"logits_scaling": 2.5}, ("llava", "cohere"): {}}


def logits_of_transformers(kind, text, folder):
    """Writes the folder, too, and the log of a tap."""
    config = text_parts.small_config(kind, text)
    config._experts_implementation = "eager"
    config.text_config._experts_implementation = "eager"
    with torch.no_grad():
        model = text_parts.model_class(kind)(config).float().eval()
        model.set_attn_implementation("eager")
        generator = torch.Generator().manual_seed(5)
        for name, parameter in model.named_parameters():
            parameter.copy_(drawn(name, parameter.shape, "gemma" in text["model_type"], generator))
        model.tie_weights()
        model.save_pretrained(folder)
        with attach(model, str(folder / "tap.jsonl"), values=None):
            return model(input_ids=torch.tensor([TOKENS])).logits[0].double().numpy()


class Texts(unittest.TestCase):
    def test_the_text_is_computed_as_the_whole_does(self):
        """Breaks if a kind did more with its text than that network does alone, its tensors were named otherwise, or the
        tap did not see its ops."""
        for kind in text_parts.KINDS:
            with self.subTest(kind), tempfile.TemporaryDirectory() as scratch:
                self.check(kind, Path(scratch))

    def check(self, kind, folder):
        text = json.loads(text_parts.WRITTEN.read_text())[kind]["text"]
        expected = logits_of_transformers(kind, config_of(text) | CHANGES.get(kind, {}), folder)
        got, refusal = logits_of_assay(json.loads((folder / "config.json").read_text()), folder)
        self.assertIsNotNone(got, f"{kind}: {refusal}")
        self.assertTrue(np.linalg.norm(expected) > 0)
        far = np.linalg.norm(got - expected) / np.linalg.norm(expected)
        self.assertTrue(far <= FAR, f"{kind}: {far:.1e}")
        log = folder / "tap.jsonl"
        tapped = {json.loads(line).get("checkpoint") for line in log.read_text().splitlines()} - {None}
        self.assertIn("layer_3_ffn_out", tapped, kind)
        command = [configs_test.ASSAY, "compare", log, log, "--model", folder, "--own-error", str(FAR)]
        command += ["--checkpoints", ",".join(sorted(tapped))]  # all but what happens to single experts
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{kind}: {done.stdout}{done.stderr}")

    def test_logits_that_the_whole_does_not_scale_are_refused(self):
        """Breaks if Assay scaled them: the argmax is the same, and all logits are another number times those."""
        for (kind, text), change in REFUSED.items():
            with self.subTest(kind), tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                logits_of_transformers(kind, config_of(text) | change, folder)
                got, refusal = logits_of_assay(json.loads((folder / "config.json").read_text()), folder)
                self.assertIsNone(got)
                self.assertIn("whose logits are scaled or capped", refusal)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--assay", required=True, help="the program")
    options, rest = parser.parse_known_args()
    if MISSING:
        print(f"skipped: no {', '.join(MISSING)} here; see golden/generate/requirements.txt")
        return SKIPPED
    configs_test.ASSAY = options.assay
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
