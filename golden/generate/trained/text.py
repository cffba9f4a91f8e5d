"""The text of the trained models: two Debian packages whose contents are in the public domain.

    bible-kjv-text 4.38 (unpacked by the program of bible-kjv 4.38): the King James Version; its copyright has expired
    jargon-text 4.4.7-4.1: the Jargon File; "in the public domain, to be freely used, shared, and modified"

Both are in `main` of Debian 12. They are fetched by apt-get and unpacked without being installed.
"""

import gzip
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = ("bible-kjv=4.38", "bible-kjv-text=4.38", "jargon-text=4.4.7-4.1")
SHA256 = "dfa176cfce0b1383350f7398dd315c4029e618c7d69dc6b2b16add2120ef2681"
VERSE = re.compile(r"(\w+?)(\d+):\d+ (.*)")
HELD_OUT = 20  # one document of so many is for validation


def unpacked(folder):
    """The packages' files under `folder`."""
    subprocess.run(["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", *PACKAGES], cwd=folder, check=True,
                   stdout=sys.stderr)
    for package in sorted(folder.glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, folder], check=True)
    return folder / "usr"


def chapters(usr):
    """Each chapter, a verse a line, without the numbers."""
    bible = [usr / "bin/bible", "-p", usr / "lib", "-f", "Ge1:1-Rev22:21"]
    printed = subprocess.run(bible, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    found = {}
    for line in printed.splitlines():
        book, chapter, verse = VERSE.fullmatch(line).groups()
        found.setdefault((book, chapter), []).append(verse)
    return ["\n".join(verses) for verses in found.values()]


def entries(usr):
    """Each entry of the Jargon File, a paragraph a line, from the first entry to the last page."""
    text = gzip.decompress((usr / "share/doc/jargon-text/jargon.txt.gz").read_bytes()).decode()
    text = text[text.index("\n   :(TM):") :]
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        line = " ".join(paragraph.split())
        if line.startswith(":") or not found:
            found.append(line)
        elif line:
            found[-1] += "\n" + line
    return found


def documents():
    """(for training, for validation): the documents of both."""
    with tempfile.TemporaryDirectory() as scratch:
        usr = unpacked(Path(scratch))
        found = chapters(usr) + entries(usr)
    sha256 = hashlib.sha256("\n\n".join(found).encode()).hexdigest()
    if sha256 != SHA256:
        raise RuntimeError(f"the text has the sha256 {sha256}, not the one that the models were trained on")
    held = found[::HELD_OUT]
    return [text for index, text in enumerate(found) if index % HELD_OUT], held
