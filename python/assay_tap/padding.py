"""Which rows of a forward pass are padding, by its attention_mask."""

import numpy as np

from .arrays import as_array
from .writer import LogError

OWN = "give attach() a function `positions(args, kwargs)`"
LEAST_VISIBLE = -1e4  # of a mask that is added to scores: 0 where a key is seen, far below elsewhere


def _of_keys(mask, shape, first):
    """A mask [sequences, tokens]: of these tokens alone, or of those in the cache, `first`, before them too.

    Returns which of the pass's tokens are real, and how many real ones are before each in its sequence.
    """
    count, length = shape
    known = np.broadcast_to(mask != 0, (count, mask.shape[1]))
    if known.shape[1] >= first + length:
        before = known[:, : first + length].cumsum(axis=1) - 1
        return known[:, first : first + length], before[:, first:]
    if known.shape[1] == length and known.all():
        return known, first + np.broadcast_to(np.arange(length), shape)
    raise LogError(
        f"the attention_mask is of {mask.shape[1]} tokens, and {first} are in the cache with {length} more: which are "
        f"padding is unknown; give a mask of all, or {OWN}"
    )


def _of_queries(mask, shape, first):
    """A mask [sequences or 1, heads or 1, queries, keys], as transformers prepares it for static caches.

    A real token sees itself, and none after itself: rows that see nothing may have been given all keys. Where there
    is padding, how many real tokens are before each is not known from it.
    """
    count, length = shape
    visible = mask if mask.dtype == bool else mask > LEAST_VISIBLE
    visible = np.broadcast_to(visible[:, 0], (count, *visible.shape[2:]))
    if visible.shape[1] != length or visible.shape[2] < first + length:
        if length == 1:  # a window that moves; a token that is decoded alone is not padding
            return np.ones(shape, bool), np.full(shape, first)
        raise LogError(f"an attention_mask {list(mask.shape)} for {length} tokens after {first}: its columns are unknown; {OWN}")
    token = np.arange(length)
    itself = visible[:, token, first + token]
    later = np.triu(np.ones((length, visible.shape[2]), bool), first + 1)
    real = itself & ~(visible & later).any(axis=2)
    return real, first + np.broadcast_to(token, shape) if real.all() else None


def is_all_ones(mask):
    """Whether it is one of tokens, and none is padding."""
    return getattr(mask, "ndim", 0) == 2 and bool(as_array(mask).all())


def real_tokens(mask, shape, first):
    """Which of a pass's tokens [sequences, tokens] are real, and how many real ones are before each; else (None, None).

    The second is None where it is not known. first: how many tokens the cache holds.
    """
    if isinstance(mask, dict):  # one for each kind of layer
        held = [each for each in (mask.get("full_attention"), *mask.values()) if each is not None]
        mask = held[0] if held else None
    if mask is None:
        return None, None
    if not hasattr(mask, "detach") and not isinstance(mask, (np.ndarray, list)):
        raise LogError(f"which tokens are padding is unknown from a {type(mask).__name__}; {OWN}")
    mask = as_array(mask)
    if mask.ndim not in (2, 4) or mask.shape[0] not in (1, shape[0]):
        raise LogError(f"an attention_mask {list(mask.shape)} for {shape[0]} sequences of {shape[1]} tokens; {OWN}")
    return (_of_keys if mask.ndim == 2 else _of_queries)(mask, shape, first)
