#!/usr/bin/env python3
"""Runs a test that is no GoogleTest program: run_listed.py NAME [--venv] PROGRAM [ARGUMENT...].

A program that ends with .py runs with this Python; after --venv, because it needs packages of PyPI, with that of the
environment's ASSAY_PYTHON, of .cache/venv (golden/README.md) or of scripts/fetch.sh packages, the first of them that is
there when the test runs. Exit code 77 says that nothing could be tested: that is a failure unless
tests/expected_skips.txt names NAME, and with ASSAY_REQUIRE_MODELS=1 unless it is for want of what nobody installs.
"""

import fnmatch
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77


def why_not_skip(name, path):
    """Why `name` may not skip; empty where it may."""
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    installed = {reason for line in lines if line[0] == "!" for reason in line[1:]}
    reasons = {
        reason
        for line in lines
        if line[0] != "!" and fnmatch.fnmatchcase(name, line[1])
        for reason in line[0].split(",")
    }
    if not reasons:
        return f"{name} skips, which tests/expected_skips.txt does not list"
    if os.environ.get("ASSAY_REQUIRE_MODELS") == "1" and reasons <= installed:
        return f"{name} skips, and ASSAY_REQUIRE_MODELS is 1"
    return ""


def cached_python():
    """That of scripts/fetch.sh packages."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay"
    return Path(os.environ.get("ASSAY_CACHE") or default) / "python/bin/python"


def main():
    name, *command = sys.argv[1:]
    # Tests compare the bytes of logs. A case has one processor, on which threads would wait for each other.
    environment = dict(os.environ, ASSAY_LOG_TS="off", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    python = sys.executable
    if command[0] == "--venv":
        command = command[1:]
        there = [str(path) for path in (ROOT / ".cache/venv/bin/python", cached_python()) if path.exists()]
        python = environment.get("ASSAY_PYTHON") or (there or [python])[0]
        environment["ASSAY_PYTHON"] = python
    if command[0].endswith(".py"):
        command = [python, *command]
    result = subprocess.run(command, env=environment, check=False).returncode
    refusal = why_not_skip(name, ROOT / "tests/expected_skips.txt") if result == SKIPPED else ""
    if refusal:
        print(refusal)
        return 1
    return result if result >= 0 else 1  # below 0: a signal


if __name__ == "__main__":
    sys.exit(main())
