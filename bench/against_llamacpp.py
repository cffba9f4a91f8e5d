#!/usr/bin/env python3
"""Decode and prefill of Assay beside llama.cpp, on the same files, in one run.

against_llamacpp.py MODEL.gguf... [--bin build/release/bin] [--math fast] [--threads 2] [--rounds 3]
                    [--prompt-tokens 128] [-n 128]

For each model the two take turns (A B B A ...), each in a process of its own, so that what else the machine does
hits both, and keeps keys and values as f16, as llama.cpp does unless told otherwise; a figure is the best of its rounds, as anything else on the machine can only lower it. The memory limit of
decode is the bytes of weights that a token needs over the bandwidth of memory, which assay_bench measures before each
model's rounds. Prints Markdown.

Needs llama-cpp-python, built for this machine: CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX512=ON -DGGML_AVX512_VNNI=ON
-DGGML_AVX512_VBMI=ON -DGGML_AVX512_BF16=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON"
pip install llama-cpp-python==0.3.36
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

LLAMA = """
import json, sys, time
import llama_cpp
path, threads, prompt, n = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
model = llama_cpp.Llama(path, n_ctx=len(prompt) + n + 1, n_batch=512, n_threads=threads,
                        n_threads_batch=threads, verbose=False)
def decode(tokens):
    array = (llama_cpp.llama_token * len(tokens))(*tokens)
    if llama_cpp.llama_decode(model.ctx, llama_cpp.llama_batch_get_one(array, len(tokens))) != 0:
        sys.exit("llama_decode failed")
    llama_cpp.llama_get_logits_ith(model.ctx, -1)
start = time.perf_counter()
decode(prompt)
prefill = time.perf_counter() - start
start = time.perf_counter()
for i in range(n - 1):
    decode([prompt[i % len(prompt)]])
seconds = time.perf_counter() - start
print(json.dumps({"prefill": len(prompt) / prefill, "decode": (n - 1) / seconds}))
"""
PHASES = ("decode", "prefill")


def last_json(command):
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:2]))} failed: {answer.stderr.strip()[-500:]}")
    return json.loads(answer.stdout[answer.stdout.index("{") :])


def bytes_per_token(inspected):
    """Of all matrices that a token is multiplied with: an embedding table only where it is the output's too, and of
    experts the share that a token is routed to."""
    names = {tensor["name"] for tensor in inspected["tensors"]}
    tables = {"position_embd.weight"} | ({"token_embd.weight"} if "output.weight" in names else set())
    settings = inspected["hyperparameters"]
    of_arch = f"{inspected['architecture']}.expert"
    routed = settings[f"{of_arch}_used_count"] / settings[f"{of_arch}_count"] if f"{of_arch}_count" in settings else 1
    return sum(
        tensor["bytes"] * (routed if "_exps." in tensor["name"] else 1)
        for tensor in inspected["tensors"]
        if tensor["name"] not in tables
    )


def bandwidth(flags):
    """Bytes a second that the threads read from memory, in this minute."""
    shortest = ["--benchmark_filter=rms_norm", "--benchmark_min_time=0.001", "--benchmark_format=json"]
    measured = last_json([flags.bin / "assay_bench", f"--threads={flags.threads}", *shortest])
    return float(measured["context"]["memory_bandwidth_gb_s"]) * 1e9


def measure(path, flags):
    """{"decode": {"assay": [tok/s of each round], "llama.cpp": [...]}, "prefill": ..., "limit": tok/s}"""
    tokens = [(i * 37 + 11) % 1000 for i in range(flags.prompt_tokens)]
    numbers = ",".join(map(str, tokens))
    settings = ["-n", str(flags.n), "--ignore-eos", "--math", flags.math, "--kv", "f16", "--json"]
    settings += ["--threads", str(flags.threads)]
    engines = {
        "assay": [flags.bin / "assay", "run", path, "--tokens", numbers, *settings],
        "llama.cpp": [sys.executable, "-c", LLAMA, path, str(flags.threads), json.dumps(tokens), str(flags.n)],
    }
    inspected = last_json([flags.bin / "assay", "inspect", "--json", path])
    figures = {phase: {name: [] for name in engines} for phase in PHASES}
    figures["limit"] = bandwidth(flags) / bytes_per_token(inspected)
    for turn in range(flags.rounds):
        for name in list(engines) if turn % 2 == 0 else list(engines)[::-1]:
            measured = last_json(engines[name])
            for phase in PHASES:
                figures[phase][name].append(measured.get(phase, measured.get(f"{phase}_tok_s")))
        latest = {phase: {name: round(values[-1], 1) for name, values in figures[phase].items()} for phase in PHASES}
        print(f"{path}, round {turn + 1}: {latest}", file=sys.stderr)
    return figures


def cells(figures):
    """assay, llama.cpp, ratio of the best, least and greatest ratio of a round"""
    ours, theirs = (max(figures[name]) for name in ("assay", "llama.cpp"))
    ratios = [a / b for a, b in zip(figures["assay"], figures["llama.cpp"], strict=True)]
    return f"{ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} | {min(ratios):.2f} to {max(ratios):.2f}", ours / theirs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="MODEL.gguf")
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"), help="where assay and assay_bench are")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("-n", type=int, default=128, help="tokens to decode")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--math", choices=["exact", "fast"], default="fast")
    flags = parser.parse_args()

    heads = " | ".join(f"{phase} | llama.cpp | ratio | each round" for phase in PHASES)
    print(f"| model, `{flags.math}`, prompt of {flags.prompt_tokens} | {heads} | memory limit | of limit |")
    print("|" + "---|" * 11)
    products = dict.fromkeys(PHASES, 1.0)
    for path in flags.models:
        figures = measure(path, flags)
        row = [Path(path).stem]
        for phase in PHASES:
            text, ratio = cells(figures[phase])
            row.append(text)
            products[phase] *= ratio
        share = max(figures["decode"]["assay"]) / figures["limit"]
        print("|", " | ".join(row), f"| {figures['limit']:.1f} | {share:.0%} |", flush=True)
    means = {phase: product ** (1 / len(flags.models)) for phase, product in products.items()}
    print(f"\nGeometric means: decode {means['decode']:.2f}, prefill {means['prefill']:.2f}.")


if __name__ == "__main__":
    main()
