#!/usr/bin/env python3
"""Decode and prefill of Assay beside llama.cpp, on one file, in one run.

against_llamacpp.py MODEL.gguf [--assay build/release/bin/assay] [--math fast] [--threads 2] [--rounds 5]

The two take turns (A B B A ...), each in a process of its own, so that what else the machine does
hits both; the figures are medians and their ratio. Needs llama-cpp-python, built for this machine:
CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX512=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX2=ON -DGGML_FMA=ON
-DGGML_F16C=ON" pip install llama-cpp-python==0.3.36
"""

import argparse
import json
import statistics
import subprocess
import sys

LLAMA = """
import json, sys, time
from llama_cpp import Llama
path, threads, prompt, n = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
model = Llama(path, n_ctx=len(prompt) + n + 1, n_batch=512, n_threads=threads,
              n_threads_batch=threads, verbose=False)
start = time.perf_counter()
model.eval(prompt)
prefill = time.perf_counter() - start
start = time.perf_counter()
for i in range(n - 1):
    model.eval([prompt[i % len(prompt)]])
decode = time.perf_counter() - start
print(json.dumps({"prefill_tok_s": len(prompt) / prefill, "decode_tok_s": (n - 1) / decode}))
"""


def last_json(command):
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        sys.exit(f"{' '.join(command[:2])} failed: {answer.stderr.strip()[-500:]}")
    return json.loads(answer.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--assay", default="build/release/bin/assay")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("-n", type=int, default=64, help="tokens to decode")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--math", choices=["exact", "fast"], default="exact")
    flags = parser.parse_args()

    tokens = [(i * 37 + 11) % 1000 for i in range(flags.prompt_tokens)]
    engines = {
        "assay": [flags.assay, "run", flags.model, "--tokens", ",".join(map(str, tokens)),
                  "-n", str(flags.n), "--ignore-eos", "--math", flags.math, "--threads", str(flags.threads), "--json"],
        "llama.cpp": [sys.executable, "-c", LLAMA, flags.model, str(flags.threads),
                      json.dumps(tokens), str(flags.n)],
    }
    figures = {name: {"prefill_tok_s": [], "decode_tok_s": []} for name in engines}
    for turn in range(flags.rounds):
        order = list(engines) if turn % 2 == 0 else list(engines)[::-1]
        for name in order:
            measured = last_json(engines[name])
            for key, values in figures[name].items():
                values.append(measured[key])
        print(f"round {turn + 1} of {flags.rounds}", file=sys.stderr)

    print(f"{'':14} {'assay':>10} {'llama.cpp':>10} {'ratio':>7}   (median of {flags.rounds}, tok/s)")
    for key, label in (("prefill_tok_s", "prefill"), ("decode_tok_s", "decode")):
        ours, theirs = (statistics.median(figures[name][key]) for name in engines)
        ratios = sorted(a / b for a, b in zip(figures["assay"][key], figures["llama.cpp"][key]))
        print(f"{label:14} {ours:10.1f} {theirs:10.1f} {ours / theirs:7.2f}   "
              f"each round {ratios[0]:.2f} to {ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
