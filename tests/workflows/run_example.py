#!/usr/bin/env python3
"""Runs examples/conform.yml as a reader's repository would: a folder with an engine, and a clone of Assay in it.

The engine is Assay's own, so that every feature is honoured; what the job leaves for CI's pages is checked. Exit code
77: a package that the tests need is missing, so that nothing was tested.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77


def check(folder, printed):
    features = len(list((ROOT / "conform" / "suite").iterdir()))
    suite = xml.etree.ElementTree.parse(folder / "conformance.xml").find("testsuite")
    counts = {key: int(suite.get(key)) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": features, "failures": 0, "errors": 0, "skipped": 0}, counts
    assert len(suite.findall("testcase")) == features
    assert f"- **command**: {features} honoured" in printed, printed[-2000:]
    assert "### Assay: invariance" in printed
    assert "<!doctype html>" in (folder / "conformance.html").read_text()


def main():
    if importlib.util.find_spec("yaml") is None:
        print("python3-yaml is missing: scripts/setup.sh tests installs it")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="assay_reader_") as name:
        folder = Path(name)
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder / "assay"], check=True)
        (folder / "Makefile").write_text("all:\n\ttrue\n")
        (folder / "my_adapter.sh").write_text('#!/bin/sh\nexec "$ASSAY" engine\n')
        (folder / "my_adapter.sh").chmod(0o755)
        program = [sys.executable, folder / "assay/scripts/workflow.py", folder / "assay/examples/conform.yml", "conform"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("CTEST_", "GTEST_"))}
        environment["XDG_CACHE_HOME"] = str(folder / "cache")  # the models and logs of the suite
        done = subprocess.run(program, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        print(done.stdout)
        if done.returncode != 0:
            return 1
        check(folder, done.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
