"""transformers as an engine: adapter.py [bfloat16] [sdpa]; float32 and eager attention otherwise."""

import copy
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from assay_tap import attach
from transformers import AutoModelForCausalLM, DynamicCache, Mistral4Config
from transformers.models.mistral4.modeling_mistral4 import Mistral4ForCausalLM

import surfaces
from protocol import main, refusals

# In published files it is the text part of a model of images and text, which alone is listed.
AutoModelForCausalLM.register(Mistral4Config, Mistral4ForCausalLM, exist_ok=True)
DTYPE = "bfloat16" if "bfloat16" in sys.argv else "float32"
ATTENTION = "sdpa" if "sdpa" in sys.argv else "eager"


class Session:
    def __init__(self, model, cache):
        self.model, self.cache = model, cache

    def feed(self, tokens):
        return self.model.seen(input_ids=torch.tensor([tokens]), past_key_values=self.cache, use_cache=True)

    def restored(self):
        return Session(self.model, copy.deepcopy(self.cache))


class Model:
    def __init__(self, folder):
        with refusals(ValueError, NotImplementedError):
            self.model = AutoModelForCausalLM.from_pretrained(
                folder, dtype=getattr(torch, DTYPE), attn_implementation=ATTENTION, local_files_only=True
            ).eval()

    def seen(self, **inputs):
        """{checkpoint: rows} of the first sequence, without padding."""
        rows_of = {}

        def keep(name, _, rows, sequence):
            if sequence == 0:
                rows_of[name] = rows.copy()

        with attach(self.model, keep, checkpoints="layers"):
            self.model(**inputs)
        return rows_of

    def start(self):
        return Session(self, DynamicCache(config=self.model.config))

    def together(self, sequences):
        ids, mask = map(torch.tensor, surfaces.padded(sequences))
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        return self.seen(input_ids=ids, attention_mask=mask, position_ids=positions)


def run(case):
    with torch.no_grad():
        return surfaces.records(case, Model(case.folder()))


transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
main(run, "transformers", transformers.__version__, DTYPE)
