"""The positions, in its sequence, of the rows of one forward pass."""

import inspect

import numpy as np

from .arrays import as_array
from .writer import LogError

CACHES = ("past_key_values", "cache_params", "state")  # the last two: Mamba, RWKV
POSITIONS = ("positions", "position_ids", "cache_position")
KEEPS = ("logits_to_keep", "num_logits_to_keep")  # the second: transformers before 4.50
TOKENS = (("inputs_embeds", 2), ("input_ids", 1))  # and their dimensions, without that of several sequences
OWN = "give attach() a function `positions(args, kwargs)`"


def by_name(forward, args, kwargs):
    """The arguments of a call of `forward`, by name and with their defaults."""
    try:
        bound = inspect.signature(forward).bind(*args, **kwargs)
    except (TypeError, ValueError):  # a call that fails, or a function without a signature
        return dict(kwargs)
    bound.apply_defaults()
    named = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            named |= value
        else:
            named[name] = value
    return named


def _whole_numbers(values):
    """Any sequence of numbers as a flat list of int."""
    return [int(value) for value in as_array(values if hasattr(values, "shape") else list(values)).reshape(-1).tolist()]


def _single(tokens, least):
    """The shape of `tokens`, a tensor, an array or a list, without the number of sequences, which must be 1.

    That number comes first where there are more than `least` dimensions.
    """
    try:
        shape = tuple(tokens.shape) if hasattr(tokens, "shape") else np.shape(tokens)
    except (TypeError, ValueError):  # a list of non-numbers, or of lists of different lengths
        shape = ()
    if len(shape) < least:
        raise LogError(f"the model was called with a {type(tokens).__name__} where tokens are expected; {OWN}")
    if len(shape) > least and shape[0] != 1:
        raise LogError(f"a batch of {shape[0]} sequences; log one sequence at a time")
    return shape[-least:]


def _cached_tokens(name, cache):
    """How many tokens a cache holds: one of transformers, or a tuple with the keys [1, heads, tokens, n] first."""
    if cache is None:
        return 0
    try:
        if hasattr(cache, "get_seq_length"):
            return int(cache.get_seq_length())
        shape = cache[0][0].shape
    except (TypeError, LookupError, AttributeError):
        shape = ()
    except ValueError:  # no layer of the cache counts tokens
        if not cache.has_previous_state():
            return 0
        shape = ()
    if len(shape) != 4:
        raise LogError(f"how many tokens {name}, a {type(cache).__name__}, holds is unknown; {OWN}")
    return shape[-2]


def token_positions(args, named):
    """Absolute positions of the tokens of one forward pass, from the arguments of a transformers or vLLM model.

    Explicit positions win; else they follow what the KV cache holds; else they start at 0. named: all arguments by
    name; args: those given by place, of which the first is the tokens where no name says so.
    """
    shapes = [_single(named[name], least) for name, least in TOKENS if named.get(name) is not None]
    given = next((named[name] for name in POSITIONS if named.get(name) is not None), None)
    if given is not None:
        _single(given, 1)
        return _whole_numbers(given)
    if not shapes and not args:
        raise LogError(f"the model was called without input_ids; {OWN}")
    count = (shapes[0] if shapes else _single(args[0], 1))[0]
    first = max(_cached_tokens(name, named.get(name)) for name in CACHES)
    return list(range(first, first + count))


def kept_positions(positions, named):
    """The `positions` whose logits the call asks for: the last of them, or those that a tensor names."""
    keep = next((named[name] for name in KEEPS if named.get(name) is not None), 0)
    if isinstance(keep, int):
        return positions[-keep:]
    keep = keep.reshape(-1).cpu().numpy() if hasattr(keep, "cpu") else keep
    return np.asarray(positions)[keep].tolist()


def _is_of_logits(checkpoint):
    """Whether logits_to_keep applies to the rows of this checkpoint; None if its name does not show it."""
    if checkpoint == "logits":
        return True
    return False if checkpoint in ("embedding", "final_norm") or checkpoint.startswith("layer_") else None


class Pass:
    """The positions of one forward pass of `forward`; without it, of none.

    They are read at once, as the pass then fills the KV cache that determines them. What is wrong with the call is
    raised only with a record of it: a pass that logs nothing cannot fail because of it.

    own: a function (args, kwargs) that gives the positions in place of token_positions.
    """

    def __init__(self, forward=None, args=(), kwargs=None, own=None):
        self._all, self._kept, self._fault = [], [], None
        self._open, self._over = forward is not None, False
        self._told = set()  # the names of its checkpoints so far
        if forward is None:
            return
        try:
            named = by_name(forward, args, kwargs)
            self._all = _whole_numbers(own(args, kwargs)) if own else token_positions(args, named)
            self._kept = kept_positions(self._all, named)
        except Exception as error:
            self._fault = error

    def end(self):
        """From now on only the row of its last token may still come, as vLLM computes logits after its pass."""
        self._open, self._over = False, self._open

    def of(self, name, count, last=False):
        """The positions of the `count` rows of the checkpoint `name`; last: a row alone is that of the last token."""
        if not (self._open or (self._over and last and count == 1)):
            raise LogError(
                f"{name} was computed outside of a call of the model that attach() was given; call that one, or give "
                "its Rule rows='last' where it is the last token's row, computed right after the call"
            )
        if self._fault is not None:
            raise self._fault
        if last and name in self._told:
            raise LogError(f"{name}, of a Rule with rows='last', was computed twice for one call of the model")
        self._told.add(name)
        of_logits = _is_of_logits(name)
        either = (self._kept, self._all) if of_logits else (self._all, self._kept)
        found = [positions for positions in either if len(positions) == count]
        if not found and last and count == 1 and self._all:
            self._check_once(name, self._all)
            return self._all[-1:]
        if not found:
            raise LogError(
                f"{name} has {count} row{'s' * (count != 1)}, the pass has {len(self._all)} tokens, and logits_to_keep "
                f"keeps {len(self._kept)}: whose rows these are is not known; compute all, say logits_to_keep, give "
                "its Rule rows='last' where it is the last token's, or log them with LogWriter.write"
            )
        if of_logits is None and found[0] != found[-1]:
            raise LogError(
                f"{name} has as many rows as there are tokens, and logits_to_keep names them in another order: it is "
                "not known which is theirs; call the checkpoint `logits`, or ask for logits in the tokens' order"
            )
        self._check_once(name, found[0])
        return found[0]

    def _check_once(self, name, positions):
        if len(set(positions)) != len(positions):
            twice = next(position for position in positions if positions.count(position) > 1)
            raise LogError(
                f"{name} has several rows for position {twice}; log one sequence at a time, without padding, or {OWN}"
            )
