"""Each engine of engines/ that is installed, on a small Llama: real_test.py ASSAY

What would break: an adapter that logs other tokens, other positions or another model than it was given; a surface that
loses the cache. Exit status 77: no engine is installed.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "engines"))

import catalog
from install import is_installed

try:
    import numpy as np
except ImportError:
    print("skipped: this python3 has no numpy")
    sys.exit(77)

TOKENS = [5, 300, 17, 2, 99, 4, 250, *range(40, 70)]  # vLLM caches blocks of 32
HIDDEN, INNER, HEADS, KV_HEADS, WORDS = 64, 96, 2, 1, 320  # heads of 32, which all engines have
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "num_hidden_layers": 1,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,  # which KerasHub has for Llama whatever the config says
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "max_position_embeddings": 128,
    "vocab_size": WORDS,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LARGEST = {"float32": 1e-4, "mixed": 3e-3, "bfloat16": 3e-2}  # relative L2 of a row: a wrong model is off by 1


def tensors():
    rng = np.random.default_rng(7)
    layer, kv = "model.layers.0.", HIDDEN // HEADS * KV_HEADS
    shapes = {
        "model.embed_tokens.weight": (WORDS, HIDDEN),
        "lm_head.weight": (WORDS, HIDDEN),
        layer + "self_attn.q_proj.weight": (HIDDEN, HIDDEN),
        layer + "self_attn.k_proj.weight": (kv, HIDDEN),
        layer + "self_attn.v_proj.weight": (kv, HIDDEN),
        layer + "self_attn.o_proj.weight": (HIDDEN, HIDDEN),
        layer + "mlp.gate_proj.weight": (INNER, HIDDEN),
        layer + "mlp.up_proj.weight": (INNER, HIDDEN),
        layer + "mlp.down_proj.weight": (HIDDEN, INNER),
    }
    made = {name: rng.normal(0, shape[1] ** -0.5, shape) for name, shape in shapes.items()}
    norms = ("model.norm.weight", layer + "input_layernorm.weight", layer + "post_attention_layernorm.weight")
    return made | {name: 1 + rng.normal(0, 0.1, HIDDEN) for name in norms}


def write_safetensors(path, arrays):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, array in arrays.items():
        raw = array.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def logits(path):
    """float64 [tokens, vocabulary] of a log, with log-probabilities shifted to the mean of the logits, 0."""
    rows = {}
    for record in map(json.loads, path.read_text().splitlines()):
        if record.get("checkpoint") in ("logits", "logprobs"):
            rows[record["token_idx"]] = np.array(record["values"], dtype=np.float64)
    return {position: row - row.mean() for position, row in rows.items()}


def places(path):
    """(checkpoint, position) of a log's records."""
    records = map(json.loads, path.read_text().splitlines())
    return {(record["checkpoint"], record["token_idx"]) for record in records if "checkpoint" in record}


class Engine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        hf, gguf = cls.folder / "hf", cls.folder / "model.gguf"
        hf.mkdir()
        (hf / "config.json").write_text(json.dumps(CONFIG))
        write_safetensors(hf / "model.safetensors", tensors())
        subprocess.run([ASSAY, "synth", hf / "config.json", "--type", "F32", "-o", gguf], check=True, capture_output=True)
        cls.models = {"hf": hf, "gguf": gguf}
        cls.expected = {}
        for kind, model in cls.models.items():
            log = cls.folder / f"{kind}.jsonl"
            tokens = ",".join(map(str, TOKENS))
            command = [ASSAY, "run", model, "--tokens", tokens, "--log", log, "--checkpoints", "logits", "--values", "all"]
            subprocess.run(command, check=True, capture_output=True)
            cls.expected[kind] = logits(log)

    def check(self, engine):
        sizes = {"batch": "batch:3", "chunks": "chunks:2"}
        surfaces = [sizes.get(surface, surface) for surface in engine["surfaces"]]
        log = self.folder / "engine.jsonl"
        case = dict(model_dir=str(self.models["hf"]), gguf=str(self.models["gguf"]), tokens=TOKENS, log=str(log))
        env = dict(os.environ, ASSAY_SERVE="1")
        run = subprocess.Popen(
            [catalog.HERE / engine["command"][0], *engine["command"][1:]],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        lines = "".join(json.dumps(case | {"surface": surface, "log": f"{log}.{i}"}) + "\n" for i, surface in enumerate(surfaces))
        out, errors = run.communicate(lines)
        answers = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([answer["exit"] for answer in answers], [0] * len(surfaces), f"{answers} {errors[-800:]}")
        expected = self.expected[engine["reads"]]
        for i, surface in enumerate(surfaces):
            # What a surface leaves out, invariance cannot compare.
            self.assertEqual(places(Path(f"{log}.{i}")), places(Path(f"{log}.0")), surface)
            got = logits(Path(f"{log}.{i}"))
            self.assertEqual(list(got), list(range(len(TOKENS))), surface)
            for position, row in got.items():
                error = np.linalg.norm(row - expected[position]) / np.linalg.norm(expected[position])
                self.assertLessEqual(error, LARGEST[engine["math"]], f"{surface} at {position}")


def add_tests():
    environments = catalog.read()["environments"]
    for engine in catalog.read()["engines"]:
        if is_installed(engine["environment"], environments[engine["environment"]]):
            name = "test_" + "".join(c if c.isalnum() else "_" for c in engine["name"])
            setattr(Engine, name, lambda self, engine=engine: self.check(engine))
            yield name


if __name__ == "__main__":
    ASSAY = sys.argv.pop(1)
    if not list(add_tests()):
        print("skipped: no engine is installed; engines/install.py all")
        sys.exit(77)
    unittest.main(verbosity=2)
