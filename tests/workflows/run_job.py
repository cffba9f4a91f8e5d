#!/usr/bin/env python3
"""Runs a workflow's job in a fresh clone of the last commit, as the runner would: run_job.py WORKFLOW JOB [NAME=VALUE…].

run_job.py --lint checks the shell of every step of every workflow, in place. Exit code 77: a package that the tests
need is missing, so that nothing was tested.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77


def main():
    if importlib.util.find_spec("yaml") is None or shutil.which("shellcheck") is None:
        print("python3-yaml or shellcheck is missing: scripts/setup.sh tests installs them")
        return SKIPPED
    program = [sys.executable, "scripts/workflow.py"]
    if sys.argv[1:] == ["--lint"]:
        workflows = sorted(map(str, [*(ROOT / ".github/workflows").glob("*.yml"), *(ROOT / "examples").rglob("*.yml")]))
        return subprocess.run([*program, "--lint", *workflows], cwd=ROOT, check=False).returncode
    workflow, *job = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="assay_workflow_") as folder:
        clone = Path(folder, "clone")
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True)
        # A runner knows nothing of the test that started this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("CTEST_", "GTEST_"))}
        relative = Path(workflow).resolve().relative_to(ROOT)
        return subprocess.run([*program, str(relative), *job], cwd=clone, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
