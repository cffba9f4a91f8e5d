"""Which positions the tap gives to the rows of a forward pass, however it is called. Needs torch; skips without."""

import unittest

import numpy as np

try:
    import torch
    import transformers
except ImportError:
    torch = None

from assay_tap import LogError, Rule
from tiny_models import TOKENS, model_of
from transformers_test import collected


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

    def test_several_sequences_are_refused_by_a_function_that_takes_one(self):
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

    def test_padding_is_not_logged(self):
        seen = self.generate("layers")
        self.assertEqual({at for name, at in seen if name != "logits"}, set(range(9)))
        self.assertEqual(sorted(at for name, at in seen if name == "logits"), [7, 8])
        np.testing.assert_allclose(seen["logits", 7], self.logits[7], atol=1e-5)

    def test_a_part_of_the_model_that_is_called_alone_is_refused(self):
        with self.assertRaisesRegex(LogError, "outside of a call of the model"):
            self.seen(lambda: self.model.model(self.ids), checkpoints="layers")

    def test_a_layer_that_is_there_twice_is_refused(self):
        """Breaks if the second result stood beside the first at the same place."""
        self.model.model.layers[1] = self.model.model.layers[0]
        with self.assertRaisesRegex(LogError, "layer_0_output was computed twice for one call"):
            self.seen(lambda: self.model(self.ids), checkpoints="layer_0_output")

    def test_a_function_of_ones_own_is_given_the_call(self):
        calls = []

        def own(args, kwargs):
            calls.append((len(args), sorted(kwargs)))
            return range(20, 28)

        seen = self.seen(lambda: self.model(self.ids, use_cache=False), positions=own)
        self.assertEqual({at for _, at in seen}, set(range(20, 28)))
        self.assertEqual(calls, [(1, ["use_cache"])])


    def test_a_part_that_is_called_after_the_pass_is_refused(self):
        """Breaks if its rows stood at the positions of the pass before, beside those of that."""
        self.seen(lambda: self.model(self.ids), checkpoints="layers")
        for count in (8, 1):
            with self.assertRaisesRegex(LogError, "outside of a call of the model"):
                self.seen(
                    lambda count=count: (self.model(self.ids[:, :count]), self.model.model(self.ids[:, -count:])),
                    checkpoints="layers",
                )

    def test_after_a_pass_that_failed_nothing_is_taken_for_a_part_of_it(self):
        def fail(*_):
            raise RuntimeError("out of memory")

        def run():
            handle = self.model.model.layers[1].register_forward_hook(fail)
            with self.assertRaisesRegex(RuntimeError, "out of memory"):
                self.model(self.ids)
            handle.remove()
            self.model.lm_head(torch.ones(1, 32))

        with self.assertRaisesRegex(LogError, "outside of a call of the model"):
            self.seen(run, rules=[Rule("lm_head", "logits", rows="last")])

    def test_a_pass_of_which_nothing_is_logged_cannot_fail(self):
        """Breaks if the tap read a batch, or a cache that it does not know, before there was anything to log."""
        inner, two = self.model.model, torch.cat([self.ids, self.ids])
        never = torch.nn.Linear(1, 1)  # a module of the model that this pass does not call
        inner.never = never
        self.assertEqual(self.seen(lambda: self.model(two), rules=[Rule("model.never", "x")]), {})
        with self.assertRaisesRegex(LogError, "batch of 2"):
            self.seen(lambda: self.model(two))

    def test_positions_of_ones_own_that_fail_are_told_with_the_first_record(self):
        with self.assertRaises(ZeroDivisionError):
            self.seen(lambda: self.model(self.ids), positions=lambda args, kwargs: 1 // 0)

    def test_positions_of_ones_own_may_be_a_tensor_and_may_not_repeat(self):
        seen = self.seen(lambda: self.model(self.ids), positions=lambda *_: torch.arange(20, 28))
        self.assertEqual({at for _, at in seen}, set(range(20, 28)))
        self.assertTrue(all(type(at) is int for _, at in seen))
        with self.assertRaisesRegex(LogError, "several rows for position 3"):
            self.seen(lambda: self.model(self.ids), positions=lambda *_: torch.full((8,), 3))

    def test_rows_in_another_order_are_refused_where_the_name_does_not_tell(self):
        keep = torch.arange(7, -1, -1)
        for name in ("lm_head", "scores"):
            rules = [Rule("lm_head", name)]
            with self.subTest(name), self.assertRaisesRegex(LogError, f"^{name} has as many rows as .*another order"):
                self.seen(lambda: self.model(self.ids, logits_to_keep=keep), checkpoints="*", rules=rules)
        own = self.seen(lambda: self.model(self.ids), checkpoints="*", rules=rules)
        kept = self.seen(lambda: self.model(self.ids, logits_to_keep=keep))
        for at in range(8):
            np.testing.assert_allclose(own["scores", at], kept["logits", at], atol=1e-5)


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

    def test_a_list_of_tokens_is_as_good_as_a_tensor(self):
        class Listed(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.nn.Embedding(9, 4)

            def forward(self, input_ids, positions=None):
                return self.table(torch.tensor(input_ids) if input_ids != "text" else torch.tensor([1]))

        model, rules = Listed(), [Rule("table", "embedding")]
        for expected, call in (
            ([5, 6, 7], {"positions": torch.arange(5, 8)}),
            ([5, 6, 7], {"positions": [5, 6, 7]}),
            ([0, 1, 2], {}),
        ):
            for ids in ([1, 2, 3], [[1, 2, 3]]):
                seen = collected(model, lambda ids=ids, call=call: model(ids, **call), rules=rules)
                self.assertEqual([at for _, at in seen], expected)
        with self.assertRaisesRegex(LogError, "batch of 2"):
            collected(model, lambda: model([[1, 2], [3, 4]], positions=[0, 1]), rules=rules)
        with self.assertRaisesRegex(LogError, "called with a str .*function `positions"):
            collected(model, lambda: model("text"), rules=rules)

    def test_a_cache_of_plain_tuples_is_counted_or_refused(self):
        class Cached(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.nn.Embedding(9, 4)

            def forward(self, tokens, past_key_values=None):
                return self.table(tokens)

        model, rules, ids = Cached(), [Rule("table", "embedding")], torch.tensor([[1, 2]])
        cache = ((torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4)),) * 2
        for call in (lambda: model(ids, cache), lambda: model(ids, past_key_values=cache)):
            self.assertEqual([at for _, at in collected(model, call, rules=rules)], [3, 4])
        for cache in (((0, 0),), (), (torch.zeros(6, 4),), object()):
            with self.assertRaisesRegex(LogError, "past_key_values, a .*function `positions"):
                collected(model, lambda cache=cache: model(ids, cache), rules=rules)
            own = dict(positions=lambda *_: [7, 8])
            self.assertEqual([at for _, at in collected(model, lambda: model(ids, cache), rules=rules, **own)], [7, 8])

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
        with self.assertRaisesRegex(LogError, "several rows for position 0 of one sequence; log "):
            collected(model, lambda: model(ids, torch.tensor([0, 1, 0, 1])), rules=rules)


@unittest.skipIf(torch is None, "no torch and transformers here")
class LastRows(unittest.TestCase):
    """Models that compute no logits but the last: in the pass as nanoGPT does, or after it as vLLM does."""

    def setUp(self):
        class Gpt(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.head = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 9)

            def forward(self, idx, targets=None):
                x = self.table(idx)
                return self.head(x[:, [-1], :] if targets is None else x)

        class Flat(Gpt):
            def forward(self, input_ids, positions):
                return self.table(input_ids)

            def compute_logits(self, hidden):
                return self.head(hidden)

        torch.manual_seed(4)
        self.gpt, self.flat = Gpt(), Flat()
        self.rules = [Rule("table", "embedding"), Rule("head", "logits", rows="last")]
        self.ids = torch.tensor([[1, 2, 3]])

    def test_in_the_pass(self):
        seen = collected(self.gpt, lambda: self.gpt(self.ids), rules=self.rules)
        self.assertEqual(sorted(seen), [("embedding", 0), ("embedding", 1), ("embedding", 2), ("logits", 2)])
        np.testing.assert_array_equal(seen["logits", 2], self.gpt(self.ids)[0, 0].detach().numpy())
        seen = collected(self.gpt, lambda: self.gpt(self.ids, targets=self.ids), rules=self.rules, checkpoints="logits")
        self.assertEqual(sorted(seen), [("logits", 0), ("logits", 1), ("logits", 2)])

    def test_after_the_pass(self):
        def step(ids, first):
            hidden = self.flat(torch.tensor(ids), torch.arange(first, first + len(ids)))
            self.flat.compute_logits(hidden[-1:])

        seen = collected(self.flat, lambda: step([1, 2, 3], 5), lambda: step([4], 8), rules=self.rules)
        self.assertEqual([at for name, at in seen if name == "logits"], [7, 8])
        self.assertEqual([at for name, at in seen if name == "embedding"], [5, 6, 7, 8])

    def test_two_rows_cannot_both_be_the_last(self):
        def run():
            hidden = self.flat(self.ids[0], torch.arange(3))
            self.flat.compute_logits(hidden[-1:])
            self.flat.compute_logits(hidden[:1])

        with self.assertRaisesRegex(LogError, "logits, of a Rule with rows='last', was computed twice"):
            collected(self.flat, run, rules=self.rules)
        with self.assertRaisesRegex(LogError, "computed twice"):
            collected(self.gpt, lambda: self.gpt.head(self.gpt(self.ids)[..., :4]), rules=self.rules)

    def test_what_is_not_the_last_row_of_one_sequence_is_refused(self):
        def run(count, positions=(0, 1, 2)):
            hidden = self.flat(self.ids[0], torch.tensor(positions))
            self.flat.compute_logits(hidden[-count:])

        for count in (2, 3):
            with self.assertRaisesRegex(LogError, "outside of a call"):
                collected(self.flat, lambda count=count: run(count), rules=self.rules)
        with self.assertRaisesRegex(LogError, "several rows for position 0"):
            collected(self.flat, lambda: run(1, (0, 1, 0)), rules=self.rules, checkpoints="logits")
        with self.assertRaisesRegex(LogError, "outside of a call"):
            collected(self.flat, lambda: self.flat.compute_logits(torch.ones(1, 4)), rules=self.rules)

    def test_the_refusal_without_it_names_it(self):
        rules = [Rule("head", "logits")]
        with self.assertRaisesRegex(LogError, "rows='last'"):
            collected(self.gpt, lambda: self.gpt(self.ids), rules=rules)
        with self.assertRaisesRegex(LogError, "a rule's rows are 'first'"):
            collected(self.gpt, lambda: None, rules=[Rule("head", "logits", rows="first")])

    def test_logits_to_keep_says_more(self):
        """Breaks if the row that the call names were put at the last token."""

        class Kept(type(self.gpt)):
            def forward(self, idx, logits_to_keep=0):
                return self.head(self.table(idx)[:, logits_to_keep])

        model = Kept()
        seen = collected(model, lambda: model(self.ids, torch.tensor([1])), rules=self.rules, checkpoints="logits")
        self.assertEqual(list(seen), [("logits", 1)])


if __name__ == "__main__":
    unittest.main()
