#!/usr/bin/env python3
"""Compares a build's engine with the goldens, and keeps each result of `assay compare` for `assay perf --accuracy`.

bench/accuracy.py ENGINE --judge PROGRAM --out FOLDER [--models RE] [--base]

Runs every existing model file that golden/*/manifest.json names, with each of its prompts, in exact math and, if its
weights are in blocks, in fast math too. exact is judged by the manifest's own floor, fast by the error of llama.cpp,
since both round activations; where the manifest does not have that, fast is left out by name. ENGINE runs, PROGRAM
judges, so that two builds have the same judge. A model that ENGINE cannot run is an error, with --base (an older build,
which may lack a feature) a remark. Run from the root of the sources.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FAST_FLOOR = "llamacpp_as_stored_vs_f64"
CACHE = Path(os.environ.get("ASSAY_CACHE") or
             Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "assay"))


def fail(message):
    print(f"accuracy.py: {message}", file=sys.stderr)
    sys.exit(2)


def last_line(text):
    return (text.strip().splitlines() or ["it does not say why"])[-1]


def cases(manifest, pattern):
    """(type, math, model file, prompt, its tokens, golden log) of all existing files whose MODEL-TYPE-MATH matches."""
    golden = json.loads(manifest.read_text())
    for file in golden["files"]:
        path = next((folder / file["gguf"] for folder in (manifest.parent, CACHE / golden["model"])
                     if (folder / file["gguf"]).exists()), None)
        if path is None:
            print(f"left out: {golden['model']} {file['type']}: no {file['gguf']} here", file=sys.stderr)
            continue
        for math in ("exact", "fast") if file["type"].startswith("Q") else ("exact",):
            if not re.search(pattern, f"{golden['model']}-{file['type']}-{math}"):
                continue
            if math == "fast" and not any(FAST_FLOOR in floors for floors in file["floors"].values()):
                print(f"left out: {golden['model']} {file['type']} fast: {manifest} has no {FAST_FLOOR}", file=sys.stderr)
                continue
            for log in file["logs"]:
                if log["set"] == "layers":
                    yield golden["model"], file["type"], math, path, log["prompt"], \
                        golden["prompts"][log["prompt"]]["tokens"], manifest.parent / log["file"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine")
    parser.add_argument("--judge", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--models", default=".", help="regular expression of MODEL-TYPE-MATH")
    parser.add_argument("--base", action="store_true")
    flags = parser.parse_args()
    shutil.rmtree(flags.out, ignore_errors=True)
    out = Path(flags.out)
    out.mkdir(parents=True)
    count = 0
    for manifest in sorted(Path("golden").glob("*/manifest.json")):
        for model, kind, math, path, prompt, tokens, golden in cases(manifest, flags.models):
            name = f"{model}-{kind}-{math}-{prompt}"
            with tempfile.NamedTemporaryFile(suffix=".jsonl") as log:
                run = subprocess.run(
                    [flags.engine, "run", path, "--tokens", ",".join(map(str, tokens)), "-n", "1", "--backend", "cpu",
                     "--math", math, "--log", log.name, "--checkpoints", "layers", "--sketch"],
                    capture_output=True, text=True, check=False)
                if run.returncode != 0:
                    if not flags.base:
                        fail(f"{name}: {last_line(run.stderr)}")
                    print(f"left out of the base: {name}: {last_line(run.stderr)}", file=sys.stderr)
                    continue
                floor = ["--floor", FAST_FLOOR] if math == "fast" else []
                judged = subprocess.run(
                    [flags.judge, "compare", golden, log.name, "--policy", manifest, *floor, "--format", "json",
                     "--tokens", f"..{len(tokens) - 1}", "-o", out / f"{name}.json"], capture_output=True, text=True, check=False)
                if judged.returncode not in (0, 1):
                    fail(f"{name}: {last_line(judged.stderr)}")
            count += 1
    if count == 0:
        fail(f"no model matches '{flags.models}', or none of them exists")
    print(f"{count} prompts compared with their goldens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
