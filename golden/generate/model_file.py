"""The contents of a GGUF file: its metadata as plain values, and its tensors dequantised by the `gguf` package."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import gguf
import numpy as np


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@dataclass
class ModelFile:
    path: Path

    @cached_property
    def reader(self):
        return gguf.GGUFReader(self.path)

    @cached_property
    def sha256(self):
        return sha256(self.path)

    @cached_property
    def tensor_types(self):
        return {tensor.name: tensor.tensor_type.name for tensor in self.reader.tensors}

    def get(self, key, default=None):
        """The value of a metadata key; `{arch}` in the key is replaced by the architecture."""
        field = self.reader.get_field(key.replace("{arch}", self.arch) if "{arch}" in key else key)
        return default if field is None else field.contents()

    @cached_property
    def arch(self):
        return self.get("general.architecture")

    @cached_property
    def name(self):
        return self.get("general.name")

    @cached_property
    def type_name(self):
        """The file's type from general.file_type, such as Q4_K_M; empty if there is none."""
        kind = self.get("general.file_type")
        try:
            return "" if kind is None else gguf.LlamaFileType(kind).name.removeprefix("MOSTLY_").removeprefix("ALL_")
        except ValueError:
            return ""

    @cached_property
    def padding_ids(self):
        """Rows of the vocabulary that no text maps to: computed, never chosen."""
        types = self.get("tokenizer.ggml.token_type", [])
        return [i for i, kind in enumerate(types) if kind == gguf.TokenType.UNUSED]

    @cached_property
    def control_ids(self):
        """Tokens that are not text; those that end a sequence or a turn are among them."""
        types = self.get("tokenizer.ggml.token_type", [])
        return {i for i, kind in enumerate(types) if kind == gguf.TokenType.CONTROL}

    def tensors(self):
        """Each tensor by name as float64, rows first: the float32 values that dequantisation gives, exactly."""
        return {
            tensor.name: np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float64)
            for tensor in self.reader.tensors
        }


@dataclass(frozen=True)
class Hyperparameters:
    """Sizes and constants by their names in the field; floats are the float32 values of the file, widened exactly."""

    arch: str
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    vocab: int
    eps: float
    rope_base: float | None
    window: int | None
    original_context: int | None
    attn_factor: float


def hyperparameters(model, vocab_rows):
    hidden, heads = model.get("{arch}.embedding_length"), model.get("{arch}.attention.head_count")
    norm = "layer_norm_epsilon" if model.arch == "gpt2" else "layer_norm_rms_epsilon"
    head_dim = model.get("{arch}.attention.key_length", hidden // heads)
    return Hyperparameters(
        arch=model.arch,
        hidden=hidden,
        ffn=model.get("{arch}.feed_forward_length"),
        layers=model.get("{arch}.block_count"),
        heads=heads,
        kv_heads=model.get("{arch}.attention.head_count_kv", heads),
        head_dim=head_dim,
        context=model.get("{arch}.context_length"),
        vocab=vocab_rows,
        eps=float(model.get(f"{{arch}}.attention.{norm}")),
        rope_base=None if model.arch == "gpt2" else float(model.get("{arch}.rope.freq_base", 10000.0)),
        window=model.get("{arch}.attention.sliding_window") or None,
        original_context=model.get("{arch}.rope.scaling.original_context_length"),
        attn_factor=float(model.get("{arch}.rope.scaling.attn_factor", 1.0)),
    )


def rotary_frequencies(tensors, params, length):
    """Angle per position of each rotary pair, float64 [head_dim / 2], after the file's frequency factors.

    `rope_freqs` divides the frequencies of all sequences; the long or short factors divide them by whether the
    sequence of `length` tokens fits into the original context.
    """
    frequency = params.rope_base ** (-np.arange(0, params.head_dim, 2, dtype=np.float64) / params.head_dim)
    if "rope_freqs.weight" in tensors:
        return frequency / tensors["rope_freqs.weight"]
    if "rope_factors_long.weight" in tensors:
        fits = length <= (params.original_context or params.context)
        return frequency / tensors["rope_factors_short.weight" if fits else "rope_factors_long.weight"]
    return frequency
