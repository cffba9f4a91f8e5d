"""Holds the twins of `assay synth` to transformers in float64, and to llama.cpp where it can run them.

    python -m generate.twins ASSAY_PROGRAM [NAME…]

makes each config of tests/data/synth/ as GGUF file and as folder, and prints the largest relative L2 error of logits at
any position: of Assay with each against transformers with the folder, and of llama.cpp. Exit code 1 where Assay's is
above 1e-5. transformers must use every tensor of a folder and lack none. Run from golden/.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from .conform import reference
from .families import llamacpp_logits

CONFIGS = Path(__file__).parents[2] / "tests" / "data" / "synth"
TOKENS = [3, 50, 7, 300, 12, 90, 41, 8, 201, 17, 6, 250]
LIMIT = 1e-5


def assay_logits(assay, model, log):
    ids = ",".join(map(str, TOKENS))
    what = ["--log", log, "--checkpoints", "logits", "--values", "all"]
    subprocess.run([assay, "run", model, "--tokens", ids, "-n", "0", *what], check=True, capture_output=True)
    records = (json.loads(line) for line in log.read_text().splitlines())
    return np.array([record["values"] for record in records if record.get("checkpoint") == "logits"])


def worst(got, want):
    return max(np.linalg.norm(g - w) / np.linalg.norm(w) for g, w in zip(got, want, strict=True))


def errors(assay, config, scratch):
    file, folder = scratch / f"{config.stem}.gguf", scratch / config.stem
    for more in (["-o", file], ["-o", folder, "--folder"]):
        subprocess.run([assay, "synth", config, "--type", "F32", *more], check=True, capture_output=True)
    # Some classes' default is above these vocabularies.
    stated = folder / "config.json"
    stated.write_text(json.dumps(json.loads(stated.read_text()) | {"pad_token_id": None}))
    want = reference.run(folder, TOKENS)["logits"]
    own = [worst(assay_logits(assay, model, scratch / "log.jsonl"), want) for model in (file, folder)]
    try:
        other = f"{worst(llamacpp_logits.logits(file, TOKENS), want):.1e}"
    except Exception as error:
        other = f"refused ({type(error).__name__})"
    return own, other


def main():
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m generate.twins ASSAY_PROGRAM [NAME...]")
    assay, *names = sys.argv[1:]
    failed = False
    for config in sorted(CONFIGS.glob("*.json")):
        if names and config.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            own, other = errors(assay, config, Path(scratch))
        print(f"{config.stem:20} GGUF {own[0]:.1e}  folder {own[1]:.1e}  llama.cpp {other}", flush=True)
        failed = failed or not max(own) <= LIMIT
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
