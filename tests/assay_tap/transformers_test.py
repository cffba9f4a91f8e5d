"""The ready rules on transformers' own models, and rules on a model of one's own. Needs torch; skips without."""

import itertools
import json
import os
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import numpy as np

try:
    import torch
    import transformers
except ImportError:
    torch = None

from assay_tap import LogError, LogWriter, Rule, attach
from assay_tap.any_model import rules_for_any
from assay_tap.networks import MODELS
from assay_tap.order import order
from assay_tap.rules import OF_SEVERAL_MODULES, join_heads, layer_of, rules_for
from tiny_models import EXPERTS, LATENT, TOKENS, model_of


def by_layer(seen):
    """For each layer its checkpoints by op, as [tokens, n]; `input` is what enters it."""
    rows = {}
    for (name, _), row in sorted(seen.items()):
        rows.setdefault(name, []).append(row)
    before = rows["embedding"]
    for layer in (0, 1):
        prefix = f"layer_{layer}_"
        own = {name.removeprefix(prefix): np.stack(rows[name]) for name in rows if name.startswith(prefix)}
        yield own | {"input": np.stack(before)}
        before = rows[f"{prefix}output"]


DESCRIBED = list(MODELS)
# What happens to single experts, within a module of all of them.
WITHIN_EXPERTS = {"experts", "expert_weights", "ffn_gate", "ffn_up", "ffn_act", "expert_out"}
WITHIN_EXPERTS |= {"shared_weight", "shared_scaled", "expert_in"}
WITHIN_SCAN = {"ssm_step", "ssm"}  # of Mamba, whose scan is given the gate
PLAIN_ATTENTION = ("llama mistral qwen2 qwen3 phi3 olmo2 granite gpt2 phi gpt_neox falcon cohere starcoder2 nemotron "
                   "glm glm4 seed_oss arcee ernie4_5 ministral3 olmo ministral").split()  # without windows, caps and so on


def collected(model, *passes, **options):
    seen = {}

    def sink(name, positions, rows):
        for position, row in zip(positions, rows, strict=True):
            seen[name, position] = row.copy()

    with torch.no_grad(), attach(model, sink, **options):
        for each in passes:
            each()
    return seen


@unittest.skipIf(torch is None, "no torch and transformers here")
class ReadyRules(unittest.TestCase):
    def seen(self, kind, settings=None, **options):
        model = model_of(kind, **(settings or {}))
        return model, collected(model, lambda: model(input_ids=torch.tensor([TOKENS]), use_cache=False), **options)

    def test_every_checkpoint_of_every_network(self):
        for kind in DESCRIBED:
            with self.subTest(kind):
                model, seen = self.seen(kind)
                layer_0 = model.get_submodule(MODELS[kind]["layers"] + ".0")
                there = layer_0.named_modules()
                modules = {name for name, module in there if not isinstance(module, torch.nn.Identity)}
                expected = {"embedding", "final_norm", "logits"}
                for layer in (0, 1):
                    ops = layer_of(MODELS[kind], model.config, modules, layer)
                    ops = [op[0] for op in ops if op[1] != "norm" or op[4] in modules]  # some norms can be switched off
                    if "router" in ops:
                        mixed = {"routed_out"} if "expert_in" in ops else set()  # which no module gives
                        ops = [op for op in ops if op not in WITHIN_EXPERTS | mixed]
                    if "ssm_step" in ops:
                        ops = [op for op in ops if op not in WITHIN_SCAN]
                    expected |= {f"layer_{layer}_{op}" for op in ops if op not in OF_SEVERAL_MODULES}
                names = {name for name, _ in seen}
                self.assertEqual(sorted(names, key=order), sorted(expected, key=order))
                self.assertEqual(len(seen), len(expected) * len(TOKENS))

    def test_the_tap_changes_nothing_and_logits_are_the_models(self):
        for kind in DESCRIBED:
            with self.subTest(kind):
                model, seen = self.seen(kind)
                with torch.no_grad():
                    expected = model(input_ids=torch.tensor([TOKENS]), use_cache=False).logits[0].numpy()
                for position, row in enumerate(expected):
                    np.testing.assert_array_equal(seen["logits", position], row)

    def test_the_parts_of_a_layer_are_what_their_names_say(self):
        """Breaks if two hooks were swapped: each relation holds between the right tensors only."""
        for kind in DESCRIBED:
            model, seen = self.seen(kind)
            config = model.config
            branch = getattr(config, "residual_multiplier", 1.0)
            if hasattr(config, "scale_depth"):
                branch = config.scale_depth / config.num_hidden_layers**0.5
            for layer in by_layer(seen):
                if "predictions" in layer:  # of several residual streams: streams_test.py
                    continue
                with self.subTest(kind):
                    parts = [part for part in ("attn", "ffn") if f"{part}_out" in layer]
                    results = [layer.get(f"post_{part}_norm", layer[f"{part}_out"]) for part in parts]
                    if "mixer_out" in layer:  # of attention and Mamba-2
                        np.testing.assert_allclose(layer["mixer_out"], layer["attn_out"] + layer["ssm_out"], atol=1e-5)
                        results[0] = layer["mixer_out"]
                    if len(results) == 1:  # a layer of one branch
                        np.testing.assert_allclose(layer["output"], layer["input"] + branch * results[0], atol=1e-5)
                        continue
                    attn, ffn = results
                    np.testing.assert_allclose(layer["attn_residual"], layer["input"] + branch * attn, atol=1e-5)
                    np.testing.assert_allclose(layer["output"], layer["attn_residual"] + branch * ffn, atol=1e-5)
                    if "ffn_gate" in layer and getattr(model.config, "hidden_act", "") == "silu":
                        act = layer["ffn_gate"] / (1 + np.exp(-layer["ffn_gate"])) * layer["ffn_up"]
                        np.testing.assert_allclose(layer["ffn_act"], act, atol=1e-5)

    def test_attention_follows_from_q_k_and_v(self):
        """Breaks if parts of a fused module were taken for each other, or heads were cut wrongly."""
        mask = np.triu(np.full((len(TOKENS),) * 2, -np.inf), 1)
        for kind in PLAIN_ATTENTION:
            model, seen = self.seen(kind)
            for layer in by_layer(seen):
                with self.subTest(kind):
                    dim = layer["q"].shape[1] // 4
                    q, k, v = (
                        layer.get(f"{part}_rope", layer[part]).reshape(len(TOKENS), -1, dim) for part in ("q", "k", "v")
                    )
                    k, v = (part.repeat(4 // part.shape[1], axis=1) for part in (k, v))
                    scale = getattr(model.config, "attention_multiplier", dim**-0.5)
                    weights = np.exp(np.einsum("qhd,khd->hqk", q, k) * scale + mask)
                    weights /= weights.sum(axis=-1, keepdims=True)
                    attn = np.einsum("hqk,khd->qhd", weights, v).reshape(len(TOKENS), -1)
                    np.testing.assert_allclose(layer["attn"], attn, atol=1e-5)

    def test_latent_attention_follows_from_its_parts(self):
        """Breaks if k and v were cut wrongly out of the latent's product, or the rotated end were another head's."""
        mask = np.triu(np.full((len(TOKENS),) * 2, -np.inf), 1)
        ways = (dict(first_k_dense_replace=1), dict(q_lora_rank=None))
        for kind, settings in (*itertools.product(LATENT, ways), ("deepseek_v3", dict(rope_interleave=False))):
            if kind == "axk1" and settings == ways[1]:  # which has no such form
                continue
            _, seen = self.seen(kind, settings)
            angle = np.arange(len(TOKENS))[:, None, None] * 10000.0 ** (-np.arange(0, 8, 2) / 8)
            cos, sin = np.cos(angle), np.sin(angle)
            for layer in by_layer(seen):
                with self.subTest(kind, settings=settings):
                    self.assertEqual("q_a_norm" in layer, "q_lora_rank" not in settings)
                    parts = layer["kv_b"].reshape(-1, 4, 22)
                    q, k = layer["q"].reshape(-1, 4, 20), layer["k"].reshape(-1, 4, 20)
                    np.testing.assert_array_equal(k[..., :12], parts[..., :12])
                    np.testing.assert_array_equal(layer["v"], parts[..., 12:].reshape(len(TOKENS), -1))
                    for head in range(4):
                        np.testing.assert_array_equal(k[:, head, 12:], layer["kv_a"][:, 16:])
                    halves = "rope_interleave" in settings or kind == "minicpm3"
                    one, two = (np.s_[..., 12:16], np.s_[..., 16:]) if halves else (np.s_[..., 12::2], np.s_[..., 13::2])
                    for name, plain in (("q_rope", q), ("k_rope", k)):
                        turned = plain.copy()
                        turned[one] = plain[one] * cos - plain[two] * sin
                        turned[two] = plain[two] * cos + plain[one] * sin
                        np.testing.assert_allclose(layer[name], turned.reshape(len(TOKENS), -1), atol=1e-5)
                    q, k = (layer[f"{name}_rope"].reshape(-1, 4, 20) for name in "qk")
                    weights = np.exp(np.einsum("qhd,khd->hqk", q, k) * 20**-0.5 + mask)
                    weights /= weights.sum(axis=-1, keepdims=True)
                    attn = np.einsum("hqk,khd->qhd", weights, layer["v"].reshape(-1, 4, 10))
                    np.testing.assert_allclose(layer["attn"], attn.reshape(len(TOKENS), -1), atol=1e-5)

    def test_rotation_turns_neighbours_in_llama_and_halves_elsewhere(self):
        for kind in ("llama", "qwen2", "qwen3", "phi3", "olmo2", "granite"):
            neighbours = kind in ("llama", "granite")
            _, seen = self.seen(kind)
            layer, dim = list(by_layer(seen))[1], 8
            angle = 5 * 10000.0 ** (-np.arange(0, dim, 2) / dim)
            for part in ("q", "k"):
                with self.subTest(kind, part=part):
                    before = layer.get(f"{part}_norm", layer[part])
                    np.testing.assert_allclose(layer[f"{part}_rope"][0], before[0], atol=1e-6)
                    plain = before[5].reshape(-1, dim)
                    first, second = (plain[:, 0::2], plain[:, 1::2]) if neighbours else (plain[:, :4], plain[:, 4:])
                    turned = np.stack(
                        [
                            first * np.cos(angle) - second * np.sin(angle),
                            second * np.cos(angle) + first * np.sin(angle),
                        ],
                        axis=-1 if neighbours else 1,
                    )
                    np.testing.assert_allclose(layer[f"{part}_rope"][5], turned.reshape(-1), atol=1e-5)

    def test_weights_are_as_the_description_says(self):
        """Breaks if a loader of these weights turned them over, or added 1 to a norm, where it must not."""
        for kind in DESCRIBED:
            model, network = model_of(kind), MODELS[kind]
            with self.subTest(kind):
                final = model.get_submodule(network["output_norm"])
                if getattr(final, "weight", None) is not None:  # which OLMo's norms have none of
                    torch.nn.init.zeros_(final.weight)
                    bias = getattr(final, "bias", None)
                    changed = final(torch.arange(32.0)) - (0 if bias is None else bias)
                    self.assertEqual(bool(changed.any()), "norm_plus_one" in network)
                for out, kind_of_op, _, tensor, module in network["layer"]:
                    if kind_of_op == "linear" and tensor == "ffn_down" and kind not in EXPERTS:
                        shape = model.get_submodule(f"{network['layers']}.1.{module}").weight.shape
                        self.assertEqual(shape[0] == 32, "transposed" not in network, out)

    def test_a_network_with_another_part_is_not_taken_for_the_described_one(self):
        """Breaks if a norm that the description lacks were left out of what follows from it, unnoticed."""
        model = model_of("llama")
        model.model.layers[0].self_attn.q_norm = torch.nn.RMSNorm(8)
        self.assertEqual(rules_for(model), rules_for_any(model))

    def test_experts_are_logged_as_their_router_and_their_mixture(self):
        """Breaks if the input of the experts' module were taken for what one of its steps reads."""
        for kind in EXPERTS:
            model, seen = self.seen(kind)
            config = model.config
            branch = getattr(config, "residual_multiplier", 1.0)
            if hasattr(config, "scale_depth"):
                branch = config.scale_depth / config.num_hidden_layers**0.5
            for layer in by_layer(seen):
                with self.subTest(kind):
                    self.assertEqual(layer["router"].shape, (len(TOKENS), 4))
                    self.assertFalse(WITHIN_EXPERTS & set(layer))
                    expected = layer["attn_residual"] + branch * layer.get("post_ffn_norm", layer["ffn_out"])
                    np.testing.assert_allclose(layer["output"], expected, atol=1e-5)

    def test_positions_follow_the_cache(self):
        """Breaks if decoding logged every token at 0."""
        model = model_of("llama")
        cache = transformers.DynamicCache(config=model.config)
        parts = [torch.tensor([TOKENS[:5]]), torch.tensor([TOKENS[5:6]]), torch.tensor([TOKENS[6:]])]
        passes = [lambda ids=ids: model(input_ids=ids, past_key_values=cache, use_cache=True) for ids in parts]
        stepped = collected(model, *passes)
        whole = collected(model, lambda: model(input_ids=torch.tensor([TOKENS]), use_cache=False))
        self.assertEqual(set(stepped), set(whole))
        for key, row in whole.items():
            np.testing.assert_allclose(stepped[key], row, atol=1e-5, err_msg=str(key))

    def test_generate_is_logged_at_its_positions(self):
        model = model_of("qwen2")
        ids = torch.tensor([TOKENS])
        mask = torch.ones_like(ids)
        seen = collected(
            model, lambda: model.generate(ids, attention_mask=mask, max_new_tokens=3, do_sample=False, pad_token_id=0)
        )
        self.assertEqual({at for name, at in seen if name == "layer_1_output"}, set(range(len(TOKENS) + 2)))
        self.assertEqual({at for name, at in seen if name == "logits"}, {7, 8, 9})  # of the last token of each pass

    def test_only_what_is_asked_for(self):
        _, seen = self.seen("llama", checkpoints="layer_*_q, logits")
        self.assertEqual({name for name, _ in seen}, {"layer_0_q", "layer_1_q", "logits"})

    def test_bfloat16_is_read_as_it_is(self):
        model = model_of("llama").bfloat16()
        seen = collected(model, lambda: model(input_ids=torch.tensor([TOKENS]), use_cache=False))
        row = seen["layer_0_q", 3]
        np.testing.assert_array_equal(row, torch.tensor(row).bfloat16().float().numpy())

    def test_after_removal_nothing_is_left(self):
        model = model_of("llama")
        before = transformers.models.llama.modeling_llama.apply_rotary_pos_emb
        with attach(model, lambda *_: None):
            self.assertIsNot(transformers.models.llama.modeling_llama.apply_rotary_pos_emb, before)
        self.assertIs(transformers.models.llama.modeling_llama.apply_rotary_pos_emb, before)
        self.assertFalse(any(module._forward_hooks or module._forward_pre_hooks for module in model.modules()))

    def test_two_taps_do_not_take_each_others_functions(self):
        """Breaks if the first to go took the other's wrapper with it, or the last left one behind."""
        source, model = transformers.models.llama.modeling_llama, model_of("llama")
        before, run = source.apply_rotary_pos_emb, lambda: model(input_ids=torch.tensor([TOKENS]), use_cache=False)
        for first_to_go in (0, 1):
            names, some = [[], []], "layer_0_*_rope"
            taps = [attach(model, lambda name, *_, own=own: own.append(name), checkpoints=some) for own in names]
            run()
            self.assertEqual(names, [["layer_0_q_rope", "layer_0_k_rope"]] * 2)
            taps[first_to_go].remove()
            run()
            self.assertEqual([len(own) for own in names], [2, 4] if first_to_go == 0 else [4, 2])
            taps[1 - first_to_go].remove()
            self.assertIs(source.apply_rotary_pos_emb, before)

    def test_a_wrapper_of_somebody_else_is_left_alone(self):
        source, model = transformers.models.llama.modeling_llama, model_of("llama")
        with mock.patch.object(source, "apply_rotary_pos_emb", source.apply_rotary_pos_emb):
            tap = attach(model, lambda *_: None)
            ours = source.apply_rotary_pos_emb
            source.apply_rotary_pos_emb = theirs = lambda *args, **kwargs: ours(*args, **kwargs)
            tap.remove()
            self.assertIs(source.apply_rotary_pos_emb, theirs)
            seen = collected(model, lambda: model(torch.tensor([TOKENS])), checkpoints="layer_*_q_rope")
            self.assertEqual(len(seen), 2 * len(TOKENS))
            self.assertIs(source.apply_rotary_pos_emb, theirs)

    def test_a_function_that_was_replaced_is_listened_to_anew(self):
        """Breaks if a second tap listened to the wrapper that the module no longer has."""
        source, model = transformers.models.llama.modeling_llama, model_of("llama")
        before, names = source.apply_rotary_pos_emb, [[], []]

        def tap(own):
            return attach(model, lambda name, *_: own.append(name), checkpoints="layer_0_*_rope")

        with mock.patch.object(source, "apply_rotary_pos_emb", before):
            first = tap(names[0])
            source.apply_rotary_pos_emb = theirs = lambda *args, **kwargs: before(*args, **kwargs)
            second = tap(names[1])
            model(torch.tensor([TOKENS]))
            self.assertEqual(names, [[], ["layer_0_q_rope", "layer_0_k_rope"]])
            first.remove()
            self.assertIsNot(source.apply_rotary_pos_emb, theirs)
            second.remove()
            self.assertIs(source.apply_rotary_pos_emb, theirs)

    def test_several_functions_of_one_module(self):
        """Breaks if the last rule alone were heard."""
        calls = ("apply_rotary_pos_emb", "apply_rotary_pos_emb", "eager_attention_forward")
        names = (("q", "k"), ("q_again", "k_again"), "attn")
        changes = (join_heads, join_heads, lambda out: out[0][0].flatten(1))
        rules = [
            Rule("model.layers.0.self_attn", name, calls=call, change=change)
            for name, call, change in zip(names, calls, changes, strict=True)
        ]
        model = model_of("llama")
        model.set_attn_implementation("eager")
        seen = collected(model, lambda: model(torch.tensor([TOKENS]), use_cache=False), rules=rules)
        self.assertEqual({name for name, _ in seen}, {"q", "k", "q_again", "k_again", "attn"})
        plain = collected(model, lambda: model(torch.tensor([TOKENS]), use_cache=False), checkpoints="layer_0_attn")
        for at in range(len(TOKENS)):
            np.testing.assert_array_equal(seen["q", at], seen["q_again", at])
            np.testing.assert_array_equal(seen["attn", at], plain["layer_0_attn", at])

    def test_after_an_error_no_other_model_is_logged(self):
        """Breaks if the tap still took itself to be in the attention that an exception ended."""
        model, other, names = model_of("llama"), model_of("llama"), []

        def fail(*_):
            raise RuntimeError("out of memory")

        for hook in ("register_forward_hook", "register_forward_pre_hook"):
            with attach(model, lambda name, *_: names.append(name), checkpoints="layer_*_rope"), torch.no_grad():
                handle = getattr(model.model.layers[1].self_attn.o_proj, hook)(fail)
                with self.assertRaisesRegex(RuntimeError, "out of memory"):
                    model(torch.tensor([TOKENS]))
                handle.remove()
                names.clear()
                other(torch.tensor([TOKENS]))
                self.assertEqual(names, [])
                model(torch.tensor([TOKENS]))
                self.assertEqual(len(names), 4)

    def test_eight_bit_floats_are_read_as_they_are(self):
        """Breaks if a float type that numpy lacks stopped the forward pass."""
        for kind in ("float8_e4m3fn", "float8_e5m2"):
            model = torch.nn.Sequential(torch.nn.Embedding(50, 6))
            narrow = model[0].weight.detach().to(getattr(torch, kind))
            seen = collected(
                model,
                lambda model=model: model(torch.tensor([[4, 7]])),
                rules=[Rule("0", "embedding", change=lambda out, kind=kind: out.to(getattr(torch, kind)))],
            )
            for position, token in enumerate((4, 7)):
                np.testing.assert_array_equal(seen["embedding", position], narrow[token].float().numpy())

    def test_the_writer_takes_tensors(self):
        weight = torch.nn.Parameter(torch.tensor([1.5, -0.1, 3e38], dtype=torch.float64))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.jsonl"
            types = dict(bfloat16="bf16", float16="f16", float8_e4m3fn="f8_e4m3fn", float32="f32", int8="i8", bool="bool")
            for kind, short in types.items():
                with self.subTest(kind), LogWriter(path, sketch=True, values=None) as log:
                    row = torch.tensor([1.5, -0.1, 7]).to(getattr(torch, kind))
                    log.write("x", 0, row)
                    log.write("x", 0, (row.double() if row.is_floating_point() else row).numpy(), dtype=short)
                    log.write("x", 1, weight)
                    log.write("x", 1, weight.detach().numpy())
                lines = path.read_text().splitlines()
                self.assertEqual((lines[0], lines[2]), (lines[1], lines[3]))
                self.assertEqual(json.loads(lines[2])["dtype"], "f64")


@unittest.skipIf(torch is None, "no torch and transformers here")
class OwnRules(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "log.jsonl"
        torch.manual_seed(2)
        self.model = torch.nn.Sequential(torch.nn.Embedding(50, 6), torch.nn.Linear(6, 9), torch.nn.Linear(9, 50))

    def records(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()[1:]]  # after the header

    def test_three_lines_log_any_model(self):
        rules = [Rule("1", ("layer_0_q", "layer_0_kv"), widths=(3, 6)), Rule("2", "logits"), Rule("0", "embedding")]
        with torch.no_grad(), attach(self.model, self.path, rules, team="mine", values=None):
            self.model(torch.tensor([[4, 7]]))
        records = self.records()
        widths = {"embedding": 6, "layer_0_q": 3, "layer_0_kv": 6, "logits": 50}
        expected = {(name, position, width) for position in (0, 1) for name, width in widths.items()}
        self.assertEqual({(r["checkpoint"], r["token_idx"], len(r["values"])) for r in records}, expected)
        self.assertTrue(all(r["team"] == "mine" for r in records))

    def test_flat_tokens_with_positions_as_vllm_calls(self):
        class Flat(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 4)

            def forward(self, input_ids, positions):
                hidden = self.layer(torch.ones(len(input_ids), 4))
                return hidden, hidden

        model = Flat()
        both = Rule("", "sum", change=lambda out: out[0] + out[1])
        with torch.no_grad(), attach(model, self.path, [Rule("layer", "layer_0_output"), both]):
            model(input_ids=torch.tensor([1, 2]), positions=torch.tensor([40, 41]))
        self.assertEqual([(r["checkpoint"], r["token_idx"]) for r in self.records()],
                         [("layer_0_output", 40), ("layer_0_output", 41), ("sum", 40), ("sum", 41)])  # fmt: skip

    def test_a_rule_is_given_the_tensor_of_another_beside_its_own(self):
        def add(value, other):
            return value[..., :6] + other

        class Blocks(torch.nn.Module):
            def __init__(self):
                super().__init__()
                block = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Linear(9, 6))
                self.blocks = torch.nn.ModuleList([block])

            def forward(self, tokens):
                return self.blocks[0](torch.ones(len(tokens), 6))

        model, ids = Blocks(), torch.tensor([4, 7])
        entering = Rule("blocks.*", "", of="input")
        seen = collected(model, lambda: model(ids), rules=[Rule("blocks.*.0", "sum_{0}", change=add, beside=entering)])
        expected = model.blocks[0][0](torch.ones(2, 6))[1, :6] + 1  # of one row the last bit may differ
        self.assertEqual(sorted(seen), [("sum_0", 0), ("sum_0", 1)])
        np.testing.assert_array_equal(seen["sum_0", 1], expected.detach().numpy())
        with self.assertRaisesRegex(LogError, "sum_0 was computed before blocks.0.1, which its rule needs"):
            late = Rule("blocks.*.0", "sum_{0}", change=add, beside=Rule("blocks.*.1", ""))
            collected(model, lambda: model(ids), rules=[late])

    def test_the_environment_switches_it_on(self):
        rules = [Rule("0", "embedding"), Rule("2", "logits")]
        with mock.patch.dict(os.environ, {"ORCH_LOG_FILE": str(self.path), "ORCH_LOG_TEAM": "env"}), torch.no_grad():
            with attach(self.model, rules=rules):
                self.model(torch.tensor([[4]]))
        self.assertEqual([(r["checkpoint"], r["team"]) for r in self.records()], [("logits", "env")])

    def test_what_nothing_is_logged_of_has_no_hooks(self):
        """Breaks if the line that stays in the code ended a pass of several sequences, or slowed it down."""
        rules = [Rule("0", "embedding"), Rule("2", "logits")]
        for asked in ({}, {"log": self.path, "checkpoints": "layer_*"}):
            with mock.patch.dict(os.environ, {"ORCH_LOG_FILE": ""}), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tap = attach(self.model, rules=rules, **asked)
            with tap:
                self.assertFalse(any(part._forward_hooks or part._forward_pre_hooks for part in self.model.modules()))
                self.model(torch.tensor([[4], [5]]))

    def test_an_item_that_matches_no_checkpoint_is_warned_of(self):
        """Breaks if a mistyped name logged nothing without a warning, or if a set were taken for a mistyped name."""
        rules = [Rule("0", "embedding"), Rule("2", "logits")]
        for asked, item in (("layr_*", "'layr_\\*'"), ("logits,loogits", "'loogits'")):
            with self.assertWarnsRegex(UserWarning, f"^checkpoints: {item} matches no checkpoint of the model; it has "):
                attach(self.model, self.path, rules, checkpoints=asked).remove()
        environment = {"ORCH_LOG_FILE": str(self.path), "ASSAY_LOG_CHECKPOINTS": "layr_*"}
        with mock.patch.dict(os.environ, environment), self.assertWarnsRegex(UserWarning, "^ASSAY_LOG_CHECKPOINTS: "):
            attach(self.model, rules=rules).remove()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for asked in (None, "layers", "logits", "*", "embedding,layers"):
                attach(self.model, self.path, rules, checkpoints=asked).remove()
            with mock.patch.dict(os.environ, {**environment, "ORCH_LOG_FILE": ""}):
                attach(self.model, rules=rules).remove()

    def test_nan_is_written_as_nan(self):
        with torch.no_grad():
            self.model[2].bias[3] = float("nan")
            with attach(self.model.bfloat16(), self.path, [Rule("2", "logits")], values=None):
                self.model(torch.tensor([[4]]))
        self.assertEqual((self.records()[0]["values"][3], self.records()[0]["dtype"]), ("NaN", "bf16"))

    def test_what_cannot_be_logged_is_told(self):
        with self.assertRaisesRegex(LogError, "no module is called 'model.norm'"):
            attach(self.model, self.path, [Rule("model.norm", "final_norm")])
        with self.assertRaisesRegex(LogError, "no ready rules for Sequential"):
            attach(self.model, self.path)
        with self.assertRaisesRegex(LogError, "no function 'nothing'"):
            attach(self.model, self.path, [Rule("2", "logits", calls="nothing")])


if __name__ == "__main__":
    unittest.main()
