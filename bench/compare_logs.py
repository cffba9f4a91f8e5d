#!/usr/bin/env python3
"""Times assay compare against published_compare.py on logs of full logits, in the same run.

usage: compare_logs.py ASSAY REF.jsonl GOT.jsonl [--rounds N] [--python-share N]

The Python script is given only the first 1/N of the lines of each log, 8 by default: it
holds all of them in memory. Rates are megabytes of both inputs per second of wall time.
"""
import argparse
import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "published_compare.py")


def seconds(command):
    start = time.monotonic()
    code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    if code not in (0, 1):
        sys.exit(f"exit code {code}: {' '.join(command)}")
    return time.monotonic() - start


def megabytes(paths):
    return sum(os.path.getsize(path) for path in paths) / 1e6


def first_lines(path, share, folder):
    with open(path, "rb") as log:
        total = sum(1 for _ in log)
        log.seek(0)
        part = os.path.join(folder, os.path.basename(path))
        with open(part, "wb") as out:
            out.writelines(itertools.islice(log, max(1, total // share)))
    return part


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("assay")
    parser.add_argument("ref")
    parser.add_argument("got")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python-share", type=int, default=8)
    arguments = parser.parse_args()
    whole = [arguments.ref, arguments.got]
    compare = [arguments.assay, "compare", *whole]
    seconds(compare)  # both logs are now in the system's cache
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    rates = {"assay compare": [], "published_compare.py": []}
    with tempfile.TemporaryDirectory() as folder:
        part = [first_lines(path, arguments.python_share, folder) for path in whole]
        for _ in range(arguments.rounds):
            rates["assay compare"].append(megabytes(whole) / seconds(compare))
            script = [sys.executable, SCRIPT, *part]
            rates["published_compare.py"].append(megabytes(part) / seconds(script))
    print(f"{megabytes(whole):.0f} MB of input; assay's memory {memory:.0f} MB")
    for name, all_rates in rates.items():
        print(f"{name:21} {statistics.median(all_rates):7.1f} MB/s   "
              f"{min(all_rates):.1f} to {max(all_rates):.1f}")
    ratio = statistics.median(rates["assay compare"]) / statistics.median(
        rates["published_compare.py"])
    print(f"{'ratio':21} {ratio:7.1f}")


if __name__ == "__main__":
    main()
