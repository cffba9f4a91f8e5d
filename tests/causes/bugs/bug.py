"""One bug of a public issue tracker, and how to make it in a copy of transformers' model."""

import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from unittest import mock

from generate.families import FAMILIES


@dataclass(frozen=True)
class Bug:
    name: str
    kind: str
    issues: str  # project#number of each that had it
    what: str  # what the engine computed
    family: str  # of golden/generate/families/, which is the model
    ops: str | None  # the cause that a log of all ops shows, with the model file; None: none is named
    at: str  # the checkpoint where that log diverges first
    logits: str | None  # the cause that the logits alone show
    config: dict = field(default_factory=dict)  # that the engine takes for the model's
    weights: Callable = lambda state: None  # what it makes of the weights {name: tensor}, in place
    patch: Callable = lambda model: nullcontext()  # a context within which the model computes wrongly
    prompt: str = "short"
    after: int = 0  # tokens that are evaluated one by one after the prompt
    fed: Callable = list  # the tokens that the engine makes of the prompt's
    passes: bool = False  # too small for the built-in policy: it is held to a golden's floors
    hint: str = ""  # in what is said where no cause is named
    logits_pass: bool = False  # the logits are what they should be


def family_of(name):
    return next(family for family in FAMILIES if family.name == name)


def module_of(model):
    return sys.modules[type(model).__module__]


@contextmanager
def replaced(space, name, make):
    """Within it, `name` of a module or object is make(what it was)."""
    with mock.patch.object(space, name, make(getattr(space, name))):
        yield


def attention(wrong):
    """A patch: wrong(right, module, query, key, value, mask, **settings) in place of the attention."""
    return lambda model: replaced(module_of(model), "eager_attention_forward", lambda right: partial(wrong, right))


def rotation(wrong):
    """A patch: wrong(right, q, k, cos, sin) in place of the function that rotates."""
    return lambda model: replaced(module_of(model), "apply_rotary_pos_emb", lambda right: partial(wrong, right))


def each_module(kind, wrong):
    """A patch: wrong(right, module, ...) in place of forward() of all modules whose class's name ends with `kind`."""

    @contextmanager
    def patch(model):
        with ExitStack() as stack:
            found = [module for module in model.modules() if type(module).__name__.endswith(kind)]
            if not found:
                raise LookupError(f"no module is a {kind}")
            for module in found:
                stack.enter_context(replaced(module, "forward", lambda right, at=module: partial(wrong, right, at)))
            yield

    return patch


def named_modules(ends, wrong):
    """The same of all modules whose path ends with one of `ends`."""

    @contextmanager
    def patch(model):
        with ExitStack() as stack:
            found = [module for path, module in model.named_modules() if path.endswith(ends)]
            if not found:
                raise LookupError(f"no module is called {ends}")
            for module in found:
                stack.enter_context(replaced(module, "forward", lambda right, at=module: partial(wrong, right, at)))
            yield

    return patch
