#!/usr/bin/env python3
"""Checks golden/: manifests, fixtures and models agree, nothing is missing, left over or unread, and all is small.

    python3 golden/lint.py [--golden FOLDER] [--read-by build/release/bin/golden_test]

Prints one line for each complaint and exits with 1 if there are any. Standard library only; runs as a test and as a
pre-commit hook, whose file names it takes and does not need.
"""

import argparse
import hashlib
import math
import re
import subprocess
import sys
from pathlib import Path

from lint_json import Complaint, Node, parse
from lint_measured import FAST_FLOORS, SNAPSHOTS, check_measured

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = 2
BUDGET = 96_000_000  # bytes of golden/ but for its generators
SKETCH = 64
K = 3  # docs/tolerances.md
# The most that a computation of each sort is ever off by: above it something went wrong when the floor was measured,
# and a tolerance made of it would let mistakes through. Float32 of 24 bits through a hundred layers stays below 1e-4;
# llama.cpp's GELU comes from a table of float16; 8 bits of bfloat16 and quantised activations may lose half of a row.
FLOORS = {
    "f32_vs_f64": 1e-4,
    "f32_with_f64_angles_vs_f64": 1e-4,
    "bf16_vs_f64": 0.5,
    "llamacpp_vs_f64": 1e-3,
    "llamacpp_as_stored_vs_f64": 0.5,
}
LAYERS = re.compile(r"embedding|layer_\d+_output|logits")
INVENTORY = "inventory.txt"
NOT_FIXTURES = {"generate", "__pycache__"}
ROUNDING = 6e-3  # manifests hold three digits; `golden verify` has the same rule, by code of its own


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def check_floors(table):
    for _, floors in table.members():
        for name, floor in floors.members():
            if name not in FLOORS:
                floor.fail(f"is not a floor; there are {', '.join(sorted(FLOORS))}")
            if not floor["p99"].number() <= floor["max"].number():
                floor.fail("has a p99 above its max")
            if "regret" in floor:
                floor["regret"].number()
            if not floor["max"].number() <= FLOORS[name]:
                floor["max"].fail(f"is {floor['max'].value}, a correct {name} is at most {FLOORS[name]}")


def check_model_file(folder, entry):
    """The model's file exists and is the stated one, or the manifest names its source."""
    path, stated = folder / entry["gguf"].file_name(), entry["sha256"].hash()
    if "wheel" in entry or "source" in entry:
        if path.exists():
            entry["gguf"].fail("is in the folder, and also said to come from elsewhere")
        return None
    if not path.is_file():
        entry["gguf"].fail(f"names {path.name}, which is not there; a file from elsewhere needs a wheel or source")
    if sha256(path) != stated:
        entry["sha256"].fail(f"is not that of {path.name}: make it again or restore it")
    return path.name


def finite_numbers(values, count=None):
    return (
        isinstance(values, list)
        and (count is None or len(values) == count)
        and all(
            isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) for value in values
        )
    )


def check_record(record):
    """What every record of a fixture holds; returns (checkpoint, token_idx)."""
    for key in ("checkpoint", "token_idx", "dtype", "shape", "values", "summary", "sketch"):
        if key not in record:
            raise Complaint(f"has no {key}")
    shape, summary = record["shape"], record["summary"]
    n = math.prod(shape) if shape and all(isinstance(size, int) and size > 0 for size in shape) else 0
    if not n or record.get("n", n) != n:
        raise Complaint("has a shape that is not its n")
    if not finite_numbers(record["values"]) or not 0 < len(record["values"]) <= n:
        raise Complaint("has values that are not finite numbers, at most n of them")
    if not finite_numbers(record["sketch"], SKETCH):
        raise Complaint(f"has no sketch of {SKETCH} finite numbers")
    if summary.get("nonfinite") != 0 or not finite_numbers([summary.get(key) for key in ("min", "max", "mean", "l2")]):
        raise Complaint("has a summary with numbers missing or not finite")
    if not summary["l2"] > 0:
        raise Complaint("is all zero, which proves nothing")
    if summary.get("argmax") not in range(n) or summary["top"][0][0] != summary["argmax"]:
        raise Complaint("has an argmax that is not its greatest value")
    if not isinstance(record["token_idx"], int) or not isinstance(record["checkpoint"], str):
        raise Complaint("has a checkpoint or token_idx of the wrong type")
    return record["checkpoint"], record["token_idx"]


def read_log(path):
    """(header, [record]); complaints name the line."""
    lines = path.read_text(encoding="utf-8").split("\n")
    if lines.pop() != "":
        raise Complaint(f"{path.name}:{len(lines) + 1} is torn: the file does not end with a line end")
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(parse(line))
            if number > 1:
                check_record(records[-1])
        except Complaint as complaint:
            raise Complaint(f"{path.name}:{number} {complaint}") from None
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise Complaint(f"{path.name}:{number} is not a record: {error}") from None
    if not records or records[0].get("assay") != 1:
        raise Complaint(f"{path.name}:1 is not a header")
    return records[0], records[1:]


def check_header(path, header, manifest, entry, prompt):
    stated = {"name": manifest["model"].value, "sha256": entry["sha256"].value, "arch": manifest["arch"].value}
    stated["type"] = entry["type"].value
    for key, value in stated.items():
        if header.get("model", {}).get(key) != value:
            raise Complaint(
                f"{path.name}:1 is of the {key} {header.get('model', {}).get(key)!r}, the manifest says {value!r}"
            )
    if header.get("tokens") != prompt["tokens"].value or header.get("prompt") != prompt["text"].value:
        raise Complaint(f"{path.name}:1 has another prompt than the manifest's")
    if header.get("engine") == "assay":
        raise Complaint(f"{path.name}:1 is of Assay's own engine, which it is to judge")
    if manifest["tolerance"]["floor"].value.endswith("_vs_f64") and header.get("math") != "float64":
        raise Complaint(f"{path.name}:1 is of math {header.get('math')!r}, and its floors are errors against float64")


def check_coverage(path, records, set_name, positions):
    """Every checkpoint of the set at every position, once."""
    seen = [(record["checkpoint"], record["token_idx"]) for record in records]
    if len(set(seen)) < len(seen):
        raise Complaint(f"{path.name} has a record twice")
    names = {name for name, _ in seen}
    if set_name == "layers" and not all(LAYERS.fullmatch(name) for name in names):
        raise Complaint(f"{path.name} has more than the set layers")
    if {at for _, at in seen} != set(positions):
        raise Complaint(f"{path.name} has other positions than the manifest says")
    if len(seen) != len(names) * len(positions):
        raise Complaint(f"{path.name} does not have every checkpoint at every position")
    if not {"embedding", "layer_0_output", "logits"} <= names:
        raise Complaint(f"{path.name} has no embedding, layer output or logits")
    if set_name == "ops" and not any(name.endswith(("_attn", "_ssm")) for name in names):
        raise Complaint(f"{path.name} has only layers, the manifest says ops")


def is_near(gap, stated, largest):
    """Whether a gap between logits is the stated one; `largest` is a magnitude of theirs."""
    return abs(gap - stated) <= ROUNDING * stated + 2**-22 * largest


def check_greedy_gaps(gaps, path, logits, n_prompt, padding):
    for record in logits:
        step = record["token_idx"] - (n_prompt - 1)
        top = [value for index, value in record["summary"]["top"] if index not in padding]
        if not 0 <= step < len(gaps.items()) or len(top) < 2:
            continue
        stated = gaps.items()[step].number()
        if not is_near(top[0] - top[1], stated, max(abs(top[0]), abs(top[1]))):
            gaps.fail(f"has {stated} at {step}, the gap in {path.name} is {top[0] - top[1]:.3g}")


def check_choices(log, path, records, n_prompt, padding):
    """The logits of the fixture choose the tokens of the manifest, with the gaps of the manifest."""
    logits = [record for record in records if record["checkpoint"] == "logits"]
    greedy = log["greedy"].integers()
    for step, token in enumerate(greedy):
        if token in padding:
            log["greedy"].fail(f"has {token} at {step}, which is one of the padding_ids")
    for record in logits:
        step, best = record["token_idx"] - (n_prompt - 1), record["summary"]["argmax"]
        if 0 <= step < len(greedy) and best not in padding and best != greedy[step]:
            log["greedy"].fail(f"has {greedy[step]} at {step}, {path.name} chooses {best}")
    check_greedy_gaps(log["greedy_gaps"], path, logits, n_prompt, padding)
    gap = min(record["summary"]["top"][0][1] - record["summary"]["top"][1][1] for record in logits)
    stated = log["argmax_min_gap"].number()
    largest = max(abs(record["summary"]["max"]) for record in logits)
    if not is_near(gap, stated, largest):
        log["argmax_min_gap"].fail(f"is {stated}, the gap in {path.name} is {gap:.3g}")


def check_log(folder, manifest, entry, log):
    path = folder / log["file"].file_name()
    if not path.is_file():
        log["file"].fail(f"names {path.name}, which is not there")
    if sha256(path) != log["sha256"].hash():
        log["sha256"].fail(
            f"is not that of {path.name}: record it again (`{manifest['command'].value}`) or restore the file"
        )
    name = log["prompt"].text()
    if name not in manifest["prompts"]:
        log["prompt"].fail(f"is {name!r}, which is not one of the prompts")
    set_name = log["set"].text()
    if set_name not in ("layers", "ops"):
        log["set"].fail(f"is {set_name!r}, which no test reads; there are layers and ops")
    prompt = manifest["prompts"][name]
    n_predict = log["n_predict"].integer()
    if len(log["greedy"].integers()) != n_predict or len(log["greedy_gaps"].items()) != n_predict:
        log["greedy"].fail("or greedy_gaps is not as long as n_predict")
    total = len(prompt["tokens"].value) + max(n_predict - 1, 0)
    positions = list(range(total)) if log["positions"].value is None else log["positions"].integers()
    if positions != sorted(set(positions)) or not positions or positions[-1] >= total:
        log["positions"].fail(f"are not growing positions below {total}")
    header, records = read_log(path)
    check_header(path, header, manifest, entry, prompt)
    check_coverage(path, records, set_name, positions)
    check_choices(log, path, records, len(prompt["tokens"].value), set(manifest["padding_ids"].value))
    floor = manifest["tolerance"]["floor"].text()
    for checkpoint in {record["checkpoint"] for record in records}:
        if checkpoint not in entry["floors_by_checkpoint"] or floor not in entry["floors_by_checkpoint"][checkpoint]:
            entry["floors_by_checkpoint"].fail(f"has no {floor} for {checkpoint}, which {path.name} holds")
    return path.name


def check_manifest(folder, manifest, complaints):
    """Complains of everything that is wrong in one folder; returns the names of the files that it accounts for."""
    named = {"manifest.json", SNAPSHOTS, FAST_FLOORS}

    def attempt(function, *arguments):
        try:
            return function(*arguments)
        except Complaint as complaint:
            complaints.append(f"{folder.name}/manifest.json: {complaint}")
            return None

    for entry in manifest["files"].items():
        named.add(attempt(check_model_file, folder, entry))
        named.add(entry["gguf"].value)
        for table in ("floors", "floors_by_checkpoint"):
            attempt(lambda table=table, entry=entry: check_floors(entry[table]))
        for log in entry["logs"].items():
            name = log["file"].value
            if name in named:
                complaints.append(
                    f"{folder.name}/manifest.json: {log.key}.file names {name}, which another entry names too"
                )
            named.add(name)
            attempt(check_log, folder, manifest, entry, log)
    return named


def check_top(folder, manifest):
    """Checks everything above the files; raises the first complaint."""
    if manifest["schema"].value != SCHEMA:
        manifest["schema"].fail(f"is {manifest['schema'].value}, this lint knows {SCHEMA}")
    if manifest["model"].text() != folder.name:
        manifest["model"].fail(f"is {manifest['model'].value!r}, the folder is {folder.name!r}")
    manifest["arch"].text()
    manifest["command"].text()
    manifest["padding_ids"].integers()
    for _, version in manifest["oracles"].members():
        version.text()
    tolerance = manifest["tolerance"]
    tolerance["why"].text()
    if tolerance["k"].number() != K:
        tolerance["k"].fail(f"is {tolerance['k'].value}, it is {K} for all goldens (docs/tolerances.md)")
    if tolerance["floor"].text() not in FLOORS:
        tolerance["floor"].fail("is not a floor")
    used = set()
    for entry in manifest["files"].items():
        used |= {log["prompt"].value for log in entry["logs"].items()}
        used |= {text["prompt"].value for text in entry["texts"].items()} if "texts" in entry else set()
    for name, prompt in manifest["prompts"].members():
        prompt["text"].text()
        if not prompt["tokens"].integers():
            prompt["tokens"].fail("is empty")
        if name not in used:
            prompt.fail("is a prompt that nothing uses")
    types = [entry["type"].text() for entry in manifest["files"].items()]
    if not types or len(set(types)) < len(types):
        manifest["files"].fail("has no file, or two of one type")


def is_kept(path):
    """Whether a file belongs into the repository: pending goldens and what Python compiles do not."""
    return path.is_file() and path.suffix not in (".new", ".pyc")


def lint_folder(folder, complaints):
    path = folder / "manifest.json"
    if not path.is_file():
        complaints.append(f"{folder.name}: has no manifest.json")
        return
    try:
        manifest = Node(parse(path.read_text(encoding="utf-8")))
        check_top(folder, manifest)
        named = check_manifest(folder, manifest, complaints)
        check_measured(folder, manifest, complaints)
    except Complaint as complaint:
        complaints.append(f"{folder.name}/manifest.json: {complaint}")
        return
    except ValueError as error:
        complaints.append(f"{folder.name}/manifest.json: is not JSON: {error}")
        return
    for left_over in sorted(path.name for path in folder.rglob("*") if is_kept(path) and path.name not in named):
        complaints.append(f"{folder.name}/{left_over}: no manifest names it; delete it or record it")


def cases_of(program):
    """The names of a GoogleTest program's cases."""
    answer = subprocess.run([program, "--gtest_list_tests"], check=True, capture_output=True, text=True)
    return [line.split("#")[0].strip() for line in answer.stdout.splitlines() if line.startswith(" ")]


def unread(golden, cases):
    """Complaints of model files that no case is named after: golden_test reads all fixtures of a file, or none."""
    for path in sorted(golden.glob("*/manifest.json")):
        try:
            types = [entry["type"].text() for entry in Node(parse(path.read_text(encoding="utf-8")))["files"].items()]
        except (Complaint, ValueError):
            continue  # told already
        for type_name in types:
            name = re.sub(r"[^0-9A-Za-z]", "_", f"{path.parent.name}_{type_name}_")
            if not any(f"/{name}" in f"{case}_" for case in cases):
                yield f"{path.parent.name}/manifest.json: no test reads the fixtures of {type_name}"


def fixtures_of(folder):
    """The lines of the inventory for a folder; None if its manifest is broken, which other checks report."""
    try:
        manifest = parse((folder / "manifest.json").read_text(encoding="utf-8"))
        found = {
            (manifest["model"], entry["type"], log["prompt"], log["set"])
            for entry in manifest["files"]
            for log in entry["logs"]
        }
        texts = {
            (manifest["model"], entry["type"], text["prompt"], "text")
            for entry in manifest["files"]
            for text in entry.get("texts", [])
        }
        return found | texts
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def check_inventory(golden, folders):
    """Complains of each fixture that is listed and missing, or there and not listed."""
    path = golden / INVENTORY
    if not path.is_file():
        return [f"{INVENTORY}: is missing; assay golden list --inventory prints it"]
    lines = [line.split("#")[0].split() for line in path.read_text(encoding="utf-8").splitlines()]
    listed = {tuple(words) for words in lines if words}
    found = set()
    for folder in folders:
        fixtures = fixtures_of(folder)
        found |= fixtures or set()
        if fixtures is None:
            listed = {words for words in listed if words[0] != folder.name}
    complaints = []
    for what in sorted({words[:1] for words in listed} | {words[:2] for words in listed}, key=len):
        of_it = {words for words in listed - found if words[: len(what)] == what}
        if of_it and not any(words[: len(what)] == what for words in found):
            complaints.append(f"{INVENTORY}: lists {len(of_it)} fixtures of {' '.join(what)}: all are missing")
            listed -= of_it
    complaints += [f"{INVENTORY}: lists {' '.join(words)}, which is missing" for words in sorted(listed - found)]
    complaints += [f"{INVENTORY}: does not list {' '.join(words)}, which exists" for words in sorted(found - listed)]
    return complaints


def lint(golden, cases=None):
    """All complaints, and the size; `cases` are those of the test that reads the fixtures."""
    complaints = []
    folders = sorted(path for path in golden.iterdir() if path.is_dir() and path.name not in NOT_FIXTURES)
    if not folders:
        complaints.append(f"{golden}: has no goldens")
    for folder in folders:
        lint_folder(folder, complaints)
    complaints += check_inventory(golden, folders)
    if cases is not None:
        complaints += unread(golden, cases)
    data = (path for path in golden.rglob("*") if NOT_FIXTURES.isdisjoint(path.relative_to(golden).parts))
    size = sum(path.stat().st_size for path in data if is_kept(path))
    if size > BUDGET:
        complaints.append(f"{golden}: has {size / 1e6:.1f} MB, the budget is {BUDGET / 1e6:.0f} MB")
    return complaints, size


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--golden", type=Path, default=ROOT / "golden", help="the folder of goldens")
    parser.add_argument("--read-by", metavar="PROGRAM", help="golden_test: complain of what it does not read")
    parser.add_argument("files", nargs="*", help="ignored: all is checked, since one change can break another file")
    options = parser.parse_args()
    complaints, size = lint(options.golden, cases_of(options.read_by) if options.read_by else None)
    for complaint in complaints:
        print(complaint)
    print(f"golden: {size / 1e6:.1f} MB, " + (f"{len(complaints)} complaints" if complaints else "all in order"))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
