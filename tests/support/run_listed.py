#!/usr/bin/env python3
"""Runs a test that is no GoogleTest program: run_listed.py NAME [--venv] PROGRAM [ARGUMENT...].

A program that ends with .py runs with this Python; after --venv, because it needs packages of PyPI, with that of the
environment's ASSAY_PYTHON or of .cache/venv (golden/README.md), if there is one when the test runs. Exit code 77 says
that nothing could be tested: that is a failure unless tests/expected_skips.txt names NAME.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77


def may_skip(name, path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return any(line.split()[1:] == [name] for line in lines if not line.startswith("#"))


def main():
    name, *command = sys.argv[1:]
    environment = dict(os.environ)
    python = sys.executable
    if command[0] == "--venv":
        command = command[1:]
        venv = ROOT / ".cache/venv/bin/python"
        python = environment.get("ASSAY_PYTHON") or (str(venv) if venv.exists() else python)
        environment["ASSAY_PYTHON"] = python
    if command[0].endswith(".py"):
        command = [python, *command]
    result = subprocess.run(command, env=environment, check=False).returncode
    if result == SKIPPED and not may_skip(name, ROOT / "tests/expected_skips.txt"):
        print(f"{name} skips, which tests/expected_skips.txt does not list")
        return 1
    return result if result >= 0 else 1  # below 0: a signal


if __name__ == "__main__":
    sys.exit(main())
