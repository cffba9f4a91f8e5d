#!/usr/bin/env python3
"""Makes logs of synthetic runs and summarises them with DuckDB (pip install duckdb).

usage: runs.py make FOLDER [COUNT]    COUNT logs, 10000 by default
       runs.py summarise FOLDER       what docs/duckdb.md shows

A run is 4 tokens through 8 layers by one of three engines. Engine `c` is less precise, one run in
a hundred scales a layer's output by 1.2 from a layer on, and one in five hundred holds NaN.
"""
import json
import math
import os
import random
import sys
import time

LAYERS, TOKENS, WIDTH, HEAD = 8, 4, 64, 4
PRECISION = {"a": 1e-7, "b": 1e-6, "c": 1e-3}


def summary(values):
    finite = [x for x in values if math.isfinite(x)]
    top = sorted(range(len(values)), key=lambda i: -values[i] if values[i] == values[i] else 1e30)
    return {"min": min(finite), "max": max(finite), "mean": sum(finite) / len(finite),
            "l2": math.sqrt(sum(x * x for x in finite)), "argmax": top[0],
            "top": [[i, values[i]] for i in top[:5]], "nonfinite": len(values) - len(finite)}


def make(folder, count):
    os.makedirs(folder, exist_ok=True)
    chance = random.Random(1)
    truth = {(layer, token): [chance.gauss(0, 1 + layer) for _ in range(WIDTH)]
             for layer in range(LAYERS) for token in range(TOKENS)}
    for run in range(count):
        engine = chance.choice("abc")
        fault = chance.randrange(LAYERS) if chance.random() < 0.01 else None
        broken = chance.random() < 0.002
        with open(os.path.join(folder, f"run_{run:05}.jsonl"), "w") as log:
            print(json.dumps({"assay": 1, "tokens": [1, 2, 3, 4], "engine": engine}), file=log)
            for (layer, token), values in truth.items():
                scale = 1.2 if fault is not None and layer >= fault else 1.0
                # One error a record keeps this quick; each value gets its own sign.
                error = PRECISION[engine] * chance.random()
                got = [x * scale * (1 + (error if i % 2 else -error / 2))
                       for i, x in enumerate(values)]
                if broken and layer == 3:
                    got[7] = math.nan
                print(json.dumps({"checkpoint": f"layer_{layer}_output", "token_idx": token,
                                  "team": engine, "dtype": "f32", "shape": [1, WIDTH], "n": WIDTH,
                                  "values": got[:HEAD], "summary": summary(got)}), file=log)


LOGS = """
read_json('{folder}/*.jsonl', format='newline_delimited', filename=true, columns={{
  checkpoint: 'VARCHAR', token_idx: 'BIGINT', team: 'VARCHAR', values: 'FLOAT[]',
  summary: 'STRUCT(min DOUBLE, max DOUBLE, mean DOUBLE, l2 DOUBLE, argmax BIGINT, nonfinite BIGINT)'
}})"""

QUERIES = [
    ("All logs as one table", """
CREATE TABLE records AS
SELECT parse_filename(filename, true) AS run, team AS engine, checkpoint, token_idx,
       regexp_extract(checkpoint, '[0-9]+')::INT AS layer, summary.l2 AS l2,
       summary.nonfinite AS nonfinite
FROM {logs} WHERE checkpoint IS NOT NULL"""),
    ("How large is it?", """
SELECT count(DISTINCT run) AS runs, count(*) AS records FROM records"""),
    ("Which engine is how far off? (norm of each tensor against the median of all runs)", """
CREATE TABLE errors AS
SELECT *, abs(l2 / median(l2) OVER (PARTITION BY checkpoint, token_idx) - 1) AS error FROM records;
SELECT engine, count(DISTINCT run) AS runs, median(error) AS median_error,
       quantile_cont(error, 0.99) AS p99_error, sum(nonfinite) AS nonfinite
FROM errors GROUP BY engine ORDER BY engine"""),
    ("Where do diverging runs first diverge?", """
SELECT first_layer, count(*) AS runs
FROM (SELECT run, min(layer) AS first_layer FROM errors WHERE NOT error <= 0.01 GROUP BY run)
GROUP BY first_layer ORDER BY first_layer"""),
    ("The first three of them, by name", """
SELECT run, any_value(engine) AS engine, min(layer) AS first_layer, max(error) AS worst
FROM errors WHERE NOT error <= 0.01 GROUP BY run ORDER BY run LIMIT 3"""),
    ("As Parquet, for next time", """
COPY records TO '{folder}/records.parquet' (FORMAT parquet, COMPRESSION zstd)"""),
]


def summarise(folder):
    import duckdb
    database = duckdb.connect()
    for title, query in QUERIES:
        text = query.format(logs=LOGS.format(folder=folder).strip(), folder=folder).strip()
        print(f"-- {title}\n{text};")
        start = time.monotonic()
        result = database.sql(text)
        shown = str(result).rstrip() if result is not None else ""
        seconds = time.monotonic() - start
        print(f"{shown}\n-- {seconds:.2f} s\n" if shown else f"-- {seconds:.2f} s\n")


def main():
    if len(sys.argv) >= 3 and sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 10000)
    elif len(sys.argv) == 3 and sys.argv[1] == "summarise":
        summarise(sys.argv[2])
    else:
        sys.exit(__doc__.split("\n\n")[1])


if __name__ == "__main__":
    main()
