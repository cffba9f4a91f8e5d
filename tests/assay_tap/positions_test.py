"""Which positions the tap gives to the rows of a forward pass, however it is called. Needs torch; skips without."""

import unittest

import numpy as np

try:
    import torch
    import transformers
except ImportError:
    torch = None

from assay_tap import LogError, Rule
from transformers_test import TOKENS, collected, model_of


@unittest.skipIf(torch is None, "no torch and transformers here")
class Positions(unittest.TestCase):
    def setUp(self):
        self.model = model_of("llama")
        self.ids = torch.tensor([TOKENS])
        with torch.no_grad():
            self.logits = self.model(self.ids, use_cache=False).logits[0].numpy()

    def seen(self, *passes, checkpoints="logits", **options):
        return collected(self.model, *passes, checkpoints=checkpoints, **options)

    def assert_logits(self, seen, positions):
        """Breaks if a row stood at the place of another."""
        self.assertEqual(sorted(seen), [("logits", position) for position in sorted(positions)])
        for (_, position), row in seen.items():
            np.testing.assert_allclose(row, self.logits[position], atol=1e-5, err_msg=str(position))

    def refused(self, message, *args, checkpoints="logits", **kwargs):
        with self.assertRaisesRegex(LogError, message) as raised:
            self.seen(lambda: self.model(*args, **kwargs), checkpoints=checkpoints)
        self.assertNotIn("\n", str(raised.exception))

    def test_logits_that_a_tensor_names_are_at_its_positions(self):
        for keep in ([0, 2], [5, 1], [-1], [[3, 4]], list(range(8))[::-1]):
            with self.subTest(keep):
                seen = self.seen(lambda keep=keep: self.model(self.ids, logits_to_keep=torch.tensor(keep)))
                self.assert_logits(seen, {at % 8 for at in np.ravel(keep)})

    def test_logits_that_a_mask_names_are_at_its_positions(self):
        mask = torch.tensor([[token == 1 for token in TOKENS]])
        for keep in (mask, mask[0]):
            self.assert_logits(self.seen(lambda keep=keep: self.model(self.ids, logits_to_keep=keep)), {1, 3})

    def test_logits_of_the_last_tokens_by_count(self):
        for count, expected in ((1, {7}), (3, {5, 6, 7}), (0, range(8)), (100, range(8))):
            with self.subTest(count):
                self.assert_logits(self.seen(lambda count=count: self.model(self.ids, logits_to_keep=count)), expected)

    def test_layers_are_at_their_own_positions_whatever_logits_are_kept(self):
        seen = self.seen(lambda: self.model(self.ids, logits_to_keep=torch.arange(7, -1, -1)), checkpoints="layers")
        whole = self.seen(lambda: self.model(self.ids), checkpoints="layers")
        self.assertEqual(set(seen), set(whole))
        for key, row in whole.items():
            np.testing.assert_allclose(seen[key], row, atol=1e-5, err_msg=str(key))

    def test_a_logit_that_is_kept_twice_is_refused(self):
        self.refused("several rows for position 2", self.ids, logits_to_keep=torch.tensor([2, 2]))

    def test_several_sequences_are_refused_however_positions_are_given(self):
        two = torch.cat([self.ids, self.ids])
        for given in ({"position_ids": torch.arange(8)[None]}, {"cache_position": torch.arange(8)}, {}):
            with self.subTest(given):
                self.refused("batch of 2", two, logits_to_keep=1, **given)
                embeds = self.model.model.embed_tokens(two)
                self.refused("batch of 2", inputs_embeds=embeds, logits_to_keep=1, **given)

    def test_positions_and_cache_by_place_are_those_by_name(self):
        seen = self.seen(lambda: self.model(self.ids, None, torch.arange(10, 18)[None]))
        self.assertEqual({at for _, at in seen}, set(range(10, 18)))
        cache = transformers.DynamicCache(config=self.model.config)
        parts = [torch.tensor([TOKENS[:5]]), torch.tensor([TOKENS[5:]])]
        self.assert_logits(self.seen(*[lambda ids=ids: self.model(ids, None, None, cache) for ids in parts]), range(8))

    def test_positions_of_embeddings_follow_the_cache(self):
        cache = transformers.DynamicCache(config=self.model.config)
        parts = [self.model.model.embed_tokens(torch.tensor([part])).detach() for part in (TOKENS[:5], TOKENS[5:])]
        passes = [lambda part=part: self.model(inputs_embeds=part, past_key_values=cache) for part in parts]
        self.assert_logits(self.seen(*passes), range(8))

    def generate(self, checkpoints):
        padded = torch.tensor([[0, 0, *TOKENS]])
        mask = torch.tensor([[0, 0] + [1] * 8])
        return self.seen(
            lambda: self.model.generate(padded, attention_mask=mask, max_new_tokens=2, do_sample=False, pad_token_id=0),
            checkpoints=checkpoints,
        )

    def test_padding_is_refused_where_its_rows_would_be_logged(self):
        with self.assertRaisesRegex(LogError, "embedding has several rows for position 0; .*without padding"):
            self.generate("layers")
        seen = self.generate("logits")
        self.assertEqual(sorted(seen), [("logits", 7), ("logits", 8)])
        np.testing.assert_allclose(seen["logits", 7], self.logits[7], atol=1e-5)

    def test_a_part_of_the_model_that_is_called_alone_is_refused(self):
        with self.assertRaisesRegex(LogError, "outside of a call of the model"):
            self.seen(lambda: self.model.model(self.ids), checkpoints="layers")

    def test_a_function_of_ones_own_is_given_the_call(self):
        calls = []

        def own(args, kwargs):
            calls.append((len(args), sorted(kwargs)))
            return range(20, 28)

        seen = self.seen(lambda: self.model(self.ids, use_cache=False), positions=own)
        self.assertEqual({at for _, at in seen}, set(range(20, 28)))
        self.assertEqual(calls, [(1, ["use_cache"])])


@unittest.skipIf(torch is None, "no torch and transformers here")
class OwnModels(unittest.TestCase):
    def test_fewer_rows_than_tokens_are_refused_unless_the_call_says_which(self):
        class Last(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.head = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 9)

            def forward(self, tokens):
                return self.head(self.table(tokens)[:, -1:])

        class Kept(Last):
            def forward(self, tokens, logits_to_keep=1):
                return super().forward(tokens)

        rules, ids = [Rule("head", "logits")], torch.tensor([[1, 2, 3]])
        with self.assertRaisesRegex(LogError, "logits has 1 row, the pass has 3 tokens.*LogWriter.write"):
            model = Last()
            collected(model, lambda: model(ids), rules=rules)
        model = Kept()
        self.assertEqual(list(collected(model, lambda: model(ids), rules=rules)), [("logits", 2)])

    def test_flat_sequences_side_by_side_are_refused(self):
        class Flat(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.nn.Embedding(9, 4)

            def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None):
                return self.table(input_ids)

        model, rules = Flat(), [Rule("table", "embedding")]
        ids, positions = torch.tensor([1, 2, 3, 4]), torch.tensor([5, 6, 0, 1])
        self.assertEqual({at for _, at in collected(model, lambda: model(ids, positions), rules=rules)}, {0, 1, 5, 6})
        with self.assertRaisesRegex(LogError, "several rows for position 0; log one sequence at a time"):
            collected(model, lambda: model(ids, torch.tensor([0, 1, 0, 1])), rules=rules)


if __name__ == "__main__":
    unittest.main()
