"""The ready rules on several residual streams (Gemma 3n). Needs torch; skips without."""

import unittest

import numpy as np

try:
    import torch
except ImportError:
    torch = None

from tiny_models import TOKENS, model_of
from transformers_test import by_layer, collected

KIND = "gemma3n_text"
WIDTH, STREAMS = 32, 3  # of tiny_models.py
ROOT = 0.5**0.5


def magnitude(rows):
    return np.sqrt(np.maximum((rows**2).mean(-1, keepdims=True), 1e-5))


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


@unittest.skipIf(torch is None, "no torch and transformers here")
class Streams(unittest.TestCase):
    def setUp(self):
        self.model = model_of(KIND)
        seen = collected(self.model, lambda: self.model(input_ids=torch.tensor([TOKENS]), use_cache=False))
        self.layers = list(by_layer(seen))
        self.weights = {name: value.detach().numpy() for name, value in self.model.named_parameters()}

    def weight(self, layer, name):
        return self.weights[f"model.layers.{layer}.{name}"]

    def streams(self, rows):
        return rows.reshape(len(TOKENS), STREAMS, WIDTH)

    def norm(self, layer, rows):
        normed = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + self.model.config.rms_norm_eps)
        return normed * self.weight(layer, "altup.router_norm.weight") / WIDTH

    def test_the_first_layer_makes_them_of_the_embedding(self):
        """Breaks if the streams were in another order, or tokens and streams were taken for each other."""
        first = self.layers[0]
        streams = self.streams(first["streams"])
        close(streams[:, 0], first["input"])
        for i in range(1, STREAMS):
            product = first["input"] @ self.weights[f"model.altup_projections.{i - 1}.weight"].T
            close(streams[:, i], product * magnitude(first["input"]) / magnitude(product))

    def test_prediction_and_correction_follow_from_their_parts(self):
        """Breaks if a call of the router were taken for the other, or what is given for what it was before."""
        entering = self.streams(self.layers[0]["streams"])
        for number, layer in enumerate(self.layers):
            close(layer["altup_norm"], self.norm(number, entering[:, 0]))
            router = self.weight(number, "altup.modality_router.weight")
            close(layer["altup_router"], layer["altup_norm"] @ router.T)
            close(layer["altup_modes"], np.tanh(layer["altup_router"]))
            close(layer["altup_coefs"], layer["altup_modes"] @ self.weight(number, "altup.prediction_coefs.weight").T)
            coefs = layer["altup_coefs"].reshape(len(TOKENS), STREAMS, STREAMS)
            predictions = entering + np.einsum("tij,tjn->tin", coefs, entering)
            close(self.streams(layer["predictions"]), predictions)
            close(layer["active"], predictions[:, 0])
            close(layer["correct_norm"], self.norm(number, layer["ffn_residual"]))
            close(layer["correct_router"], layer["correct_norm"] @ router.T)
            close(layer["correct_modes"], np.tanh(layer["correct_router"]))
            close(layer["correct_coefs"], layer["correct_modes"] @ self.weight(number, "altup.correction_coefs.weight").T)
            innovation = (layer["ffn_residual"] - layer["active"])[:, None]
            corrected = predictions + innovation * (1 + layer["correct_coefs"][:, :, None])
            close(self.streams(layer["corrected"]), corrected)
            close(layer["corrected_first"], corrected[:, 0] * self.weight(number, "altup.correct_output_scale"))
            entering = corrected.copy()
            entering[:, 1:] += layer["ple_norm"][:, None]
            close(self.streams(layer["streams_out" if number else "output"]), entering)

    def test_the_last_layer_leaves_their_mean(self):
        """Breaks if the last layer's output were the streams, or what the last norm gives."""
        last = self.layers[-1]
        streams = self.streams(last["streams_out"])
        merged = [streams[:, 0]]
        for i in range(1, STREAMS):
            product = streams[:, i] @ self.weights[f"model.altup_unembed_projections.{i - 1}.weight"].T
            merged.append(product * magnitude(streams[:, 0]) / magnitude(product))
        close(last["output"], np.mean(merged, axis=0))

    def test_a_layer_adds_laurel_and_cuts_its_gate(self):
        """Breaks if a sum were another, or the gate were logged before its cutoff."""
        for layer in self.layers:
            close(layer["laurel_out"], layer["attn_norm"] + layer["laurel_norm"])
            close(layer["attn_residual"], layer["active"] + layer["post_attn_norm"])
            close(layer["attn_laurel"], (layer["attn_residual"] + layer["laurel_out"]) * ROOT)
            gate = layer["ffn_gate"]
            cutoff = gate.mean(-1, keepdims=True) + 1.2815515 * gate.std(-1, keepdims=True)  # of 0.9
            close(layer["ffn_cutoff"], np.maximum(gate - cutoff, 0))
            close(layer["ffn_residual"], layer["attn_laurel"] + layer["post_ffn_norm"])

    def test_a_layer_without_a_cutoff_has_none(self):
        model = model_of(KIND, activation_sparsity_pattern=[0.9, 0.0])
        seen = collected(model, lambda: model(input_ids=torch.tensor([TOKENS]), use_cache=False))
        names = {name for name, _ in seen}
        self.assertIn("layer_0_ffn_cutoff", names)
        self.assertNotIn("layer_1_ffn_cutoff", names)
        self.assertIn("layer_1_ffn_act", names)
