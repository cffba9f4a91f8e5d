"""One family's model: made, saved, converted, and run in float64."""

import re

import numpy as np
import torch
import transformers

from ..causal_lm import AutoModelForCausalLM
from . import weights
from .doubles import NarrowTensors, doubles
from .family import COMMON, float32

LAYERS = re.compile(r"(.*\.)?(layers|h|blocks)")


def config_of(family, **changes):
    values = COMMON | family.values | changes
    config = getattr(transformers, family.config)(**float32(values), attn_implementation="eager")
    config._experts_implementation = "eager"
    return config


def model_of(config):
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def made(family):
    """The model in float32, with its random weights."""
    model = model_of(config_of(family))
    weights.randomise(model, family.seed, family.gain)
    return model


def in_float64(family, state, **changes):
    """The model in float64 over the weights in `state`; `changes` of its config."""
    with doubles():
        model = model_of(config_of(family, **changes)).to(torch.float64)
        model.load_state_dict({name: tensor.double() for name, tensor in state.items()}, strict=not changes)
    return model


def layers_of(model):
    return next(module for name, module in model.named_modules() if LAYERS.fullmatch(name))


def run(model, tokens):
    """{checkpoint: float64 [tokens, n]}: the embedding, what each layer leaves, and the logits.

    Of several residual streams, [streams, sequences, tokens, n], the embedding is what enters the first layer as the
    first; all of them are what leaves a layer, but for the last, which leaves the one that the last norm is given.
    """
    seen, handles = {}, []

    def keep(name, value):
        value = value[0] if isinstance(value, tuple) else value
        if value.dim() == 4:
            value = value[0] if name == "embedding" else value.permute(1, 2, 0, 3)
        seen[name] = value.reshape(len(tokens), -1).numpy().copy()

    layers = layers_of(model)
    if hasattr(model.config, "altup_num_inputs"):
        last = f"layer_{len(layers) - 1}_output"
        handles.append(model.model.norm.register_forward_pre_hook(lambda _, args: keep(last, args[0])))
    for index, layer in enumerate(layers):
        if index == 0:
            handles.append(
                layer.register_forward_pre_hook(
                    lambda _, args, kwargs: keep("embedding", args[0] if args else kwargs["hidden_states"]),
                    with_kwargs=True,
                )
            )
        handles.append(layer.register_forward_hook(lambda _, __, out, i=index: keep(f"layer_{i}_output", out)))
    try:
        with doubles(), NarrowTensors() as narrow:
            logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits
    finally:
        for handle in handles:
            handle.remove()
    if narrow.found:
        raise RuntimeError(f"not in float64: {', '.join(sorted(narrow.found))}")
    seen["logits"] = logits[0].numpy().copy()
    wrong = [name for name, rows in seen.items() if rows.dtype != np.float64]
    if wrong:
        raise RuntimeError(f"not in float64: {', '.join(wrong)}")
    return seen


def prompts(vocab_size, seed):
    """Ids of the two prompts: 15, and 48, which is longer than any window."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, vocab_size, 63).tolist()
    return {"short": ids[:15], "long": ids[15:]}
