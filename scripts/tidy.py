#!/usr/bin/env python3
"""clang-tidy on each source that cmake --preset dev compiles: scripts/sanitize.sh tidy calls it.

A source that passed is skipped until it, a header of it, a .clang-tidy or clang-tidy itself changes, so an interrupted
run resumes. Prints what clang-tidy finds and, as its last line, "RUN FAILED", two counts of sources. Exit status 2
where something is missing.
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/dev"
SETTINGS = (".clang-tidy", "tests/.clang-tidy", "bench/.clang-tidy")
PASSED = ROOT / "build/tidy"  # an empty file per state of a source that passed


def output(*command, **options):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, **options).stdout


def state(entry, common):
    """A hash of all that clang-tidy reads of this source."""
    words = shlex.split(entry["command"])
    at = words.index("-o")
    # With comments, which hold exceptions. clang-tidy reports what does not compile.
    command = (*words[:at], *words[at + 2 :], "-E", "-C")
    text = subprocess.run(command, cwd=ROOT, check=False, capture_output=True).stdout
    return hashlib.sha256(common + entry["command"].encode() + text).hexdigest()


def tidy(entry, common):
    """The output of clang-tidy for a source; nothing if it passes."""
    stamp = PASSED / state(entry, common)
    if stamp.exists():
        return ""
    ran = subprocess.run(
        ("clang-tidy", "--quiet", "-p", BUILD, entry["file"]), cwd=ROOT, capture_output=True, text=True
    )
    if ran.returncode == 0:
        stamp.touch()
        return ""
    return ran.stdout + ran.stderr


def main():
    try:
        entries = json.loads((BUILD / "compile_commands.json").read_text())
        common = output("clang-tidy", "--version") + b"".join((ROOT / name).read_bytes() for name in SETTINGS)
    except OSError as error:
        print(f"tidy.py: {error}; needs clang-tidy and cmake --preset dev", file=sys.stderr)
        sys.exit(2)
    PASSED.mkdir(exist_ok=True)
    ours = {str(ROOT / name) for name in output("git", "ls-files", "*.cc", text=True).split()}
    entries = list({entry["file"]: entry for entry in entries if entry["file"] in ours}.values())
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, said in enumerate(pool.map(lambda entry: tidy(entry, common), entries), 1):
            failed += said != ""
            print(said, end="", flush=True)
            print(f"\rclang-tidy: {done} of {len(entries)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    print(len(entries), failed)


if __name__ == "__main__":
    main()
