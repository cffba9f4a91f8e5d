"""llama.cpp's logits of a model file without a vocabulary, for which its Python class is not made."""

import llama_cpp

from ..llamacpp_engine import Context, context_params, load, quiet

CONTEXT = 640  # more than any prompt


def logits(path, tokens):
    """float32 [tokens, vocabulary] of one batch, with one thread and an F32 cache."""
    quiet()
    model = load(path)
    try:
        with Context(model, context_params(CONTEXT)) as context:
            context.decode(tokens)
            return context.logits(len(tokens))
    finally:
        llama_cpp.llama_model_free(model)
