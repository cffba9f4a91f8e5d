"""Writes tests/data/dequant/: raw blocks of each tensor type, and the float32 values that the `gguf` package reads.

For each type there is `<TYPE>.bin`, the blocks as stored in a model file, and `<TYPE>.f32`, the expected values,
little-endian. Run as `python -m generate.dequant_vectors` from golden/.
"""

import hashlib
from pathlib import Path

import gguf
import numpy as np

OUT = Path(__file__).resolve().parents[2] / "tests" / "data" / "dequant"
BLOCKS = 16
PLAIN_VALUES = 512

# Byte offsets of the float16 scales and minimums in a block; all other bytes are random, since each pattern is legal.
# IQ1_M has its float16 in four parts, MXFP4 and NVFP4 have none.
HALF_OFFSETS = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ1_S": [0],
    "IQ1_M": [],
    "IQ2_XXS": [0],
    "IQ2_XS": [0],
    "IQ2_S": [0],
    "IQ3_XXS": [0],
    "IQ3_S": [0],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
    "TQ1_0": [52],
    "TQ2_0": [64],
    "MXFP4": [],
    "NVFP4": [],
}

# Zero of both signs, the least and the greatest subnormal, the least normal, the greatest finite, and one.
EXTREME_HALVES = [0x0000, 0x8000, 0x0001, 0x03FF, 0x8001, 0x0400, 0x7BFF, 0xFBFF, 0x3C00]


# Of the types with tables: how many entries there are, and how many of them a block names.
CODEBOOKS = {
    "IQ1_S": (2048, 32), "IQ2_XXS": (256, 32), "IQ2_XS": (512, 32), "IQ2_S": (1024, 32), "IQ3_XXS": (256, 64),
    "IQ3_S": (512, 64),
}  # fmt: skip


def random_halves(rng, count):
    """Scales of the size that real models have, of both signs, as float16 bits."""
    return rng.normal(0.0, 0.02, count).astype(np.float16).view(np.uint16)


def name_entries(name, block, first):
    """Lets the block name the entries from `first` on. All have the same bits above the lowest eight."""
    low = np.arange(first, first + CODEBOOKS[name][1]) & 0xFF
    high = first >> 8
    if name == "IQ2_XXS":
        block[2:].reshape(8, 8)[:, :4] = low.reshape(8, 4)
    elif name == "IQ2_XS":
        block[2:66:2] = low
        block[3:67:2] = block[3:67:2] & 0xFE | high
    else:
        block[2 : 2 + len(low)] = low
    if name == "IQ1_S":
        groups = block[34:].view("<u2")
        groups[:] = groups & 0xF000 | high * 0o1111
    elif name in ("IQ2_S", "IQ3_S"):
        block[66:74] = high * (0x55 if name == "IQ2_S" else 0xFF)


def quant_blocks(name, rng):
    """Blocks with random contents: the first nine pass through the extreme scales, the rest have ordinary ones. Of the
    types with tables more of them follow, which name every entry."""
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
    entries, named = CODEBOOKS.get(name, (0, 1))
    count = BLOCKS + entries // named
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    blocks[BLOCKS - 1] = 0xFF  # every field at its greatest; the scales are set below
    blocks[BLOCKS - 2] = 0x00
    for order, offset in enumerate(HALF_OFFSETS[name]):
        halves = random_halves(rng, count)
        extreme = np.roll(np.array(EXTREME_HALVES, dtype=np.uint16), 2 * order)
        halves[: len(extreme)] = extreme
        blocks[:, offset : offset + 2] = halves.astype("<u2").view(np.uint8).reshape(count, 2)
    if name == "IQ1_M":
        set_parted_halves(blocks, np.concatenate([EXTREME_HALVES, random_halves(rng, count - len(EXTREME_HALVES))]))
    if name == "MXFP4":  # the least and the greatest exponents, of which no product overflows, then ordinary ones
        blocks[:, 0] = np.concatenate([[0, 1, 2, 3, 251, 252], rng.integers(115, 126, count - 6)])
    for number in range(count - BLOCKS):
        name_entries(name, blocks[BLOCKS + number], number * named)
    return blocks


def set_parted_halves(blocks, halves):
    """IQ1_M: the float16 stands in the upper four bits of four numbers of 16."""
    for part in range(4):
        byte = 49 + 2 * part
        blocks[:, byte] = blocks[:, byte] & 0x0F | (halves >> 4 * part & 0xF) << 4


def plain_values(name, rng):
    """Every bit pattern is equally likely, without infinities and NaN, after the corner cases."""
    bits, exponent = {"F32": (32, 0x7F800000), "F16": (16, 0x7C00), "BF16": (16, 0x7F80)}[name]
    kind = np.dtype(f"<u{bits // 8}")
    sign = 1 << (bits - 1)
    corners = [0, sign, 1, sign | 1, exponent - 1, (sign | exponent) - 1]
    drawn = rng.integers(0, 1 << bits, 2 * PLAIN_VALUES, dtype=np.uint64)
    finite = [value for value in drawn.tolist() if value & exponent != exponent]
    return np.array((corners + finite)[:PLAIN_VALUES], dtype=kind).view(np.uint8)


def expected(name, raw):
    kind = gguf.GGMLQuantizationType[name]
    if name == "F32":
        return raw.reshape(-1).view("<f4")
    if name == "F16":
        return gguf.quants.dequantize(raw.reshape(-1).view("<f2"), kind).reshape(-1)
    return gguf.quants.dequantize(raw.reshape(1, -1), kind).reshape(-1)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(["F32", "F16", "BF16", *HALF_OFFSETS]):
        rng = np.random.default_rng(1000 + seed)
        raw = quant_blocks(name, rng) if name in HALF_OFFSETS else plain_values(name, rng)
        with np.errstate(all="raise", under="ignore"):
            values = expected(name, raw).astype("<f4")
        if not np.isfinite(values).all():
            raise SystemExit(f"{name}: the expected values hold infinities or NaN")
        (OUT / f"{name}.bin").write_bytes(raw.tobytes())
        (OUT / f"{name}.f32").write_bytes(values.tobytes())
        print(f"{name}: {raw.size} bytes, {values.size} values, {hashlib.sha256(values.tobytes()).hexdigest()[:16]}")


if __name__ == "__main__":
    main()
