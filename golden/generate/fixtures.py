"""Makes golden/<model>/: the small models' files, their fixtures and the manifest that says how they came about."""

import json
import re
import tempfile
from importlib.metadata import version
from pathlib import Path

from . import observe, quantise, recording, small_models, vocab
from .llama_cpp_engine import LlamaCpp
from .model_file import ModelFile

GOLDEN = Path(__file__).resolve().parents[1]
PROMPT = "GPU haiku with word fifty-one: "
TYPES = ("F32", "F16", "Q8_0", "Q4_K_M")
GENERATED = 8
TOLERANCE = {
    "rel_l2": 2e-6,
    "why": "what Assay promises for the small models in exact math; up to twice the float32 floor",
}

# Why llama.cpp is further from float64 than its arithmetic explains; each cause was confirmed by `generate.selfcheck`.
LLAMA_CPP_NOTES = {
    "gpt2": "llama.cpp looks GELU up in a table of float16 values; float64 with that table is within 2e-7 of it at the "
    "tokens where no input falls on the other side of a rounding boundary",
    "phi3": "llama.cpp switches phi3's sliding window off; measured against float64 without the window",
}


def say(text):
    print(text, flush=True)


def oracles():
    names = ("torch", "transformers", "gguf", "numpy", "llama_cpp_python")
    return {name: version(name) for name in names}


def rounded(value):
    """Measured figures to three digits: more would only be noise in a diff."""
    if isinstance(value, float):
        return float(f"{value:.3g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def write_manifest(folder, manifest):
    text = json.dumps(rounded(manifest), ensure_ascii=False, indent=1)
    # Innermost lists and objects of numbers go on one line each: people read manifests too.
    numbers = r"\[[-+.\d\se,]+\]|\{(?:\s*\"\w+\": [-+.\de]+,?)+\s*\}"
    text = re.sub(numbers, lambda found: " ".join(found[0].split()), text)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")


def llama_cpp_floors(this, tokens, reference, context):
    """llama.cpp's logits against float64: over the file as it is, and over the same weights stored as F32."""
    with LlamaCpp(this.file.path, context) as engine:
        own = recording.relative_l2(engine.logits(tokens), reference)
    with tempfile.TemporaryDirectory() as folder:
        widened = Path(folder) / "f32.gguf"
        quantise.quantise(this.file.path, widened, "F32")
        with LlamaCpp(widened, context) as engine:
            f32 = recording.relative_l2(engine.logits(tokens), reference)
    return {"llamacpp_vs_f64": f32, "llamacpp_as_stored_vs_f64": own}


def floors(this, tokens, checkpoints, context=256):
    """Floors by kind of checkpoint, those of llama.cpp too, and the float32 ones by checkpoint."""
    reference = checkpoints["logits"]
    if this.params.window is not None:
        reference = observe.logits(this.build(window=False), this.params, tokens)
    by_checkpoint = recording.float32_floors(this, tokens, checkpoints)
    by_kind = recording.worst_by(recording.kind, recording.layers_only(by_checkpoint).items())
    by_kind["logits"] |= llama_cpp_floors(this, tokens, reference, context)
    return {"floors": by_kind, "floors_by_checkpoint": by_checkpoint}


def write_model_files(spec, folder):
    for type_name in TYPES:
        path = folder / f"{spec.name}-{type_name.lower()}.gguf"
        if type_name in ("F32", "F16"):
            small_models.write(spec, path, type_name)
        else:
            quantise.quantise(folder / f"{spec.name}-f32.gguf", path, type_name)
        yield type_name, path


def ops_positions(prompt_length, total):
    """Tokens for the op-level log: the first three, some inside, the prompt's last and every third from there."""
    return sorted({0, 1, 2, 7, prompt_length // 2 + 4, *range(prompt_length - 1, total, 3)})


def record_type(spec, folder, type_name, path, tokens):
    """The fixture of one file: the entry of the manifest's `files`."""
    this = recording.Oracle(ModelFile(path), len(tokens) + GENERATED)
    chosen, gaps = recording.greedy(this, tokens, GENERATED)
    passed = tokens + chosen[:-1]
    checkpoints = observe.observe(this.model, this.params, passed)
    header = this.header(spec.name, type_name, PROMPT, tokens)
    entry = {"type": type_name, "gguf": path.name, "sha256": this.file.sha256}
    layers = recording.layers_only(checkpoints)
    entry |= recording.write_log(folder / f"{type_name.lower()}.jsonl", header, layers, range(len(passed)))
    if type_name == "F32":
        positions = ops_positions(len(tokens), len(passed))
        ops = recording.write_log(folder / "ops.jsonl", header, checkpoints, positions)
        entry |= {"ops_log": ops["log"], "ops_log_sha256": ops["log_sha256"], "ops_tokens": positions}
    entry |= {"greedy": chosen, "greedy_gaps": gaps}
    entry |= {"argmax_min_gap": min(recording.top_gap(row) for row in checkpoints["logits"])}
    measured = checkpoints if type_name == "F32" else layers
    return entry | floors(this, passed, measured)


def record_long(spec, folder, path):
    """A prompt longer than the original context, for models whose rotary factors change there."""
    with LlamaCpp(path, spec.context) as engine:
        prompt = vocab.CORPUS.replace("\n", " ").strip()
        tokens = engine.tokenize(prompt)
    if not spec.original_context < len(tokens) <= spec.context:
        raise RuntimeError(f"{spec.name}: the long prompt has {len(tokens)} tokens")
    this = recording.Oracle(ModelFile(path), len(tokens))
    checkpoints = recording.layers_only(observe.observe(this.model, this.params, tokens))
    positions = [*range(0, len(tokens) - 1, 48), len(tokens) - 1]
    header = this.header(spec.name, "F32", prompt, tokens)
    made = {"type": "F32", "prompt": prompt, "tokens": tokens}
    made |= recording.write_log(folder / "long.jsonl", header, checkpoints, positions)
    return made | {"logged_tokens": positions} | floors(this, tokens, checkpoints, spec.context)


def make(spec):
    """Everything under golden/<model>/ for one small model."""
    folder = GOLDEN / spec.name
    folder.mkdir(exist_ok=True)
    paths = dict(write_model_files(spec, folder))
    with LlamaCpp(paths["F32"], 256) as engine:
        tokens = engine.tokenize(PROMPT)
    files = []
    for type_name, path in paths.items():
        files.append(record_type(spec, folder, type_name, path, tokens))
        logits = files[-1]["floors"]["logits"]
        say(
            f"{spec.name} {type_name}: logits float32 {logits['f32_vs_f64']:.1e}, llama.cpp over F32 weights "
            f"{logits['llamacpp_vs_f64']:.1e}, as stored {logits['llamacpp_as_stored_vs_f64']:.1e}, "
            f"smallest gap {min(files[-1]['greedy_gaps']):.2g}"
        )
    manifest = {
        "schema": 1,
        "model": spec.name,
        "arch": spec.arch,
        "files": files,
        "prompt": PROMPT,
        "tokens": tokens,
        "padding_ids": spec.vocab.padding_ids(),
        "oracles": oracles(),
        "command": f"python -m generate {spec.name}",
        "floors": recording.worst_by(recording.kind, (item for entry in files for item in entry["floors"].items())),
        "tolerance": TOLERANCE,
    }
    if spec.arch in LLAMA_CPP_NOTES:
        manifest["llama_cpp_note"] = LLAMA_CPP_NOTES[spec.arch]
    if spec.original_context:
        manifest["long"] = record_long(spec, folder, paths["F32"])
    write_manifest(folder, manifest)
    if min(gap for entry in files for gap in entry["greedy_gaps"]) < 0.05:
        raise RuntimeError(f"{spec.name}: a greedy choice is too close to call")
