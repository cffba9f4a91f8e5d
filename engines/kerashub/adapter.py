"""KerasHub on the torch backend, in float32: the folder goes through its converters of transformers' models."""

import inspect
import json
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

os.environ |= {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "KERAS_BACKEND": "torch"}

from importlib.metadata import version

import numpy as np
import torch
from keras import ops
from keras_hub.models import CausalLM, Gemma4CausalLM

from protocol import Unsupported, main, refusals
from surfaces import others


# What its converters read for training, and files of transformers always have; the suite's state what a network computes.
TRAINING = {
    "attention_dropout": 0.0,
    "attn_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "output_router_logits": False,
    "resid_pdrop": 0.0,
    "router_aux_loss_coef": 0.0,
}


@contextmanager
def with_training_keys(folder):
    """A folder with links to the files, and with keys for training in config.json."""
    with tempfile.TemporaryDirectory() as scratch:
        for path in folder.iterdir():
            (Path(scratch) / path.name).symlink_to(path.resolve())
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        made = Path(scratch) / "config.json"
        made.unlink()
        made.write_text(json.dumps(TRAINING | config), encoding="utf-8")
        yield scratch


def load(folder):
    # CausalLM has two classes for Gemma 4, one of them for drafts, and takes either.
    model_type = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    model = Gemma4CausalLM if model_type.startswith("gemma4") else CausalLM
    with with_training_keys(folder) as made, refusals(ValueError, NotImplementedError):
        return model.from_preset(made, preprocessor=None, dtype="float32")


def together(model, sequences):
    """Rows of logits of the first sequence, as the model's forward pass gives them; padded on the right, as it pads."""
    longest = max(map(len, sequences))
    inputs = {
        "token_ids": [[*one, *[0] * (longest - len(one))] for one in sequences],
        "padding_mask": [[1] * len(one) + [0] * (longest - len(one)) for one in sequences],
        "position_ids": [range(longest)] * len(sequences),  # of Gemma 4
    }
    inputs = {name: np.array(value, dtype=np.int32) for name, value in inputs.items() if name in model.input}
    return ops.convert_to_numpy(model(inputs))[0, : len(sequences[0])]


def steps(model, tokens):
    """Rows of logits as generate() gets them: a cache of the first token, then one token at a time."""
    if len(inspect.signature(model._build_cache).parameters) > 1:
        raise Unsupported("the adapter has a cache for models of text alone")
    ids = np.array([tokens[:1] + (0,) * (len(tokens) - 1)], dtype=np.int32)
    cache, rows = model._build_cache(ops.convert_to_tensor(ids))[-1], []
    for i, token in enumerate(tokens):
        logits, _, cache = model.call_with_cache(ops.convert_to_tensor([[token]], dtype="int32"), cache, i)
        rows.append(ops.convert_to_numpy(logits)[0, 0])
    return np.stack(rows)


def run(case):
    if case.surface not in ("alone", "batch", "steps"):
        raise Unsupported("its cache takes the whole prompt at once, then one token at a time")
    with torch.no_grad():
        model = load(case.folder())
        if case.surface == "steps":
            rows = steps(model, case.tokens)
        else:
            rows = together(model, [case.tokens, *others(case.tokens, case.size - 1)])
    return [("logits", range(len(case.tokens)), rows)]


main(run, "KerasHub", version("keras-hub"))
