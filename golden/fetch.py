"""Fetches the checkpoints of the published runs: python golden/fetch.py NAME [--to FOLDER]

NAME is one of golden/published.json. The file lands in the cache of scripts/fetch.sh, under published/; its path is the
last line of standard output. An interrupted download is resumed. A file is checked against the revision and SHA-256 of published.json; where these are null, to what the first fetch recorded in published.lock.json beside the
files. Needs huggingface_hub; HF_TOKEN and HF_ENDPOINT are honoured. Exit status 2 if there is no good file.
"""

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path

TABLE = Path(__file__).resolve().parent / "published.json"
LOCK = "published.lock.json"


class FetchError(Exception):
    """An error and what to do, in one line."""


def cache():
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay"
    return Path(os.environ.get("ASSAY_CACHE") or default) / "published"


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def read_lock(folder):
    try:
        return json.loads((folder / LOCK).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise FetchError(f"{folder / LOCK}: is not JSON: {error}; remove it to trust the next fetch again") from error


def pinned(name, model, folder):
    """(revision, sha256, their source), each None if unknown; the table comes first."""
    locked = read_lock(folder).get(name, {})
    if locked and (locked.get("repo"), locked.get("file")) != (model["repo"], model["file"]):
        locked = {}
    revision = model["revision"] or locked.get("revision")
    if model["sha256"]:
        return revision, model["sha256"], str(TABLE)
    return revision, locked.get("sha256"), f"{folder / LOCK}, recorded on the first fetch"


def record(name, model, folder, revision, digest):
    lock = read_lock(folder)
    lock[name] = {"repo": model["repo"], "file": model["file"], "revision": revision, "sha256": digest}
    part = folder / (LOCK + ".part")
    part.write_text(json.dumps(lock, indent=1) + "\n", encoding="utf-8")
    part.replace(folder / LOCK)


def explain(error, model):
    """The hub's error as one line with what to do."""
    from huggingface_hub import errors

    repo, file = model["repo"], model["file"]
    if isinstance(error, errors.GatedRepoError):
        return f"{repo}: access is gated; accept its licence on the hub and set HF_TOKEN to a token of that account"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"{repo}: no such repository, or a private one; set HF_TOKEN if it is private"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{repo}: the pinned revision {model['revision']} is gone; {TABLE.name} needs another"
    if isinstance(error, errors.EntryNotFoundError) and not isinstance(error, errors.LocalEntryNotFoundError):
        return f"{repo}: has no file {file}; {TABLE.name} needs another"
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{repo}: cannot fetch {file}: {text[:200]}; run this again to go on where it stopped"


def download(model, revision, folder):
    """(path, commit, the SHA-256 that the hub states or None)"""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url

    token = os.environ.get("HF_TOKEN") or None
    try:
        url = hf_hub_url(model["repo"], model["file"], revision=revision)
        stated = get_hf_file_metadata(url, token=token or False)
        commit = stated.commit_hash or revision
        path = hf_hub_download(
            model["repo"], model["file"], revision=commit, local_dir=folder / model["repo"].replace("/", "--"), token=token or False
        )
    except Exception as error:  # huggingface_hub lets errors of its HTTP client through, which one depends on its version
        raise FetchError(explain(error, model)) from error
    etag = stated.etag if stated.etag and len(stated.etag) == 64 else None  # of large files; others have a git hash
    return Path(path), commit, etag


def fetch(name, models, folder):
    """The path of a checked file. Throws FetchError."""
    if name not in models:
        raise FetchError(f"no model '{name}'; there are {', '.join(models)}")
    model = models[name]
    if model["repo"] is None:
        raise FetchError(f"{name}: {model['file']} was converted by its authors and is on no hub; use its twin")
    folder.mkdir(parents=True, exist_ok=True)
    revision, wanted, says = pinned(name, model, folder)
    path, commit, stated = download({**model, "revision": revision}, revision, folder)
    got = sha256(path)
    for expected, who in ((stated, "the hub"), (wanted, says)):
        if expected is not None and got != expected:
            path.unlink()
            raise FetchError(
                f"{path}: its SHA-256 is {got}, {who} says {expected}; the file was removed, fetch it again, and if that "
                "does not help it is another file than it was"
            )
    if wanted is None:
        record(name, model, folder, commit, got)
        print(f"{name}: first fetch, trusted: revision {commit}, SHA-256 {got}, recorded in {folder / LOCK}", file=sys.stderr)
    return path


def main():
    models = json.loads(TABLE.read_text(encoding="utf-8"))["models"]
    parser = argparse.ArgumentParser(prog="fetch.py", description=__doc__.split("\n", 1)[0])
    parser.add_argument("name", metavar="NAME", help=f"any of {', '.join(models)}")
    parser.add_argument("--to", metavar="FOLDER", type=Path, default=cache(), help="default: %(default)s")
    options = parser.parse_args()
    try:
        print(fetch(options.name, models, options.to))
    except (FetchError, OSError, ImportError) as error:
        hint = "; pip install huggingface_hub" if isinstance(error, ImportError) else ""
        print(f"fetch.py: {error}{hint}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
