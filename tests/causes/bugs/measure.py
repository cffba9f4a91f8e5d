"""Logs of a broken copy of a model, and what `assay compare` says of them."""

import json
import subprocess
from functools import cache
from pathlib import Path

import torch
from assay_tap import LogWriter, attach
from assay_tap.order import order
from generate.families import oracle
from generate.families.doubles import doubles
from generate.families.expert_tap import experts_into, without_experts
from generate.model_file import ModelFile, sha256
from transformers import DynamicCache

from .bug import family_of

ROOT = Path(__file__).resolve().parents[3]


@cache
def sound(name):
    """The family's model in float32."""
    return oracle.made(family_of(name))


def model_file(name):
    return ROOT / "golden" / name / f"{name}-f32.gguf"


def prompt_of(bug):
    return oracle.prompts(320, family_of(bug.family).seed)[bug.prompt]


@cache
def after(name, prompt, count):
    """The tokens that the sound model chooses after the prompt."""
    tokens = list(prompt)
    with torch.no_grad():
        for _ in range(count):
            tokens.append(int(sound(name)(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1].argmax()))
    return tuple(tokens[len(prompt) :])


def seen_by(model, passes, with_experts=True):
    """{checkpoint: [(position, row)]} of passes [tokens], which share a cache where there are several."""
    seen = {}

    def sink(name, positions, rows):
        seen.setdefault(name, []).extend(zip(positions, rows.copy(), strict=True))

    cache_of = dict(past_key_values=DynamicCache(), use_cache=True) if len(passes) > 1 else dict(use_cache=False)
    with torch.no_grad():
        if with_experts and len(passes) == 1:
            with attach(model, without_experts(model, sink)), experts_into(model, sink):
                model(input_ids=torch.tensor(passes), **cache_of)
        else:
            with attach(model, sink):
                for tokens in passes:
                    model(input_ids=torch.tensor([tokens]), **cache_of)
    return {name: seen[name] for name in sorted(seen, key=order)}


@cache
def about(name):
    """The header's description of the model, by which a manifest's floors are found."""
    file = model_file(name)
    return dict(name=name, sha256=sha256(file), arch=ModelFile(file).arch, type="F32")


def write(path, name, tokens, seen, engine, only=None):
    with LogWriter(path, values=None) as log:
        log.header(list(tokens), model=about(name), engine=engine, backend="cpu")
        for name, rows in seen.items():
            for position, row in rows if only is None or name in only else ():
                log.write(name, position, row)


@cache
def reference(name, prompt, more, with_experts):
    with doubles():
        wide = oracle.in_float64(family_of(name), sound(name).state_dict())
        return seen_by(wide, [list(prompt + more)], with_experts)


def broken(bug):
    state = {name: values.clone() for name, values in sound(bug.family).state_dict().items()}
    bug.weights(state)
    model = oracle.model_of(oracle.config_of(family_of(bug.family), **bug.config))
    model.load_state_dict(state, strict=not bug.config)
    return model


def logs(bug, folder):
    """Paths of reference and log, of all ops and of the logits: {"ops": (ref, got), "logits": (ref, got)}."""
    prompt = tuple(prompt_of(bug))
    more = after(bug.family, prompt, bug.after) if bug.after else ()
    fed = bug.fed(prompt)
    passes = [list(fed), *([token] for token in more)]
    model, with_experts = broken(bug), True
    with bug.patch(model):
        try:
            got = seen_by(model, passes)
        except RuntimeError as error:  # of experts that are not their module's
            if "own" not in str(error):
                raise
            got, with_experts = seen_by(model, passes, False), False
    right = reference(bug.family, prompt, more, with_experts and len(passes) == 1)
    made = {}
    for kind, only in (("ops", None), ("logits", {"logits"})):
        made[kind] = folder / f"{bug.name}-{kind}-ref.jsonl", folder / f"{bug.name}-{kind}.jsonl"
        write(made[kind][0], bug.family, prompt, right, "float64", only)
        write(made[kind][1], bug.family, fed, got, "broken", only)
    return made


def compared(assay, ref, got, model=None, policy=None):
    """(exit code, the comparison's JSON)."""
    command = [assay, "compare", ref, got, "--json", *(["--model", model] if model else [])]
    command += ["--policy", policy] if policy else []
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(map(str, command))}: {ran.returncode}\n{ran.stderr}")
    return ran.returncode, json.loads(ran.stdout)
