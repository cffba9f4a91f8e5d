#!/usr/bin/env python3
"""Installs the packages of PyPI that tests need into a virtual environment: fetch_packages.py FOLDER

Those of tests/requirements.txt, each checked by its hash, with pip from the index that pip is set up with: 2.3 GB to fetch,
nearly all of it torch, which PyPI has with CUDA only. Prints the environment's Python. A second call finds it; another
list, or another Python, rebuilds it. Of two calls at once the second one waits. Standard library and pip only.
"""

import contextlib
import fcntl
import hashlib
import pathlib
import subprocess
import sys
import venv

REQUIREMENTS = pathlib.Path(__file__).resolve().parents[1] / "tests" / "requirements.txt"


class FetchError(Exception):
    """What went wrong, in one line for the user."""


def stamp_text():
    return f"{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()} {sys.version}"


@contextlib.contextmanager
def alone(folder):
    """Waits for another call that installs into `folder`: each would delete what the other has installed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make(folder, python):
    print(f"installing the packages of {REQUIREMENTS} (2.3 GB)", file=sys.stderr)
    venv.create(folder, clear=True, with_pip=True)
    # No cache: it would hold as much again. Nothing compiled ahead: most modules are never imported.
    command = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-compile", "--no-deps", "--only-binary",
               ":all:", "--require-hashes", "-r", REQUIREMENTS]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        raise FetchError("pip could not install them (see above); run this again when online")


def main():
    if len(sys.argv) != 2:
        print("usage: fetch_packages.py FOLDER", file=sys.stderr)
        sys.exit(2)
    folder = pathlib.Path(sys.argv[1]).absolute()
    python, stamp = folder / "bin" / "python", folder / "assay-requirements"
    with alone(folder):
        if not (stamp.exists() and stamp.read_text() == stamp_text() and python.exists()):
            stamp.unlink(missing_ok=True)
            make(folder, python)
            stamp.write_text(stamp_text())  # last, so that an interrupted install is repeated
    print(python)


if __name__ == "__main__":
    try:
        main()
    except (FetchError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"fetch_packages.py: {error}")
