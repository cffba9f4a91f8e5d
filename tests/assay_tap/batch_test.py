"""A batch is logged as its sequences would be alone, whatever the padding and the cache. Needs torch; skips without."""

import importlib.util
import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import writer_test

try:
    import torch
    import transformers
except ImportError:
    torch = None

from assay_tap import LogError, Rule, attach
from assay_tap.networks import MODELS
from tiny_models import model_of

PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6], [5, 3, 5], [8, 9, 7, 9, 3]]
KINDS = ("llama", "gemma2", "mixtral", "gpt2", "deepseek_v3", "falcon", "gpt_neox")
PAD = 49
NOISE = 1e-12


def doubles():
    """That of the oracles: a model is made and run in float64 alone, also where its source takes float32."""
    path = writer_test.ROOT / "golden/generate/families/doubles.py"
    spec = importlib.util.spec_from_file_location("doubles", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.doubles()


def wide_model(kind, **settings):
    """With experts that sum one after the other, as others have no float64."""
    model = model_of(kind, **settings)
    model.set_experts_implementation("eager")
    return model


def padded(prompts, side):
    """Ids and mask [sequences, tokens]."""
    length = max(map(len, prompts))
    fill = [[0] * (length - len(prompt)) for prompt in prompts]
    pairs = list(zip(prompts, fill, strict=True))
    ids = [[PAD] * len(pad) + own if side == "left" else own + [PAD] * len(pad) for own, pad in pairs]
    mask = [pad + [1] * len(own) if side == "left" else [1] * len(own) + pad for own, pad in pairs]
    return torch.tensor(ids), torch.tensor(mask)


def places(mask):
    return (mask.cumsum(-1) - 1).clamp(min=0)


class Seen:
    """The rows of a tap, by sequence, checkpoint and position."""

    def __init__(self):
        self.rows, self.steps = {}, {}

    def __call__(self, name, positions, rows, sequence, step, phase):
        for position, row in zip(positions, rows, strict=True):
            key = (sequence, name, position)
            assert key not in self.rows, f"{key} is logged twice"
            self.rows[key] = row.copy()
            self.steps[sequence, position] = (step, phase)

    def of(self, sequence):
        return {key[1:]: row for key, row in self.rows.items() if key[0] == sequence}


def seen_of(model, *passes, **options):
    seen = Seen()
    with torch.no_grad(), attach(model, seen, **options):
        for each in passes:
            each()
    return seen


@unittest.skipIf(torch is None, "no torch and transformers here")
class Batches(unittest.TestCase):
    def setUp(self):
        wide = doubles()
        wide.__enter__()
        self.addCleanup(wide.__exit__, None, None, None)

    def assert_alike(self, got, expected, noise=NOISE):
        """Breaks if a row stood in another sequence, at another position, or were padding."""
        self.assertEqual(sorted(got), sorted(expected))
        for key, row in expected.items():
            error = np.linalg.norm(got[key] - row)
            self.assertTrue(error <= noise * np.linalg.norm(row), f"{key}: {error}")

    def alone(self, model, prompt, **options):
        return seen_of(model, lambda: model(torch.tensor([prompt]), use_cache=False), **options).of(0)

    def test_a_padded_batch_is_its_sequences_alone(self):
        for kind in KINDS:
            model = wide_model(kind)
            alone = [self.alone(model, prompt) for prompt in PROMPTS]
            for side in ("left", "right"):
                ids, mask = padded(PROMPTS, side)
                with self.subTest(kind, side=side):
                    seen = seen_of(
                        model,
                        lambda: model(ids, attention_mask=mask, position_ids=places(mask), use_cache=False),  # noqa: B023
                    )
                    for i, expected in enumerate(alone):
                        self.assert_alike(seen.of(i), expected)

    def test_positions_follow_from_the_mask_alone(self):
        """Breaks if padding counted: Llama's values do not depend on where a sequence begins."""
        model = wide_model("llama")
        ids, mask = padded(PROMPTS, "left")
        for given in (mask, mask.bool(), self.mask_of_queries(mask)):
            places_of = {} if given.ndim == 2 else dict(position_ids=places(mask))
            seen = seen_of(
                model, lambda given=given, places_of=places_of: model(ids, attention_mask=given, **places_of),
                checkpoints="layer_*_output,logits",
            )  # fmt: skip
            for i, prompt in enumerate(PROMPTS):
                self.assert_alike(seen.of(i), self.alone(model, prompt, checkpoints="layer_*_output,logits"))

    @staticmethod
    def mask_of_queries(mask):
        """As transformers has it for static caches: what is padding sees everything, which the softmax needs."""
        seen = torch.tril(torch.ones(mask.shape[1], mask.shape[1], dtype=torch.bool)) & mask[:, None, None].bool()
        return seen | ~seen.any(-1, keepdim=True)

    def test_a_mask_that_cannot_be_read_is_refused(self):
        model = wide_model("llama")
        ids, mask = padded(PROMPTS, "left")
        for given, said in (
            (self.mask_of_queries(mask), "has padding, and no position_ids say"),
            (mask[:, :4], "mask is of 4 tokens, and 0 are in the cache with 8 more"),
            (mask[:2], r"an attention_mask \[2, 8\] for 3 sequences of 8 tokens"),
            ("left", "unknown from a str"),
        ):
            with self.subTest(said), self.assertRaisesRegex(LogError, said):
                with attach(model, Seen(), [Rule("model.embed_tokens", "embedding")]):
                    model(ids, attention_mask=given)

    def test_logits_that_are_kept_are_those_of_each_sequence(self):
        model = wide_model("llama")
        ids, mask = padded(PROMPTS, "left")
        alone = [self.alone(model, prompt, checkpoints="logits") for prompt in PROMPTS]
        seen = seen_of(
            model,
            lambda: model(ids, attention_mask=mask, position_ids=places(mask), logits_to_keep=2),
            checkpoints="logits",
        )
        for i, prompt in enumerate(PROMPTS):
            kept = {("logits", at): alone[i]["logits", at] for at in (len(prompt) - 2, len(prompt) - 1)}
            self.assert_alike(seen.of(i), kept)

    def generated(self, model, prompts, count, checkpoints="layers", **settings):
        ids, mask = padded(prompts, "left")
        settings = dict(attention_mask=mask, max_new_tokens=count, do_sample=False, pad_token_id=PAD) | settings
        return seen_of(model, lambda: model.generate(ids, **settings), checkpoints=checkpoints)

    def test_generate_logs_each_sequence_as_alone(self):
        """Breaks if a cached step stood at the place of another, or of another sequence; with a static cache, too."""
        for kind in ("llama", "gemma2", "mixtral", "gpt2"):
            model = wide_model(kind)
            alone = [self.generated(model, [prompt], 4) for prompt in PROMPTS]
            for cache in ("dynamic", "static"):
                with self.subTest(kind, cache=cache):
                    seen = self.generated(model, PROMPTS, 4, cache_implementation=cache)
                    for i, prompt in enumerate(PROMPTS):
                        self.assert_alike(seen.of(i), alone[i].of(0))
                        steps = {at: seen.steps[i, at] for sequence, at in seen.steps if sequence == i}
                        expected = {at: (0, "prefill") for at in range(len(prompt))}
                        expected |= {len(prompt) + k: (k + 1, "decode") for k in range(3)}
                        self.assertEqual(steps, expected)

    def test_what_generate_pads_after_the_end_is_not_logged(self):
        """Breaks if a batch had records of tokens that a sequence alone never comes to."""
        model = wide_model("llama")
        ids, mask = padded(PROMPTS, "left")
        with torch.no_grad():
            out = model.generate(ids, attention_mask=mask, max_new_tokens=6, do_sample=False, pad_token_id=PAD)
        end = int(out[1, 8])  # where the second sequence ends
        alone = [self.generated(model, [prompt], 6, eos_token_id=end) for prompt in PROMPTS]
        seen = self.generated(model, PROMPTS, 6, eos_token_id=[end])
        for i in range(3):
            self.assert_alike(seen.of(i), alone[i].of(0))
        self.assertLess(max(at for _, at in seen.of(1)), max(at for _, at in seen.of(2)))
        with attach(model, Seen()):  # another tap on the same model
            beside = self.generated(model, PROMPTS, 6, eos_token_id=[end])
        self.assertEqual(set(beside.rows), set(seen.rows))
        self.assertNotIn("generate", vars(model))

    def test_a_header_says_how_tokens_are_drawn(self):
        """Breaks if a log of drawn tokens passed for one of the likeliest: a reference would follow other tokens."""
        model = wide_model("llama")
        for settings, said in (
            (dict(do_sample=True, temperature=2.0), "do_sample, temperature 2.0"),
            (dict(do_sample=False), None),
        ):
            with tempfile.TemporaryDirectory() as scratch:
                with torch.no_grad(), attach(model, Path(scratch) / "t.jsonl"):
                    model.generate(torch.tensor([PROMPTS[0]]), max_new_tokens=3, pad_token_id=PAD, **settings)
                header = json.loads((Path(scratch) / "t.jsonl").read_text().splitlines()[0])
            self.assertEqual(header["tokens"], PROMPTS[0])
            self.assertEqual(header.get("sampling", "")[: len(said or "")] or None, said)

    def test_what_generate_may_take_back_is_refused(self):
        """Breaks if rows of beams, or of tokens that were only guessed, stood at the places of those that are chosen."""
        model = wide_model("llama")
        refused = (("log it with num_beams=1", dict(num_beams=2)),)
        refused += (("prompt_lookup_num_tokens evaluates tokens that it may", dict(prompt_lookup_num_tokens=2)),)
        refused += (("assistant_model evaluates", dict(assistant_model=wide_model("llama"))),)
        for message, settings in refused:
            with self.subTest(message), self.assertRaisesRegex(LogError, message):
                self.generated(model, PROMPTS[:1], 2, **settings)
        self.assertNotIn("generate", vars(model))

    def test_a_pass_that_goes_back_is_refused(self):
        """Breaks if a position were logged twice: once of a token that the cache has lost again."""
        model, ids = wide_model("llama"), torch.tensor(PROMPTS[:1])
        cache = transformers.DynamicCache(config=model.config)
        passes = [lambda part=part: model(ids[:, part], past_key_values=cache) for part in (slice(0, 4), slice(4, 6))]
        with self.assertRaisesRegex(LogError, "goes back to position 5 of a sequence that is logged up to 5"):
            seen_of(model, *passes, lambda: cache.crop(-1), passes[1])

    def test_rows_of_a_cache_go_on_with_its_sequences(self):
        model = wide_model("llama")
        caches = [transformers.DynamicCache(config=model.config) for _ in "ab"]
        two = [torch.tensor([[3, 1, 4, 1], [5, 9, 2, 6]]), torch.tensor([[2, 7, 1, 8], [1, 6, 1, 8]])]
        seen = seen_of(
            model,
            *(
                lambda part=part, k=k: model(two[k][:, part], past_key_values=caches[k])
                for part in (slice(0, 2), slice(2, 3), slice(3, 4))
                for k in (1, 0)
            ),
            checkpoints="logits",
        )
        for k, first in ((1, 0), (0, 2)):  # the second cache is filled first
            for row in (0, 1):
                self.assert_alike(seen.of(first + row), self.alone(model, two[k][row].tolist(), checkpoints="logits"))

    def test_each_pass_that_begins_anew_has_sequences_of_its_own(self):
        model = wide_model("llama")
        ids = torch.tensor(PROMPTS[:1])
        seen = seen_of(model, lambda: model(ids), lambda: model(ids[:, :3]), checkpoints="logits")
        self.assertEqual([len(seen.of(i)) for i in range(3)], [8, 3, 0])

    def test_positions_of_ones_own_are_a_row_for_each_sequence(self):
        model = wide_model("llama")
        seen = seen_of(
            model, lambda: model(torch.tensor([[1, 2], [3, 4]])), positions=lambda *_: [[-1, 5], [6, 7]], checkpoints="logits"
        )
        self.assertEqual(sorted((row, at) for row, _, at in seen.rows), [(0, 5), (1, 6), (1, 7)])


@unittest.skipIf(torch is None, "no torch and transformers here")
class Headers(writer_test.Folder):
    def test_a_log_of_a_batch_names_its_sequences_and_their_tokens(self):
        model = model_of("mistral").bfloat16()
        ids, mask = padded(PROMPTS[:2], "left")
        with torch.no_grad(), attach(model, self.path, checkpoints="logits"):
            model.generate(ids, attention_mask=mask, max_new_tokens=2, do_sample=False, pad_token_id=PAD)
        header, *records = map(json.loads, self.lines())
        self.assertEqual(header["model"], {"name": "MistralForCausalLM", "sha256": "", "arch": "llama", "type": "BF16"})
        self.assertEqual((header["tokens"], header["sequences"]), (PROMPTS[:2], ["0", "1"]))
        self.assertEqual((header["engine"], header["backend"]), ("transformers", "cpu"))
        found = [(r.get("sequence", "0"), r["token_idx"], r["step"], r["phase"], r["dtype"]) for r in records]
        self.assertEqual(
            found,
            [
                (name, first + step, step, phase, "bf16")
                for step, phase in enumerate(("prefill", "decode"))
                for name, first in (("0", 7), ("1", 2))
            ],
        )

    def test_a_log_of_one_sequence_is_compared_with_another(self):
        model = model_of("llama")
        other = self.folder / "other.jsonl"
        for path, cached in ((self.path, False), (other, True)):
            with torch.no_grad(), attach(model, path, values=None, sketch=True, checkpoints="layers"):
                model(torch.tensor(PROMPTS[:1]), use_cache=cached)
        self.assertEqual(json.loads(self.lines()[0])["tokens"], PROMPTS[0])
        answer = writer_test.assay("compare", self.path, other)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)

    def test_a_header_names_all_sequences_or_none(self):
        """Breaks if a log had records of sequences that its header leaves out, which the program refuses to read."""
        model = model_of("llama").eval()
        ids = torch.tensor(PROMPTS[:1])
        with torch.no_grad(), attach(model, self.path, checkpoints="logits"):
            model(ids)
            with self.assertRaisesRegex(LogError, "sequences that the log's header does not name; give each prompt"):
                model(ids)
        self.assertEqual(len(self.lines()), 1 + len(PROMPTS[0]))
        with attach(model.train(), self.path, checkpoints="logits"):
            model(ids)
            model(ids)
        header, *records = map(json.loads, self.lines())
        self.assertEqual((header["tokens"], len(records)), ([], 2 * len(PROMPTS[0])))
        self.assertEqual([records[i].get("sequence", "0") for i in (0, 8)], ["0", "1"])

    def test_a_header_says_which_checkpoints_were_asked_for(self):
        """Breaks if a log that lacks a layer were taken, by itself, for one of which no more was asked."""
        model = model_of("llama").eval()
        environment = {"ORCH_LOG_FILE": str(self.path), "ASSAY_LOG_CHECKPOINTS": "embedding,logits"}
        for variables, asked, header in (
            ({}, {"log": self.path, "checkpoints": "layers"}, "layers"),
            ({}, {"log": self.path}, None),
            (environment, {}, "embedding,logits"),
            (environment, {"checkpoints": "layer_*_output"}, "layer_*_output"),
        ):
            with mock.patch.dict(os.environ, variables), torch.no_grad(), attach(model, **asked):
                model(torch.tensor(PROMPTS[:1]))
            self.assertEqual(json.loads(self.lines()[0]).get("checkpoints"), header)

    def test_a_header_is_of_the_first_pass_that_is_logged(self):
        """Breaks if a pass that failed at once left its tokens to the next, whose records then were refused."""
        model = model_of("llama")
        with torch.no_grad(), attach(model, self.path, values=None, checkpoints="layers"):
            with self.assertRaises(IndexError):
                model(torch.tensor([[3, 99]]))
            model(torch.tensor(PROMPTS[:1]))
        header, *records = map(json.loads, self.lines())
        self.assertEqual((header["tokens"], header["sequences"]), (PROMPTS[:1], ["1"]))
        self.assertEqual({record["sequence"] for record in records}, {"1"})
        answer = writer_test.assay("analyze", self.path)
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_a_header_that_is_there_stays(self):
        model = model_of("llama")
        with writer_test.LogWriter(self.path) as log, torch.no_grad():
            log.header([7], engine="mine")
            with attach(model, log, checkpoints="logits"):
                model(torch.tensor(PROMPTS[:1]))
        self.assertEqual([json.loads(line).get("engine") for line in self.lines()], ["mine"] + [None] * 8)


@unittest.skipIf(torch is None, "no torch and transformers here")
class Steps(unittest.TestCase):
    def trained(self, checkpointing, tapped):
        """The gradients of two steps, and what was seen."""
        model = model_of("llama").train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        ids, mask = padded(PROMPTS, "right")
        labels, seen = torch.where(mask == 1, ids, -100), Seen()
        taps = [attach(model, seen, checkpoints="ops")] if tapped else []
        for _ in range(2):
            model(ids, attention_mask=mask, labels=labels).loss.backward()
        for tap in taps:
            tap.remove()
        return [parameter.grad for parameter in model.parameters()], seen

    def test_steps_of_training_keep_their_gradients_and_are_logged_once(self):
        for checkpointing in (False, True):
            with self.subTest(checkpointing=checkpointing):
                plain, _ = self.trained(checkpointing, False)
                grads, seen = self.trained(checkpointing, True)
                for got, expected in zip(grads, plain, strict=True):
                    self.assertTrue(torch.equal(got, expected))
                self.assertEqual([len({at for _, at in seen.of(i)}) for i in range(6)], [8, 3, 5] * 2)
                self.assertEqual({seen.steps[i, 0] for i in (0, 3)}, {(0, "prefill"), (1, "prefill")})

    def test_compiled_code_is_refused_however_it_came_to_be(self):
        """Breaks if hooks that compiled code leaves out logged a part of a model, or nothing, without a word."""
        ids = torch.tensor(PROMPTS[:1])

        def after(model):
            compiled = torch.compile(model, backend="eager")
            compiled(ids)
            return compiled

        def in_place(model):
            model.compile(backend="eager")
            return model

        def a_layer(model):
            model.model.layers[0].compile(backend="eager")
            return model

        def its_forward(model):
            model.forward = torch.compile(model.forward, backend="eager")
            return model

        for compile_it in (after, in_place, a_layer, its_forward):
            with self.subTest(compile_it.__name__), torch.no_grad():
                model, seen = model_of("llama"), Seen()
                called = compile_it(model)
                with attach(model, seen, checkpoints="layers"):
                    with self.assertRaisesRegex(LogError, "torch.compile, which leaves out hooks; .*set_stance") as raised:
                        called(ids)
                    self.assertNotIn("\n", str(raised.exception))
                    self.assertEqual(seen.rows, {})
                    with torch.compiler.set_stance("force_eager"):
                        called(ids)
                self.assertEqual(len(seen.rows), 8 * 4)
        model = model_of("llama")
        model.forward = torch.compiler.disable(model.forward)
        self.assertEqual(len(seen_of(model, lambda: model(ids), checkpoints="layers").rows), 8 * 4)
        with self.assertRaisesRegex(LogError, "is compiled by torch.compile; attach to the model that it holds, _orig_mod"):
            attach(torch.compile(model_of("llama"), backend="eager"), Seen())


if __name__ == "__main__":
    unittest.main()
