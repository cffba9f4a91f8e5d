#!/usr/bin/env python3
"""The yardstick for assay compare's speed: what published comparisons of logs do.

usage: published_compare.py REF.jsonl GOT.jsonl > differences.csv

Reads each log whole with json, pairs its records by checkpoint and token, and takes the largest and
the mean absolute difference of their values, without numpy.
"""
import csv
import json
import sys


def read_log(path):
    records = {}
    with open(path) as log:
        for line in log:
            record = json.loads(line)
            if "checkpoint" in record:
                records[record["checkpoint"], record["token_idx"]] = record
    return records


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    ref, got = read_log(sys.argv[1]), read_log(sys.argv[2])
    rows = csv.writer(sys.stdout)
    rows.writerow(["token_idx", "max_abs_diff", "mean_abs_diff", "ref_team", "got_team"])
    for key in sorted(ref.keys() & got.keys()):
        a, b = ref[key], got[key]
        differences = [abs(float(x) - float(y)) for x, y in zip(a["values"], b["values"])]
        rows.writerow([key[1], max(differences), sum(differences) / len(differences),
                       a.get("team"), b.get("team")])


if __name__ == "__main__":
    main()
