"""Unpatched llama.cpp through its Python binding: the tokeniser that fixtures use, and a second engine with a tap."""

import ctypes
import sys

import llama_cpp
import numpy as np

from . import ggml
from .llamacpp_names import Namer

F32_CACHE = 0  # GGML_TYPE_F32
ERROR = 4  # GGML_LOG_LEVEL_ERROR


@llama_cpp.llama_log_callback
def errors_only(level, text, _):
    if level == ERROR:
        sys.stderr.write(text.decode("utf-8", "replace"))


def quiet():
    """Lets llama.cpp print errors only."""
    llama_cpp.llama_log_set(errors_only, ctypes.c_void_p(0))


def load(path):
    """A model for Context, which the caller frees; with its vocabulary or without."""
    settings = llama_cpp.llama_model_default_params()
    settings.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), settings)
    if not model:
        raise RuntimeError(f"llama.cpp could not load {path}")
    return model


def context_params(context):
    """One thread, an F32 KV cache, flash attention off, batches of up to `context` tokens."""
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = context
    settings.n_threads = settings.n_threads_batch = 1
    settings.type_k = settings.type_v = F32_CACHE
    settings.flash_attn_type = 0  # off
    settings.swa_full = True
    return settings


class LlamaCpp:
    """One model file, one thread, an F32 KV cache, flash attention off, a context of the size asked for."""

    def __init__(self, path, context=128, gpu_layers=0):
        self.context = context
        self.llama = llama_cpp.Llama(
            model_path=str(path),
            n_ctx=context,
            n_batch=context,
            n_ubatch=context,
            n_threads=1,
            n_threads_batch=1,
            n_gpu_layers=gpu_layers,
            logits_all=True,
            flash_attn=False,
            type_k=F32_CACHE,
            type_v=F32_CACHE,
            # -1: the file's own, in the place of the binding's.
            yarn_attn_factor=-1.0,
            yarn_beta_fast=-1.0,
            yarn_beta_slow=-1.0,
            verbose=False,
        )
        self.vocab = llama_cpp.llama_model_get_vocab(self.llama.model)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.llama.close()

    def tokenize(self, text):
        """Token ids with the BOS and EOS that the file asks for; special tokens in the text are parsed."""
        raw = text.encode()
        ids = (llama_cpp.llama_token * (len(raw) + 16))()
        count = llama_cpp.llama_tokenize(self.vocab, raw, len(raw), ids, len(ids), True, True)
        if count < 0:
            raise RuntimeError(f"llama.cpp could not tokenise {text!r}")
        return list(ids[:count])

    def text(self, token):
        """The bytes of one token."""
        buffer = ctypes.create_string_buffer(64)
        count = llama_cpp.llama_token_to_piece(self.vocab, token, buffer, len(buffer), 0, True)
        return buffer.raw[:count]

    def logits(self, tokens):
        """Logits of each position, float32 [tokens, vocabulary], from one batch."""
        self.llama.reset()
        self.llama.eval(tokens)
        return np.array(self.llama.scores[: len(tokens)], dtype=np.float32)

    def greedy(self, tokens, count, never=()):
        """The next `count` tokens, none of `never`."""
        self.llama.reset()
        chosen, fresh = [], tokens
        for _ in range(count):
            self.llama.eval(fresh)
            logits = self.llama.scores[self.llama.n_tokens - 1].copy()
            logits[list(never)] = -np.inf
            chosen.append(int(np.argmax(logits)))
            fresh = chosen[-1:]
        return chosen

    def observe_into(self, tokens, sink):
        """One batch over `tokens`; calls sink(checkpoint, positions, rows [tokens, n]) as each is computed.

        The callback makes llama.cpp compute its graph node by node, so that no two are fused.
        """
        namer = Namer(self.llama.metadata["general.architecture"], self.layers(), len(tokens))
        positions = list(range(len(tokens)))

        def keep(tensor):
            for name, rows in namer.checkpoints(tensor):
                sink(name, positions, rows)

        with Context(self.llama.model, self.llama.context_params, keep) as context:
            context.decode(tokens)
        missing = namer.missing()
        if missing:
            raise RuntimeError(f"llama.cpp's graph has no {', '.join(missing)}")

    def observe_nodes(self, tokens, sink):
        """As observe_into(), but with each node that has a row for each token, under llama.cpp's name."""
        positions = list(range(len(tokens)))

        def keep(tensor):
            rows = tensor.rows(len(tokens))
            if rows is not None:
                sink(tensor.name, positions, rows)

        with Context(self.llama.model, self.llama.context_params, keep) as context:
            context.decode(tokens)

    def observe(self, tokens):
        """Checkpoints of one pass by name, each float32 [tokens, n]."""
        seen = {}
        self.observe_into(tokens, lambda name, _positions, rows: seen.update({name: rows}))
        return seen

    def layers(self):
        return llama_cpp.llama_model_n_layer(self.llama.model)


class Context:
    """A context of its own on a model; each tensor is passed to `keep`, if there is one, when it is computed."""

    def __init__(self, model, params, keep=None):
        self.error = None

        def callback(address, ask, _):
            # An exception must not leave a callback that C calls: it is kept, and raised after the pass.
            if ask or self.error is not None:
                return True
            try:
                keep(ggml.Tensor.from_address(address))
            except Exception as error:
                self.error = error
            return True

        self.callback = llama_cpp.ggml_backend_sched_eval_callback(callback)
        before = params.cb_eval
        if keep is not None:
            params.cb_eval = self.callback
        self.handle = llama_cpp.llama_init_from_model(model, params)
        params.cb_eval = before
        if not self.handle:
            raise RuntimeError("llama.cpp could not make a context")
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        llama_cpp.llama_free(self.handle)

    def decode(self, *sequences, first=0):
        """One batch of sequences, one after the other, each from position `first` on."""
        entries = [(token, first + i, n) for n, tokens in enumerate(sequences) for i, token in enumerate(tokens)]
        batch = llama_cpp.llama_batch_init(len(entries), 0, 1)
        try:
            batch.n_tokens = len(entries)
            for i, (token, position, sequence) in enumerate(entries):
                batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, position, 1, sequence
                batch.logits[i] = True
            status = llama_cpp.llama_decode(self.handle, batch)
        finally:
            llama_cpp.llama_batch_free(batch)
        if self.error is not None:
            raise self.error
        if status != 0:
            raise RuntimeError(f"llama.cpp could not decode {len(entries)} tokens (status {status})")

    def logits(self, count):
        """Those of the last batch, which had `count` tokens: float32 [count, vocabulary]."""
        rows = llama_cpp.llama_get_logits(self.handle)
        return np.ctypeslib.as_array(rows, shape=(count, self.vocabulary)).copy()
