"""The ready rules on linear attention, and on attention that has a gate. Needs torch; skips without."""

import unittest

import numpy as np

try:
    import torch
except ImportError:
    torch = None

from tiny_models import TOKENS, model_of
from transformers_test import by_layer, collected


@unittest.skipIf(torch is None, "no torch and transformers here")
class LinearAttention(unittest.TestCase):
    def seen(self, kind="qwen3_5_text", **settings):
        model = model_of(kind, **settings)
        return collected(model, lambda: model(input_ids=torch.tensor([TOKENS]), use_cache=False))

    def test_linear_attention_follows_from_its_parts(self):
        """Breaks if value heads were in another order than a file's, or a part were another's."""
        in_turn = [(layer, [0, 1, 0, 1]) for layer in by_layer(self.seen())]
        for layer, key_heads in in_turn + [(layer, [0, 0, 1, 1]) for layer in by_layer(self.seen("qwen3_next"))]:
            q, k, v = np.split(layer["linear_conv"], [16, 32], axis=1)
            q, k, v = q.reshape(-1, 2, 8), k.reshape(-1, 2, 8), v.reshape(-1, 4, 6)
            beta = 1 / (1 + np.exp(-layer["linear_b"]))
            q, k = (part / np.sqrt((part**2).sum(axis=-1, keepdims=True) + 1e-6) for part in (q, k))
            # The first token's state is its value alone.
            for head, key in enumerate(key_heads):
                want = v[0, head] * beta[0, head] * (k[0, key] @ q[0, key]) / np.sqrt(8)
                np.testing.assert_allclose(layer["delta"].reshape(-1, 4, 6)[0, head], want, atol=1e-5)
            gate = layer["linear_z"] / (1 + np.exp(-layer["linear_z"]))
            heads = layer["delta"].reshape(-1, 4, 6)
            normed = heads / np.sqrt((heads**2).mean(axis=-1, keepdims=True) + 1e-6)
            ratio = layer["delta_norm"].reshape(-1, 4, 6) / (normed * gate.reshape(-1, 4, 6))
            np.testing.assert_allclose(ratio, np.broadcast_to(ratio[:1, :1], ratio.shape), rtol=1e-2)  # the weight

    def test_attention_with_a_gate_follows_from_its_parts(self):
        """Breaks if a head's query and its gate were taken for each other."""
        settings = dict(layer_types=["full_attention"] * 2, attn_implementation="eager")
        seen = self.seen(**settings)
        for layer in by_layer(seen):
            both = layer["q_and_gate"].reshape(-1, 4, 2, 8)
            np.testing.assert_array_equal(layer["q"], both[:, :, 0].reshape(len(TOKENS), -1))
            np.testing.assert_array_equal(layer["attn_gate"], both[:, :, 1].reshape(len(TOKENS), -1))
            gated = layer["attn"] / (1 + np.exp(-layer["attn_gate"]))
            np.testing.assert_allclose(layer["gated_attn"], gated, atol=1e-5)

    def test_linear_attention_is_logged_token_by_token_too(self):
        """Breaks if the functions that compute one token with a state were not listened to."""
        settings = dict(layer_types=["linear_attention", "full_attention"], attn_implementation="eager")
        model = model_of("qwen3_5_text", **settings)
        whole = collected(model, lambda: model(input_ids=torch.tensor([TOKENS]), use_cache=False))

        def steps():
            cache = None
            for part in (TOKENS[:5], *([token] for token in TOKENS[5:])):
                cache = model(input_ids=torch.tensor([part]), past_key_values=cache, use_cache=True).past_key_values

        seen = collected(model, steps)
        self.assertEqual(seen.keys(), whole.keys())
        for key, row in whole.items():
            np.testing.assert_allclose(seen[key], row, atol=1e-4, err_msg=str(key))


if __name__ == "__main__":
    unittest.main()
