"""Keeps a transformers model in float64 throughout, whatever steps its source computes in float32."""

from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

WIDER = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64}
WIDER |= {torch.complex64: torch.complex128}


def _widen(value):
    return WIDER.get(value, value) if isinstance(value, torch.dtype) else value


class _Doubles(TorchFunctionMode):
    """Replaces float32 as an argument of any function of torch by float64, and Tensor.float() by Tensor.double()."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        args, kwargs = tree_map(_widen, (args, kwargs or {}))
        return function(*args, **kwargs)


class NarrowTensors(TorchDispatchMode):
    """Lists the operators that made a tensor of float32 or narrower within it; `found` stays empty in float64."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if any(isinstance(leaf, torch.Tensor) and leaf.dtype in WIDER for leaf in tree_leaves(made)):
            self.found.add(str(function))
        return made


@contextmanager
def doubles():
    """Within it, models are made and run in float64: angles, norms, softmax, routers, caps and buffers too."""
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), _Doubles():
            yield
    finally:
        torch.set_default_dtype(previous)
