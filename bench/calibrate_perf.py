#!/usr/bin/env python3
"""How often is the gate wrong? Tries bench/gate.py again and again on two builds with a known difference.

bench/calibrate_perf.py BASE_BENCH HEAD_BENCH --out TRIES.jsonl [--slow NAME] [--filter RE] [--rounds N] [--seconds S]
bench/calibrate_perf.py --summary TRIES.jsonl...

Without --slow the two builds are equal: a SLOW is a false alarm. With --slow HEAD has been made slower in the benchmark
NAME: no SLOW there is a miss, one elsewhere a false alarm. Each try is appended to TRIES.jsonl; a window of S seconds
takes as many as fit. One line of a summary is one file.
"""

import argparse
import json
import os
import sys
import tempfile
import time

import gate

FILTER = "^matrix_matrix/Q4_K/2/"


def one_try(flags):
    start = time.time()
    with tempfile.TemporaryDirectory(prefix="assay_calibrate_") as folder:
        first, final = gate.judge(flags.base, flags.head, flags.assay, folder, flags.filter, flags.rounds)
    measured = final["benchmarks"]
    return {"time": time.strftime("%H:%M:%S", time.localtime(start)), "seconds": round(time.time() - start, 1),
            "load": os.getloadavg()[0], "slow_name": flags.slow, "rounds": flags.rounds,
            "first": gate.slow_of(first), "slow": gate.slow_of(final),
            "ratios": {entry["name"]: [round(entry[key], 4) for key in ("low", "ratio", "high")] for entry in measured}}


def summary(path):
    with open(path, encoding="utf-8") as file:
        tries = [json.loads(line) for line in file]
    slow_name = tries[0]["slow_name"]
    false_alarms = sum(any(name != each["slow_name"] for name in each["slow"]) for each in tries)
    once = sum(any(name != each["slow_name"] for name in each["first"]) for each in tries)
    text = f"{path}: {len(tries)} tries, {false_alarms} with a false SLOW ({once} before the second measurement)"
    if slow_name:
        found = sum(slow_name in each["slow"] for each in tries)
        effects = sorted(each["ratios"][slow_name][1] for each in tries)
        text += f"; {slow_name} found SLOW in {found}, its ratio {effects[len(effects) // 2]:.3f} in the median"
    seconds = sorted(each["seconds"] for each in tries)
    return text + f"; {seconds[len(seconds) // 2]:.0f} s a try"


def main():
    if sys.argv[1:2] == ["--summary"]:
        for path in sys.argv[2:]:
            print(summary(path))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("head")
    parser.add_argument("--assay", default="build/release/bin/assay")
    parser.add_argument("--out", required=True)
    parser.add_argument("--slow", help="the benchmark that was made slower")
    parser.add_argument("--filter", default=FILTER)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=220, help="no try starts that would last beyond this")
    flags = parser.parse_args()
    start, longest = time.time(), 0
    while time.time() - start + longest < flags.seconds:
        result = one_try(flags)
        longest = max(longest, result["seconds"])
        with open(flags.out, "a", encoding="utf-8") as file:
            print(json.dumps(result), file=file)
        print(result["time"], f"{result['seconds']} s", "SLOW:", result["slow"], "first:", result["first"],
              result["ratios"], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
