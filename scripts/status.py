#!/usr/bin/env python3
"""docs/status.md: the tree in numbers, each from a run or a count.

status.py measure [release] [coverage]
                     builds these presets (both, if none is named), runs their tests but those labelled slow, and counts
                     what ran, into build/status. Needs gcovr (Debian: gcovr). Tests that fail are reported and counted.
status.py page       writes docs/status.md from that, and from what the tree holds: sources, tests/fuzz/results.json,
                     tests/sanitizers.json, docs/mutation.md, and of docs/ci.md and
                     docs/performance.md the tables of what was measured there

One line and exit status 2 where something is missing.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "build/status"
SOURCES = {".h", ".cc", ".c", ".cu", ".py", ".sh", ".js", ".css", ".html", ".cmake", ".txt"}
PRESETS = ("release", "coverage")
PAGE = "docs/status.md"
NOT_MEASURED = ["## Coverage", "Not measured: `scripts/status.py measure coverage`.", ""]
COUNTED = ("engine", "assay")  # where coverage is counted: ASSAY_COVERAGE


def fail(message):
    print(f"status.py: {message}", file=sys.stderr)
    sys.exit(2)


def run(*command, **options):
    return subprocess.run([str(word) for word in command], cwd=ROOT, check=options.pop("check", True), **options)


def measure(preset):
    MEASURED.mkdir(parents=True, exist_ok=True)
    head = run("git", "describe", "--always", "--dirty", capture_output=True, text=True).stdout.strip()
    run("cmake", "--preset", preset)
    run("cmake", "--build", "--preset", preset)
    listed = run("ctest", "--preset", preset, "--show-only=json-v1", capture_output=True, text=True).stdout
    (MEASURED / f"{preset}.tests.json").write_text(listed[listed.index("{") :])
    for counts in (ROOT / "build" / preset).rglob("*.gcda"):
        counts.unlink()
    junit = MEASURED / f"{preset}.junit.xml"
    junit.unlink(missing_ok=True)
    started = time.monotonic()
    # Where a test takes a file's place or the disk from a program, its counts have none either; tests read stderr.
    environment = os.environ | {"GCOV_ERROR_FILE": str(MEASURED / "gcov.txt")}
    ctest = ("ctest", "--preset", preset, "-j", os.cpu_count(), "-LE", "slow", "--output-junit", junit)
    run(*ctest, check=False, env=environment)
    seconds = time.monotonic() - started
    facts = {"seconds": seconds, "commit": head, "cores": os.cpu_count(), "tests": "the same tests"}
    (MEASURED / f"{preset}.run.json").write_text(json.dumps(facts))
    if preset == "coverage":
        run(
            "gcovr", "--root", ".", "--object-directory", "build/coverage", *(f"--filter={name}/" for name in COUNTED),
            "--exclude-throw-branches", "--exclude-unreachable-branches", "--json-summary", MEASURED / "coverage.json",
            "--txt", MEASURED / "coverage.txt", "build/coverage",
        )  # fmt: skip


def read(path):
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except OSError as error:
        fail(f"{path}: {error.strerror}" + ("; run status.py measure first" if "build/" in f"{path}" else ""))


def table(columns, rows):
    line = "|---" + "|---:" * (len(columns) - 1) + "|"
    return ["| " + " | ".join(columns) + " |", line, *("| " + " | ".join(map(str, row)) + " |" for row in rows), ""]


def results(preset):
    """Name of a test -> (run, fail or notrun; seconds)."""
    suite = ElementTree.fromstring(read(MEASURED / f"{preset}.junit.xml"))
    return {case.get("name"): (case.get("status"), float(case.get("time"))) for case in suite.iter("testcase")}


def labels(preset):
    """Name of a test -> its labels."""
    found = {}
    for test in json.loads(read(MEASURED / f"{preset}.tests.json"))["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        found[test["name"]] = properties.get("LABELS", ["none"])
    return found


def tests():
    outcome, of_label = results("release"), defaultdict(list)
    for name, names in labels("release").items():
        for label in names:
            of_label[label].append(outcome.get(name, ("slow", 0.0)))
    rows = []
    for label in sorted(of_label):
        states = Counter(state for state, _ in of_label[label])
        seconds = sum(seconds for _, seconds in of_label[label])
        rows.append((label, len(of_label[label]), states["run"], states["notrun"], states["fail"], states["slow"], f"{seconds:.0f}"))
    facts = json.loads(read(MEASURED / "release.run.json"))
    states = Counter(state for state, _ in outcome.values())
    return [
        "## Tests",
        f"`ctest --preset release -LE slow` at {facts['commit']}: {len(outcome)} tests, {states['run']} passed, "
        f"{states['notrun']} skipped, {states['fail']} failed, in {facts['seconds']:.0f} s on {facts['cores']} cores with other",
        "work running. Seconds are summed over the tests of a label; a test may have two. Those labelled slow run at night.",
        "",
        *table(("label", "tests", "passed", "skipped", "failed", "not run here", "seconds"), rows),
    ]


def folder_of(path, folders):
    return max((name for name in folders if f"{path}".startswith(f"{name}/")), key=len, default=None)


def lines():
    folders = re.findall(r"^\| `([a-z_/]+)/` \|", read("HACKING.md"), re.M)
    counted, files = Counter(), Counter()
    for name in run("git", "ls-files", "-z", capture_output=True, text=True).stdout.split("\0"):
        path = Path(name)
        folder = folder_of(path, folders)
        if folder is None or path.suffix not in SOURCES or not (ROOT / path).is_file():
            continue
        if path.suffix == ".txt" and path.name != "CMakeLists.txt":
            continue
        counted[folder] += sum(1 for line in (ROOT / path).read_text(encoding="utf-8").splitlines() if line.strip())
        files[folder] += 1
    rows = [(f"`{folder}/`", files[folder], counted[folder]) for folder in folders if files[folder]]
    rows.append(("all", sum(files.values()), sum(counted.values())))
    return [
        "## Lines",
        "Sources of every language, including CMake; lines that are not empty, comments included. Folders as in HACKING.md.",
        "",
        *table(("folder", "files", "lines"), rows),
    ]


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def coverage():
    if not (MEASURED / "coverage.json").exists():
        # What was measured before stays, with the commit that it names.
        kept = re.search(r"^(## Coverage\n.*?\n)\n*(?:## |\Z)", read(PAGE), re.M | re.S) if (ROOT / PAGE).exists() else None
        return kept[1].rstrip("\n").split("\n") + [""] if kept else NOT_MEASURED
    of_folder = defaultdict(Counter)
    for file in json.loads(read(MEASURED / "coverage.json"))["files"]:
        parts = file["filename"].split("/")
        inner = "/".join(parts[:2]) if len(parts) > 2 else parts[0]
        for folder in {parts[0], inner}:
            for key in ("line_total", "line_covered", "branch_total", "branch_covered"):
                of_folder[folder][key] += file[key]
    rows = [
        (f"`{folder}/`", n["line_total"], share(n["line_covered"], n["line_total"]), n["branch_total"], share(n["branch_covered"], n["branch_total"]))
        for folder, n in sorted(of_folder.items())
    ]
    facts = json.loads(read(MEASURED / "coverage.run.json"))
    failed = sorted(f"`{name}`" for name, (status, _) in results("coverage").items() if status == "fail")
    return [
        "## Coverage",
        f"Preset `coverage` (gcov, gcovr) at {facts['commit']}, {facts['tests']}, in {facts['seconds']:.0f} s. Branches without",
        "those that only an exception takes. Killed processes, as in tests of crashes, are not counted.",
        *([f"Failed with coverage, because gcov also writes to a program's standard error: {', '.join(failed)}."] if failed else []),
        "",
        *table(("folder", "lines", "run", "branches", "taken"), rows),
    ]


def faults():
    of_label = [name for name, names in labels("release").items() if "faults" in names]
    said = ["## Faults"]
    if of_label:
        states = Counter(results("release").get(name, ("not run here", 0))[0] for name in of_label)
        counts = ", ".join(f"{n} {state}" for state, n in sorted({"passed": states["run"], "skipped": states["notrun"], "failed": states["fail"]}.items()))
        said += [f"From the environment (disk, signals, memory, locale, pipes; `ctest --preset release -L faults`): {len(of_label)} tests, {counts}."]
    else:
        commit = json.loads(read(MEASURED / "release.run.json"))["commit"]
        said += [f"From the environment (`ctest --preset release -L faults`): no test had that label at {commit}."]
    mutation = re.search(r"^## Results\n\n(.*?)\n\n", read("docs/mutation.md"), re.M | re.S)
    if not mutation:
        fail("docs/mutation.md: no section Results")
    return [*said, "", "Inside the engine (`assay mutate`, [mutation.md](mutation.md)):", "", *mutation[1].splitlines(), ""]


def is_enough(target):
    return target["findings"] == 0 and (target["executions"] >= 20_000_000 or target["seconds"] >= 1800)


def fuzzing():
    path = ROOT / "tests/fuzz/results.json"
    if not path.exists():
        return ["## Fuzzing", "No results: tests/fuzz/results.json is not there.", ""]
    targets = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        (f"`{name}`", f"{target['executions']:,}", f"{target['seconds']:,}", target["findings"], "yes" if is_enough(target) else "no")
        for name, target in sorted(targets.items())
    ]
    return [
        "## Fuzzing",
        "The goal for each: 20 million executions, or 1,800 s, without a finding (tests/fuzz/results.json).",
        "",
        *table(("target", "executions", "seconds", "findings", "reached"), rows),
    ]


def sanitizers():
    path = ROOT / "tests/sanitizers.json"
    if not path.exists():
        return ["## Sanitizers", "No results: tests/sanitizers.json is not there.", ""]
    found = json.loads(path.read_text(encoding="utf-8"))
    return [
        "## Sanitizers",
        "`scripts/sanitize.sh`: tests under asan (with UBSan), tsan and valgrind; the others check the sources.",
        "",
        *table(("what", "at", "run", "skipped", "failed"), [(f"`{name}`", n["commit"], n["run"], n["skipped"], n["failed"]) for name, n in sorted(found.items())]),
    ]


def speed():
    section = re.search(r"^## Beside llama\.cpp\n(.*?)^## ", read("docs/performance.md"), re.M | re.S)
    rows, math, header = [], None, []
    for line in section[1].splitlines() if section else []:
        named = re.match(r"`(exact|fast)`", line)
        math = named[1] if named else math
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells and cells[0] == "model":
            header = cells
        elif cells and "ratio" in header and not cells[0].startswith("-"):
            ratios = {header[i - 2]: cells[i] for i, title in enumerate(header) if title == "ratio"}
            rows.append((math, cells[0], ratios.get("decode", ""), ratios.get("prefill", "")))
    if not any(row[1] == "geometric mean" for row in rows):
        fail("docs/performance.md: no table of ratios with a geometric mean in section 'Beside llama.cpp'")
    return ["## Speed", "Speed relative to llama.cpp on the same file, CPU ([performance.md](performance.md)):", "",
            *table(("math", "model", "decode", "prefill"), rows)]  # fmt: skip


def gate():
    found = re.search(r"^### How often it is wrong\n.*?((?:^\|[^\n]*\n)+)", read("docs/ci.md"), re.M | re.S)
    if not found:
        fail("docs/ci.md: no table in section 'How often it is wrong'")
    return ["## The speed gate", "Tried on builds with a known difference ([ci.md](ci.md)):", "", *found[1].splitlines(), ""]


def page():
    text = [
        "# Assay in numbers",
        "Written by `scripts/status.py page`, from what `scripts/status.py measure` ran and from the pages named.",
        "",
    ]
    for part in (tests, coverage, lines, faults, fuzzing, sanitizers, speed, gate):
        text += part()
    (ROOT / PAGE).write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "page"))
    parser.add_argument("presets", nargs="*", metavar="preset")
    options = parser.parse_args()
    unknown = set(options.presets) - set(PRESETS)
    if unknown or (options.presets and options.what == "page"):
        fail(f"unknown argument {' '.join(unknown) or options.presets[0]!r}; usage: status.py measure [release] [coverage] | page")
    try:
        if options.what == "page":
            page()
        else:
            for preset in options.presets or PRESETS:
                measure(preset)
    except FileNotFoundError as error:
        fail(f"{error.filename} is not there")
    except subprocess.CalledProcessError as error:
        fail(f"{error.cmd[0]} failed ({error.returncode})")


if __name__ == "__main__":
    main()
