"""Fetches one pinned file of a Python package index, resuming where an earlier try was cut.

The index is the one that pip is set up with, so that mirrors work; pip itself does not resume.
Standard library and pip only.
"""

import hashlib
import html.parser
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

CHUNK = 1 << 20


class FetchError(Exception):
    """What went wrong, in one line for the user."""


def index_url():
    """The index pip uses: its configuration, else its own default."""
    configured = os.environ.get("PIP_INDEX_URL")
    if not configured:
        answer = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
            capture_output=True, text=True, check=False)
        configured = answer.stdout.strip()
    if not configured:
        answer = subprocess.run(
            [sys.executable, "-c",
             "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"],
            capture_output=True, text=True, check=False)
        configured = answer.stdout.strip()
    if not configured:
        raise FetchError("pip is missing; install python3-pip, or set PIP_INDEX_URL")
    return configured.rstrip("/") + "/"


class _Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.hrefs = []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.hrefs += [value for name, value in attrs if name == "href"]


def file_url(project, filename):
    page_url = urllib.parse.urljoin(index_url(), project + "/")
    try:
        with urllib.request.urlopen(page_url, timeout=60) as page:
            links = _Links()
            links.feed(page.read().decode("utf-8", "replace"))
            base = page.url
    except (urllib.error.URLError, OSError) as error:
        raise FetchError(f"the package index cannot be reached: {error}") from error
    for href in links.hrefs:
        url = urllib.parse.urljoin(base, href)
        if urllib.parse.urlparse(url).path.rsplit("/", 1)[-1] == filename:
            return urllib.parse.urldefrag(url).url
    raise FetchError(f"the package index has no {filename}")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _show_progress(filename, done, total):
    if sys.stderr.isatty():
        print(f"\r{filename}: {done / 1e6:.1f} of {total / 1e6:.1f} MB", end="", file=sys.stderr)


def _download(url, filename, partial):
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=60) as response:
        resumed = response.status == 206
        total = int(response.headers.get("Content-Length", 0)) + (have if resumed else 0)
        with open(partial, "ab" if resumed else "wb") as file:
            done = file.tell()
            while chunk := response.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                _show_progress(filename, done, total)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if done < total:
        raise FetchError(f"{filename} was cut at {done} of {total} bytes; run this again to go on")


def fetch(project, filename, sha256, directory):
    """The path of `filename` in `directory`, fetched unless it is there; its hash is checked."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / filename
    if path.exists() and sha256_of(path) == sha256:
        return path
    partial = directory / (filename + ".part")
    print(f"fetching {filename}", file=sys.stderr)
    if not (partial.exists() and sha256_of(partial) == sha256):
        try:
            _download(file_url(project, filename), filename, partial)
        except (urllib.error.URLError, OSError) as error:
            raise FetchError(f"{filename}: {error}; run this again to go on") from error
    if sha256_of(partial) != sha256:
        partial.unlink()
        raise FetchError(f"{filename} has another sha256 than the pinned {sha256}; it was deleted")
    partial.replace(path)
    return path
