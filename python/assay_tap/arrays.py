"""What an engine computed, as numpy arrays."""

import numpy as np


def as_array(values):
    """values as numpy. A tensor of PyTorch may be on any device; float types that numpy lacks become float32.

    Of one that is distributed, this process's part.
    """
    if hasattr(values, "to_local"):  # a DTensor
        values = values.to_local()
    if hasattr(values, "trigger_wait"):  # the result of a collective that may not have ended
        values = values.trigger_wait()
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        kind = str(values.dtype)
        if kind == "torch.bfloat16":  # the upper half of a float32
            import torch

            return (values.contiguous().view(torch.int16).numpy().astype(np.int32) << 16).view(np.float32)
        if kind.startswith("torch.float8"):
            values = values.float()
        values = values.numpy()
    return np.asarray(values)


def as_rows(tensor):
    """tensor [..., n] as numpy [tokens, n]; float types that numpy lacks become float32."""
    rows = as_array(tensor)
    return rows.reshape(-1, rows.shape[-1])


def type_name(values):
    """The type of the elements of a tensor or an array, as logs name it: f32, bf16, f64, i32 …; f32 of a list."""
    name = str(getattr(values, "dtype", "float32")).removeprefix("torch.")
    return name.replace("float", "f").replace("uint", "u").replace("int", "i")
