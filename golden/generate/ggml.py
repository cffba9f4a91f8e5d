"""The part of a ggml tensor that an evaluation callback needs: its name, its op, its sources and its values."""

import ctypes
from pathlib import Path

import llama_cpp
import numpy as np

LIBRARY = ctypes.CDLL(str(next((Path(llama_cpp.__file__).parent / "lib").glob("libggml-base.so"))))
F32 = 0  # GGML_TYPE_F32
TYPES = {F32: np.float32, 26: np.int32}  # and GGML_TYPE_I32
DIMS, SOURCES, NAME, OP_PARAMS = 4, 10, 64, 64


class Struct(ctypes.Structure):
    """struct ggml_tensor of ggml.h, up to its name."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("ne", ctypes.c_int64 * DIMS),
        ("nb", ctypes.c_size_t * DIMS),
        ("op", ctypes.c_int),
        ("op_params", ctypes.c_int32 * (OP_PARAMS // 4)),
        ("flags", ctypes.c_int32),
        ("src", ctypes.c_void_p * SOURCES),
        ("view_src", ctypes.c_void_p),
        ("view_offs", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
        ("name", ctypes.c_char * NAME),
    ]


LIBRARY.ggml_op_desc.restype = ctypes.c_char_p
LIBRARY.ggml_op_desc.argtypes = [ctypes.c_void_p]
LIBRARY.ggml_get_name.restype = ctypes.c_char_p
LIBRARY.ggml_get_name.argtypes = [ctypes.c_void_p]
LIBRARY.ggml_nbytes.restype = ctypes.c_size_t
LIBRARY.ggml_nbytes.argtypes = [ctypes.c_void_p]
LIBRARY.ggml_backend_tensor_get.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]


class Tensor:
    def __init__(self, address):
        self.address = address
        self.struct = Struct.from_address(address)
        name = LIBRARY.ggml_get_name(address)
        if self.struct.name != name:
            raise RuntimeError("this llama.cpp lays its tensors out differently: see ggml.h and generate/ggml.py")
        self.name = name.decode()
        self.op = LIBRARY.ggml_op_desc(address).decode()

    @classmethod
    def from_address(cls, address):
        return cls(address)

    @property
    def shape(self):
        """Fastest dimension first, as ggml counts."""
        return tuple(self.struct.ne)

    def source(self, index):
        address = self.struct.src[index]
        return Tensor(address) if address else None

    def rows(self, tokens):
        """[tokens, n], whether or not a row has heads or experts; None if the slowest dimension is no token."""
        _, width, depth, rest = self.shape
        is_by_token = tokens == 1 or (rest == 1 and (depth if depth > 1 else width) == tokens)
        return self.values().reshape(tokens, -1) if is_by_token and self.struct.type in TYPES else None

    def values(self):
        """Slowest dimension first; a view is copied out by its strides, from whatever device holds it."""
        if self.struct.type not in TYPES:
            raise RuntimeError(f"{self.name} is of ggml type {self.struct.type}, not float32 or int32")
        raw = np.empty(LIBRARY.ggml_nbytes(self.address), dtype=np.uint8)
        LIBRARY.ggml_backend_tensor_get(self.address, raw.ctypes.data, 0, raw.nbytes)
        strided = np.lib.stride_tricks.as_strided(
            raw.view(TYPES[self.struct.type]), tuple(self.struct.ne)[::-1], tuple(self.struct.nb)[::-1]
        )
        return np.ascontiguousarray(strided)
