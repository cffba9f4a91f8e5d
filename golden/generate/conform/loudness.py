"""How far each mistake of a case moves its logits, computed by Assay's engine, which must agree with the reference."""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from .case import merged
from .folder import write_folder

LOUD = 1e-2
SMALL = 1e-4  # of mistakes that are marked so
AGREES = 2e-6


def read_log(path):
    """{checkpoint: float64 [tokens, n]} of a log with all values."""
    rows = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if "checkpoint" in record:
            rows.setdefault(record["checkpoint"], []).append(np.array(record["values"], dtype=np.float64))
    return {name: np.stack(values) for name, values in rows.items()}


def distance(got, expected):
    """The relative L2 of all positions together; infinite for NaN."""
    far = float(np.linalg.norm(got - expected) / np.linalg.norm(expected))
    return far if np.isfinite(far) else float("inf")


def worst(got, expected):
    """The greatest relative L2 over checkpoints and positions."""
    if set(got) != set(expected):
        return float("inf")
    return max(distance(row, right) for name in expected for row, right in zip(got[name], expected[name], strict=True))


def assay(program, model, tokens, checkpoints):
    """What `assay run` logs."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "log.jsonl"
        command = [program, "run", model, "--tokens", ",".join(map(str, tokens)), "-n", "0", "--backend", "cpu"]
        command += ["--threads", "1", "--log", log, "--checkpoints", checkpoints, "--values", "all"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return read_log(log)


def mistaken_logits(program, case, mistake):
    """Logits of what the mistake takes the model for."""
    with tempfile.TemporaryDirectory() as scratch:
        config = merged(case["config"], mistake["config"])
        folder = write_folder(Path(scratch) / "model", case, config, mistake.get("tensors"))
        return assay(program, folder, case["tokens"], "logits")["logits"]


def survey(program, case, folder, reference):
    """Of the case and its model: ([(how far the logits move, mistake)], the engine's error, what is wrong with the case)."""
    wrong, found, error = [], [], float("nan")
    try:
        error = worst(assay(program, folder, case["tokens"], "layers"), reference)
    except RuntimeError as refused:
        wrong.append(f"Assay's engine refuses it: {refused}")
    if not wrong and not error <= AGREES:
        wrong.append(f"Assay's engine is {error:.1e} from the reference")
    for mistake in case["counterfactuals"]:
        try:
            far = distance(mistaken_logits(program, case, mistake), reference["logits"])
        except RuntimeError as refused:
            wrong.append(f"'{mistake['text']}' cannot be computed: {refused}")
            continue
        found.append((far, mistake))
        least = SMALL if mistake.get("small") else LOUD
        if not least <= far < float("inf"):
            wrong.append(f"'{mistake['text']}' moves the logits by {far:.1e}, which is below {least}")
        elif mistake.get("small") and far >= LOUD:
            wrong.append(f"'{mistake['text']}' moves the logits by {far:.1e}, which is not small")
    return found, error, wrong
