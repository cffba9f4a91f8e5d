#!/usr/bin/env python3
"""Makes the environments that the engines run in: install.py ENGINE… | all | --list

Each is a virtual environment of its own under the cache, with the packages of its requirements files, each checked by
its hash, with pip from the index that pip is set up with. An engine that needs PyTorch finds that of scripts/fetch.sh
packages there, too. Nothing is done again unless a requirements file changed.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from contextlib import contextmanager
from pathlib import Path

import catalog

BASE = catalog.ROOT / "scripts/fetch.sh"


def base_python():
    """The Python of scripts/fetch.sh packages."""
    done = subprocess.run([BASE, "packages"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise catalog.CatalogError("scripts/fetch.sh packages failed (see above)")
    return done.stdout.split("\n")[-2]


def packages_of(python):
    """The folder with its packages."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.run([python, "-c", ask], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def stamp_text(recipe):
    files = [(catalog.ROOT / path).read_bytes() for path in recipe["requirements"]]
    for key in ("variables", "source"):
        if recipe.get(key):
            files.append(json.dumps(recipe[key], sort_keys=True).encode())
    return f"{hashlib.sha256(b''.join(files)).hexdigest()} {bool(recipe.get('base'))} {sys.version}"


def is_installed(environment, recipe):
    stamp = catalog.folder(environment) / "assay-requirements"
    return stamp.exists() and stamp.read_text() == stamp_text(recipe) and catalog.python(environment).exists()


@contextmanager
def locked(environment):
    """A second install of the same environment waits for the first, and finds it made."""
    catalog.folder(environment).parent.mkdir(parents=True, exist_ok=True)
    with open(f"{catalog.folder(environment)}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def unpack_source(python, source, target):
    """Folders of a package's source that its wheel lacks, wherever they are in it, to `target`."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
        command += ["--require-hashes", "-d", scratch, "-r", catalog.ROOT / source["requirements"]]
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
            raise catalog.CatalogError(f"pip could not download {source['requirements']} (see above)")
        with tarfile.open(next(Path(scratch).glob("*.tar.gz"))) as archive:
            archive.extractall(scratch)  # its hash is checked
        for name in source["folders"]:
            shutil.copytree(next(Path(scratch).rglob(name)), target / name)


def install(environment, recipe):
    folder = catalog.folder(environment)
    stamp = folder / "assay-requirements"
    stamp.unlink(missing_ok=True)
    venv.create(folder, clear=True, with_pip=True)
    if recipe.get("base"):
        # Last of the search path, so that the environment's own packages come first.
        with open(f"{packages_of(catalog.python(environment))}/zz_assay_base.pth", "w", encoding="utf-8") as file:
            print(packages_of(base_python()), file=file)
    for path in recipe["requirements"]:
        print(f"{environment}: installing {path}", file=sys.stderr)
        command = [catalog.python(environment), "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-deps"]
        command += ["--no-build-isolation", "--require-hashes", "-r", catalog.ROOT / path]
        variables = os.environ | recipe.get("variables", {})
        if subprocess.run(command, stdout=sys.stderr, env=variables, check=False).returncode:
            raise catalog.CatalogError(f"pip could not install {path} (see above); run this again when online")
    if recipe.get("source"):
        unpack_source(catalog.python(environment), recipe["source"], folder / "source")
    stamp.write_text(stamp_text(recipe))  # last, so that an interrupted install is repeated


def main():
    names = sys.argv[1:]
    if not names:
        print("usage: install.py ENGINE… | all | --list", file=sys.stderr)
        return 2
    known = catalog.read()
    environments = known["environments"]
    if names == ["--list"]:
        for engine in known["engines"]:
            environment = engine["environment"]
            state = "installed" if is_installed(environment, environments[environment]) else "not installed"
            print(f"{engine['name']:24} {engine['version']:12} {state}")
        return 0
    chosen = known["engines"] if names == ["all"] else [catalog.find(name) for name in names]
    for environment in dict.fromkeys(engine["environment"] for engine in chosen):
        with locked(environment):
            if not is_installed(environment, environments[environment]):
                install(environment, environments[environment])
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (catalog.CatalogError, OSError, subprocess.SubprocessError) as error:
        print(f"install.py: {error}", file=sys.stderr)
        sys.exit(2)
