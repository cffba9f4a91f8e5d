"""What transformers says of a config: the tensors that it saves, and all checkpoints in float64."""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors import safe_open
from transformers import AutoConfig

from ..causal_lm import AutoModelForCausalLM
from ..families import oracle
from ..families.doubles import doubles
from .case import first_match
from .draws import spread

AGREES = 1e-6  # of the largest logit: the state of some networks is kept in float32
ENGINE = f"transformers {transformers.__version__} float64"
PUBLISHED_WITHOUT = {"gpt2": "transformer."}  # the prefix that published files lack


def eager(folder):
    config = AutoConfig.from_pretrained(folder, attn_implementation="eager")
    config._experts_implementation = "eager"
    return config


def saved_shapes(config):
    """{name: shape} as save_pretrained of transformers writes them."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "config.json").write_text(json.dumps(config))
        AutoModelForCausalLM.from_config(eager(folder), dtype=torch.float32).save_pretrained(folder / "saved")
        with safe_open(folder / "saved" / "model.safetensors", framework="pt") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}


def tensor_rows(row):
    """`tensors` of case.json: [name, shape, mean, deviation], with a dtype where it is not F32."""
    rows = []
    prefix = "" if row.saved_names else PUBLISHED_WITHOUT.get(row.config["model_type"], "")
    for name, shape in sorted(saved_shapes(row.config).items()):
        name = name.removeprefix(prefix)
        dtype = first_match(row.dtypes, name, "F32")
        rows.append([name, list(shape), *spread(name, shape, row)] + [dtype] * (dtype != "F32"))
    return rows


def loaded(folder):
    """The model in float64; it must use every tensor of the folder, and lack none."""
    with doubles():
        model, loading = AutoModelForCausalLM.from_pretrained(
            folder, config=eager(folder), dtype=torch.float64, output_loading_info=True
        )
    wrong = {*loading["missing_keys"], *loading["unexpected_keys"], *loading["mismatched_keys"]}
    if wrong:
        raise RuntimeError(f"transformers lacks, or does not use, {', '.join(sorted(map(str, wrong)))}")
    return model.eval()


def run(folder, tokens):
    """{checkpoint: float64 [tokens, n]}."""
    return oracle.run(loaded(folder), tokens)


def logits(model, tokens, use_cache=False):
    """float64 [tokens, vocabulary]."""
    with doubles(), torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=use_cache).logits[0].numpy()


def wrong_with_a_cache(folder, tokens, expected):
    """What is wrong with the case where a cache is kept, as engines do: a network may be without what the cache asks for."""
    try:
        far = float(np.abs(logits(loaded(folder), tokens, use_cache=True) - expected).max())
    except Exception as error:  # whatever transformers raises for a config
        return [f"transformers does not evaluate it with a cache: {error}"]
    return [] if far <= AGREES * float(np.abs(expected).max()) else [f"with a cache, transformers' logits are {far:.1e} off"]
