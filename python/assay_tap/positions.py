"""The positions, in their sequences, of the rows of one forward pass."""

import inspect
from dataclasses import dataclass

import numpy as np

from .arrays import as_array
from .padding import OWN, is_all_ones, real_tokens
from .writer import LogError

CACHES = ("past_key_values", "cache_params", "state")  # the last two: Mamba, RWKV
POSITIONS = ("positions", "position_ids", "cache_position")
KEEPS = ("logits_to_keep", "num_logits_to_keep")  # the second: transformers before 4.50
TOKENS = (("inputs_embeds", 2), ("input_ids", 1))  # and their dimensions, without that of the sequences


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


def _shape(tokens, least):
    """How many sequences, and how many tokens of each, `tokens` is of: a tensor, an array or a list.

    Its first dimension is that of the sequences where there are more than `least` dimensions.
    """
    try:
        shape = tuple(tokens.shape) if hasattr(tokens, "shape") else np.shape(tokens)
    except (TypeError, ValueError):  # a list of non-numbers, or of lists of different lengths
        shape = ()
    if not least <= len(shape) <= least + 1:
        raise LogError(f"the model was called with a {type(tokens).__name__} where tokens are expected; {OWN}")
    return (shape[0] if len(shape) > least else 1), shape[-least]


def _rows(numbers):
    """Numbers of tokens, flat or [sequences, tokens], as lists of int."""
    rows = as_array(numbers if hasattr(numbers, "shape") else list(numbers))
    if rows.ndim > 2:
        raise LogError(f"positions of {rows.ndim} dimensions; {OWN}")
    return [[int(number) for number in row] for row in np.atleast_2d(rows).tolist()]


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

    A list for each sequence, with None where the attention_mask says that a token is padding. Explicit positions win;
    else they follow what the KV cache holds, without padding; else they start at 0. named: all arguments by name; args:
    those given by place, of which the first is the tokens where no name says so.
    """
    shapes = [_shape(named[name], least) for name, least in TOKENS if named.get(name) is not None]
    given = next((named[name] for name in POSITIONS if named.get(name) is not None), None)
    if not shapes and given is None and not args:
        raise LogError(f"the model was called without input_ids; {OWN}")
    if not shapes:
        shapes = [_shape(args[0] if given is None else given, 1)]
    shape, mask = shapes[0], named.get("attention_mask")
    mask = None if is_all_ones(mask) else mask
    first = 0 if given is not None and mask is None else cached_tokens(named)
    real, before = real_tokens(mask, shape, first)
    if given is not None:
        rows = _rows(given)
        if len(rows) not in (1, shape[0]) or len(rows[0]) != shape[1]:
            raise LogError(f"{len(rows[0])} positions for {shape[0]} sequences of {shape[1]} tokens; {OWN}")
        rows = rows * shape[0] if len(rows) == 1 else rows
    elif real is None:
        rows = [list(range(first, first + shape[1]))] * shape[0]
    elif before is None:
        raise LogError(f"the attention_mask has padding, and no position_ids say which positions the others have; {OWN}")
    else:
        rows = before.tolist()
    if real is None:
        return rows
    return [[at if own else None for at, own in zip(*each, strict=True)] for each in zip(rows, real, strict=True)]


def kept_positions(positions, named):
    """Of a sequence, the `positions` whose logits the call asks for: the last, or those that a tensor names."""
    keep = next((named[name] for name in KEEPS if named.get(name) is not None), 0)
    if isinstance(keep, int):
        return positions[-keep:]
    keep = keep.reshape(-1).cpu().numpy() if hasattr(keep, "cpu") else keep
    return np.array(positions, dtype=object)[keep].tolist()


def _is_of_logits(checkpoint):
    """Whether logits_to_keep applies to the rows of this checkpoint; None if its name does not show it."""
    if checkpoint == "logits":
        return True
    return False if checkpoint in ("embedding", "final_norm") or checkpoint.startswith("layer_") else None


def cached_tokens(named):
    return max(_cached_tokens(name, named.get(name)) for name in CACHES)


@dataclass(frozen=True)
class Place:
    """Where a row of a checkpoint belongs."""

    row: int  # of the batch
    position: int | None  # None: padding


class Pass:
    """The positions of one forward pass of `forward`; without it, of none.

    They are read at once, as the pass then fills the KV cache that determines them. What is wrong with the call is
    raised only with a record of it: a pass that logs nothing cannot fail because of it.

    own: a function (args, kwargs) that gives the positions in place of token_positions; below 0 they are padding.
    """

    def __init__(self, forward=None, args=(), kwargs=None, own=None):
        self.rows = []  # the positions of each sequence
        self.tokens = None  # the ids of each, with padding; None if they are not known
        self.named = {}
        self._all, self._kept, self._last, self._fault = [], [], [], None
        self._open, self._over = forward is not None, False
        self._told = set()  # the names of its checkpoints so far
        if forward is None:
            return
        try:
            self.named = by_name(forward, args, kwargs)
            if own:
                self.rows = [[None if at < 0 else at for at in row] for row in _rows(own(args, kwargs))]
            else:
                self.rows = token_positions(args, self.named)
            self.tokens = _ids(self.named.get("input_ids", args[0] if args else None), self.rows)
            self._all = _places(self.rows)
            self._kept = _places([kept_positions(row, self.named) for row in self.rows])
            self._last = _places([row[-1:] for row in self.rows])
        except Exception as error:
            self._fault = error

    def real_tokens(self):
        """The ids of each sequence without padding; None if they are not known."""
        if self.tokens is None:
            return None
        pairs = (zip(ids, row, strict=True) for ids, row in zip(self.tokens, self.rows, strict=True))
        return [[token for token, position in each if position is not None] for each in pairs]

    def drop(self, row):
        """Nothing of the sequence `row` is logged from now on."""
        self.rows[row] = [None] * len(self.rows[row])
        for places in (self._all, self._kept, self._last):
            places[:] = [Place(row, None) if place.row == row else place for place in places]

    def fail(self, fault):
        """What is wrong with the call, to be raised with a record of it, unless something else is already."""
        self._fault = self._fault or fault

    def end(self):
        """From now on only the rows of its last tokens may still come, as vLLM computes logits after its pass."""
        self._open, self._over = False, self._open

    def of(self, name, count, last=False):
        """The places of the `count` rows of the checkpoint `name`; last: one row a sequence is that of its last token."""
        if not (self._open or (self._over and last and count == len(self.rows))):
            raise LogError(
                f"{name} was computed outside of a call of the model that attach() was given; call that one, or give "
                "its Rule rows='last' where it is the last token's row, computed right after the call"
            )
        if self._fault is not None:
            raise self._fault
        if name in self._told:  # for some of the same tokens, as all places are of them
            who = f"{name}, of a Rule with rows='last'," if last else name
            raise LogError(
                f"{who} was computed twice for one call of the model, as by a module that several layers share: of two "
                "results one would stand at the places of the other; log them with LogWriter.write"
            )
        self._told.add(name)
        of_logits = _is_of_logits(name)
        either = (self._kept, self._all) if of_logits else (self._all, self._kept)
        found = [places for places in either if len(places) == count]
        if not found and last and count == len(self._last):
            self._check_once(name, self._all)
            return self._last
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

    def _check_once(self, name, places):
        seen = set()
        for place in places:
            if place in seen:
                raise LogError(
                    f"{name} has several rows for position {place.position} of one sequence; log sequences as rows of "
                    f"a batch, with an attention_mask where they have padding, or {OWN}"
                )
            if place.position is not None:
                seen.add(place)


def _ids(tokens, rows):
    """Token ids as a list for each of `rows`; None if they are not that."""
    try:
        ids = as_array(tokens)
    except (TypeError, ValueError):
        return None
    if ids.dtype.kind not in "iu" or not rows or ids.size != sum(map(len, rows)):
        return None
    return ids.reshape(len(rows), -1).tolist()


def _places(rows):
    return [Place(row, position) for row, positions in enumerate(rows) for position in positions]
