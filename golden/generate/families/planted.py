"""`python -m generate.families.planted OUT`: logits of transformers models with one mistake planted in each.

The mistakes are made in the weights or the source of transformers, in float64, and know nothing of Assay's own
catalogue. For each a pair of logs of the same tokens, OUT/CASE.ref.jsonl and OUT/CASE.got.jsonl, with a head and sketch
of the logits; tests/causes/planted_test.cc compares them.
"""

import importlib
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from assay_tap import LogWriter
from transformers.utils import logging

from . import FAMILIES, oracle
from .doubles import doubles
from .family import COMMON, rope

TOKENS = 12


def logits(model, tokens, **more):
    with doubles():
        return model(input_ids=torch.tensor([tokens]), use_cache=False, **more).logits[0].numpy()


def with_weights(part, change, layers=None):
    """The weights whose name has `part`, of all layers or some, changed."""

    def plant(family, state, tokens):
        asked = [name for name in state if part in name and (layers is None or any(f".{i}." in name for i in layers))]
        if not asked:
            raise RuntimeError(f"{family.name} has no weights with {part} in their names")
        changed = state | {name: change(state[name]) for name in asked}
        return logits(oracle.in_float64(family, changed), tokens)

    return plant


def with_config(**changes):
    return lambda family, state, tokens: logits(oracle.in_float64(family, state, **changes), tokens)


@contextmanager
def replaced(module, name, made):
    """`module.name` is made(what it is) within it."""
    before = getattr(module, name)
    setattr(module, name, made(before))
    try:
        yield
    finally:
        setattr(module, name, before)


def norms_after_rotation(family, state, tokens):
    model = oracle.in_float64(family, state)
    source, turn = importlib.import_module(type(model).__module__), 0
    norms = []
    for layer in oracle.layers_of(model):
        attention = layer.self_attn
        norms.append((attention.q_norm.forward, attention.k_norm.forward))
        attention.q_norm.forward = attention.k_norm.forward = lambda x: x

    def made(rotate):
        def rotate_then_normalise(*args, **kwargs):
            nonlocal turn
            turn += 1
            return tuple(norm(x) for norm, x in zip(norms[turn - 1], rotate(*args, **kwargs), strict=True))

        return rotate_then_normalise

    with replaced(source, "apply_rotary_pos_emb", made):
        return logits(model, tokens)


def residual_of_normed(family, state, tokens):
    """Each block's output is added to what its norm gave, not to what entered the norm."""
    model = oracle.in_float64(family, state)
    for layer in oracle.layers_of(model):

        def forward(x, *args, layer=layer, **kwargs):
            x = layer.input_layernorm(x)
            x = x + layer.self_attn(hidden_states=x, *args, **kwargs)[0]
            x = layer.post_attention_layernorm(x)
            return x + layer.mlp(x)

        layer.forward = forward
    return logits(model, tokens)


def without_last_norm(family, state, tokens):
    model = oracle.in_float64(family, state)
    model.model.norm.forward = lambda x: x
    return logits(model, tokens)


def with_gap(first, by):
    """From token `first` on all positions are `by` too high."""

    def plant(family, state, tokens):
        positions = torch.arange(len(tokens))
        positions[first:] += by
        mask = torch.ones(1, len(tokens))  # without one transformers takes the gap for the border of two sequences
        return logits(oracle.in_float64(family, state), tokens, position_ids=positions[None], attention_mask=mask)

    return plant


def with_tokens(change):
    """Other tokens go through the network than the header names."""

    def plant(family, state, tokens):
        return logits(oracle.in_float64(family, state), change(list(tokens)))

    return plant


def exchanged(first):
    """The tokens at `first` and after it."""
    return lambda tokens: [*tokens[:first], tokens[first + 1], tokens[first], *tokens[first + 2 :]]


def norms_exchanged(one, another):
    """Two norms of each layer have each other's weights."""

    def plant(family, state, tokens):
        other = {one: another, another: one}
        changed = {
            name: state[name.replace(own, other[own])] for name in state for own in other if f"{own}.weight" in name
        }
        return logits(oracle.in_float64(family, state | changed), tokens)

    return plant


def keys_of_layer_before(family, state, tokens):
    """Each layer but the first attends to the keys and values of the one before it."""
    model = oracle.in_float64(family, state)
    kept = {}

    def made(attend):
        def attend_to_other(module, query, key, value, *args, **kwargs):
            kept[module.layer_idx] = key, value
            key, value = kept.get(module.layer_idx - 1, (key, value))
            return attend(module, query, key, value, *args, **kwargs)

        return attend_to_other

    with replaced(importlib.import_module(type(model).__module__), "eager_attention_forward", made):
        return logits(model, tokens)


def weights_on_input(family, state, tokens):
    """The experts' weights multiply what goes into the experts, not what comes out."""
    model = oracle.in_float64(family, state)
    for layer in oracle.layers_of(model):
        experts = layer.mlp.experts

        def forward(x, ids, weights, run=experts.forward):
            slots = [(ids[:, i : i + 1], weights[:, i : i + 1]) for i in range(ids.shape[1])]
            return sum(run(x * weight, own, torch.ones_like(weight)) for own, weight in slots)

        experts.forward = forward
    return logits(model, tokens)


def to_bfloat16(weights):
    return weights.to(torch.bfloat16).to(weights.dtype)


def halves_swapped(weights):
    """Of experts' gate and up in one tensor [experts, both, width]."""
    return torch.cat(weights.chunk(2, dim=1)[::-1], dim=1)


# What is planted, and in which family; the file's name begins with the cause that a comparison should name.
CASES = {
    "norm_order": ("qwen3", norms_after_rotation),
    "residual": ("smollm3", residual_of_normed),
    "norm_weight_plus_one": ("gemma3", with_weights("self_attn.q_norm", lambda w: w - 1)),
    "norm_weight_plus_one-both": (
        "gemma3",
        lambda family, state, tokens: with_weights("k_norm", lambda w: w - 1)(
            family,
            state | {name: w - 1 for name, w in state.items() if "q_norm" in name},
            tokens,
        ),
    ),
    "bias_missing": ("starcoder2", with_weights("layernorm.bias", torch.zeros_like)),
    "expert_order": ("mixtral", with_weights("mlp.gate.weight", lambda w: w.flip(0))),
    "expert_order-next": ("mixtral", with_weights("mlp.gate.weight", lambda w: w.roll(1, 0))),
    "expert_order-down": ("mixtral", with_weights("experts.down_proj", lambda w: w[[0, 2, 1, *range(3, len(w))]])),
    "qk_norm": ("qwen3", norms_exchanged("q_norm", "k_norm")),
    "norm_order-exchanged": ("qwen3", norms_exchanged("input_layernorm", "post_attention_layernorm")),
    "kv_layer": ("qwen3", keys_of_layer_before),
    "router_weights": ("mixtral", weights_on_input),
    "wrong_token": ("qwen3", with_tokens(exchanged(5))),
    "activation_kind": ("gpt-oss", with_config(swiglu_limit=1e9)),
    "attention_softcap": ("gemma2", with_config(attn_logit_softcapping=None)),
    "gate_up_swapped": ("qwen3moe", with_weights("experts.gate_up_proj", halves_swapped)),
    "bias_missing-choice": ("deepseek3", with_weights("e_score_correction_bias", torch.zeros_like)),
    "norm_kind": ("qwen3", without_last_norm),
    "rounding": ("granite", with_weights("", to_bfloat16)),
    "rope_dimensions": ("phi2", with_config(rope_parameters=rope(10000.0, partial_rotary_factor=0.75))),
    "rope_position": ("qwen3", with_gap(7, 3)),
    "attention_sinks": ("gpt-oss", with_weights("sinks", lambda w: w - 1e6, layers=(0, 2))),
}


def main():
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    families = {family.name: family for family in FAMILIES}
    for case, (name, plant) in CASES.items():
        family = families[name]
        tokens = oracle.prompts(COMMON["vocab_size"], family.seed)["long"][:TOKENS]
        state = dict(oracle.made(family).state_dict())
        right = logits(oracle.in_float64(family, state), tokens)
        wrong = plant(family, state, tokens)
        moved = float(np.max(np.linalg.norm(wrong - right, axis=1) / np.linalg.norm(right, axis=1)))
        for kind, rows in (("ref", right), ("got", wrong)):
            path = out / f"{case}.{kind}.jsonl"
            path.unlink(missing_ok=True)
            with LogWriter(path, values=4, sketch=True) as log:
                log.header(tokens=tokens, model={"name": name, "type": "F32"}, engine="transformers", math="float64")
                log.write_rows("logits", range(len(rows)), rows)
        print(f"{case:28} {name:12} moves the logits by {moved:.2g}", flush=True)


if __name__ == "__main__":
    main()
