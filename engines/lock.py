#!/usr/bin/env python3
"""Prints a requirements file: lock.py [--no-deps] PACKAGE==VERSION…

Each package that pip would install here, for this Python and processor, with the hash of the file that it would take.
"""

import json
import shlex
import subprocess
import sys


def main():
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    report = json.loads(subprocess.run([*command, *sys.argv[1:]], stdout=subprocess.PIPE, check=True).stdout)
    print(f"# For Python 3.11 on x86-64. Made by: engines/lock.py {shlex.join(sys.argv[1:])}")
    for found in sorted(report["install"], key=lambda found: found["metadata"]["name"].lower()):
        about, digest = found["metadata"], found["download_info"]["archive_info"]["hashes"]["sha256"]
        print(f"{about['name'].lower()}=={about['version']} \\\n    --hash=sha256:{digest}")


if __name__ == "__main__":
    main()
