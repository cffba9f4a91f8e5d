"""The ready rules on attention that sees chosen positions alone. Needs torch; skips without."""

import unittest

import numpy as np

try:
    import torch
except ImportError:
    torch = None

from tiny_models import TOKENS, model_of
from transformers_test import by_layer, collected


@unittest.skipIf(torch is None, "no torch and transformers here")
class IndexerRules(unittest.TestCase):
    def test_attention_sees_the_positions_of_the_highest_scores(self):
        """Breaks if the indexer's heads were turned otherwise, or its choice were another layer's or out of order."""
        shared = dict(indexer_types=["full", "shared"])
        for kind, settings in (("deepseek_v32", {}), ("glm_moe_dsa", {}), ("glm_moe_dsa", shared)):
            model = model_of(kind, **settings)
            seen = collected(model, lambda: model(input_ids=torch.tensor([TOKENS]), use_cache=False))
            angle = np.arange(len(TOKENS))[:, None, None] * 10000.0 ** (-np.arange(0, 8, 2) / 8)
            cos, sin = np.cos(angle), np.sin(angle)
            adjacent = kind == "glm_moe_dsa"
            one, two = (np.s_[..., 0:8:2], np.s_[..., 1:8:2]) if adjacent else (np.s_[..., :4], np.s_[..., 4:8])
            for layer in by_layer(seen):
                with self.subTest(kind, settings=settings):
                    if "index_q" in layer:
                        for name, plain in (("q", layer["index_q"]), ("k", layer["index_k_norm"])):
                            plain = plain.reshape(len(TOKENS), -1, 12)
                            turned = plain.copy()
                            turned[one] = plain[one] * cos - plain[two] * sin
                            turned[two] = plain[two] * cos + plain[one] * sin
                            np.testing.assert_allclose(layer[f"index_{name}_rope"], turned.reshape(len(TOKENS), -1), atol=1e-5)
                        indexed = layer["indexed"]
                        q = layer["index_q_rope"].reshape(len(TOKENS), 3, 12)
                        products = np.maximum(np.einsum("qhd,kd->qhk", q, layer["index_k_rope"]), 0)
                        scores = np.einsum("qh,qhk->qk", layer["index_weights"], products)
                        for position, row in enumerate(scores):
                            count = min(position + 1, 3)
                            own = indexed[position, :count].astype(int)
                            self.assertTrue(np.all(np.diff(own) > 0) and np.all(indexed[position, count:] == -1))
                            best = np.sort(row[: position + 1])[-count:]  # of a score of 0 there are several
                            np.testing.assert_allclose(np.sort(row[own]), best, atol=1e-6)
                    mask = np.full((len(TOKENS),) * 2, -np.inf)
                    for position, row in enumerate(indexed):
                        mask[position, row[row >= 0].astype(int)] = 0
                    q, k = (layer[f"{name}_rope"].reshape(-1, 4, 20) for name in "qk")
                    weights = np.exp(np.einsum("qhd,khd->hqk", q, k) * 20**-0.5 + mask)
                    weights /= weights.sum(axis=-1, keepdims=True)
                    attn = np.einsum("hqk,khd->qhd", weights, layer["v"].reshape(-1, 4, 10))
                    np.testing.assert_allclose(layer["attn"], attn.reshape(len(TOKENS), -1), atol=1e-5)
