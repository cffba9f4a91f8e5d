"""Records golden/<model>/: fixtures of every model file and prompt, their floors, and the manifest."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from assay_tap import CheckpointSet, LogWriter
from tqdm import tqdm

from . import hf, manifest, measure
from .model_file import ModelFile, sha256
from .units import Units

GOLDEN = Path(__file__).resolve().parents[1]
OUT = Path(os.environ.get("ASSAY_GOLDEN_OUT") or GOLDEN)  # `assay golden record` gives a folder of its own
SETS = ("layers", "ops")
SKETCH_DIGITS = 9  # the files must stay small; nine digits are a thousandth of the rounding to float32

LLAMA_CPP_NOTES = {
    "gpt2": "llama.cpp looks GELU up in a table of float16 values; float64 with that table is within 2e-7 of it at the "
    "tokens where no input falls on the other side of a rounding boundary",
    "phi3": "llama.cpp switches phi3's sliding window off; measured against float64 without the window",
}


@dataclass
class Prompt:
    text: str
    tokens: list[int]


@dataclass
class Case:
    """One model file, and the positions of each prompt that its fixtures hold."""

    model: str
    type: str
    path: Path
    prompts: dict[str, Prompt]
    n_predict: int
    # {(prompt, set): how many positions, evenly spread with the first and the last, or None for all}
    positions: dict[tuple[str, str], int | None]
    where: dict = field(default_factory=dict)  # of a file that is not in the folder
    oracle: Callable = lambda file, length: FileOracle(file, length)


class FileOracle(hf.Oracle):
    """The oracle over a model file's own tensors, for sequences of up to `length` tokens."""

    floors = measure.FLOORS

    @cached_property
    def model(self):
        return self.build()

    def greedy(self, tokens, count, never):
        return hf.greedy(self.model, tokens, count, never)

    def observe(self, tokens):
        return hf.observe(self.model, tokens)

    def measure(self, floor, tokens, reference):
        return measure.measure(self, floor, tokens, reference, context_for(self.length))


def spread(total, count):
    """`count` positions of `total`, evenly, with the first and the last; None for all."""
    if count is None or count >= total:
        return None
    if count == 1:
        return [total - 1]
    return sorted({round(i * (total - 1) / (count - 1)) for i in range(count)})


def context_for(length):
    """llama.cpp rounds a context up to this; phi3's factors depend on it."""
    return -(-length // 256) * 256


def log_name(case, prompt, set_name):
    parts = [case.type.lower()] + ([prompt] if prompt != "haiku" else []) + (["ops"] if set_name == "ops" else [])
    return "-".join(parts) + ".jsonl"


def header(case, file, prompt):
    model = {"name": case.model, "sha256": file.sha256, "arch": file.arch, "type": case.type}
    return dict(
        tokens=prompt.tokens, prompt=prompt.text, model=model, engine="transformers", backend="cpu", math="float64"
    )


def write_log(path, opening, checkpoints, positions):
    """The fixture at `path`, token after token."""
    part = path.with_suffix(".part")
    with LogWriter(part, sketch=True, sketch_digits=SKETCH_DIGITS) as log:
        log.header(**opening)
        for position in positions:
            for name, rows in checkpoints.items():
                log.write(name, position, rows[position], [rows.shape[1]], dtype="f32")  # as the values print
    part.replace(path)


def record_logs(case, folder, file, name, chosen, gaps, checkpoints):
    """The fixtures of one prompt: entries of the manifest's `logs`."""
    prompt, entries = case.prompts[name], []
    total = len(checkpoints["logits"])
    for set_name in SETS:
        if (name, set_name) not in case.positions:
            continue
        positions = spread(total, case.positions[name, set_name])
        path = folder / log_name(case, name, set_name)
        wanted = CheckpointSet(set_name)
        held = {checkpoint: rows for checkpoint, rows in checkpoints.items() if checkpoint in wanted}
        logged = range(total) if positions is None else positions
        write_log(path, header(case, file, prompt), held, logged)
        entry = {"file": path.name, "sha256": sha256(path), "prompt": name, "set": set_name, "positions": positions}
        entry |= {"n_predict": len(chosen), "greedy": chosen, "greedy_gaps": gaps}
        rows = [checkpoints["logits"][at] for at in logged]
        margins = [hf.top_gap(row) / np.linalg.norm(row) for row in rows]
        norms = np.linalg.norm(checkpoints["logits"][total - len(chosen) :], axis=1)
        margins += [gap / norm for gap, norm in zip(gaps, norms, strict=True)]
        entry |= {"argmax_min_gap": min(map(hf.top_gap, rows)), "argmax_margin": float(min(margins))}
        entries.append(entry)
    return entries


def record_prompt(case, folder, file, name, bar):
    """The fixtures of one prompt and its measured floors, token by token."""
    tokens = case.prompts[name].tokens
    this = case.oracle(file, len(tokens) + case.n_predict)
    bar.set_postfix_str(f"{case.type} {name}: float64")
    chosen, gaps = this.greedy(tokens, case.n_predict, this.file.padding_ids)
    if set(chosen) & this.file.control_ids:
        raise RuntimeError(f"{case.path.name}, {name}: greedy text meets a control token; choose another seed")
    passed = tokens + chosen[:-1]
    checkpoints = this.observe(passed)
    check_greedy(case, name, checkpoints["logits"], len(tokens), chosen, this.file.padding_ids)
    logs = record_logs(case, folder, file, name, chosen, gaps, checkpoints)
    bar.update()
    samples = {}
    for floor in this.floors:
        bar.set_postfix_str(f"{case.type} {name}: {floor}")
        samples[floor] = this.measure(floor, passed, checkpoints)
        bar.update()
    return logs, samples


def check_greedy(case, name, logits, n_prompt, chosen, never):
    """One pass over all tokens must choose the same tokens as token by token with a cache."""
    masked = logits[n_prompt - 1 :].copy()
    masked[:, never] = -np.inf
    if masked.argmax(axis=1).tolist() != chosen:
        raise RuntimeError(f"{case.path.name}, {name}: prefill and decode choose different tokens")


def record_case(case, folder, units, bar):
    """The entry of the manifest's `files`."""
    file = ModelFile(case.path)
    logs, samples = [], []
    for name, prompt in case.prompts.items():
        spreads = {f"{at} {set_name}": count for (at, set_name), count in case.positions.items() if at == name}
        wanted = {"model": file.sha256, "tokens": prompt.tokens, "positions": spreads, "n_predict": case.n_predict}
        unit = f"{case.type}-{name}"
        found = units.find(unit, folder, wanted)
        if found is None:
            found = record_prompt(case, folder, file, name, bar)
            units.keep(unit, wanted, *found)
        else:
            bar.update(1 + len(measure.FLOORS))
        logs += found[0]
        samples.append(found[1])
    floors, by_checkpoint = measure.tables(samples)
    entry = {"type": case.type, "gguf": case.path.name, "sha256": file.sha256} | case.where
    return entry | {"floors": floors, "floors_by_checkpoint": by_checkpoint, "logs": logs}


def say(case, entry):
    floors = entry["floors"]["logits"]
    gap = min(min(log["greedy_gaps"]) for log in entry["logs"])
    shown = ", ".join(f"{floor} {values['max']:.1e}" for floor, values in floors.items())
    tqdm.write(f"{case.model} {case.type}: logits {shown}; smallest greedy gap {gap:.2g}")


def prompts_of(engine, texts):
    return {name: Prompt(text, engine.tokenize(text)) for name, text in texts.items()}


def record(model, arch, cases, padding_ids, finish, further=None, note=None):
    """All fixtures of one model, then its manifest; takes up a run that was interrupted.

    finish(case, entry) sees each file's entry before it is written. `further` prompts have no fixtures. `note` is what
    llama.cpp does otherwise.
    """
    folder = OUT / model
    folder.mkdir(parents=True, exist_ok=True)
    units = Units(model)
    steps = sum(len(case.prompts) for case in cases) * (1 + len(measure.FLOORS))
    files = []
    with tqdm(total=steps, desc=model, unit="pass", dynamic_ncols=True) as bar:
        for case in cases:
            entry = record_case(case, folder, units, bar)
            finish(case, entry)
            say(case, entry)
            files.append(entry)
    prompts = {name: vars(prompt) for name, prompt in (cases[0].prompts | (further or {})).items()}
    made = {"schema": manifest.SCHEMA, "model": model, "arch": arch, "prompts": prompts, "padding_ids": padding_ids}
    made |= {
        "oracles": manifest.oracles(),
        "command": f"python -m generate {model}",
        "tolerance": manifest.TOLERANCE,
        "files": files,
    }
    if note := note or LLAMA_CPP_NOTES.get(arch):
        made["llama_cpp_note"] = note
    manifest.write(folder, made)
    remove_orphans(folder, made)
    units.drop()


def remove_orphans(folder, made):
    """Fixtures of an earlier run that no entry names any more."""
    named = {log["file"] for entry in made["files"] for log in entry["logs"]}
    for path in folder.glob("*.jsonl"):
        if path.name not in named:
            path.unlink()
