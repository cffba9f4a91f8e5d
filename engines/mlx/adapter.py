"""mlx-lm on MLX's CPU backend."""

import copy
from importlib.metadata import version

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import BatchKVCache, KVCache, make_prompt_cache
from mlx_lm.utils import load_model

import surfaces
from protocol import Unsupported, main, refusals


def rows(logits):
    return {"logits": np.array(logits.astype(mx.float32))}


class Session:
    def __init__(self, model, cache):
        self.model, self.cache = model, cache

    def feed(self, tokens):
        return rows(self.model(mx.array([tokens]), cache=self.cache)[0])

    def restored(self):
        return Session(self.model, copy.deepcopy(self.cache))


class Model:
    def __init__(self, folder):
        with refusals(ValueError):
            self.model, _ = load_model(folder)

    def start(self):
        return Session(self.model, make_prompt_cache(self.model))

    def together(self, sequences):
        ids, mask = surfaces.padded(sequences)
        kinds = make_prompt_cache(self.model)
        if not all(type(kind) is KVCache for kind in kinds):
            raise Unsupported("the adapter makes batches with plain KV caches only")
        padding = [row.count(0) for row in mask]
        logits = self.model(mx.array(ids), cache=[BatchKVCache(padding) for _ in kinds])
        return rows(logits[0, -len(sequences[0]) :])


def run(case):
    return surfaces.records(case, Model(case.folder()))


main(run, "mlx-lm", version("mlx-lm"))
