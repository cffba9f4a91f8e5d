#!/usr/bin/env python3
"""Puts real vocabularies and their test vectors into a folder: fetch_vocabularies.py FOLDER

Those of Llama 2, Llama 3, Qwen 2 and 3.5, Phi-3, GPT-2, Falcon, Command R, DeepSeek LLM and Coder,
and StarCoder, which llama.cpp keeps for its own tests, from the source package of llama-cpp-python
0.3.36. Standard library and pip only. Files that are there
and whole are left alone, so that a second call fetches nothing and an interrupted one continues.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

PACKAGE = "llama-cpp-python"
VERSION = "0.3.36"
SDIST = "llama_cpp_python-0.3.36.tar.gz"
SDIST_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
SDIST_FOLDER = "llama_cpp_python-0.3.36/vendor/llama.cpp/models/"
SHA256 = {
    "ggml-vocab-command-r.gguf":
        "a2f8cfea952ef7c391a6d92a1c309d0bd32e36384d9b9230569a7425732f27d9",
    "ggml-vocab-command-r.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-command-r.gguf.out":
        "d2a601336e422b60a264858c01b14c5d37575fe1f9adfcafc2f3b3707903903f",
    "ggml-vocab-deepseek-coder.gguf":
        "91cb1379f2e33af1c4866b194622b7a0e12e8f0c9dba7ba2f10d55978730bec1",
    "ggml-vocab-deepseek-coder.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-deepseek-coder.gguf.out":
        "c2cea4584b0487e67fbd81f491bb44f89238722062126120d2c412edb3dbd853",
    "ggml-vocab-deepseek-llm.gguf":
        "867f77537b54565f0d81d508c04edc41aa1d4ffc1a92745f225b4c1b02755f76",
    "ggml-vocab-deepseek-llm.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-deepseek-llm.gguf.out":
        "87cfc1a8a9a7ef25d04d28c26a67b6a620af7be938c9bd0feeb4d319b9302832",
    "ggml-vocab-falcon.gguf":
        "9f0bf8b0733680398b72e652e90f260f43782f326e75545fc0e49611a5ba35ad",
    "ggml-vocab-falcon.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-falcon.gguf.out":
        "f8c80a0483582ef195c2129b69bb2e4e421b0f31ed7b35d84b63511d7ebae7cd",
    "ggml-vocab-gpt-2.gguf":
        "cedc56ca6e2e89f63e781696d1fd76b4b1d49e6720dee86463e915f6e90016ac",
    "ggml-vocab-gpt-2.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-gpt-2.gguf.out":
        "48e8c4cb3ad5c37915b225f872222567c1c4dd4d66951aa53460c8d152ff6d60",
    "ggml-vocab-llama-bpe.gguf":
        "97272e430d53bc7688f52d5e0ad8ea8f163ede9f1bbd1694feaa504797d5d96e",
    "ggml-vocab-llama-bpe.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-llama-bpe.gguf.out":
        "118abf2034a197fc5c9dec5204dfdeee7004c7c70952ae577f66b99e212fab9b",
    "ggml-vocab-llama-spm.gguf":
        "16c3724582d59aa8bf84711894e833f916ee46a31d80e21312759c48bf8d0e69",
    "ggml-vocab-llama-spm.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-llama-spm.gguf.out":
        "ad6905c925c49c022974fe67e030382e8a4f56eb4489a0b9481dcedb1ec73b29",
    "ggml-vocab-phi-3.gguf":
        "967d7190d11c4842eab697079d98d56c2116e10eb617be355a2733bfc132e326",
    "ggml-vocab-phi-3.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-phi-3.gguf.out":
        "ad6905c925c49c022974fe67e030382e8a4f56eb4489a0b9481dcedb1ec73b29",
    "ggml-vocab-qwen2.gguf":
        "44c2f46b715f585c6ab513970e8a006bfa5badd6108560054921cf598d154d8c",
    "ggml-vocab-qwen2.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-qwen2.gguf.out":
        "de785bb305cc6fa9d43908ed5da337f853c0b79e971348fcfb9f0915a39c5363",
    "ggml-vocab-qwen35.gguf":
        "63ed952ff338996cf0bdf24a7b10015124273f75c6dc9bb427356aa3f67ec62c",
    "ggml-vocab-qwen35.gguf.inp":
        "0fc6547e7876cd5b2ef64a9d319c6e39040eb53986660bd4227ed7ddef017a94",
    "ggml-vocab-qwen35.gguf.out":
        "5efe225820325303857d0a087a8d59216f0d1e9a9e31133e7a5b44c3c4e1e9ca",
    "ggml-vocab-starcoder.gguf":
        "fedb892b4e1bd3c1f2fcdae356440b14fb458f4264d586e5c987ed93df4e174d",
    "ggml-vocab-starcoder.gguf.inp":
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    "ggml-vocab-starcoder.gguf.out":
        "3ef12183c57ad076f9defd8e5eb454f509f5f0865cad35646abb4c4b2d2c5764",
}


# Before pip keeps a source package it asks the package's build system (scikit-build-core) for the
# metadata, and would fetch build tools for that. This answers instead.
BUILD_SYSTEM_STUB = f'''
import os
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    name = "{PACKAGE.replace("-", "_")}-{VERSION}.dist-info"
    os.makedirs(os.path.join(folder, name))
    with open(os.path.join(folder, name, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: {PACKAGE}\\nVersion: {VERSION}\\n")
    return name
'''


class FetchError(Exception):
    """What went wrong, in one line for the user."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def is_whole(path, sha256):
    return path.is_file() and sha256_of(path) == sha256


def download(folder):
    """The source package in `folder`, by pip, so that the user's index and proxies are used."""
    sdist = folder / SDIST
    if is_whole(sdist, SDIST_SHA256):
        return sdist
    say(f"fetching {SDIST} (77 MB)")
    with tempfile.TemporaryDirectory() as stub:
        module = pathlib.Path(stub) / "scikit_build_core" / "build.py"
        module.parent.mkdir()
        module.write_text(BUILD_SYSTEM_STUB)
        pip = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", PACKAGE,
             "--no-build-isolation", "--disable-pip-version-check", "--no-input",
             "--retries", "2", "--timeout", "30", "--dest", str(folder), f"{PACKAGE}=={VERSION}"],
            env={**os.environ, "PYTHONPATH": stub}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if not sdist.is_file():
        reasons = [line for line in pip.stdout.splitlines() if "error" in line.lower()]
        reason = (reasons or pip.stdout.splitlines() or ["no output"])[-1].strip()
        raise FetchError(f"pip cannot download {PACKAGE} {VERSION} ({reason}); "
                         "connect to the network and run this again")
    if not is_whole(sdist, SDIST_SHA256):
        sdist.unlink()
        raise FetchError(f"{SDIST} has another sha256 than the pinned one; it was deleted")
    return sdist


def unpack(sdist, folder, wanted):
    """Moves each wanted file into place only when it is whole."""
    with tarfile.open(sdist, "r:gz") as archive:
        for member in archive:
            name = member.name.removeprefix(SDIST_FOLDER)
            if name not in wanted or not member.isfile():
                continue
            handle, partial = tempfile.mkstemp(prefix=name + ".", suffix=".part", dir=folder)
            try:
                with archive.extractfile(member) as source, open(handle, "wb") as target:
                    shutil.copyfileobj(source, target)
                if sha256_of(partial) != SHA256[name]:
                    raise FetchError(f"{name} in {SDIST} has another sha256 than the pinned one")
                os.chmod(partial, 0o644)
                os.replace(partial, folder / name)
            except BaseException:
                os.unlink(partial)
                raise
            say(f"  {name}")


def main():
    if len(sys.argv) != 2:
        print("usage: fetch_vocabularies.py FOLDER", file=sys.stderr)
        sys.exit(2)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {name for name, sha256 in SHA256.items() if not is_whole(folder / name, sha256)}
    if wanted:
        downloads = folder / "download"
        downloads.mkdir(exist_ok=True)
        unpack(download(downloads), folder, wanted)
        shutil.rmtree(downloads)
    missing = sorted(name for name in wanted if not (folder / name).is_file())
    if missing:
        raise FetchError(f"{SDIST} has no {missing[0]}")
    print(folder)


if __name__ == "__main__":
    try:
        main()
    except (FetchError, OSError, tarfile.TarError, EOFError) as error:
        sys.exit(f"fetch_vocabularies.py: {error}")
    except KeyboardInterrupt:
        sys.exit("fetch_vocabularies.py: interrupted; run this again to go on")
