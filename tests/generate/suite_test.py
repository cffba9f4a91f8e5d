"""The committed suite of `assay conform`, conform/suite/: complete, small, of finite numbers. Standard library only."""

import json
import math
import re
import unittest
from pathlib import Path

SUITE = Path(__file__).resolve().parents[2] / "conform" / "suite"
VERDICTS = Path(__file__).resolve().parents[2] / "engines" / "verdicts.json"
LEAST = 60  # features
LARGEST_CASE, LARGEST_SUITE, LARGEST_MODEL = 128_000, 12_000_000, 2_000_000  # bytes
KEYS = {"feature", "group", "title", "states", "config", "seed", "tensors", "tokens", "counterfactuals"}
# The names of causes that `assay compare` gives, and `tied_head`: the embedding for the output matrix, or the reverse.
CAUSES = set(
    """rope_pairing rope_position rope_base rope_scaling rope_attention_factor rope_dimensions rope_missing
    rope_unwanted attention_scale attention_mask attention_window attention_softcap attention_sinks attention_indexed
    gqa_map kv_shift head_order qk_norm transpose gate_up_swapped activation_kind eps norm_kind norm_order
    norm_weight_plus_one bias_missing residual residual_multiplier parallel_residual embedding_scale logit_scale
    logit_softcap experts_used router_weights router_scale shared_expert expert_order scale sign token_shift row_shift
    rounding quant_block delta_rule ssm mixer layer_scale layer_embedding alibi_slopes tied_head
    residual_streams laurel activation_cutoff kv_layer clip""".split()
)
SIZES = {"F32": 4, "BF16": 2, "F16": 2}
# Of a row's elements that stand together in the GGUF file; the folder has float32 in their place.
BLOCKS = dict.fromkeys("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4".split(), 32) | {"NVFP4": 64}
BLOCKS |= dict.fromkeys("Q2_K Q3_K Q4_K Q5_K Q6_K TQ1_0 TQ2_0".split(), 256)
BLOCKS |= dict.fromkeys("IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_XS".split(), 256)
RANDOM = {kind for kind in BLOCKS if kind[:2] in ("IQ", "TQ", "NV")}  # whose mean is 0


def folders():
    return sorted(path for path in SUITE.iterdir() if path.is_dir())


def layers_of(config):
    return next(config[key] for key in ("num_hidden_layers", "n_layer", "n_layers") if key in config)


class Suite(unittest.TestCase):
    def each(self, check):
        for folder in folders():
            with self.subTest(folder.name):
                check(folder, json.loads((folder / "case.json").read_text()))

    def test_it_has_the_features_that_it_is_to_have(self):
        """Breaks if folders were lost: `assay conform` would pass with fewer features."""
        self.assertGreaterEqual(len(folders()), LEAST)
        for folder in folders():
            self.assertEqual({path.name for path in folder.iterdir()}, {"case.json", "reference.jsonl"}, folder.name)

    def test_cases_are_well_formed(self):
        def check(folder, case):
            self.assertEqual(set(case) - {"gguf", "files", "folder"}, KEYS)
            self.assertEqual("gguf" in case, "files" not in case, "a case has GGUF's keys, or says that HF is all")
            self.assertEqual(case.get("files", ["hf"]), ["hf"])
            self.assertEqual(case["feature"], folder.name)
            self.assertRegex(folder.name, r"^[a-z][a-z0-9]*(_[a-zA-Z0-9]+)*$")
            self.assertTrue(case["title"] and case["group"])
            for key in case["states"]:
                here = case["config"]
                for part in key.split("."):
                    self.assertIn(part, here, f"config.json does not state {key}")
                    here = here[part]

        self.each(check)

    def test_no_precision_of_the_oracle_fails(self):
        """Breaks if a case hangs on a choice too close to call: transformers in bfloat16 would choose other experts.

        Cases that are of nothing but the forms of GELU may be hidden by its rounding.
        """
        cases = {folder.name: json.loads((folder / "case.json").read_text()) for folder in folders()}
        mistakes = {name: case["counterfactuals"] for name, case in cases.items()}
        small = {name for name, each in mistakes.items() if each and all(mistake.get("small") for mistake in each)}
        allowed = {"transformers": {"honoured"}, "transformers-bf16": {"honoured", "unsupported"}}
        engines = {engine["name"]: engine for engine in json.loads(VERDICTS.read_text())["engines"]}
        for name, of_small in allowed.items():
            wrong = {cell["feature"]: cell["verdict"] for cell in engines[name]["features"]}
            self.assertGreaterEqual(len(wrong), LEAST)
            right = {key: of_small if key in small else {"honoured"} for key in wrong}
            self.assertEqual({key: value for key, value in wrong.items() if value not in right[key]}, {}, name)

    def test_counterfactuals_are_known_mistakes(self):
        def check(_, case):
            for mistake in case["counterfactuals"]:
                self.assertIn(mistake["verdict"], ("ignored", "misread"))
                self.assertIn(mistake["name"], CAUSES)
                self.assertTrue(mistake["config"] or mistake.get("tensors"), "changes nothing")
                self.assertLessEqual(set(mistake), {"verdict", "name", "text", "config", "tensors", "small"})
            for key in ("text", "config"):
                said = [json.dumps([mistake[key], mistake.get("tensors")]) for mistake in case["counterfactuals"]]
                self.assertEqual(len(said), len(set(said)), "two are the same")

        self.each(check)

    def test_tokens_are_of_the_vocabulary(self):
        def check(_, case):
            self.assertTrue(case["tokens"])
            self.assertTrue(all(0 <= token < case["config"]["vocab_size"] for token in case["tokens"]))

        self.each(check)

    def test_references_hold_every_checkpoint_at_every_position(self):
        """Breaks if a record were missing, or held something else than finite numbers: nothing could be held to it."""
        def check(folder, case):
            lines = [json.loads(line) for line in (folder / "reference.jsonl").read_text().splitlines()]
            header, records = lines[0], lines[1:]
            self.assertEqual(header["tokens"], case["tokens"])
            self.assertRegex(header["engine"], r"^transformers \d+\.\d+\.\d+ float64$")
            outputs = [f"layer_{i}_output" for i in range(layers_of(case["config"]))]
            names = ["embedding", *outputs, "logits"]
            expected = [(token_idx, name) for token_idx in range(len(case["tokens"])) for name in names]
            self.assertEqual([(record["token_idx"], record["checkpoint"]) for record in records], expected)
            widths = {"logits": case["config"]["vocab_size"]}
            hidden = next(case["config"][key] for key in ("hidden_size", "n_embd", "n_embed", "d_model") if key in case["config"])
            streams = case["config"].get("altup_num_inputs", 1)  # which all layers leave but the last
            widths |= dict.fromkeys(outputs[:-1], streams * hidden)
            for record in records:
                self.assertEqual(record["shape"], [1, widths.get(record["checkpoint"], hidden)])
                numbers = [value for value in record["values"] if isinstance(value, (int, float))]
                self.assertEqual(len(numbers), record["shape"][1])
                self.assertTrue(all(map(math.isfinite, numbers)))

        self.each(check)

    def test_tensors_can_be_drawn(self):
        def check(_, case):
            names = [tensor[0] for tensor in case["tensors"]]
            self.assertEqual(names, sorted(set(names)))
            size = 0
            for name, shape, mean, deviation, *dtype in case["tensors"]:
                self.assertTrue(all(isinstance(side, int) and side > 0 for side in shape), name)
                self.assertTrue(math.isfinite(mean) and math.isfinite(deviation) and deviation >= 0, name)
                kind = dtype[0] if dtype else "F32"
                self.assertIn(kind, SIZES.keys() | BLOCKS.keys(), name)
                self.assertEqual((shape or [1])[-1] % BLOCKS.get(kind, 1), 0, name)
                self.assertTrue(mean == 0 or kind not in RANDOM, name)
                size += math.prod(shape) * SIZES.get(kind, 4)
            self.assertLess(size, LARGEST_MODEL)

        self.each(check)

    def test_the_vocabulary_is_a_size_of_its_own(self):
        """Breaks if an engine that knows the output matrix by its rows were wrong in a row that is not about that."""
        def check(_, case):
            rows = [
                shape[0] for name, shape, *_ in case["tensors"] if shape and not re.search("embed|wte|lm_head", name)
            ]
            self.assertEqual(case["config"]["vocab_size"] in rows, case["feature"] == "as_wide_as_the_vocabulary")

        self.each(check)

    def test_keys_of_gguf_are_those_of_one_architecture(self):
        def check(_, case):
            others = {"tokenizer.", "xielu.", "assay."}
            prefixes = {re.match(r"[a-z0-9_-]+\.", key)[0] for key in case.get("gguf", {})} - others
            self.assertEqual(len(prefixes), "gguf" in case)

        self.each(check)

    def test_it_is_small(self):
        sizes = {folder.name: sum(path.stat().st_size for path in folder.iterdir()) for folder in folders()}
        self.assertEqual([name for name, size in sizes.items() if size > LARGEST_CASE], [])
        self.assertLess(sum(sizes.values()), LARGEST_SUITE)


if __name__ == "__main__":
    unittest.main()
