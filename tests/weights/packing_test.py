"""Blocks that are packed wrongly are named, where encoder and mistake are written here alone: packing_test.py ASSAY.

The encoders are those of no program: the scale of a block is that of its largest weight, codes are the nearest. Exit
code 77: gguf or numpy is not installed.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from functools import partial
from pathlib import Path

try:
    import gguf
    import numpy as np
    from gguf import GGMLQuantizationType as Type
except ImportError:
    gguf = None

MODEL = Path(__file__).resolve().parents[2] / "golden/llama3/llama3-f32.gguf"
TENSOR = "blk.1.ffn_down.weight"  # rows of whole blocks of 256
SKIPPED = 77

UNEVEN = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
FLOATS = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
NF4 = [-1, -0.696, -0.525, -0.395, -0.284, -0.185, -0.091, 0, 0.08, 0.161, 0.246, 0.338, 0.441, 0.563, 0.723, 1]


def quotients(x, scale):
    return np.divide(x, scale, out=np.zeros_like(x), where=scale != 0)


def largest(blocks):
    """The weight of each block that is largest, with its sign."""
    return np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)


def nearest(values, x):
    return np.abs(np.asarray(values) - x[..., None]).argmin(-1)


def rounded(x, zero):
    return np.clip(np.rint(x) + zero, 0, 2 * zero - 1).astype(np.int64)


def halves(scales):
    return scales.astype(np.float16).view(np.uint8)


def nibbles(codes):
    """The low four bits, those of the first half of the elements in the low half of each byte."""
    first, second = np.split(codes & 15, 2, -1)
    return (first | second << 4).astype(np.uint8)


def q4_0(rows, code=rounded):
    blocks = rows.reshape(len(rows), -1, 32)
    scale = (largest(blocks) / -8).astype(np.float16).astype(np.float64)
    codes = code(quotients(blocks, scale), 8)
    return np.concatenate([halves(scale), nibbles(codes)], -1)


def q5_0(rows, code=rounded, high=lambda codes: codes >> 4):
    blocks = rows.reshape(len(rows), -1, 32)
    scale = (largest(blocks) / -16).astype(np.float16).astype(np.float64)
    codes = code(quotients(blocks, scale), 16)
    bits = np.packbits(high(codes).astype(np.uint8), -1, bitorder="little")
    return np.concatenate([halves(scale), bits, nibbles(codes)], -1)


def q6_k_high(codes):
    """Two bits each: byte i has those of the elements i, i + 32, i + 64 and i + 96 of a half of the block."""
    parts = (codes >> 4).reshape(*codes.shape[:2], 2, 4, 32)
    return sum(parts[:, :, :, i] << 2 * i for i in range(4)).reshape(*codes.shape[:2], 64)


def q6_k_low(codes):
    parts = (codes & 15).reshape(*codes.shape[:2], 2, 2, 64)
    return (parts[:, :, :, 0] | parts[:, :, :, 1] << 4).reshape(*codes.shape[:2], 128)


def q6_k(rows, code=rounded, low=q6_k_low, high=q6_k_high):
    parts = rows.reshape(len(rows), -1, 16, 16)
    wanted = largest(parts)[..., 0] / -32
    scale = (np.abs(wanted).max(-1, keepdims=True) / 127).astype(np.float16).astype(np.float64)
    of_parts = np.rint(quotients(wanted, scale)).astype(np.int64)
    codes = code(quotients(parts, (scale * of_parts)[..., None]), 32).reshape(len(rows), -1, 256)
    fields = [low(codes), high(codes), of_parts.astype(np.int8).view(np.uint8)]
    return np.concatenate([field.astype(np.uint8) for field in fields] + [halves(scale)], -1)


def iq4_nl(rows, table=UNEVEN):
    """Codes of `table`, whose largest value the scale makes the largest weight."""
    blocks = rows.reshape(len(rows), -1, 32)
    scale = (largest(blocks) / max(table, key=abs)).astype(np.float16).astype(np.float64)
    return np.concatenate([halves(scale), nibbles(nearest(table, quotients(blocks, scale)))], -1)


def iq4_xs(rows, table=UNEVEN):
    parts = rows.reshape(len(rows), -1, 8, 32)
    wanted = largest(parts)[..., 0] / max(table, key=abs)
    scale = (np.abs(wanted).max(-1, keepdims=True) / 31).astype(np.float16).astype(np.float64)
    of_parts = np.rint(quotients(wanted, scale)).astype(np.int64)
    codes = nibbles(nearest(table, quotients(parts, (scale * of_parts)[..., None]))).reshape(len(rows), -1, 128)
    six = of_parts + 32
    high = sum((six[..., i] >> 4).astype(np.uint16) << 2 * i for i in range(8))[..., None].view(np.uint8)
    low = ((six[..., ::2] & 15) | (six[..., 1::2] & 15) << 4).astype(np.uint8)
    return np.concatenate([halves(scale), high, low, codes], -1)


def mxfp4(rows, table=FLOATS):
    blocks = rows.reshape(len(rows), -1, 32)
    exponent = np.floor(np.log2(np.abs(largest(blocks)))) - 2
    codes = nearest(table, blocks / 2.0**exponent)
    return np.concatenate([(exponent + 127).astype(np.uint8), nibbles(codes)], -1)


def with_sign(x, zero):
    return (np.clip(np.rint(x), -zero, zero - 1)).astype(np.int64) & (2 * zero - 1)


def without_offset(x, zero):
    return np.clip(np.rint(x), 0, 2 * zero - 1).astype(np.int64)


def one_low(x, zero):
    return np.clip(np.rint(x) + zero - 1, 0, 2 * zero - 1).astype(np.int64)


def rounded_down(x, zero):
    return np.clip(np.floor(x) + zero, 0, 2 * zero - 1).astype(np.int64)


def towards_zero(x, zero):
    return np.clip(np.trunc(x) + zero, 0, 2 * zero - 1).astype(np.int64)


def high_of_neighbours(codes):
    """Two bits each: byte i has those of the elements 4 i to 4 i + 3."""
    fours = (codes >> 4).reshape(*codes.shape[:2], 64, 4)
    return sum(fours[..., i] << 2 * i for i in range(4))


def swapped_halves(high):
    return lambda codes: np.roll(high(codes), high(codes).shape[-1] // 2, -1)


def turned(codes):
    high = q6_k_high(codes)
    return sum((high >> 2 * i & 3) << (6 - 2 * i) for i in range(4))


def low_of_neighbours(codes):
    return (codes[..., ::2] & 15) | (codes[..., 1::2] & 15) << 4


# Type, encoder, and words that its tensor must be named with; none where it is right.
CASES = [] if gguf is None else [
    (Type.Q4_0, q4_0, None),
    (Type.Q4_0, partial(q4_0, code=with_sign), "codes with a sign"),
    (Type.Q4_0, partial(q4_0, code=without_offset), "without the 8 that is added"),
    (Type.Q4_0, partial(q4_0, code=one_low), "one too low"),
    (Type.Q4_0, partial(q4_0, code=rounded_down), "rounded down"),
    (Type.Q4_0, partial(q4_0, code=towards_zero), "cut off towards zero"),
    (Type.Q5_0, q5_0, None),
    (Type.Q5_0, partial(q5_0, code=with_sign), "codes with a sign"),
    (Type.Q5_0, partial(q5_0, code=without_offset), "without the 16 that is added"),
    (Type.Q5_0, partial(q5_0, high=lambda codes: (codes >> 4)[..., ::-1]), "high bits of the codes in the reverse"),
    (Type.Q5_0, partial(q5_0, high=swapped_halves(lambda codes: codes >> 4)), "at the other half"),
    (Type.Q6_K, q6_k, None),
    (Type.Q6_K, partial(q6_k, code=with_sign), "codes with a sign"),
    (Type.Q6_K, partial(q6_k, code=without_offset), "without the 32 that is added"),
    (Type.Q6_K, partial(q6_k, code=one_low), "one too low"),
    (Type.Q6_K, partial(q6_k, high=lambda codes: 0 * q6_k_high(codes)), "lacks the high bits"),
    (Type.Q6_K, partial(q6_k, high=high_of_neighbours), "high bits of neighbours in one byte"),
    (Type.Q6_K, partial(q6_k, high=swapped_halves(q6_k_high)), "at the other half"),
    (Type.Q6_K, partial(q6_k, high=turned), "high bits of each byte in the other order"),
    (Type.Q6_K, partial(q6_k, low=low_of_neighbours), "codes of neighbours in one byte"),
    (Type.IQ4_NL, iq4_nl, None),
    (Type.IQ4_NL, partial(iq4_nl, table=range(-8, 8)), "the bytes of Q4_0"),
    (Type.IQ4_NL, partial(iq4_nl, table=FLOATS), "floats of MXFP4"),
    (Type.IQ4_NL, partial(iq4_nl, table=NF4), "table of NF4"),
    (Type.IQ4_NL, partial(iq4_nl, table=UNEVEN[::-1]), "reverse order"),
    (Type.IQ4_XS, iq4_xs, None),
    (Type.IQ4_XS, partial(iq4_xs, table=range(-8, 8)), "equal steps"),
    (Type.IQ4_XS, partial(iq4_xs, table=NF4), "table of NF4"),
    (Type.MXFP4, mxfp4, None),
    (Type.MXFP4, partial(mxfp4, table=[*range(8), *range(-8, 0)]), "whole numbers with a sign"),
    (Type.MXFP4, partial(mxfp4, table=[v / 127 * 6 for v in UNEVEN]), "table of IQ4_NL"),
]


def copy_with(reader, path, packed, kind):
    """The model with one tensor's blocks in the place of its floats."""
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            of = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(key, field.contents(), field.types[0], of)
    for tensor in reader.tensors:
        if tensor.name == TENSOR:
            writer.add_tensor(tensor.name, packed, raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, np.array(tensor.data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Packing(unittest.TestCase):
    def test_each_mistake_is_named_and_a_right_file_passes(self):
        reader = gguf.GGUFReader(MODEL)
        floats = next(tensor for tensor in reader.tensors if tensor.name == TENSOR)
        rows = np.array(floats.data, dtype=np.float64)
        with tempfile.TemporaryDirectory() as folder:
            for i, (kind, encode, words) in enumerate(CASES):
                path = Path(folder) / f"{i}.gguf"
                copy_with(reader, path, encode(rows).reshape(len(rows), -1), kind)
                run = subprocess.run(
                    [ASSAY, "weights", MODEL, path, "--json"], capture_output=True, text=True, check=False
                )
                with self.subTest(kind=kind.name, words=words):
                    self.assertEqual(run.returncode, 1 if words else 0, run.stdout + run.stderr)
                    tensors = {tensor["tensor"]: tensor for tensor in json.loads(run.stdout)["tensors"]}
                    self.assertIn(words or "", tensors[TENSOR].get("reason") or "")


if __name__ == "__main__":
    if gguf is None:
        print("gguf or numpy is not installed")
        sys.exit(SKIPPED)
    ASSAY = sys.argv.pop(1)
    unittest.main()
