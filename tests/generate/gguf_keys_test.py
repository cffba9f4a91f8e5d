"""Keys of a GGUF file mean what they mean to llama.cpp. Needs llama-cpp-python and gguf; skips without.

    gguf_keys_test.py --assay ASSAY    # each key changed, left out, added, of another type: the logits of both
"""

import argparse
import ctypes
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path

MISSING = [name for name in ("llama_cpp", "gguf", "numpy") if find_spec(name) is None]
SKIPPED = 77
GONE = object()
TOKENS = [3, 17, 99, 4, 55, 120, 7, 7, 31, 64, 2, 90, 11, 76, 5, 101, 23, 88, 42, 19]
FAR = 2e-5  # both compute in float32
FAR_BY_TABLE = 1e-3  # llama.cpp looks GELU up in a table of float16 values
GOLDEN = Path(__file__).resolve().parents[2] / "golden"

if not MISSING:
    import gguf
    import llama_cpp
    import numpy as np
    from gguf import GGUFValueType as Type

    sys.path[:0] = [str(GOLDEN), str(GOLDEN.parent / "python")]
    from generate.llamacpp_engine import Context, context_params, load, quiet

MODELS = (
    "llama3 mixtral qwen2.5 qwen3 qwen3moe phi2 phi3 olmo2 olmo3 olmoe granite granitemoe gpt2 gptneox starcoder "
    "starcoder2 stablelm command-r-plus cohere2 falcon nemotron arcee smollm3 exaone xverse exaone4 gemma2 gemma3 ernie4_5 seed_oss hunyuan-dense glm4 "
    "glm4moe dots1 minimax-m2 ernie4_5-moe qwen2moe gpt-oss deepseek2 deepseek3 lfm2 lfm2moe mistral3 minicpm apertus qwen35 "
    "qwen35moe qwen3next gemma4 gemma4-moe gemma4-ple granitehybrid nemotron_h mamba2 nemotron_h_moe falcon-h1 exaone-moe hunyuan-moe "
    "llama4 mpt"
).split()
GELU = {"mpt", "gemma2", "gemma3", "gemma4", "gemma4-moe", "gemma4-ple", "gpt2", "gptneox", "phi2", "starcoder", "starcoder2", "falcon"}
# What llama.cpp computes otherwise than is published stands in the way of all else.
WITHOUT = {
    "llama4": ["attention.sliding_window", "attention.temperature_scale", "attention.temperature_length"],
    "phi3": ["attention.sliding_window"],
    "exaone4": ["attention.sliding_window", "attention.sliding_window_pattern"],
    "gpt-oss": ["rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length"],
}
# llama.cpp has it in the lengths of queries and keys of linear attention, too, where it is this.
EPSILON = {"qwen35": 1e-6, "qwen35moe": 1e-6, "qwen3next": 1e-6}
NOT_SAVED = {"apertus"}  # by llama.cpp
WITHOUT_TENSORS = {"command-r": re.compile(r"attn_[qk]_norm")}

# Where llama.cpp leaves out what a key says, or computes something else than is published: patterns of the
# architecture and the change, and why. docs/conform.md has those that its converter can lead to.
OTHERWISE = [
    (r".*", r"yarn_(ext_factor|attn_factor|beta_fast|beta_slow)", "llama.cpp reads it for other architectures"),
    (r"gemma[23]", r"attention\.scale", "llama.cpp scales by the width of heads"),
    (r"gemma3|gemma4(-moe|-ple)?", r"attn_logit_softcapping", "llama.cpp has no such cap in Gemma 3 and 4"),
    (r"gemma2", r"logit_softcapping=0\.0", "llama.cpp divides by it"),
    (r"gemma4(-moe|-ple)?", r"final_logit_softcapping=left out", "llama.cpp caps at 30 what its converter writes no cap of"),
    (r"gemma2|gpt-oss|llama4", r"scaling\.type=none.*factor", "llama.cpp scales layers with a window all the same"),
    (r"gpt-oss", r"scaling\.type=yarn", "llama.cpp rounds the bounds of YaRN's ramp to whole pairs"),
    (r"olmo2", r"freq_base", "llama.cpp reads a base of layers with a window, and takes the others'"),
    (r"exaone4", r"sliding_window", "llama.cpp has windows with 64 layers only"),
    (r"llama4", r"sliding_window=5", "llama.cpp has chunks of 8192 positions"),
    (r"phi3", r"sliding_window", "llama.cpp switches the window off"),
    (r"granite(moe)?", r"logit_scale=0\.0", "llama.cpp divides by it"),
    (r"minicpm", r"logit_scale=left out", "llama.cpp divides by what older files' logits were multiplied by"),
    (r"minicpm", r"logit_scale=0\.0", "llama.cpp divides by it"),
    (r"qwen[23]moe|qwen3next|olmoe", r"expert_weights_norm", "llama.cpp does what the architecture's first model did"),
    (r"qwen35(moe)?|qwen3next", r"rms_epsilon", "llama.cpp has it in the lengths of queries and keys, too"),
    (r"deepseek2", r"rms_epsilon", "latent norms have an epsilon of their own in transformers"),
    (r"nemotron_h_moe", r"gating_func", "llama.cpp takes the sigmoid that all models of it have"),
    (r"deepseek2|exaone-moe", r"gating_func|group_count", "llama.cpp scores groups by two experts whatever scores these, and by a "
     "softmax where the file does not say how"),
    (r"deepseek2", r"rope\.scal|yarn_log", "llama.cpp has the factor of scores without a multiplier, too"),
]


def typed(value):
    """As llama.cpp wants it."""
    if isinstance(value, bool):
        return (Type.BOOL, None, value)
    if isinstance(value, list):
        return (Type.ARRAY, typed(value[0])[0], value)
    kinds = {int: Type.UINT32, float: Type.FLOAT32, str: Type.STRING}
    return (kinds[type(value)], None, value)


def read(path):
    reader = gguf.GGUFReader(path)
    meta = {}
    for key, field in reader.fields.items():
        if not key.startswith("GGUF."):
            meta[key] = (field.types[0], field.types[-1] if len(field.types) > 1 else None, field.contents())
    tensors = {t.name: np.array(t.data).reshape([int(n) for n in t.shape[::-1]]) for t in reader.tensors}
    return meta, tensors


def write(path, meta, tensors):
    writer = gguf.GGUFWriter(path, meta["general.architecture"][2])
    for key, (kind, of, value) in meta.items():
        if key != "general.architecture":
            writer.add_key_value(key, value, kind, of)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def in_a_process(act):
    """Whether act() returned: llama.cpp aborts, or computes for ever, where a file is not to its liking."""
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (15, 15))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            act()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def logits_of_llama_cpp(path, folder):
    """None if llama.cpp does not run the file."""

    def run():
        with Context(load(path), context_params(len(TOKENS))) as context:
            context.decode(TOKENS)
            np.save(folder / "logits.npy", context.logits(len(TOKENS)))

    return np.load(folder / "logits.npy").astype(np.float64) if in_a_process(run) else None


def logits_of_assay(path, folder):
    """And why there are none."""
    log = folder / "log.jsonl"
    command = [ASSAY, "run", path, "--tokens", ",".join(map(str, TOKENS)), "-n", "0", "--backend", "cpu", "--log", log]
    command += ["--threads", "1", "--checkpoints", "logits", "--values", "all"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr
    records = [json.loads(line) for line in log.read_text().splitlines()]
    rows = [record["values"] for record in records if record.get("checkpoint") == "logits"]
    return np.array([[float(value) for value in row] for row in rows]), ""


def distance(got, expected):
    with np.errstate(all="ignore"):
        return np.linalg.norm(got - expected) / np.linalg.norm(expected)


def other_values(key, value):
    if key.endswith("original_context_length"):  # beyond it are all contexts of llama.cpp, or none
        return [16, value * 2]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value * 2, value // 2, 0]
    if isinstance(value, float):
        return [value * 1.5 + 0.1, 0.0]
    if isinstance(value, list):
        return [value[::-1]]
    return []


# Of keys that llama.cpp reads for some architecture.
ADDED = {
    "attention.causal": [False],
    "attention.scale": [0.2],
    "attention.clamp_kqv": [0.5],
    "attention.max_alibi_bias": [8.0],
    "attention.key_length_swa": [8],
    "attention.value_length_swa": [8],
    "attention.layer_norm_epsilon": [0.1],
    "attention.layer_norm_rms_epsilon": [0.1],
    "attention.sliding_window": [5, 0],
    "attention.temperature_scale": [0.1],
    "attention.head_count_kv": [1],
    "attn_logit_softcapping": [5.0, 0.0],
    "embedding_scale": [3.0],
    "expert_gating_func": [1, 2, 3],
    "expert_group_count": [2, 1, 0],
    "interleave_moe_layer_step": [1, 2, 0],
    "expert_shared_count": [1, 0],
    "expert_weights_norm": [True, False],
    "expert_weights_scale": [2.5],
    "final_logit_softcapping": [5.0, 0.0],
    "leading_dense_block_count": [1, 0],
    "logit_scale": [0.3],
    "nextn_predict_layers": [1, 0],
    "residual_scale": [0.3],
    "rope.dimension_count": [8],
    "rope.dimension_count_swa": [8],
    "rope.dimension_sections": [[2, 2, 2, 0], [0, 0, 0, 0]],
    "rope.freq_base": [500.0],
    "rope.freq_base_swa": [500.0],
    "rope.scale_linear": [4.0, 0.0],
    "rope.scaling.alpha": [2.0],
    "rope.scaling.attn_factor": [1.3],
    "rope.scaling.factor": [4.0, 0.0],
    "rope.scaling.finetuned": [True, False],
    "rope.scaling.type": ["none", "longrope", "dynamic"],
    "rope.scaling.yarn_log_multiplier": [0.1],
    "use_parallel_residual": [True, False],
    "vocab_size": [64],
}
YARN = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 16,
    "rope.scaling.attn_factor": 1.0,
}
TOGETHER = [
    {"rope.scaling.type": "none", "rope.scaling.factor": 4.0},
    {"rope.scaling.factor": 4.0, "rope.scale_linear": 2.0},
    YARN,
    {**YARN, "rope.scaling.attn_factor": 1.3},
    {**YARN, "rope.scaling.yarn_log_multiplier": 0.07},
    *({**YARN, f"rope.scaling.yarn_{key}": value} for key, value in [("ext_factor", 0.5), ("attn_factor", 1.3)]),
    {"attention.sliding_window": 5, "rope.freq_base_swa": 500.0},
    *({"attention.sliding_window": 5, "attention.sliding_window_pattern": value} for value in (0, 1, 2, 3)),
]


def changes(meta, arch, layers):
    """What is stated otherwise, and what else it says: as llama.cpp reads it, and as Assay has to read it, too."""
    for key, entry in meta.items():
        if key.startswith(arch + ".") and not key.endswith(("block_count", "embedding_length")):
            yield {key: GONE}, None
            for value in other_values(key, entry[2]):
                yield {key: typed(value)}, None
            yield from ((None, {key: other}) for other in of_another_type(entry, layers))
    for key, values in ADDED.items():
        yield from (({f"{arch}.{key}": typed(value)}, None) for value in values)
    for several in TOGETHER:
        yield {f"{arch}.{key}": typed(value) for key, value in several.items()}, None
    odd = [i % 2 == 1 for i in range(layers)]
    window = {f"{arch}.attention.sliding_window": typed(5)}
    pattern = f"{arch}.attention.sliding_window_pattern"
    yield {**window, pattern: typed(odd)}, None
    yield {**window, pattern: typed([int(flag) for flag in odd])}, None


def of_another_type(entry, layers):
    """The same number; or, where that may be, one for each layer."""
    kind, _, value = entry
    if kind == Type.UINT32:
        yield from ((other, None, value) for other in (Type.INT32, Type.UINT64))
        yield (Type.ARRAY, Type.INT32, [value] * layers)
    if kind == Type.FLOAT32:
        yield (Type.FLOAT64, None, value)


def shown(change):
    def value(entry):
        return "left out" if entry is GONE else f"{entry[2]}:{entry[0].name.lower()}"

    return " ".join(f"{key.partition('.')[2]}={value(entry)}" for key, entry in change.items())


class Keys(unittest.TestCase):
    def setUp(self):
        quiet()
        os.environ["GGML_NO_BACKTRACE"] = "1"  # which gdb would print

    def test_each_key_means_what_it_means_to_llama_cpp(self):
        """Breaks if a key were left out, read in another place, or had another default: the logits would differ."""
        self.unused = {entry[1:] for entry in OTHERWISE}
        for name in MODELS:
            with self.subTest(name), tempfile.TemporaryDirectory() as scratch:
                self.check(name, Path(scratch))
        self.assertEqual(self.unused, set(), "llama.cpp agrees by now")

    def check(self, name, folder):
        meta, tensors = read(GOLDEN / name / f"{name}-f32.gguf")
        arch = meta["general.architecture"][2]
        if arch in EPSILON:
            meta[f"{arch}.attention.layer_norm_rms_epsilon"] = typed(EPSILON[arch])
        for key in WITHOUT.get(arch, []):
            meta.pop(f"{arch}.{key}", None)
        unread = WITHOUT_TENSORS.get(arch)
        tensors = {key: values for key, values in tensors.items() if unread is None or not unread.search(key)}
        base = self.logits(meta, tensors, folder)
        agreed = 0
        for change, same in [({}, None), *changes(meta, arch, meta[f"{arch}.block_count"][2])]:
            said = f"{name} with {shown(same or change)}"
            changed = {key: value for key, value in {**meta, **(same or change)}.items() if value is not GONE}
            expected = base if same else self.logits(changed, tensors, folder)
            got = self.held(arch, said, changed, tensors, folder, expected)
            self.assertTrue(got is not None or change or ":array" in said, said)
            agreed += got is not None
        self.assertGreater(agreed, 40, name)
        if arch not in NOT_SAVED:
            self.check_saved(arch, name, folder, meta, tensors)

    def logits(self, meta, tensors, folder):
        write(folder / "model.gguf", meta, tensors)
        return logits_of_llama_cpp(folder / "model.gguf", folder)

    def held(self, arch, said, meta, tensors, folder, expected):
        """Assay's logits, if there are any, held to those of llama.cpp."""
        write(folder / "model.gguf", meta, tensors)
        got, refusal = logits_of_assay(folder / "model.gguf", folder)
        if got is None:
            self.assertEqual(refusal.count("\n"), 1, f"{said}: {refusal}")
        if got is None or expected is None:
            return got
        far = distance(got, expected)
        if far <= (FAR_BY_TABLE if arch in GELU else FAR):
            return got
        known = [entry[1:] for entry in OTHERWISE if re.fullmatch(entry[0], arch) and re.search(entry[1], said)]
        self.assertTrue(known, f"{said}: {far:.1e}")
        self.unused.difference_update(known)
        return got

    def check_saved(self, arch, name, folder, meta, tensors):
        """A file that llama.cpp writes states all of its variables."""
        write(folder / "model.gguf", meta, tensors)
        saved = folder / "saved.gguf"
        self.assertTrue(
            in_a_process(lambda: llama_cpp.llama_model_save_to_file(load(folder / "model.gguf"), str(saved).encode()))
        )
        expected = logits_of_llama_cpp(saved, folder)
        got, refusal = logits_of_assay(saved, folder)
        self.assertIsNotNone(got, f"{name}, as llama.cpp saves it: {refusal}")
        self.assertLessEqual(distance(got, expected), FAR_BY_TABLE if arch in GELU else FAR, f"{name}, saved")


def main():
    global ASSAY
    parser = argparse.ArgumentParser()
    parser.add_argument("--assay", help="the program")
    options, rest = parser.parse_known_args()
    if MISSING:
        print(f"skipped: no {', '.join(MISSING)} here; see golden/generate/requirements.txt")
        return SKIPPED
    ASSAY = options.assay
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
