"""Holds Assay to the golden of a full-size model: published.py ASSAY MANIFEST.json

The model file is made in the cache by the command that the manifest states, and must have its SHA-256; then Assay runs
it, must choose the tokens that float64 chose, and every recorded checkpoint must be within the manifest's tolerance.
What would break: a quantiser or generator whose bits changed, and any wrong operation that small shapes do not show.
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path


def cache():
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay"
    return Path(os.environ.get("ASSAY_CACHE") or default)


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def model_file(assay, manifest, entry):
    folder = cache() / manifest["model"]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / entry["gguf"]
    if not path.exists():
        start = time.monotonic()
        words = shlex.split(entry["source"]["command"])
        subprocess.run([assay, *words[1:]], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print(f"{path}: made in {time.monotonic() - start:.0f} s, {path.stat().st_size / 1e6:.0f} MB")
    if sha256(path) != entry["sha256"]:
        sys.exit(f"{path}: has another SHA-256 than the manifest; remove it, and if it comes back, the bits changed")
    return path


def check(assay, manifest_path, manifest, entry, log):
    path = model_file(assay, manifest, entry)
    tokens = ",".join(map(str, manifest["prompts"][log["prompt"]]["tokens"]))
    got = path.with_suffix(".got.jsonl")
    start = time.monotonic()
    run = subprocess.run(
        [assay, "run", path, "--tokens", tokens, "-n", str(log["n_predict"]), "--ignore-eos", "--json",
         "--log", got, "--checkpoints", log["set"], "--sketch"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    seconds = time.monotonic() - start
    generated = json.loads(run.stdout)["generated"]
    if generated != log["greedy"]:
        sys.exit(f"{entry['gguf']}: chose {generated}, float64 chose {log['greedy']}")
    # Positions that the golden does not have are not compared: only those are kept.
    lines = got.read_text().splitlines()
    kept = [line for line in lines if "token_idx" not in line or json.loads(line)["token_idx"] in log["positions"]]
    got.write_text("\n".join(kept) + "\n")
    reference = manifest_path.parent / log["file"]
    answer = subprocess.run(
        [assay, "compare", reference, got, "--policy", manifest_path, "--format", "json"], capture_output=True, text=True
    )
    if answer.returncode != 0:
        sys.exit(f"{entry['gguf']}: compare says {answer.returncode}: {answer.stderr}{answer.stdout[:600]}")
    report = json.loads(answer.stdout)
    compared = report["summary"]["compared"]
    expected = len(reference.read_text().splitlines()) - 1
    if compared != expected or report["summary"]["failed"]:
        sys.exit(f"{entry['gguf']}: {compared} of {expected} records compared")
    share = max(result["rel_l2"] / result["tolerance"] for result in report["results"])
    print(f"{entry['gguf']}: {compared} records, the worst at {share:.0%} of its tolerance, run in {seconds:.0f} s")
    got.unlink()


def main():
    assay, manifest_path = sys.argv[1], Path(sys.argv[2])
    manifest = json.loads(manifest_path.read_text())
    for entry in manifest["files"]:
        for log in entry["logs"]:
            check(assay, manifest_path, manifest, entry, log)


if __name__ == "__main__":
    main()
