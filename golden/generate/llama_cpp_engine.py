"""llama.cpp through its Python binding: the tokeniser that fixtures use, and a second engine to hold the oracle to."""

import ctypes
import sys

import llama_cpp
import numpy as np

F32_CACHE = 0  # GGML_TYPE_F32
ERROR = 4  # GGML_LOG_LEVEL_ERROR


@llama_cpp.llama_log_callback
def errors_only(level, text, _):
    if level == ERROR:
        sys.stderr.write(text.decode("utf-8", "replace"))


def quiet():
    """Lets llama.cpp say only errors."""
    llama_cpp.llama_log_set(errors_only, ctypes.c_void_p(0))


class LlamaCpp:
    """One model file, one thread, an F32 KV cache, flash attention off, a context of the size asked for."""

    def __init__(self, path, context=128):
        self.llama = llama_cpp.Llama(
            model_path=str(path),
            n_ctx=context,
            n_batch=context,
            n_ubatch=context,
            n_threads=1,
            n_threads_batch=1,
            n_gpu_layers=0,
            logits_all=True,
            flash_attn=False,
            type_k=F32_CACHE,
            type_v=F32_CACHE,
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
