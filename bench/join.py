#!/usr/bin/env python3
"""Joins results of Google Benchmark, and picks the slow ones out of a verdict; for scripts/perf.sh.

bench/join.py OUT.json RUN.json…       one file with one repetition of each run, its best, in the order of the runs
bench/join.py --slow VERDICT.json      a --benchmark_filter for what `assay perf --format json` called SLOW
"""

import json
import re
import sys
from pathlib import Path


def best(run):
    """The quickest repetition of each benchmark: what interrupts one only ever makes it slower."""
    chosen = {}
    for entry in run["benchmarks"]:
        name = entry["run_name"]
        if entry["run_type"] == "iteration" and (name not in chosen or entry["real_time"] < chosen[name]["real_time"]):
            chosen[name] = entry
    return chosen.values()


def main():
    first, *rest = sys.argv[1:]
    if first == "--slow":
        slow = [entry["name"] for entry in json.loads(Path(rest[0]).read_text())["benchmarks"] if entry["verdict"] == "SLOW"]
        # Times that are measured by the wall clock carry that in their names, which the filter does not see.
        print("|".join(f"^{re.escape(re.sub('/(real_time|process_time|manual_time)', '', name))}(/|$)" for name in slow))
        return
    runs = [json.loads(Path(run).read_text()) for run in rest]
    joined = {"context": runs[0]["context"], "benchmarks": [entry for run in runs for entry in best(run)]}
    Path(first).write_text(json.dumps(joined))


if __name__ == "__main__":
    main()
