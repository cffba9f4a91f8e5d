"""llama.cpp, through llama-cpp-python: one thread, an F32 KV cache, flash attention off; logs what its graph computes.

Where no GGUF file can state a model, it runs what its own converter makes of the folder, as its users would.
"""

import ctypes
import os
import sys
import tempfile
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import llama_cpp
from generate.families.convert import convert
from generate.llamacpp_engine import ERROR, Context, context_params, load
from generate.llamacpp_names import Namer

import surfaces
from protocol import Unsupported, main

CONTEXT = 2048  # more than the tokens of all sequences
REFUSALS = ("NotImplementedError", "ValueError")  # of the converter
errors = []


@llama_cpp.llama_log_callback
def keep_errors(level, text, _):
    if level == ERROR:
        errors.append(text.decode("utf-8", "replace").strip())


class Session:
    """A context. What it computed for earlier tokens is in its cache."""

    def __init__(self, model, first=0):
        self.model, self.first = model, first
        self.context = model.kept.enter_context(Context(model.handle, model.params, self.keep))

    def keep(self, tensor):
        for name, rows in self.namer.checkpoints(tensor):
            self.seen[name] = rows[: self.wanted].copy()

    def feed(self, tokens, *others):
        """Evaluates tokens, and others beside them in sequences of their own."""
        count = len(tokens) + sum(map(len, others))
        self.seen, self.wanted = {}, len(tokens)
        self.namer = Namer(self.model.arch, self.model.layers, count, any_arch=True)
        self.context.decode(tokens, *others, first=self.first)
        self.first += len(tokens)
        return self.seen | {"logits": self.context.logits(count)[: len(tokens)]}

    def restored(self):
        size = llama_cpp.llama_state_seq_get_size(self.context.handle, 0)
        state = (ctypes.c_uint8 * size)()
        llama_cpp.llama_state_seq_get_data(self.context.handle, state, size, 0)
        fresh = Session(self.model, self.first)
        if llama_cpp.llama_state_seq_set_data(fresh.context.handle, state, size, 0) == 0:
            raise RuntimeError("llama.cpp could not restore the state of a sequence")
        return fresh


class Model:
    """A model and all that is freed with it, in `kept`."""

    def __init__(self, path, sequences, kept):
        self.kept = kept
        try:
            self.handle = load(path)
        except RuntimeError as error:
            raise Unsupported("; ".join(errors) or error) from error
        kept.callback(llama_cpp.llama_model_free, self.handle)
        self.params = context_params(CONTEXT)
        self.params.n_seq_max = sequences
        self.params.kv_unified = True
        self.arch = self.meta("general.architecture")
        self.layers = llama_cpp.llama_model_n_layer(self.handle)

    def meta(self, key):
        text = ctypes.create_string_buffer(64)
        llama_cpp.llama_model_meta_val_str(self.handle, key.encode(), text, len(text))
        return text.value.decode()

    def start(self):
        return Session(self)

    def together(self, sequences):
        return self.start().feed(*sequences)


def converted(folder, kept):
    """A GGUF file of the folder, by llama.cpp's converter."""
    path = Path(kept.enter_context(tempfile.TemporaryDirectory())) / "model.gguf"
    os.environ["ASSAY_LLAMA_CPP"] = f"{sys.prefix}/source"
    try:
        convert(folder, path, "none")
    except RuntimeError as error:
        last = str(error).splitlines()[-1]
        if last.startswith(REFUSALS):
            raise Unsupported(f"its converter: {last}") from error
        raise RuntimeError(f"its converter: {last}") from error
    return path


def run(case):
    errors.clear()
    sequences = case.size if case.surface == "batch" else 1
    with ExitStack() as kept:
        path = case.model_file() if case.gguf else converted(case.folder(), kept)
        return surfaces.records(case, Model(path, sequences, kept))


llama_cpp.llama_log_set(keep_errors, ctypes.c_void_p(0))
main(run, "llama.cpp", version("llama-cpp-python"))
