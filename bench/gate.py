#!/usr/bin/env python3
"""Which benchmarks of HEAD are slower than those of BASE? The measuring part of scripts/perf.sh.

bench/gate.py BASE_BENCH HEAD_BENCH --assay PROGRAM --out FOLDER [--filter RE] [--rounds N] [--allow-missing GLOB]

Each benchmark runs alternately (base head, head base, ...), each time in a new process, so that the two times of a pair
lie within a second and a disturbance affects both. Of many short repetitions the best one counts, since an interruption
only makes a repetition slower. Kernels run on one thread, which is disturbed less than several that wait for each
other; whole models use all threads. A benchmark that seems slower but is unsure gets the same number of pairs again, up
to five times. A SLOW one is measured again, and the new times replace the old: only what is SLOW both times counts.
Leaves base.json and head.json for `assay perf`, and exits with its exit code, 2 where the head lacks a benchmark that
--allow-missing does not name; neither file if something could not be measured.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

MIN_SECONDS = 0.005  # of a repetition
MAX_REPETITIONS = 15
MIN_REPETITIONS = 3  # of what takes longer
MORE = 5  # times that an unsure benchmark gets more pairs
SECONDS = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
ON_ALL_THREADS = ("prefill/", "decode/", "load/", "log_")


class GateError(Exception):
    """What went wrong, in one line for the user."""


def say(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def bench(program, flags, environment=None):
    answer = subprocess.run([program, *flags], capture_output=True, text=True, check=False,
                            env={**os.environ, **(environment or {})})
    if answer.returncode != 0:
        raise GateError(f"{program} failed: {(answer.stderr.strip().splitlines() or ['it does not say why'])[-1]}")
    return answer.stdout


def names(program, pattern):
    listed = bench(program, ["--benchmark_list_tests=true", f"--benchmark_filter={pattern}"])
    return [line for line in listed.splitlines() if line]


class Measurement:
    """The times of both sides, in pairs."""

    def __init__(self, base, head):
        self.programs = {"base": str(base), "head": str(head)}
        self.context = {}
        self.runs = {"base": {}, "head": {}}  # by benchmark: its best entry of each round
        self.environment = {}
        self.repetitions = {}

    def common(self, pattern):
        """The benchmarks that both have; the others are kept with a single time, so that the verdict names them."""
        found = {side: names(program, pattern) for side, program in self.programs.items()}
        both = [name for name in found["base"] if name in set(found["head"])]
        for side, listed in found.items():
            for name in listed:
                if name not in both:
                    self.runs[side][name] = [self.once(side, name)]
        if not both:
            raise GateError(f"no benchmark that both have matches '{pattern}'")
        return both

    def once(self, side, name):
        threads = [] if name.startswith(ON_ALL_THREADS) else ["--threads=1"]
        text = bench(self.programs[side], [
            *threads, f"--benchmark_filter=^{re.escape(name)}$", f"--benchmark_min_time={MIN_SECONDS}",
            f"--benchmark_repetitions={self.repetitions.get(name, MIN_REPETITIONS)}", "--benchmark_format=json"],
            self.environment)
        run = json.loads(text)
        self.context.setdefault(side, run["context"])
        # The memory's bandwidth is measured once and passed to later processes.
        self.environment.setdefault("ASSAY_BENCH_BANDWIDTH", run["context"]["memory_bandwidth_gb_s"])
        entries = [entry for entry in run["benchmarks"] if entry["run_type"] == "iteration"]
        failed = next((entry for entry in entries if entry.get("error_occurred")), None)
        if failed:
            raise GateError(f"{side}: {name} failed: {failed.get('error_message') or 'it does not say why'}")
        return min(entries, key=lambda entry: entry["real_time"])

    def fitting_repetitions(self, name):
        """As many as take a tenth of a second, within the limits."""
        entry = self.once("base", name)
        seconds = max(MIN_SECONDS, entry["real_time"] * SECONDS[entry["time_unit"]])
        return max(MIN_REPETITIONS, min(MAX_REPETITIONS, round(0.1 / seconds)))

    def forget(self, chosen):
        for name in chosen:
            self.runs["base"][name], self.runs["head"][name] = [], []

    def measure(self, chosen, rounds, title):
        """Adds pairs."""
        for name in chosen:
            for runs in self.runs.values():
                runs.setdefault(name, [])
            if name not in self.repetitions:
                self.repetitions[name] = self.fitting_repetitions(name)
        for turn in range(rounds):
            say(f"{title}: round {turn + 1} of {rounds}")
            for place, name in enumerate(chosen):
                order = ("base", "head") if (turn + place) % 2 == 0 else ("head", "base")
                for side in order:
                    self.runs[side][name].append(self.once(side, name))
        say("")

    def write(self, folder):
        """base.json and head.json, as Google Benchmark writes them; gives their paths."""
        paths = []
        for side, runs in self.runs.items():
            paths.append(Path(folder, side + ".json"))
            entries = [entry for name in runs for entry in runs[name]]
            paths[-1].write_text(json.dumps({"context": self.context[side], "benchmarks": entries}))
        return paths


def drop_results(folder):
    for side in ("base", "head"):
        Path(folder, side + ".json").unlink(missing_ok=True)


def verdict(assay, paths, allowed=()):
    """The result of `assay perf` for the two files; also if its exit code is 2 because the pairs are too few."""
    flags = [flag for glob in allowed for flag in ("--allow-missing", glob)]
    answer = subprocess.run([assay, "perf", *paths, *flags, "--format", "json"], capture_output=True, text=True,
                            check=False)
    if answer.returncode not in (0, 1) and not answer.stdout:
        raise GateError(answer.stderr.strip())
    return json.loads(answer.stdout)


def slow_of(judged):
    return [entry["name"] for entry in judged["benchmarks"] if entry["verdict"] == "SLOW"]


def settle(measurement, chosen, rounds, assay, folder, title):
    """Measures, repeatedly adds pairs for what seems slower but is unsure, and returns the verdict on all."""
    measurement.forget(chosen)
    measurement.measure(chosen, rounds, title)
    for _ in range(MORE):
        judged = verdict(assay, measurement.write(folder))
        unsure = [entry["name"] for entry in judged["benchmarks"] if entry["name"] in chosen and
                  entry["verdict"] == "UNSURE" and entry["ratio"] >= 1 + judged["min_effect"]]
        if not unsure:
            return judged
        measurement.measure(unsure, rounds, title + ", unsure ones again")
    return verdict(assay, measurement.write(folder))


def judge(base, head, assay, folder, pattern, rounds):
    """Measures, repeats what looks slower, and returns (the first verdict, the one that counts)."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    measurement = Measurement(base, head)
    first = settle(measurement, measurement.common(pattern), rounds, assay, folder, "measuring")
    suspects = slow_of(first)
    if not suspects:
        return first, first
    return first, settle(measurement, suspects, rounds, assay, folder, "again what looks slower")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("head")
    parser.add_argument("--assay", default="build/release/bin/assay", help="the program that judges")
    parser.add_argument("--out", required=True, help="folder for base.json and head.json")
    parser.add_argument("--filter", default=".", help="regular expression of the benchmarks")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--allow-missing", action="append", default=[], metavar="GLOB",
                        help="benchmarks of the base that the head may lack")
    flags = parser.parse_args()
    drop_results(flags.out)
    try:
        first, _ = judge(flags.base, flags.head, flags.assay, flags.out, flags.filter, flags.rounds)
        final = verdict(flags.assay, [Path(flags.out, side + ".json") for side in ("base", "head")],
                        flags.allow_missing)
    except GateError as error:
        drop_results(flags.out)
        print(f"gate.py: {error}", file=sys.stderr)
        return 2
    suspects = slow_of(first)
    if suspects:
        print(f"measured again: {', '.join(suspects)}; still slower: {', '.join(slow_of(final)) or 'none'}")
    if final["verdict"] != "SLOW" and final["too_few_pairs"]:
        print("gate.py: the pairs are too few to tell whether something is slower: raise --rounds (ROUNDS of "
              "scripts/perf.sh)", file=sys.stderr)
        return 2
    if final["verdict"] != "SLOW" and not final["pass"]:
        print(f"gate.py: the head lacks a time that the base has: {(final['missing'] + final['skipped'])[0]}",
              file=sys.stderr)
        return 2
    return 0 if final["pass"] else 1


if __name__ == "__main__":
    sys.exit(main())
