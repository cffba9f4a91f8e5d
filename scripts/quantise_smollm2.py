#!/usr/bin/env python3
"""Makes SmolLM2-135M-Instruct Q4_K_M of the Q4_1 file in a folder: quantise_smollm2.py FOLDER

What llama.cpp's quantiser makes of Q4_1 by way of F32 (golden/generate/smollm2.py), without the minutes that llama.cpp
takes to build: the same choice of types, the same arithmetic in float32 in the same order (ggml/src/ggml-quants.c,
src/llama-quant.cpp), and so the same bytes, which the SHA-256 of golden/smollm2/manifest.json says. Needs numpy.
Prints the file's path; a second call finds it.
"""

import hashlib
import json
import pathlib
import re
import struct
import sys

import numpy as np

MANIFEST = pathlib.Path(__file__).resolve().parents[1] / "golden" / "smollm2" / "manifest.json"
SOURCE = "SmolLM2-135M-Instruct.Q4_1.gguf"
ALIGNMENT = 32
F32, Q4_1, Q5_0, Q8_0, Q4_K, Q6_K = 0, 3, 6, 8, 12, 14  # as GGUF numbers them
Q4_K_M = 15  # general.file_type
N_LAYERS = 30
BATCH = 1 << 14  # blocks of 256 at once
f32 = np.float32


class QuantiseError(Exception):
    """What went wrong, in one line for the user."""


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


class Reader:
    """A GGUF file's metadata as bytes, and its tensors."""

    SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    STRING, ARRAY = 8, 9

    def __init__(self, path):
        self.data = np.memmap(path, np.uint8, "r")
        self.at = 8
        n_tensors, n_keys = self.take("<QQ")
        self.keys = dict(self.key() for _ in range(n_keys))
        self.tensors = [self.tensor() for _ in range(n_tensors)]
        self.begin = -(-self.at // ALIGNMENT) * ALIGNMENT

    def take(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def string(self):
        (length,) = self.take("<Q")
        self.at += length
        return bytes(self.data[self.at - length : self.at])

    def skip(self, kind):
        if kind == self.STRING:
            self.string()
        elif kind == self.ARRAY:
            item, count = self.take("<IQ")
            if item == self.STRING:
                for _ in range(count):
                    self.string()
            else:
                self.at += self.SIZES[item] * count
        else:
            self.at += self.SIZES[kind]

    def key(self):
        """Its name, and its type and value as stored in the file."""
        name = self.string()
        begin = self.at
        (kind,) = self.take("<I")
        self.skip(kind)
        return name, bytes(self.data[begin : self.at])

    def tensor(self):
        name = self.string().decode()
        (rank,) = self.take("<I")
        dims = self.take(f"<{rank}Q")
        kind, offset = self.take("<IQ")
        return name, dims, kind, offset

    def values(self, dims, kind, offset):
        """The tensor as float32."""
        count = int(np.prod(dims))
        block = {F32: 4, Q4_1: 20, Q8_0: 34}[kind]
        length = count * 4 if kind == F32 else count // 32 * block
        raw = self.data[self.begin + offset : self.begin + offset + length]
        if kind == F32:
            return raw.view(f32)
        raw = raw.reshape(-1, block)
        scale = raw[:, :2].copy().view(np.float16).astype(f32)
        if kind == Q8_0:
            return (raw[:, 2:].view(np.int8).astype(f32) * scale).reshape(-1)
        low = raw[:, 2:4].copy().view(np.float16).astype(f32)
        codes = np.concatenate([raw[:, 4:] & 15, raw[:, 4:] >> 4], axis=1).astype(f32)
        return (codes * scale + low).reshape(-1)


def nearest(x):
    return np.rint(x)  # halves to even, as ggml's nearest_int()


def inverse(x):
    return np.divide(f32(1), x, out=np.zeros_like(x), where=x != 0)


def half(x):
    return x.astype(np.float16)


def signed_peak(x):
    """The first element of the largest magnitude in each row."""
    return np.take_along_axis(x, np.argmax(np.abs(x), axis=1)[:, None], axis=1)


def q8_0(x):
    x = x.reshape(-1, 32)
    scale = np.abs(x).max(axis=1, keepdims=True) / f32(127)
    scaled = x * inverse(scale)
    codes = np.trunc(np.abs(scaled) + f32(0.5)) * np.sign(scaled)  # halves away from zero
    # roundf() of what is just below a half is 0, where the sum above rounds up to 1.
    codes = np.where(np.abs(scaled) == np.nextafter(f32(0.5), f32(0)), 0, codes)
    return np.concatenate([half(scale).view(np.uint8), codes.astype(np.int8).view(np.uint8)], axis=1)


def q5_0(x):
    x = x.reshape(-1, 32)
    scale = signed_peak(x) / f32(-16)
    codes = np.minimum(31, (x * inverse(scale) + f32(16.5)).astype(np.int8)).astype(np.uint32)
    high = ((codes >> 4) << np.arange(32, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
    low = (codes[:, :16] & 15) | ((codes[:, 16:] & 15) << 4)
    return np.concatenate([half(scale).view(np.uint8), high[:, None].view(np.uint8), low.astype(np.uint8)], axis=1)


def add_in_order(terms):
    """The sum over each row, one element after the other."""
    total = np.zeros(len(terms), f32)
    for column in terms.T:
        total = total + column
    return total


def affine_fit(x, steps=20, most=15):
    """ggml's make_qkx2_quants() of rows of 32: codes, scales, and minima with their sign turned."""
    weights = np.sqrt(add_in_order(x * x) / f32(32))[:, None] + np.abs(x)
    low, high = x.min(axis=1), x.max(axis=1)
    low = np.minimum(low, f32(0))
    flat = high == low
    width = np.where(flat, f32(1), high - low)
    sum_w, sum_x = add_in_order(weights), add_in_order(weights * x)

    def codes_of(factor):
        return np.clip(nearest(factor[:, None] * (x - low[:, None])), 0, most).astype(f32)

    def error_of(codes, scale, offset):
        off = scale[:, None] * codes + offset[:, None] - x
        return add_in_order(weights * (off * off))

    factor = f32(most) / width
    scale, offset = f32(1) / factor, low.copy()
    codes = codes_of(factor)
    best = error_of(codes, scale, offset)
    for step in range(steps + 1):
        trial = codes_of((f32(-1) + f32(0.1) * f32(step) + f32(most)) / width)
        weighted = weights * trial
        sum_l, sum_l2, sum_xl = map(add_in_order, (weighted, weighted * trial, weighted * x))
        determinant = sum_w * sum_l2 - sum_l * sum_l
        fits = determinant > 0
        safe = np.where(fits, determinant, f32(1))
        this_scale = (sum_w * sum_xl - sum_x * sum_l) / safe
        this_offset = (sum_l2 * sum_x - sum_l * sum_xl) / safe
        above = this_offset > 0
        this_scale = np.where(above, sum_xl / np.where(sum_l2 > 0, sum_l2, f32(1)), this_scale)
        this_offset = np.where(above, f32(0), this_offset)
        error = error_of(trial, this_scale, this_offset)
        better = fits & (error < best)
        codes[better] = trial[better]
        best = np.where(better, error, best)
        scale, offset = np.where(better, this_scale, scale), np.where(better, this_offset, offset)
    codes[flat], scale[flat] = 0, 0
    offset[flat] = low[flat]
    return codes, scale, -offset


def q4_k(x):
    x = x.reshape(-1, 32)
    codes, scales, minima = affine_fit(x)
    scales, minima = scales.reshape(-1, 8), minima.reshape(-1, 8)
    top_scale = np.maximum(scales.max(axis=1, keepdims=True), f32(0))
    top_minimum = np.maximum(minima.max(axis=1, keepdims=True), f32(0))

    def six_bits(numbers, top):
        factor = np.divide(f32(63), top, out=np.zeros_like(top), where=top > 0)
        return np.minimum(63, nearest(factor * numbers).astype(np.int32).astype(np.uint8))

    s, m = six_bits(scales, top_scale), six_bits(minima, top_minimum)
    d, dmin = half(top_scale / f32(63)), half(top_minimum / f32(63))
    step = (d.astype(f32) * s.astype(f32)).reshape(-1, 1)
    base = (dmin.astype(f32) * m.astype(f32)).reshape(-1, 1)
    again = np.clip(nearest((x + base) / np.where(step == 0, f32(1), step)), 0, 15)
    codes = np.where(step == 0, codes, again).astype(np.uint8).reshape(-1, 4, 2, 32)
    packed = np.concatenate(
        [s[:, :4] | (s[:, 4:] >> 4 << 6), m[:, :4] | (m[:, 4:] >> 4 << 6), (s[:, 4:] & 15) | ((m[:, 4:] & 15) << 4)],
        axis=1,
    )
    low = (codes[:, :, 0] | (codes[:, :, 1] << 4)).reshape(-1, 128)
    return np.concatenate([d.view(np.uint8), dmin.view(np.uint8), packed, low], axis=1)


def symmetric_fit(x, most=32):
    """ggml's make_qx_quants() of rows of 16, the squares of the elements their weights: codes from 0, and scales."""
    peak = signed_peak(x)[:, 0]
    zero = np.abs(peak) < f32(1e-15)
    peak = np.where(zero, f32(1), peak)
    weights = x * x

    def trial(factor):
        codes = np.clip(nearest(factor[:, None] * x), -most, most - 1).astype(f32)
        return codes, add_in_order(weights * x * codes), add_in_order(weights * codes * codes)

    codes, sum_lx, sum_l2 = trial(f32(-most) / peak)
    scale = np.where(sum_l2 != 0, sum_lx / np.where(sum_l2 != 0, sum_l2, f32(1)), f32(0))
    best = scale * sum_lx
    for step in (*range(-9, 0), *range(1, 10)):
        other, sum_lx, sum_l2 = trial(-(f32(most) + f32(0.1) * f32(step)) / peak)
        better = (sum_l2 > 0) & (sum_lx * sum_lx > best * sum_l2)
        codes[better] = other[better]
        scale = np.where(better, sum_lx / np.where(better, sum_l2, f32(1)), scale)
        best = np.where(better, scale * sum_lx, best)
    codes[zero], scale[zero] = -most, 0
    return codes + most, scale


def q6_k(x):
    x = x.reshape(-1, 16)
    codes, scales = symmetric_fit(x)
    scales = scales.reshape(-1, 16)
    top = signed_peak(scales)
    if (np.abs(top) < 1e-15).any():
        raise QuantiseError("a block of zeros, which these weights do not have")
    factor = f32(-128) / top
    d = half(f32(1) / factor)
    s = np.minimum(127, nearest(factor * scales)).astype(np.int8)
    step = (d.astype(f32) * s.astype(f32)).reshape(-1, 1)
    again = np.clip(nearest(x / np.where(step == 0, f32(1), step)), -32, 31) + 32
    codes = np.where(step == 0, codes, again).astype(np.uint8).reshape(-1, 2, 4, 32)
    low, high = codes & 15, codes >> 4
    ql = np.concatenate([low[:, :, 0] | (low[:, :, 2] << 4), low[:, :, 1] | (low[:, :, 3] << 4)], axis=2)
    qh = high[:, :, 0] | (high[:, :, 1] << 2) | (high[:, :, 2] << 4) | (high[:, :, 3] << 6)
    return np.concatenate([ql.reshape(-1, 128), qh.reshape(-1, 64), s.view(np.uint8), d.view(np.uint8)], axis=1)


QUANTISE = {Q8_0: (q8_0, 34, 32), Q5_0: (q5_0, 22, 32), Q4_K: (q4_k, 144, 256), Q6_K: (q6_k, 210, 256)}


def layer_of(name):
    found = re.match(r"blk\.(\d+)\.", name)
    return int(found[1]) if found else -1


def type_of(name, dims):
    """llama.cpp's choice for Q4_K_M; rows that are no multiple of 256 fall back to blocks of 32."""
    if len(dims) == 1:
        return F32
    layer, eighth = layer_of(name), N_LAYERS // 8
    more_bits = layer < eighth or layer >= 7 * N_LAYERS // 8 or (layer - eighth) % 3 == 2
    best = name == "token_embd.weight" or (more_bits and re.search(r"attn_v|ffn_down", name))
    return {(True, True): Q6_K, (True, False): Q8_0, (False, True): Q4_K, (False, False): Q5_0}[
        bool(best), dims[0] % 256 == 0
    ]


def packed(values, kind):
    if kind == F32:
        yield values.tobytes()
        return
    quantise = QUANTISE[kind][0]
    for begin in range(0, len(values), 256 * BATCH):
        yield quantise(values[begin : begin + 256 * BATCH]).tobytes()


def padded(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def write(source, file):
    keys = {name: value for name, value in source.keys.items() if name not in LAST}
    keys |= LAST
    tensors = sorted(source.tensors, key=lambda tensor: (layer_of(tensor[0]), tensor[0]))
    head = [struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))]
    head += [struct.pack("<Q", len(name)) + name + value for name, value in keys.items()]
    offset = 0
    for name, dims, _, _ in tensors:
        kind = type_of(name, dims)
        count = int(np.prod(dims))
        size = 4 * count if kind == F32 else count // QUANTISE[kind][2] * QUANTISE[kind][1]
        head.append(struct.pack("<Q", len(name)) + name.encode())
        head.append(struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset))
        offset += padded(size)
    head = b"".join(head)
    file.write(head.ljust(padded(len(head)), b"\0"))
    for name, dims, kind, at in tensors:
        for part in packed(source.values(dims, kind, at), type_of(name, dims)):
            file.write(part)
        file.write(bytes(padded(file.tell()) - file.tell()))


# The keys that describe the quantisation, after all other keys.
LAST = {b"general.quantization_version": struct.pack("<II", 4, 2), b"general.file_type": struct.pack("<II", 4, Q4_K_M)}


def main():
    if len(sys.argv) != 2:
        print("usage: quantise_smollm2.py FOLDER", file=sys.stderr)
        sys.exit(2)
    folder = pathlib.Path(sys.argv[1])
    entry = next(file for file in json.loads(MANIFEST.read_text())["files"] if file["type"] == "Q4_K_M")
    target = folder / entry["gguf"]
    if not (target.exists() and sha256_of(target) == entry["sha256"]):
        print(f"making {target.name}", file=sys.stderr)
        part = target.with_name(target.name + ".part")
        try:
            with open(part, "wb") as file:
                write(Reader(folder / SOURCE), file)
            if sha256_of(part) != entry["sha256"]:
                raise QuantiseError(f"{target.name}: made another file than {MANIFEST} states")
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    print(target)


if __name__ == "__main__":
    try:
        main()
    except (QuantiseError, OSError) as error:
        sys.exit(f"quantise_smollm2.py: {error}")
