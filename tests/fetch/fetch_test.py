"""golden/fetch.py against a server of our own that speaks as the hub does: fetch_test.py; exit 77 without huggingface_hub.

Each test says what would break: a cut download that starts over or counts as whole, a changed file that is taken, an
error that does not say what to do.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

try:
    import huggingface_hub  # noqa: F401
except ImportError:
    print("no huggingface_hub")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TABLE = json.loads((ROOT / "golden" / "published.json").read_text())["models"]


class Hub:
    """What the server holds and does, and what it was asked."""

    def __init__(self):
        self.body = bytes(range(256)) * 20000
        self.etag = None  # the SHA-256 that it states, if not the true one
        self.error = None  # (status, X-Error-Code)
        self.cuts = 0  # answers that break off half-way
        self.ranges = []
        self.tokens = set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub = None

    def log_message(self, *_):
        pass

    def headers_of(self, status, length, more=()):
        digest = hashlib.sha256(self.hub.body).hexdigest()
        self.send_response(status)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{self.hub.etag or digest}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(length))
        for key, value in more:
            self.send_header(key, value)
        self.end_headers()

    def refuse(self):
        status, code = self.hub.error
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self):
        self.hub.tokens.add(self.headers.get("Authorization"))
        if self.hub.error:
            self.refuse()
        else:
            self.headers_of(200, len(self.hub.body))

    def do_GET(self):
        if self.hub.error:
            self.refuse()
            return
        body, first = self.hub.body, 0
        asked = self.headers.get("Range")
        self.hub.ranges.append(asked)
        if asked and asked.startswith("bytes=") and asked.endswith("-"):
            first = int(asked[6:-1])
        rest = body[first:]
        more = [("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")] if first else []
        self.headers_of(206 if first else 200, len(rest), more)
        if self.hub.cuts > 0:
            self.hub.cuts -= 1
            self.wfile.write(rest[: len(rest) // 2])
            self.wfile.flush()
            self.connection.close()
            self.close_connection = True
        else:
            self.wfile.write(rest)


class FetchTest(unittest.TestCase):
    def setUp(self):
        self.hub = Hub()
        handler = type("Bound", (Handler,), {"hub": self.hub})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        self.temporary.cleanup()

    def fetch(self, name="tinyllama", **environment):
        url = f"http://127.0.0.1:{self.server.server_port}"
        variables = {key: value for key, value in os.environ.items() if key not in ("HF_TOKEN", "HF_HUB_OFFLINE")}
        variables |= {"HF_ENDPOINT": url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        variables |= {"HF_HOME": str(self.folder / "home"), "HF_HUB_DISABLE_TELEMETRY": "1", **environment}
        command = [sys.executable, ROOT / "golden" / "fetch.py", name, "--to", self.folder / "to"]
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)

    def expect_error(self, answer, *parts):
        self.assertEqual(answer.returncode, 2, answer.stderr)
        for part in parts:
            self.assertIn(part, answer.stderr)
        self.assertNotIn("Traceback", answer.stderr)

    def test_the_first_fetch_records_and_the_next_holds(self):
        answer = self.fetch()
        self.assertEqual(answer.returncode, 0, answer.stderr)
        path = Path(answer.stdout.splitlines()[-1])
        self.assertEqual(path.read_bytes(), self.hub.body)
        self.assertIn("first fetch, trusted", answer.stderr)
        lock = json.loads((self.folder / "to" / "published.lock.json").read_text())["tinyllama"]
        self.assertEqual(lock["revision"], COMMIT)
        self.assertEqual(lock["sha256"], hashlib.sha256(self.hub.body).hexdigest())
        again = self.fetch()
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(again.stdout, answer.stdout)
        self.assertEqual(len(self.hub.ranges), 1, "the second call fetched it again")

    def test_a_cut_download_goes_on_where_it_was(self):
        self.hub.cuts = 1
        self.hub.body = bytes(range(256)) * 200000  # huggingface_hub keeps pieces of 10 MB
        answer = self.fetch()
        if answer.returncode != 0:  # the library gave up: the next call must go on, not start over
            self.expect_error(answer, "run this again")
            answer = self.fetch()
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(Path(answer.stdout.splitlines()[-1]).read_bytes(), self.hub.body)
        self.assertTrue(any(asked and asked != "bytes=0-" for asked in self.hub.ranges), self.hub.ranges)

    def test_a_hash_that_the_hub_does_not_state_is_refused(self):
        self.hub.etag = "ab" * 32
        self.expect_error(self.fetch(), "the hub says " + "ab" * 32, "removed")
        self.assertEqual(list((self.folder / "to").glob("*/*.gguf")), [])

    def test_another_file_than_the_first_time_is_refused(self):
        first = self.fetch()
        Path(first.stdout.splitlines()[-1]).unlink()
        self.hub.body = self.hub.body[::-1]
        self.expect_error(self.fetch(), "recorded on the first fetch", "removed")

    def test_a_gated_model_without_a_token_says_what_to_do(self):
        self.hub.error = (401, "GatedRepo")
        self.expect_error(self.fetch("llama3"), TABLE["llama3"]["repo"], "HF_TOKEN", "licence")
        self.assertEqual(self.hub.tokens, {None})

    def test_the_token_is_sent(self):
        self.assertEqual(self.fetch("llama3", HF_TOKEN="hf_secret").returncode, 0)
        self.assertIn("Bearer hf_secret", self.hub.tokens)

    def test_what_is_missing_is_named(self):
        self.hub.error = (404, "EntryNotFound")
        self.expect_error(self.fetch(), "has no file tinyllama-1.1b-chat-v1.0.Q4_K_M.gguf")
        self.hub.error = (404, "RepoNotFound")
        self.expect_error(self.fetch(), "no such repository")
        self.expect_error(self.fetch("llama4"), "no model 'llama4'", "tinyllama")
        self.expect_error(self.fetch("gpt2"), "on no hub")

    def test_no_network_is_one_line(self):
        self.server.shutdown()
        self.server.server_close()
        answer = self.fetch(HF_ENDPOINT="http://127.0.0.1:9")
        self.expect_error(answer, "cannot fetch")
        self.assertEqual(len(answer.stderr.strip().splitlines()), 1, answer.stderr)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


if __name__ == "__main__":
    unittest.main()
