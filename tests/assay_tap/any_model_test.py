"""The rules that fit any model of transformers: embedding, layers and logits. Needs torch; skips without."""

import unittest

import numpy as np

try:
    import torch
    import transformers
except ImportError:
    torch = None

from assay_tap import LogError, attach
from assay_tap.any_model import rules_for_any
from tiny_models import TOKENS, model_of
from transformers_test import collected

LATENT = dict(q_lora_rank=12, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8, head_dim=4)
EXPERTS = dict(moe_intermediate_size=24, num_experts_per_tok=2, first_k_dense_replace=1)
LATENT |= EXPERTS | dict(num_key_value_heads=4, n_routed_experts=4, n_shared_experts=1, n_group=1, topk_group=1)
GPT = dict(n_embd=32, n_head=4, n_layer=2)
FAMILIES = {
    "gemma2": dict(sliding_window=4),
    "gemma3_text": dict(sliding_window=4),
    "gemma4_text": dict(sliding_window=4, attention_k_eq_v=True, num_global_key_value_heads=1),
    "phi": {},
    "gpt_neox": {},
    "starcoder2": {},
    "cohere": dict(logit_scale=0.25),
    "cohere2": dict(sliding_window=4),
    "stablelm": {},
    "smollm3": {},
    "falcon": {},
    "nemotron": {},
    "exaone4": {},
    "lfm2": dict(layer_types=["conv", "full_attention"]),
    "lfm2_moe": EXPERTS | dict(num_experts=4, num_dense_layers=1, layer_types=["conv", "full_attention"]),
    "qwen3_5_text": dict(layer_types=["linear_attention", "full_attention"]),
    "qwen3_next": EXPERTS | dict(num_experts=4, layer_types=["linear_attention", "full_attention"]),
    "qwen3_5_moe_text": EXPERTS | dict(num_experts=4, layer_types=["linear_attention", "full_attention"]),
    "qwen3_moe": EXPERTS | dict(num_experts=4),
    "olmoe": EXPERTS | dict(num_experts=4),
    "gpt_oss": dict(num_local_experts=4, sliding_window=4),
    "mixtral": dict(num_local_experts=4),
    "granitemoe": dict(num_local_experts=4, logits_scaling=3.0),
    "granitemoehybrid": dict(layer_types=["linear_attention", "full_attention"]),
    "nemotron_h": dict(layers_block_type=["linear_attention", "full_attention", "mlp"]),
    "mamba2": {},
    "deepseek_v2": LATENT,
    "deepseek_v3": LATENT,
    "bloom": dict(n_head=4, n_layer=2),
    "opt": dict(ffn_dim=48, word_embed_proj_dim=32),
    "mpt": dict(d_model=32, n_heads=4, n_layers=2),
    "gptj": GPT | dict(rotary_dim=4),
    "codegen": GPT | dict(rotary_dim=4),
    "olmo": {},
    "glm": {},
    "glm4": {},
    "llama4_text": {},
    "falcon_h1": {},
    "mamba": {},
    "rwkv": {},
}
STATES_ONLY = ("mamba", "mamba2", "rwkv")  # their hidden_states are without the embedding


@unittest.skipIf(torch is None, "no torch and transformers here")
class AnyModel(unittest.TestCase):
    def seen(self, model, **options):
        rows = {}
        for (name, _), row in sorted(collected(model, lambda: model(torch.tensor([TOKENS])), **options).items()):
            rows.setdefault(name, []).append(row)
        return {name: np.stack(of_tokens) for name, of_tokens in rows.items()}

    def test_logits_and_layers_are_the_models_own(self):
        """Breaks if the tap read a layer's input, another list of modules, or logits before their scale or cap."""
        for kind, settings in FAMILIES.items():
            model = model_of(kind, **settings)
            with torch.no_grad():
                expected = model(torch.tensor([TOKENS]), output_hidden_states=True)
            self.assertTrue(expected.logits.isfinite().all(), kind)
            hidden = [rows[0].numpy() for rows in expected.hidden_states[:-1]]  # the last is normed
            for rules in (None, rules_for_any(model)):
                with self.subTest(kind, ready=rules is None):
                    seen = self.seen(model, rules=rules)
                    np.testing.assert_array_equal(seen["logits"], expected.logits[0].numpy())
                    names = ("embedding", "layer_0_output", "layer_1_output")[kind in STATES_ONLY :]
                    for name, rows in zip(names, hidden):
                        np.testing.assert_array_equal(seen[name], rows, err_msg=name)
                    self.assertIn("layer_1_output", seen)

    def test_it_is_what_is_attached_where_no_description_fits(self):
        seen = self.seen(model_of("codegen", **FAMILIES["codegen"]))
        self.assertEqual(sorted(seen), ["embedding", "layer_0_output", "layer_1_output", "logits"])

    def test_logits_of_a_tuple_are_found_behind_the_loss(self):
        model, ids = model_of("opt", **FAMILIES["opt"]), torch.tensor([TOKENS])
        seen = collected(model, lambda: model(ids, labels=ids, return_dict=False), checkpoints="logits")
        with torch.no_grad():
            np.testing.assert_array_equal(seen["logits", 3], model(ids).logits[0, 3].numpy())

    def test_positions_go_on_where_the_cache_counts_them_and_are_refused_elsewhere(self):
        """Breaks if the tokens of a recurrent state were all logged at 0."""
        mask = torch.ones(1, len(TOKENS), dtype=torch.long)
        for kind in ("gptj", "falcon_h1", "mamba", "rwkv"):
            model = model_of(kind, **FAMILIES[kind])

            def generate(model=model):
                model.generate(
                    torch.tensor([TOKENS]), attention_mask=mask, max_new_tokens=3, do_sample=False, pad_token_id=0
                )

            with self.subTest(kind):
                if kind in STATES_ONLY:
                    with self.assertRaisesRegex(LogError, "how many tokens (cache_params|state), a .*is unknown"):
                        collected(model, generate)
                else:
                    seen = collected(model, generate, checkpoints="layer_0_output")
                    self.assertEqual([at for _, at in seen], list(range(10)))

    def test_what_cannot_be_found_is_told_in_one_line(self):
        xlm = transformers.XLMWithLMHeadModel(transformers.XLMConfig(vocab_size=50, emb_dim=32, n_layers=2, n_heads=4))
        t5 = transformers.T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
        for model, message in (
            (model_of("codegen", **FAMILIES["codegen"]).transformer, "it computes no logits"),
            (xlm, "it has its layers in pieces .transformer.attentions, "),
            (transformers.T5ForConditionalGeneration(t5), "it has an encoder too"),
            (torch.nn.Linear(2, 2), "Linear: it is no model of transformers"),
        ):
            with self.subTest(message), self.assertRaisesRegex(LogError, message) as raised:
                attach(model, lambda *_: None)
            self.assertNotIn("\n", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
