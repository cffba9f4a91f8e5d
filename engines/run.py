#!/usr/bin/env python3
"""Runs an engine's adapter in its environment: run.py ENGINE. What it computes, the environment says (README.md)."""

import os
import sys

import catalog


def main():
    if len(sys.argv) != 2:
        raise catalog.CatalogError("usage: run.py ENGINE")
    engine = catalog.find(sys.argv[1])
    python = catalog.python(engine["environment"])
    if not python.exists():
        print(f"run.py: {engine['name']} is not installed; run engines/install.py {engine['name']}", file=sys.stderr)
        sys.exit(127)  # as a shell says that there is no such command
    paths = [catalog.HERE, catalog.ROOT / "python", catalog.ROOT / "golden"]
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    adapter, *options = engine["adapter"]
    os.execv(python, [str(python), str(catalog.HERE / adapter), *options])


if __name__ == "__main__":
    try:
        main()
    except (catalog.CatalogError, OSError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        sys.exit(2)
