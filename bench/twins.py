#!/usr/bin/env python3
"""Memory and speed of full-size twins of published models: what runs on this machine, and how close to its memory.

twins.py NAME:TYPE... [--bin build/release/bin] [--folder DIR] [--math fast] [--threads 2] [-n 32] [--rounds 2]

A NAME is one that `assay synth --list` has. The twin is made in --folder as NAME.TYPE.gguf and deleted after its row is
measured; a file that is there already is measured and stays. A row is the best of its rounds: the time to open the
file, the peak of resident memory (the mapped file counts), tokens per second of a prompt of 32 tokens and of decoding,
and decode as a share of the bandwidth of memory, which assay_bench measures between the rounds. Of experts only those
count that a token is routed to, and of an embedding table nothing unless it is the output's too. Prints Markdown.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from against_llamacpp import bandwidth, bytes_per_token, last_json

PROMPT = [(i * 37 + 11) % 1000 for i in range(32)]
COLUMNS = ("model", "architecture", "file, GB", "memory, GB", "opened, ms", "prompt, tok/s", "decode, tok/s")
SHARES = ("read a token, GB", "decode, GB/s", "bandwidth, GB/s", "share")


def run_once(path, flags):
    """The numbers of `assay run --json`, and "peak", the most bytes that the process had resident."""
    command = [flags.bin / "assay", "run", path, "--tokens", ",".join(map(str, PROMPT)), "-n", str(flags.n)]
    command += ["--ignore-eos", "--math", flags.math, "--threads", str(flags.threads), "--json"]
    with tempfile.TemporaryFile() as answer:
        process = subprocess.Popen(command, stdout=answer)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"twins.py: assay run {path} failed")
        answer.seek(0)
        return {**json.loads(answer.read()), "peak": usage.ru_maxrss * 1024}


def read_into_cache(path):
    """So that the first round does not wait for the disk."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def row(name, path, flags):
    inspected = last_json([flags.bin / "assay", "inspect", "--json", path])
    per_token = bytes_per_token(inspected)
    read_into_cache(path)
    limits, rounds = [bandwidth(flags)], []
    for _ in range(flags.rounds):
        rounds.append(run_once(path, flags))
        limits.append(bandwidth(flags))
    limit = max(limits)
    decode = max(measured["decode_tok_s"] for measured in rounds)
    return [
        name,
        inspected["architecture"],
        f"{path.stat().st_size / 1e9:.2f}",
        f"{max(measured['peak'] for measured in rounds) / 1e9:.2f}",
        f"{min(measured['load_ms'] for measured in rounds):.0f}",
        f"{max(measured['prefill_tok_s'] for measured in rounds):.1f}",
        f"{decode:.2f}",
        f"{per_token / 1e9:.2f}",
        f"{decode * per_token / 1e9:.1f}",
        f"{limit / 1e9:.1f}",
        f"{decode * per_token / limit:.0%}",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("twins", nargs="+", metavar="NAME:TYPE")
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"), help="where assay and assay_bench are")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the twins are made")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-n", type=int, default=32, help="tokens to decode")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--math", choices=["exact", "fast"], default="fast")
    flags = parser.parse_args()

    columns = COLUMNS + SHARES
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for twin in flags.twins:
        name, _, weights = twin.partition(":")
        path = flags.folder / f"{name}.{weights}.gguf"
        made = not path.exists()
        if made:
            command = [flags.bin / "assay", "synth", name, "--type", weights, "-o", path]
            if subprocess.run(command, check=False).returncode != 0:
                sys.exit(f"twins.py: {twin} cannot be made")
        print("| " + " | ".join(row(f"{name} {weights}", path, flags)) + " |", flush=True)
        if made:
            path.unlink()


if __name__ == "__main__":
    main()
