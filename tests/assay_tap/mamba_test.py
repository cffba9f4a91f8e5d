"""The ready rules on Mamba-2. Needs torch; skips without."""

import unittest

import numpy as np

try:
    import torch
except ImportError:
    torch = None

from tiny_models import TOKENS, model_of
from transformers_test import by_layer, collected

KINDS = ("granitemoehybrid", "nemotron_h", "mamba2", "falcon_h1")
NORMED = {"falcon_h1": dict(mamba_rms_norm=True, mamba_norm_before_gate=False)}
BOTH = ["linear_attention", "full_attention"]
# Positions of tokens follow from the cache of attention.
MIXED = {"granitemoehybrid": dict(layer_types=BOTH), "nemotron_h": dict(layers_block_type=BOTH)}
HEADS, HEAD, STATE, GROUPS = 4, 16, 8, 2  # of tiny_models.py
INNER, KEYS = HEADS * HEAD, GROUPS * STATE


def block_of(model, kind):
    layer = (model.backbone if kind == "mamba2" else model.model).layers[0]
    return layer.mamba if kind in ("granitemoehybrid", "falcon_h1") else layer.mixer


@unittest.skipIf(torch is None, "no torch and transformers here")
class Mamba(unittest.TestCase):
    def test_each_part_follows_from_those_before(self):
        """Breaks if the parts of the product were others, or a part were logged before its activation or gate."""
        for kind in KINDS:
            with self.subTest(kind):
                model = model_of(kind, **NORMED.get(kind, {}))
                block = block_of(model, kind)
                seen = collected(model, lambda: model(input_ids=torch.tensor([TOKENS]), use_cache=False))
                layer = next(iter(by_layer(seen)))
                weights = {name: value.detach().numpy() for name, value in block.named_parameters()}
                self.follows(layer, weights, block.norm.variance_epsilon)

    def follows(self, layer, weights, eps):
        xbc = layer["ssm_xbc"]
        self.assertEqual(layer["linear_z"].shape[1], INNER)
        self.assertEqual(xbc.shape[1], INNER + 2 * KEYS)
        self.assertEqual(layer["ssm_dt"].shape[1], HEADS)
        taps = weights["conv1d.weight"][:, 0]
        padded = np.concatenate([np.zeros((taps.shape[1] - 1, xbc.shape[1])), xbc])
        summed = sum(padded[j : j + len(xbc)] * taps[:, j] for j in range(taps.shape[1])) + weights["conv1d.bias"]
        np.testing.assert_allclose(layer["linear_conv"], summed / (1 + np.exp(-summed)), rtol=1e-3, atol=1e-4)
        x, b, c = np.split(layer["linear_conv"].astype(np.float64), [INNER, INNER + KEYS], axis=1)
        state = np.zeros((HEADS, STATE, HEAD))
        steps = np.log1p(np.exp(layer["ssm_dt"] + weights["dt_bias"]))
        for t, step in enumerate(steps):
            keys = b[t].reshape(GROUPS, STATE).repeat(HEADS // GROUPS, axis=0)
            queries = c[t].reshape(GROUPS, STATE).repeat(HEADS // GROUPS, axis=0)
            values = x[t].reshape(HEADS, HEAD)
            decay = np.exp(-np.exp(weights["A_log"]) * step)[:, None, None]
            state = decay * state + (step[:, None] * keys)[:, :, None] * values[:, None]
            out = (state * queries[:, :, None]).sum(1) + weights["D"][:, None] * values
            np.testing.assert_allclose(layer["ssm"][t], out.reshape(-1), rtol=1e-3, atol=1e-3)
        gated = layer["ssm"] * layer["linear_z"] / (1 + np.exp(-layer["linear_z"]))
        groups = gated.reshape(len(TOKENS), GROUPS, -1)
        normed = groups / np.sqrt((groups**2).mean(-1, keepdims=True) + eps)
        want = normed.reshape(len(TOKENS), -1) * weights["norm.weight"]
        np.testing.assert_allclose(layer["ssm_norm"], want, rtol=1e-2, atol=1e-2)

    def test_each_part_of_the_first_mamba_follows_from_those_before(self):
        """Breaks if parts of a product were cut elsewhere, or a norm or the gate had another input."""
        for kind in ("mamba", "falcon_mamba", "jamba"):
            with self.subTest(kind):
                model = model_of(kind)
                seen = collected(model, lambda: model(input_ids=torch.tensor([TOKENS]), use_cache=False))
                number = 1 if kind == "jamba" else 0
                layer = list(by_layer(seen))[number]
                layers = (model.model if kind == "jamba" else model.backbone).layers
                block = layers[number].mamba if kind == "jamba" else layers[number].mixer
                weights = {name: value.detach().numpy().astype(np.float64) for name, value in block.named_parameters()}
                self.scans(layer, weights, getattr(block, "dt_layernorm", None))

    def scans(self, layer, weights, norm):
        taps = weights["conv1d.weight"][:, 0]
        x = layer["ssm_x"]
        padded = np.concatenate([np.zeros((taps.shape[1] - 1, x.shape[1])), x])
        summed = sum(padded[j : j + len(x)] * taps[:, j] for j in range(taps.shape[1])) + weights["conv1d.bias"]
        conv = summed / (1 + np.exp(-summed))
        np.testing.assert_allclose(layer["linear_conv"], conv, rtol=1e-3, atol=1e-4)
        parts = [layer[name] for name in ("ssm_dt_in", "ssm_b", "ssm_c")]
        self.assertEqual([part.shape[1] for part in parts], [3, STATE, STATE])
        product = layer["linear_conv"] @ weights["x_proj.weight"].T
        np.testing.assert_allclose(np.concatenate(parts, axis=1), product, rtol=1e-3, atol=1e-3)
        if norm is not None:
            names = ("dt", "b", "c")
            eps = getattr(norm, "eps", None) or norm.variance_epsilon
            normed = [part / np.sqrt((part.astype(float) ** 2).mean(1, keepdims=True) + eps) for part in parts]
            parts = [layer[f"ssm_{name}_norm"] for name in names]
            for part, want, name in zip(parts, normed, names, strict=True):
                want = want * weights.get(f"{name}_layernorm.weight", 1.0)
                np.testing.assert_allclose(part, want, rtol=1e-3, atol=1e-3)
        low_rank, b, c = (part.astype(np.float64) for part in parts)
        step = np.log1p(np.exp(low_rank @ weights["dt_proj.weight"].T + weights["dt_proj.bias"]))
        state = np.zeros((x.shape[1], STATE))
        gates = layer["linear_z"] / (1 + np.exp(-layer["linear_z"]))
        for t, conv in enumerate(layer["linear_conv"].astype(np.float64)):
            state = state * np.exp(-np.exp(weights["A_log"]) * step[t][:, None]) + (step[t] * conv)[:, None] * b[t]
            want = (state @ c[t] + weights["D"] * conv) * gates[t]
            np.testing.assert_allclose(layer["ssm_gated"][t], want, rtol=1e-3, atol=1e-3)

    def test_what_is_not_normalised_is_gated(self):
        """Breaks if a module that is there and not called were taken for the norm, or the scan were logged gated."""
        model = model_of("falcon_h1")
        for layer in by_layer(collected(model, lambda: model(input_ids=torch.tensor([TOKENS]), use_cache=False))):
            self.assertNotIn("ssm_norm", layer)
            gated = layer["ssm"] * layer["linear_z"] / (1 + np.exp(-layer["linear_z"]))
            np.testing.assert_allclose(layer["ssm_gated"], gated, rtol=1e-3, atol=1e-3)

    def test_layers_of_all_kinds_have_their_own_checkpoints(self):
        """Breaks if a layer's rules were those of another kind of layer."""
        for kind, more in MIXED.items():
            model = model_of(kind, **more)
            first, second = by_layer(collected(model, lambda: model(input_ids=torch.tensor([TOKENS]), use_cache=False)))
            self.assertIn("ssm", first)
            self.assertNotIn("q", first)
            self.assertIn("attn", second)
            self.assertNotIn("ssm", second)

    def test_it_is_logged_token_by_token_too(self):
        """Breaks if the functions that compute one token with a state were not listened to."""
        for kind, more in MIXED.items():
            with self.subTest(kind):
                model = model_of(kind, **more)
                whole = collected(model, lambda: model(input_ids=torch.tensor([TOKENS]), use_cache=False))

                def steps():
                    cache = None
                    for part in (TOKENS[:5], *([token] for token in TOKENS[5:])):
                        cache = model(
                            input_ids=torch.tensor([part]), past_key_values=cache, use_cache=True
                        ).past_key_values

                seen = collected(model, steps)
                self.assertEqual(seen.keys(), whole.keys())
                for key, row in whole.items():
                    np.testing.assert_allclose(seen[key], row, atol=1e-3, err_msg=str(key))


if __name__ == "__main__":
    unittest.main()
