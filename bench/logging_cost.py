#!/usr/bin/env python3
"""What logging all layers with sketches costs decode.

logging_cost.py MODEL.gguf... [--assay build/release/bin/assay] [--math fast] [--threads 2] [--rounds 8] [-n 96]

Decode without a log and with one by turns (A B B A ...), in processes of their own; medians. Prints Markdown.
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
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--math", choices=["exact", "fast"], default="fast")
    flags = parser.parse_args()
    print(f"| model, `{flags.math}` | off, tok/s | on, tok/s | slower by | each round |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        logged = ["--log", Path(folder) / "log.jsonl", "--checkpoints", "layers", "--sketch"]
        for path in flags.models:
            run = [flags.assay, "run", path, "--tokens", "1,2,3,4", "-n", str(flags.n), "--ignore-eos"]
            run += ["--math", flags.math, "--threads", str(flags.threads), "--json"]
            speeds = {"off": [], "on": []}
            for turn in range(flags.rounds):
                for name in ("off", "on") if turn % 2 == 0 else ("on", "off"):
                    speeds[name].append(last_json(run + (logged if name == "on" else []))["decode_tok_s"])
            off, on = statistics.median(speeds["off"]), statistics.median(speeds["on"])
            rounds = sorted(1 - b / a for a, b in zip(speeds["off"], speeds["on"], strict=True))
            print(
                f"| {Path(path).stem} | {off:.1f} | {on:.1f} | {1 - on / off:.1%} | "
                f"{rounds[0]:.1%} to {rounds[-1]:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
