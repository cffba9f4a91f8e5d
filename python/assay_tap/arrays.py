"""What an engine computed, as numpy arrays."""

import numpy as np


def as_array(values, dtype=None):
    """values as numpy. A tensor of PyTorch may be on any device; float types that numpy lacks become float32."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if values.is_floating_point() and str(values.dtype) != "torch.float64":
            values = values.float()
        values = values.numpy()
    return np.asarray(values, dtype=dtype)


def as_rows(tensor):
    """tensor [..., n] as numpy [tokens, n]; types narrower than float32 are widened to it."""
    rows = as_array(tensor)
    return rows.reshape(-1, rows.shape[-1])
