"""What a quantised file of a family holds, under transformers' names."""

import tempfile
from functools import cache
from pathlib import Path

import gguf
import numpy as np
import torch

from . import oracle
from .convert import convert


@cache
def places(family):
    """{tensor of the file: [elements], which weight each is}.

    llama.cpp's converter itself shows it: it is given a model whose weights are their own numbers, exact in float32.
    """
    model = oracle.made(family)
    total = sum(tensor.numel() for tensor in model.parameters())
    numbers = torch.arange(total, dtype=torch.float32)
    torch.nn.utils.vector_to_parameters(numbers, model.parameters())
    with tempfile.TemporaryDirectory() as scratch:
        model.save_pretrained(Path(scratch) / "hf")
        path = Path(scratch) / "numbers.gguf"
        convert(Path(scratch) / "hf", path, "none", published=family.published)
        found = {tensor.name: tensor.data.astype(np.int64).ravel() for tensor in gguf.GGUFReader(path).tensors}
    if total > 2**24 or not np.array_equal(np.sort(np.concatenate([*found.values()])), np.arange(total)):
        raise RuntimeError(f"{family.name}: the converter does more than to move weights")
    return found


def model_of(family, file):
    """The family's model in float32 over the dequantised tensors of `file`, which are float32 values."""
    model, tensors = oracle.made(family), file.tensors()
    values = np.empty(sum(tensor.numel() for tensor in model.parameters()), dtype=np.float32)
    for name, numbers in places(family).items():
        values[numbers] = tensors[name].ravel()
    torch.nn.utils.vector_to_parameters(torch.from_numpy(values), model.parameters())
    return model
