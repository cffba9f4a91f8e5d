"""At which positions of its sequence the rows of one forward pass belong."""

import inspect

import numpy as np

from .writer import LogError

POSITIONS = ("positions", "position_ids", "cache_position")
KEEPS = ("logits_to_keep", "num_logits_to_keep")  # the second: transformers before 4.50


def by_name(forward, args, kwargs):
    """The arguments of a call of `forward`, by name and with their defaults."""
    try:
        bound = inspect.signature(forward).bind(*args, **kwargs)
    except (TypeError, ValueError):  # a call that fails, or a function that does not say what it takes
        return dict(kwargs)
    bound.apply_defaults()
    named = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            named |= value
        else:
            named[name] = value
    return named


def _check_single(tokens, least):
    """Refuses several sequences: tokens with more than `least` dimensions begin with the number of sequences."""
    if tokens is not None and tokens.ndim > least and tokens.shape[0] != 1:
        raise LogError(f"a batch of {tokens.shape[0]} sequences; log one sequence at a time")


def token_positions(args, named):
    """Absolute positions of the tokens of one forward pass, from what a model of transformers or vLLM is called with.

    Explicit positions win; else they follow what the KV cache holds; else they start at 0. named: all arguments by
    name; args: those given by place, of which the first is the tokens where no name says so.
    """
    ids, embeds = named.get("input_ids"), named.get("inputs_embeds")
    _check_single(ids, 1)
    _check_single(embeds, 2)
    for name in POSITIONS:
        given = named.get(name)
        if given is not None:
            _check_single(given, 1)
            return [int(position) for position in given.reshape(-1)]
    if embeds is not None:
        ids = embeds[..., 0]
    elif ids is None and args:
        ids = args[0]
        _check_single(ids, 1)
    if ids is None:
        raise LogError("the model was called without input_ids; give attach() a function `positions(args, kwargs)`")
    cache = named.get("past_key_values")
    first = 0 if cache is None else int(cache.get_seq_length())
    return list(range(first, first + ids.shape[-1]))


def kept_positions(positions, named):
    """Those of `positions` that the call asks logits of: the last of them, or those that a tensor names."""
    keep = next((named[name] for name in KEEPS if named.get(name) is not None), 0)
    if isinstance(keep, int):
        return positions[-keep:]
    keep = keep.reshape(-1).cpu().numpy() if hasattr(keep, "cpu") else keep
    return np.asarray(positions)[keep].tolist()


class Pass:
    """The positions of one forward pass."""

    def __init__(self, positions=(), named=None):
        self._all = list(positions)
        self._kept = kept_positions(self._all, named or {})

    def of(self, name, count):
        """The positions of the `count` rows of the checkpoint `name`."""
        either = (self._kept, self._all) if name == "logits" else (self._all, self._kept)
        found = next((positions for positions in either if len(positions) == count), None)
        if found is None and not self._all:
            raise LogError(f"{name} was computed outside of a call of the model that attach() was given; call that one")
        if found is None:
            raise LogError(
                f"{name} has {count} row{'s' * (count != 1)}, the pass has {len(self._all)} tokens, and logits_to_keep "
                f"keeps {len(self._kept)}: whose rows these are is not known; compute all, say logits_to_keep, or log "
                "them with LogWriter.write"
            )
        if len(set(found)) != count:
            twice = next(position for position in found if found.count(position) > 1)
            raise LogError(
                f"{name} has several rows for position {twice}; log one sequence at a time, without padding, or give "
                "attach() a function `positions(args, kwargs)`"
            )
        return found
