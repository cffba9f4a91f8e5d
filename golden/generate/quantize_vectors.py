"""Writes tests/data/quantize/ and tests/data/synth/type_mix.txt: the vectors for the tests of Assay's quantiser.

`input.f32` is 4,608 values, little-endian: four distributions and blocks at the edge of what blocks can hold.
`<TYPE>.bin` are the blocks that the `gguf` package makes of them, for each type that it can make, or llama.cpp (NVFP4);
`errors.txt` is the relative L2 error of llama.cpp's own k-quants and IQ4 types over each distribution, read back by the
`gguf` package. `type_mix.txt` lists for each config in tests/data/synth/ and each mix the matrices to which llama.cpp's
quantiser gives another type than the mix's own. Run as `python -m generate.quantize_vectors ASSAY_PROGRAM` from
golden/.
"""

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp
import numpy as np

from . import llamacpp_engine

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
COUNT = 1024
FORMULA_TYPES = ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4", "TQ1_0", "TQ2_0")
LLAMACPP_TYPES = ("NVFP4",)  # that have one formula, too, and no encoder in the package
SEARCHED_TYPES = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS")
MIXES = {
    "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12,
    "Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "BF16": 32,
}  # fmt: skip


def distributions():
    rng = np.random.default_rng(5151)
    return {
        "normal": rng.normal(0.0, 0.03, COUNT),
        "student": rng.standard_t(4, COUNT) * 0.02,
        "offset": rng.normal(0.05, 0.02, COUNT),
        "uniform": rng.uniform(-1.0, 1.0, COUNT),
    }


def edges():
    """Two blocks of 256: each sub-block of 32 is a case of its own."""
    rng = np.random.default_rng(1515)
    cases = [
        np.zeros(32),
        np.full(32, 0.25),
        np.full(32, -0.25),
        np.eye(1, 32, 7)[0] * 3.0,
        -np.eye(1, 32, 31)[0] * 3.0,
        np.abs(rng.normal(0.0, 1.0, 32)),
        -np.abs(rng.normal(0.0, 1.0, 32)),
        np.tile([1.0, -1.0], 16),
        rng.normal(0.0, 1e-4, 32),
        rng.normal(0.0, 1e-7, 32),
        rng.normal(0.0, 1000.0, 32),
        np.linspace(-8.0, 7.0, 32),
        np.linspace(0.0, 15.0, 32),
        np.repeat([0.5, -0.5], 16),
        np.arange(-16.0, 16.0),
        rng.normal(0.0, 1.0, 32),
    ]
    return np.concatenate(cases)


def dequantise(raw, name):
    kind = gguf.GGMLQuantizationType[name]
    return gguf.quants.dequantize(raw.reshape(1, -1), kind).reshape(-1).astype(np.float64)


def ggml_quantise(values, name):
    """llama.cpp's own quantiser, rows of 256, no importance matrix."""
    base = ctypes.CDLL(str(Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"))
    function = base.ggml_quantize_chunk
    function.restype = ctypes.c_size_t
    function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + 3 * [ctypes.c_int64] + [ctypes.c_void_p]
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    out = np.zeros(len(values) // block * size, np.uint8)
    function(int(kind), values.ctypes.data, out.ctypes.data, 0, len(values) // 256, 256, None)
    return out


def write_blocks():
    parts = distributions()
    folder = DATA / "quantize"
    folder.mkdir(parents=True, exist_ok=True)
    values = np.concatenate([*parts.values(), edges()]).astype("<f4")
    (folder / "input.f32").write_bytes(values.tobytes())
    for name in FORMULA_TYPES:
        blocks = gguf.quants.quantize(values.reshape(-1, 256), gguf.GGMLQuantizationType[name])
        (folder / f"{name}.bin").write_bytes(blocks.tobytes())
    for name in LLAMACPP_TYPES:
        (folder / f"{name}.bin").write_bytes(ggml_quantise(values, name).tobytes())
    lines = []
    for name in SEARCHED_TYPES:
        for number, part in enumerate(parts):
            x = values[number * COUNT : (number + 1) * COUNT]
            error = np.linalg.norm(dequantise(ggml_quantise(x, name), name) - x) / np.linalg.norm(x.astype(np.float64))
            lines.append(f"{name} {part} {error:.6g}")
    (folder / "errors.txt").write_text("\n".join(lines) + "\n")


def quantised_types(source, number, folder):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread = number, 1
    target = folder / "quantised.gguf"
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), params) != 0:
        return None  # a network that it does not load
    return {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(target).tensors}


def write_type_mix(assay):
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        for config in sorted((DATA / "synth").glob("*.json")):
            source = Path(temporary) / f"{config.stem}.gguf"
            subprocess.run([assay, "synth", config, "-o", source, "--type", "F32"], check=True, capture_output=True)
            for mix, number in MIXES.items():
                base = mix if mix in gguf.GGMLQuantizationType.__members__ else mix[:4]
                types = quantised_types(source, number, Path(temporary))
                if types is None:
                    print(f"llama.cpp does not quantise {config.stem}", file=sys.stderr)
                    break
                others = {name: kind for name, kind in types.items() if kind not in (base, "F32")}
                lines += [f"{config.stem} {mix} {name} {kind}" for name, kind in others.items()]
                lines.append(f"{config.stem} {mix} - {len(types)}")
    (DATA / "synth" / "type_mix.txt").write_text("\n".join(lines) + "\n")


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m generate.quantize_vectors ASSAY_PROGRAM")
    llamacpp_engine.quiet()
    write_blocks()
    write_type_mix(sys.argv[1])


if __name__ == "__main__":
    main()
