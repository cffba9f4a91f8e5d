"""Fixtures of full-size models: twins of published ones, whose files are a command and a sha256.

    python -m generate.published ASSAY_PROGRAM [NAME…]

makes each file with `assay synth` in the cache, runs transformers over it layer by layer, so that one layer's weights
are in memory at a time, and writes tests/published/golden/<name>/: a few positions of every layer's output and the logits, and all floors.
Run from golden/.
"""

import argparse
import json
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import gguf
import numpy as np
import torch
from tqdm import tqdm
from transformers.utils import logging

from . import fixtures, llamacpp_engine, manifest, measure, oracle
from .hf import top_gap
from .model_file import ModelFile, hyperparameters, rotary_frequencies, sha256

FOLDER = fixtures.GOLDEN.parent / "tests" / "published" / "golden"
GENERATED = 8
POSITIONS = 6
SEED = 1


@dataclass(frozen=True)
class Published:
    name: str  # of the preset, and of the folder
    types: tuple[str, ...]
    tokens: tuple[int, ...]  # of the published prompt, by the model's own tokeniser


MODELS = {
    each.name: each
    for each in (
        Published(
            "tinyllama-1.1b", ("Q4_K_M",), (1, 22796, 447, 18282, 411, 1734, 19044, 29899, 650, 29901, 29871)
        ),
        Published("qwen2.5-0.5b", ("Q4_K_M", "F16"), (49891, 6386, 38242, 448, 3409, 32417, 18589, 25, 220)),
        Published("gpt2-124m", ("F32",), (33346, 387, 28643, 351, 1573, 15334, 12, 505, 25, 220)),
    )
}


def cache():
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay"
    return Path(os.environ.get("ASSAY_CACHE") or default)


def wide(tensor):
    return tensor.to(torch.float64).numpy().copy()


def command(name, type_name):
    return f"assay synth {name} --type {type_name} --seed {SEED} -o {name}-{type_name.lower()}.gguf"


def synthesise(assay, name, type_name):
    folder = cache() / name
    folder.mkdir(parents=True, exist_ok=True)
    words = command(name, type_name).split()
    subprocess.run([Path(assay).resolve(), *words[1:]], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / words[-1]


class Streamed:
    """A model file's float64 or float32 computation, one layer's weights at a time."""

    def __init__(self, file, length):
        self.file, self.length = file, length
        self.stored = {tensor.name: tensor for tensor in file.reader.tensors}
        self.params = hyperparameters(file, int(self.stored["token_embd.weight"].shape[1]))

    def tensor(self, name, rows=slice(None)):
        stored = self.stored[name]
        return np.asarray(gguf.quants.dequantize(stored.data[rows], stored.tensor_type), dtype=np.float64)

    def embedding(self, tokens):
        rows = self.tensor("token_embd.weight", tokens)
        return rows + self.tensor("position_embd.weight", slice(len(tokens))) if "position_embd.weight" in self.stored else rows

    def layer(self, number, dtype, angle_type):
        """A transformers model of this one layer; its embedding and output have a vocabulary of one token, all zero."""
        params = replace(self.params, layers=1, vocab=1)
        prefix = f"blk.{number}."
        tensors = {f"blk.0.{name[len(prefix) :]}": self.tensor(name) for name in self.stored if name.startswith(prefix)}
        tensors |= {"token_embd.weight": np.zeros((1, params.hidden)), "output_norm.weight": np.ones(params.hidden)}
        if params.arch == "gpt2":
            tensors |= {"position_embd.weight": np.zeros((params.context, params.hidden))}
            tensors |= {"output_norm.bias": np.zeros(params.hidden)}
        frequencies = None
        if params.rope_base is not None:
            factors = {name: self.tensor(name) for name in self.stored if name in oracle.ROTARY_FACTORS}
            frequencies = rotary_frequencies(factors, params, self.length)
        return oracle.build(tensors, params, frequencies, dtype, angle_type)

    def through(self, model, hidden):
        body = model.transformer.h if self.params.arch == "gpt2" else model.model.layers
        kept = []
        hook = body[0].register_forward_hook(lambda _m, _i, out: kept.append(out[0] if isinstance(out, tuple) else out))
        with torch.no_grad(), oracle.eager_attention(self.params.arch, oracle.attention):
            model(inputs_embeds=hidden, use_cache=False)
        hook.remove()
        return kept[0].reshape(hidden.shape)

    def norm(self, hidden, dtype):
        weight = torch.from_numpy(self.tensor("output_norm.weight")).to(dtype)
        if self.params.arch != "gpt2":
            return oracle.RMSNorm(weight, self.params.eps)(hidden)
        bias = torch.from_numpy(self.tensor("output_norm.bias")).to(dtype)
        return torch.nn.functional.layer_norm(hidden, hidden.shape[-1:], weight, bias, self.params.eps)

    def run(self, tokens, dtype=torch.float64, angle_type=None, shown=""):
        """`embedding`, every `layer_N_output` and `logits`, [tokens, n] each."""
        hidden = torch.from_numpy(self.embedding(list(tokens))).to(dtype)[None]
        seen = {"embedding": wide(hidden[0])}
        for number in tqdm(range(self.params.layers), desc=shown, unit="layer", dynamic_ncols=True, leave=False):
            hidden = self.through(self.layer(number, dtype, angle_type), hidden)
            seen[f"layer_{number}_output"] = wide(hidden[0])
        normed = self.norm(hidden, dtype)[0]
        name = "output.weight" if "output.weight" in self.stored else "token_embd.weight"
        parts = []
        for first in range(0, self.params.vocab, 8192):
            rows = torch.from_numpy(self.tensor(name, slice(first, first + 8192))).to(dtype)
            parts.append(wide(normed @ rows.T))
        seen["logits"] = np.concatenate(parts, axis=1)
        return seen


def proposal(assay, path, tokens):
    """Greedy tokens by the engine under test: only where to look, each is checked against float64's own choice."""
    listed = ",".join(map(str, tokens))
    answer = subprocess.run(
        [assay, "run", path, "--tokens", listed, "-n", str(GENERATED), "--ignore-eos", "--json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return json.loads(answer.stdout)["generated"]


def greedy(this, tokens, proposed, shown):
    """(checkpoints of prompt and all chosen tokens but the last, the tokens that float64 chooses)."""
    chosen = list(proposed)
    while True:
        seen = this.run([*tokens, *chosen[:-1]], shown=shown)
        own = seen["logits"][len(tokens) - 1 :].argmax(axis=1).tolist()
        if own == chosen:
            return seen, chosen
        first = next(i for i, (a, b) in enumerate(zip(own, chosen, strict=True)) if a != b)
        chosen = chosen[:first] + own[first : first + 1] + chosen[first + 1 :]


def floors_of(this, tokens, reference, shown):
    samples = {}
    for floor, options in measure.TRANSFORMERS.items():
        found = samples[floor] = {}
        sink = measure.distances(reference, found)
        for name, rows in this.run(tokens, **options, shown=f"{shown} {floor}").items():
            sink(name, None, rows)
    only = set(reference)
    for floor in measure.LLAMA_CPP:
        samples[floor] = measure.llama_cpp_floor(this, floor, tokens, reference, fixtures.context_for(len(tokens)), only)
    return measure.tables([samples])


def record_type(assay, model, type_name, folder):
    path = synthesise(assay, model.name, type_name)
    file = ModelFile(path)
    tokens = list(model.tokens)
    this = Streamed(file, len(tokens) + GENERATED)
    shown = f"{model.name} {type_name}"
    seen, chosen = greedy(this, tokens, proposal(assay, path, tokens), shown)
    total = len(seen["logits"])
    positions = fixtures.spread(total, POSITIONS)
    prompt = fixtures.Prompt("GPU haiku with word fifty-one: ", tokens)
    case = fixtures.Case(model.name, type_name, path, {"haiku": prompt}, GENERATED, {})
    log = folder / fixtures.log_name(case, "haiku", "layers")
    fixtures.write_log(log, fixtures.header(case, file, prompt), seen, positions)
    floors, by_checkpoint = floors_of(this, [*tokens, *chosen[:-1]], seen, shown)
    gaps = [top_gap(row) for row in seen["logits"][len(tokens) - 1 :]]
    entry = {"file": log.name, "sha256": sha256(log), "prompt": "haiku", "set": "layers", "positions": positions}
    entry |= {"n_predict": GENERATED, "greedy": chosen, "greedy_gaps": gaps}
    entry |= {"argmax_min_gap": min(top_gap(seen["logits"][at]) for at in positions)}
    source = {"made": f"random weights, {path.stat().st_size / 1e6:.0f} MB", "command": command(model.name, type_name)}
    tqdm.write(f"{shown}: logits {floors['logits']}, smallest greedy gap {min(gaps):.2g}")
    made = {"type": type_name, "gguf": path.name, "sha256": file.sha256, "source": source}
    return file.arch, made | {"floors": floors, "floors_by_checkpoint": by_checkpoint, "logs": [entry]}


def record(assay, model):
    folder = FOLDER / model.name
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for type_name in model.types:
        arch, entry = record_type(assay, model, type_name, folder)
        files.append(entry)
    prompts = {"haiku": {"text": "GPU haiku with word fifty-one: ", "tokens": list(model.tokens)}}
    made = {"schema": manifest.SCHEMA, "model": model.name, "arch": arch, "prompts": prompts, "padding_ids": []}
    made |= {"oracles": manifest.oracles(), "command": f"python -m generate.published ASSAY {model.name}"}
    manifest.write(folder, made | {"tolerance": manifest.TOLERANCE, "files": files})


def main():
    parser = argparse.ArgumentParser(prog="python -m generate.published", description=__doc__.split("\n", 1)[0])
    parser.add_argument("assay", help="the assay program")
    parser.add_argument("models", nargs="*", metavar="NAME", help=f"any of {', '.join(MODELS)}")
    options = parser.parse_args()
    unknown = sorted(set(options.models) - set(MODELS))
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}; there are: {', '.join(MODELS)}")
    llamacpp_engine.quiet()
    logging.set_verbosity_error()
    for name in options.models or MODELS:
        record(str(Path(options.assay).resolve()), MODELS[name])


if __name__ == "__main__":
    main()
