"""What docs/position-0.md says, measured: position0.py ASSAY FAULTY_LOGGER FAULTY_LOGGER_ASAN MODEL.gguf

1. A logger whose flush is a std::atexit handler registered inside the constructor of a function-local static: its log
   holds garbage where the one written at once has none, and `assay analyze` names it heap_metadata.
2. AddressSanitizer names the same program heap-use-after-free.
3. Assay's own log under exit, abort and kill -9: every finished record is there, at most the last line is torn.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

RECORDS, VALUES = 15, 10  # as many as the published runs have


def fail(text):
    sys.exit(f"position0: {text}")


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def analyze(assay, path):
    answer = subprocess.run([assay, "analyze", path, "--json"], capture_output=True, text=True, timeout=60)
    if answer.returncode not in (0, 1):
        fail(f"analyze {path.name}: exit {answer.returncode}: {answer.stderr}")
    return json.loads(answer.stdout)


def faulty(assay, logger, folder):
    """Garbage tokens of the faulty log and of the true one, over seeds; its reasons and positions."""
    rates, reasons, positions, missed = [], Counter(), Counter(), 0
    for seed in range(5):
        log, truth = folder / f"faulty{seed}.jsonl", folder / f"truth{seed}.jsonl"
        subprocess.run([logger, log, truth, str(RECORDS), str(VALUES), "fixed", str(seed)], check=True, timeout=60)
        got, true = records(log), records(truth)
        if len(got) != len(true):
            fail(f"the faulty log has {len(got)} records of {len(true)}")
        changed = {
            (record["token_idx"], index)
            for record, right in zip(got, true, strict=True)
            for index, (a, b) in enumerate(zip(record["values"], right["values"], strict=True))
            if a != b
        }
        if not changed:
            fail("the faulty log is right: the defect does not show on this machine")
        found = analyze(assay, log)
        for item in found["garbage"]:
            reasons[item["reason"]] += 1
        positions.update(index for _, index in changed)
        visible = {(at, index) for at, index in changed if abs(got[at]["values"][index]) > 1e4}
        named = {(item["token_idx"], item["index"]) for item in found["garbage"]}
        missed += len(visible - named)
        rates.append(found["garbage_rate"])
        if analyze(assay, truth)["garbage"]:
            fail("analyze finds garbage in the log that was written at once")
    if reasons["heap_metadata"] == 0:
        fail(f"analyze does not name heap_metadata: {dict(reasons)}")
    if missed:
        fail(f"analyze misses {missed} values above 1e4 that are garbage")
    shown = ", ".join(f"{at} ({count})" for at, count in sorted(positions.items()))
    print(f"faulty logger: {min(rates):.0%} to {max(rates):.0%} of tokens with garbage; reasons {dict(reasons)}")
    print(f"               values that are not what was logged, by position: {shown}; the log written at once: none")


def sanitised(logger, folder):
    answer = subprocess.run(
        [logger, folder / "a.jsonl", folder / "b.jsonl", str(RECORDS), str(VALUES), "fixed", "1"],
        capture_output=True, text=True, timeout=60, env=os.environ | {"ASAN_OPTIONS": "exitcode=99"},
    )  # fmt: skip
    lines = [line for line in answer.stderr.splitlines() if "ERROR: AddressSanitizer" in line]
    if answer.returncode != 99 or not lines or "heap-use-after-free" not in lines[0]:
        fail(f"AddressSanitizer says nothing of heap-use-after-free: exit {answer.returncode}: {answer.stderr[:300]}")
    print("AddressSanitizer: heap-use-after-free")


def own_log(assay, model, folder, how):
    """Finished records, torn lines and garbage of a run that ends by `how`, a signal or None."""
    log = folder / f"own_{how}.jsonl"
    command = [assay, "run", model, "--tokens", "1,2,3,4,5", "-n", "200", "--ignore-eos", "--json", "--log", log]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        if how is not None:
            deadline = time.monotonic() + 60
            while run.poll() is None and (not log.exists() or log.read_bytes().count(b"\n") < 40):
                if time.monotonic() > deadline:
                    fail("the run writes no log")
                time.sleep(0.001)
            run.send_signal(how)
        status = run.wait(timeout=60)
    if status != (0 if how is None else -how):
        fail(f"the run ended with {status}, not by {how}")
    text = log.read_bytes().decode()
    whole, _, torn = text.rpartition("\n")
    lines = [json.loads(line) for line in whole.splitlines()]
    found = analyze(assay, log)
    # Greedy runs are the same each time: what a killed run has logged are the first records of a whole one.
    if found["garbage"]:
        fail(f"{log.name}: {found['garbage'][:3]}")
    name = "exit" if how is None else how.name
    print(f"own log, {name}: {len(lines) - 1} records, {'a torn last line' if torn else 'no torn line'}, no garbage")
    return lines[1:]


def main():
    assay, logger, logger_asan, model = sys.argv[1:]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        faulty(assay, logger, folder)
        sanitised(logger_asan, folder)
        whole = own_log(assay, model, folder, None)
        for how in (signal.SIGABRT, signal.SIGKILL):
            part = own_log(assay, model, folder, how)
            if not 39 <= len(part) <= len(whole):
                fail(f"{how.name}: {len(part)} records")
            strip = [{key: value for key, value in record.items() if key != "ts"} for record in part]
            if strip != [{key: value for key, value in record.items() if key != "ts"} for record in whole[: len(part)]]:
                fail(f"{how.name}: the records are not the first ones of the whole run")


if __name__ == "__main__":
    main()
