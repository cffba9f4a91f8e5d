"""Models that torch.compile runs: hooks are left out of compiled code, without a word."""

import sys

from .writer import LogError


def refuse_wrapper(model):
    """Raises LogError if `model` is what torch.compile returns: hooks would be of that, and not of the model."""
    if hasattr(model, "_orig_mod"):
        raise LogError(
            f"{type(model._orig_mod).__name__} is compiled by torch.compile; attach to the model that it holds, _orig_mod, "
            "and call that one"
        )


def _is_compiled(part):
    """Whether a module, or its forward() alone, runs by torch.compile: the latter leaves out hooks of its parts."""
    is_wrapped = hasattr(part.forward, "_torchdynamo_orig_callable")  # compiled, or kept from being it
    is_kept = getattr(part.forward, "_torchdynamo_disable", False)
    return part._compiled_call_impl is not None or is_wrapped and not is_kept and any(True for _ in part.children())


def refuse_compiled(model):
    """Raises LogError if `model` is called by compiled code, or has compiled parts. For a pass that is beginning."""
    compiler = sys.modules.get("torch._dynamo.eval_frame")  # not there before something is compiled
    if compiler is None or getattr(getattr(compiler, "_stance", None), "stance", "") == "force_eager":
        return
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "compile_wrapper":
        frame = frame.f_back
    if frame is not None or any(map(_is_compiled, model.modules())):
        raise LogError(
            f"{type(model).__name__} runs by torch.compile, which leaves out hooks; call it within "
            "torch.compiler.set_stance('force_eager'), or call the model that is not compiled"
        )


def is_recomputing():
    """Whether this is the backward pass, which computes again what checkpointing of gradients did not keep."""
    import torch

    return torch._C._current_graph_task_id() != -1
