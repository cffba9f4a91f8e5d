#!/usr/bin/env python3
"""What logging with sketches costs decode: logits, layers and all ops.

logging_cost.py MODEL.gguf... [--assay build/release/bin/assay] [--math fast] [--threads 2] [--rounds 16] [-n 96]

Decode without a log and with one by turns (A B B A ...), in processes of their own; the median over the pairs of how
much longer a token takes. Prints Markdown.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from against_llamacpp import last_json


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="MODEL.gguf")
    parser.add_argument("--assay", default="build/release/bin/assay")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-n", type=int, default=96, help="tokens to decode")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--math", choices=["exact", "fast"], default="fast")
    flags = parser.parse_args()
    print(f"| model, `{flags.math}` | checkpoints | off, tok/s | more time a token | quartiles |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        log = ["--log", Path(folder) / "log.jsonl", "--sketch", "--checkpoints"]
        for path in flags.models:
            run = [flags.assay, "run", path, "--tokens", "1,2,3,4", "-n", str(flags.n), "--ignore-eos"]
            run += ["--math", flags.math, "--threads", str(flags.threads), "--json"]
            last_json(run)  # not counted
            for checkpoints in ("logits", "layers", "ops"):
                commands = {"off": run, "on": [*run, *log, checkpoints]}
                off, more = [], []
                for turn in range(flags.rounds):
                    names = ("off", "on") if turn % 2 == 0 else ("on", "off")
                    speed = {name: last_json(commands[name])["decode_tok_s"] for name in names}
                    off.append(speed["off"])
                    more.append(speed["off"] / speed["on"] - 1)
                low, middle, high = statistics.quantiles(more, n=4)
                print(
                    f"| {Path(path).stem} | {checkpoints} | {statistics.median(off):.1f} | {middle:.1%} | "
                    f"{low:.1%} to {high:.1%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
