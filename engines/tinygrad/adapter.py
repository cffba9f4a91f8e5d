"""tinygrad's own language model (tinygrad.llm) over the GGUF file, on its CPU device, which needs clang."""

import os

os.environ |= {"DEV": "CPU", "HALF": "0", "JIT": "0"}  # HALF=0: weights as stored

from importlib.metadata import version

from tinygrad import Tensor
from tinygrad.llm import model as llm

import surfaces
from protocol import Unsupported, main, refusals

load = llm.gguf_load


def load_with_words(path):
    """A file without a vocabulary gets as many words as it has embeddings: the loader counts them."""
    with refusals(ValueError):  # a type of tensors
        keys, tensors = load(path)
    keys.setdefault("tokenizer.ggml.tokens", [""] * tensors["token_embd.weight"].shape[0])
    return keys, tensors


llm.gguf_load = load_with_words


class Session:
    def __init__(self, model):
        self.model, self.fed = model, 0

    def feed(self, tokens):
        x = self.model.token_embd(Tensor([list(tokens)], dtype="int32")).float()
        for block in self.model.blk:
            x = block(x, self.fed)
        self.fed += len(tokens)
        return {"logits": self.model.output(self.model.output_norm(x))[0].float().numpy()}

    def restored(self):
        return self  # as its generate() does, which goes on where a prompt's prefix is the same


class Model:
    def __init__(self, path, length):
        self.model, _ = llm.Transformer.from_gguf(str(path), max_context=length)

    def start(self):
        return Session(self.model)

    def together(self, sequences):
        raise Unsupported("tinygrad.llm has no batches of prompts of several lengths")


def run(case):
    return surfaces.records(case, Model(case.model_file(), len(case.tokens)))


main(run, "tinygrad", version("tinygrad"))
