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
}

# Zero of both signs, the least and the greatest subnormal, the least normal, the greatest finite, and one.
EXTREME_HALVES = [0x0000, 0x8000, 0x0001, 0x03FF, 0x8001, 0x0400, 0x7BFF, 0xFBFF, 0x3C00]


def random_halves(rng, count):
    """Scales of the size that real models have, of both signs, as float16 bits."""
    return rng.normal(0.0, 0.02, count).astype(np.float16).view(np.uint16)


def quant_blocks(name, rng):
    """Blocks with random contents: the first nine pass through the extreme scales, the rest have ordinary ones."""
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
    blocks = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    blocks[-1] = 0xFF  # every field at its greatest; the scales are set below
    blocks[-2] = 0x00
    for order, offset in enumerate(HALF_OFFSETS[name]):
        halves = random_halves(rng, BLOCKS)
        extreme = np.roll(np.array(EXTREME_HALVES, dtype=np.uint16), 2 * order)
        halves[: len(extreme)] = extreme
        blocks[:, offset : offset + 2] = halves.astype("<u2").view(np.uint8).reshape(BLOCKS, 2)
    return blocks


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
