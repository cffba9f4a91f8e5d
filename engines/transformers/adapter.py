"""transformers as an engine: adapter.py [bfloat16] [sdpa]; float32 and eager attention otherwise."""

import copy
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from assay_tap import attach
from transformers import AutoModelForCausalLM, DynamicCache

import surfaces
from protocol import main, refusals

DTYPE = "bfloat16" if "bfloat16" in sys.argv else "float32"
ATTENTION = "sdpa" if "sdpa" in sys.argv else "eager"


class Session:
    def __init__(self, model, cache):
        self.model, self.cache = model, cache

    def feed(self, tokens):
        seen = {}
        with attach(self.model, lambda name, _, rows: seen.update({name: rows.copy()}), checkpoints="layers"):
            self.model(input_ids=torch.tensor([tokens]), past_key_values=self.cache, use_cache=True)
        return seen

    def restored(self):
        return Session(self.model, copy.deepcopy(self.cache))


class Model:
    def __init__(self, folder):
        with refusals(ValueError, NotImplementedError):
            self.model = AutoModelForCausalLM.from_pretrained(
                folder, dtype=getattr(torch, DTYPE), attn_implementation=ATTENTION, local_files_only=True
            ).eval()

    def start(self):
        return Session(self.model, DynamicCache(config=self.model.config))

    def together(self, sequences):
        ids, mask = map(torch.tensor, surfaces.padded(sequences))
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        logits = self.model(input_ids=ids, attention_mask=mask, position_ids=positions).logits
        return {"logits": logits[0, -len(sequences[0]) :].float().numpy()}


def run(case):
    with torch.no_grad():
        return surfaces.records(case, Model(case.folder()))


transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
main(run, "transformers", transformers.__version__, DTYPE)
