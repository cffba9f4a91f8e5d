"""engines.json, and where the environments are that install.py makes."""

import json
import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


class CatalogError(Exception):
    """One line for the user."""


def read():
    return json.loads((HERE / "engines.json").read_text(encoding="utf-8"))


def cache():
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay"
    return Path(os.environ.get("ASSAY_CACHE") or default)


def folder(environment):
    return cache() / "engines" / environment


def python(environment):
    return folder(environment) / "bin" / "python"


def find(name):
    """The entry of an engine."""
    engines = read()["engines"]
    for engine in engines:
        if engine["name"] == name:
            return engine
    names = ", ".join(engine["name"] for engine in engines)
    raise CatalogError(f"no engine is called {name!r}; there are {names}")
