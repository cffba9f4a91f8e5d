"""llama.cpp's logits of a model file without a vocabulary, for which its Python class is not made."""

import llama_cpp
import numpy as np

from ..llamacpp_engine import F32_CACHE, quiet

CONTEXT = 640  # more than any prompt


def logits(path, tokens):
    """float32 [tokens, vocabulary] of one batch, with one thread and an F32 cache."""
    quiet()
    settings = llama_cpp.llama_model_default_params()
    settings.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), settings)
    if not model:
        raise RuntimeError(f"llama.cpp could not load {path}")
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = CONTEXT
    settings.n_threads = settings.n_threads_batch = 1
    settings.type_k = settings.type_v = F32_CACHE
    settings.flash_attn_type = 0  # off
    settings.swa_full = True
    handle = llama_cpp.llama_init_from_model(model, settings)
    if not handle:
        raise RuntimeError(f"llama.cpp could not make a context for {path}")
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    try:
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, i, 1, 0
            batch.logits[i] = True
        if llama_cpp.llama_decode(handle, batch) != 0:
            raise RuntimeError(f"llama.cpp could not decode {len(tokens)} tokens of {path}")
        size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
        rows = np.ctypeslib.as_array(llama_cpp.llama_get_logits(handle), shape=(len(tokens), size))
        return rows.copy()
    finally:
        llama_cpp.llama_batch_free(batch)
        llama_cpp.llama_free(handle)
        llama_cpp.llama_model_free(model)
