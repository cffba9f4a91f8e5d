"""The Python writer writes what the C++ writer writes, and what Assay's reader reads."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
from assay_tap import CheckpointSet, LogError, LogWriter, writer_from_environment
from assay_tap.numbers import shortest
from assay_tap.sketch import sketch, splitmix64

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "golden" / "tinyllama" / "tinyllama-q8_0.gguf"
ABOUT = ("tokens", "prompt", "model", "engine", "backend", "math", "checkpoints")  # of a header


def assay(*arguments):
    return subprocess.run([os.environ["ASSAY"], *map(str, arguments)], capture_output=True, text=True, check=False)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "log.jsonl"

    def lines(self, path=None):
        return (path or self.path).read_text(encoding="utf-8").splitlines()


class Bytes(Folder):
    def test_are_those_of_the_program(self):
        """Breaks if the two writers drift apart in format, number text, summary or sketch."""
        theirs = self.folder / "program.jsonl"
        ran = assay(
            "run",
            MODEL,
            "--prompt",
            "GPU haiku \u00e9",
            "-n",
            3,
            "--log",
            theirs,
            "--checkpoints",
            "ops",
            "--values",
            "all",
            "--sketch",
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        expected = self.lines(theirs)
        records = [json.loads(line) for line in expected]
        with LogWriter(self.path, team=records[1].get("team", ""), values=None, sketch=True) as log:
            log.header(**{key: records[0][key] for key in ABOUT})
            for record in records[1:]:
                values = np.array(record["values"], dtype=np.float32)
                log.write(record["checkpoint"], record["token_idx"], values, record["shape"])
        self.assertGreater(len(expected), 300)
        self.assertEqual(self.lines(), expected)

    def test_head_and_count_are_those_of_the_program(self):
        theirs = self.folder / "program.jsonl"
        command = ("run", MODEL, "--prompt", "GPU", "-n", 2, "--log")
        assay(*command, theirs, "--checkpoints", "logits", "--values", 7)
        every = self.folder / "all.jsonl"
        assay(*command, every, "--checkpoints", "logits", "--values", "all")
        records = [json.loads(line) for line in every.read_text(encoding="utf-8").splitlines()]
        with LogWriter(self.path, team=records[1].get("team", ""), values=7) as log:
            for record in records[1:]:
                values = np.array(record["values"], dtype=np.float32)
                log.write(record["checkpoint"], record["token_idx"], values, record["shape"])
        self.assertEqual(self.lines(), self.lines(theirs)[1:])

    def test_times_stand_where_the_program_has_them(self):
        """Breaks if a tap's log had no time between tokens, or in another form, or if goldens had one."""
        time_of_record = re.compile(r'(,"token_idx":\d+),"ts":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)"')
        theirs = self.folder / "program.jsonl"
        with mock.patch.dict(os.environ, {"ASSAY_LOG_TS": "on", "ORCH_LOG_FILE": str(self.path)}):
            ran = assay("run", MODEL, "--tokens", "1,2", "--log", theirs, "--checkpoints", "logits")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            with writer_from_environment() as log:
                log.write("logits", 0, [1.0, 2.0])
        with LogWriter(self.folder / "bare.jsonl") as log:
            log.write("logits", 0, [1.0, 2.0])
        self.assertIsNotNone(time_of_record.search(self.lines(theirs)[1]))
        self.assertEqual([time_of_record.sub(r"\1", line) for line in self.lines()], self.lines(self.folder / "bare.jsonl"))
        self.assertNotEqual(self.lines(), self.lines(self.folder / "bare.jsonl"))
        for value, wanted in (("off", False), ("", True)):
            with mock.patch.dict(os.environ, {"ASSAY_LOG_TS": value, "ORCH_LOG_FILE": str(self.path)}):
                with writer_from_environment() as log:
                    self.assertEqual(log.times, wanted)
        with mock.patch.dict(os.environ, {"ASSAY_LOG_TS": "1", "ORCH_LOG_FILE": str(self.path)}):
            with self.assertRaisesRegex(LogError, "ASSAY_LOG_TS: '1' is neither on nor off"):
                writer_from_environment()

    def test_any_text_is_that_of_the_program(self):
        """Breaks if a prompt or a team with bytes that JSON must not hold were written in another way."""
        theirs = self.folder / "program.jsonl"
        prompt = b'a "b" \\ \n\t \x01\x7f \xe2\x82\xac \xf0\x9f\x8d\xa3 \xff\xc3( \xc2\x9b\xe2\x80\xae\xe2\x80\x8b\xc2\xad\xf3\xa0\x81\x81'
        with mock.patch.dict(os.environb, {b"ORCH_LOG_TEAM": prompt[::-1]}):
            command = [os.environ["ASSAY"], "run", MODEL, "--prompt", prompt, "-n", "1", "--log", theirs]
            ran = subprocess.run(command, capture_output=True, check=False)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            header, record = self.lines(theirs)[:2]
            with LogWriter(self.path, team=os.environ["ORCH_LOG_TEAM"]) as log:
                said = json.loads(header) | {"prompt": os.fsdecode(prompt)}
                log.header(**{key: said[key] for key in ABOUT})
                log.write("x", 0, [])
        ours = self.lines()
        self.assertEqual(ours[0], header)
        team = re.compile(r'"team":"(\\.|[^"\\])*"')
        self.assertEqual(team.search(ours[1])[0], team.search(record)[0])

    def test_globs_are_those_of_the_program(self):
        theirs = self.folder / "program.jsonl"
        every = [f"layer_{layer}_{op}" for layer in (0, 1) for op in ("q", "k", "v", "output")] + ["logits"]
        command = ("run", MODEL, "--prompt", "GPU", "-n", 1, "--values", 1, "--log", theirs, "--checkpoints")
        for glob in ("layer_[^0]_q", "layer_[!0]_?", r"layer\_0_*t", r"[\l]ogits", "layer_[0-9]_[kv],logits"):
            with self.subTest(glob):
                ran = assay(*command, glob)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                chosen = {json.loads(line)["checkpoint"] for line in self.lines(theirs)[1:]}
                self.assertEqual([name for name in every if name in CheckpointSet(glob)],
                                 [name for name in every if name in chosen])  # fmt: skip


class Items(unittest.TestCase):
    def test_what_matches_no_checkpoint_is_known(self):
        """Breaks if a mistyped name logged nothing in silence, or if a part of a set were taken for one."""
        names = ["layer_0_output", "layer_0_q", "logits"]
        for text, unmatched in (
            ("layers", []),
            ("ops,logits", []),
            ("layer_0_*,*_q", []),
            ("layr_*", ["layr_*"]),
            ("layers,layr_*,logits", ["layr_*"]),
        ):
            self.assertEqual(CheckpointSet(text).unmatched(names), unmatched, text)
        self.assertEqual(CheckpointSet("logits").unmatched(["output"]), ["logits"])


class Numbers(unittest.TestCase):
    def test_read_back_to_the_same_bits(self):
        """Breaks if a float were printed with too few digits."""
        bits = np.random.default_rng(5).integers(0, 1 << 32, 50000, dtype=np.uint64).astype(np.uint32)
        corners = np.array([0, 0x80000000, 1, 0x007FFFFF, 0x7F7FFFFF, 0x50000000], dtype=np.uint32)
        values = np.concatenate([corners, bits]).view(np.float32)
        for value in values[np.isfinite(values)]:
            text = shortest(value)
            self.assertRegex(text, r"^-?(0|[1-9]\d*)(\.\d+)?(e[+-]\d+)?$")
            self.assertEqual(np.float32(text).view(np.uint32), value.view(np.uint32), text)
            self.assertLessEqual(len(text), len(str(value)))

    def test_are_the_text_of_std_to_chars(self):
        known = [(1.5, "1.5"), (-2.0, "-2"), (0.0, "0"), (-0.0, "-0"), (1e5, "1e+05"), (1e4, "10000"),
                 (1e-4, "1e-04"), (0.001, "0.001"), (1.2e-4, "0.00012"), (1.25e-4, "0.000125"), (1e22, "1e+22"),
                 (1e300, "1e+300"), (1234567.5, "1234567.5"), (123456.0, "123456"),
                 (1.5e-10, "1.5e-10"), (5e-324, "5e-324")]  # fmt: skip
        for value, text in known:
            self.assertEqual(shortest(value), text)
        self.assertEqual(shortest(np.float32(123456789)), "123456792")  # exact, as a whole number

    def test_splitmix64_is_the_published_generator(self):
        self.assertEqual([int(h) for h in splitmix64(2)], [0x910A2DEC89025CC1, 0x975835DE1C9756CE])

    def test_sketch_is_its_definition(self):
        rng = np.random.default_rng(1)
        row = rng.standard_normal(20000)
        row[7] = np.nan
        for k in (0, 17, 63):
            signs = np.array([1.0 if int(h) >> k & 1 else -1.0 for h in splitmix64(len(row))])
            self.assertAlmostEqual(sketch(row)[k], np.nansum(signs * row), places=8)


class Records(Folder):
    def test_what_is_not_finite_is_a_string_and_never_a_number(self):
        with LogWriter(self.path, sketch=True) as log:
            log.write("logits", 0, [np.nan, np.inf, -np.inf, 1.0, 1e300])
            log.write("logits", 1, [np.nan, np.nan])
        first, second = map(json.loads, self.lines())
        self.assertEqual(first["values"], ["NaN", "Infinity", "-Infinity", 1, "Infinity"])
        self.assertEqual((first["summary"]["nonfinite"], first["summary"]["nan"]), (4, 1))
        self.assertEqual(
            (second["summary"]["argmax"], second["summary"]["mean"], second["summary"]["top"]), (-1, "NaN", [])
        )
        answer = assay("compare", self.path, self.path)
        self.assertEqual(answer.returncode, 1, answer.stderr)  # NaN is no parity, and no error of the reader

    def test_the_program_finds_a_log_in_parity_and_one_that_is_not(self):
        rows = np.random.default_rng(2).standard_normal((3, 500))
        other = self.folder / "other.jsonl"
        for path, error in ((self.path, 0.0), (other, 0.5)):
            with LogWriter(path, sketch=True) as log:
                for position, row in enumerate(rows):
                    log.write("layer_0_output", position, row * (1 + error * (position == 2)))
        same = assay("compare", self.path, self.path)
        self.assertEqual(same.returncode, 0, same.stdout + same.stderr)
        different = assay("compare", self.path, other, "--format", "json")
        self.assertEqual(different.returncode, 1, different.stderr)
        self.assertEqual(json.loads(different.stdout)["first_divergence"]["token_idx"], 2)

    def test_a_shape_that_does_not_hold_the_values_is_refused(self):
        with LogWriter(self.path) as log:
            for shape in ([1, 4], [-1, -3], []):
                with self.assertRaisesRegex(LogError, "do not fit"):
                    log.write("x", 0, [1, 2, 3], shape)
            wrong = ("", [1], "name is"), (None, [1], "name is"), ("x", None, "is no row"), ("x", ["a"], "no row of numbers")
            for name, row, text in (*wrong, ("x", np.zeros(3, np.complex64), "complex numbers")):
                with self.assertRaisesRegex(LogError, text):
                    log.write(name, 0, row)
            for index in (-1, 0.5, "0", True, np.True_, np.False_, 2**63, 2**70, np.uint64(2**63), None):
                self.assertRaisesRegex(LogError, "token_idx is", log.write, "x", index, [1])
        self.assertEqual(self.lines(), [])

    def test_the_header_comes_first_and_holds_any_prompt(self):
        with LogWriter(self.path) as log:
            log.header(tokens=[1], prompt='a "b" \\ \n \x01 \u20ac \ud800', engine="e")
            log.write("x", 0, [1])
            with self.assertRaisesRegex(LogError, "first line"):
                log.header()
        self.assertEqual(json.loads(self.lines()[0])["tokens"], [1])
        self.assertEqual(assay("analyze", self.path).returncode, 0)

    def test_what_a_header_does_not_know_is_empty(self):
        for unknown in (None, ""):
            with LogWriter(self.path) as log:
                log.header([1], model={"name": unknown, "arch": "llama"}, engine=unknown, backend=unknown, math=unknown)
            header = json.loads(self.lines()[0])
            self.assertEqual(header["model"], {"name": "", "sha256": "", "arch": "llama", "type": ""})
            self.assertEqual((header["engine"], header["backend"], header["math"]), ("", "", ""))

    def test_the_type_is_that_of_the_row_unless_it_is_given(self):
        kinds = dict(int32="i32", int64="i64", uint8="u8", bool="bool", float16="f16", float32="f32", float64="f64")
        with LogWriter(self.path, summary=False) as log:
            for kind in kinds:
                log.write("x", 0, np.array([127, 0, 1]).astype(kind))
                log.write_rows("x", [1], np.array([[127, 0, 1]]).astype(kind))
            log.write("x", 0, [1, 2])
            log.write("x", 0, np.ones(2), dtype="f32")
        types = [json.loads(line)["dtype"] for line in self.lines()]
        self.assertEqual(types, [name for name in kinds.values() for _ in "ab"] + ["f32", "f32"])
        self.assertIn('"values":[127,0,1]', self.lines()[0])

    def test_a_second_writer_is_refused_and_destroys_nothing(self):
        with LogWriter(self.path) as log:
            log.write("x", 0, [1])
            with self.assertRaisesRegex(LogError, "another writer"):
                LogWriter(self.path)
            self.assertEqual(len(self.lines()), 1)

    def test_errors_name_the_file(self):
        with self.assertRaisesRegex(LogError, re.escape(str(self.folder / "none"))):
            LogWriter(self.folder / "none" / "log.jsonl")
        if os.access("/dev/full", os.W_OK):
            with LogWriter("/dev/full") as log, self.assertRaisesRegex(LogError, "No space left"):
                log.write("x", 0, [1])

    def test_after_close_nothing_is_written(self):
        log = LogWriter(self.path)
        log.close()
        with self.assertRaisesRegex(LogError, "closed"):
            log.write("x", 0, [1])


class Environment(Folder):
    def test_says_where_and_what(self):
        said = {"ORCH_LOG_FILE": str(self.path), "ORCH_LOG_TEAM": "ours", "ORCH_LOG_VALUES": "all"}
        with mock.patch.dict(os.environ, said), writer_from_environment() as log:
            log.write("x", 0, range(20))
        record = json.loads(self.lines()[0])
        self.assertEqual((record["team"], len(record["values"])), ("ours", 20))

    def test_without_a_file_nothing_is_logged(self):
        with mock.patch.dict(os.environ, {"ORCH_LOG_FILE": ""}):
            self.assertIsNone(writer_from_environment())

    def test_a_count_without_meaning_is_refused(self):
        for text in ("-1", "many", "1.5", "\u0663"):
            with mock.patch.dict(os.environ, {"ORCH_LOG_FILE": str(self.path), "ORCH_LOG_VALUES": text}):
                with self.assertRaisesRegex(LogError, "ORCH_LOG_VALUES"):
                    writer_from_environment()


ENDING = """
import os, sys
sys.path.insert(0, {package!r})
from assay_tap import LogWriter
log = LogWriter({path!r}, values=None)
for i in range(1000000):
    log.write("x", i, [0.1] * 2000)
    print(i, flush=True)
    if i == 50 and {how!r} == "exit": sys.exit(0)
    if i == 50 and {how!r} == "_exit": os._exit(0)
    if i == 50 and {how!r} == "abort": os.abort()
"""


class Ends(Folder):
    """Breaks if a record that write() has returned for could be lost with the process."""

    def end(self, how):
        code = ENDING.format(package=str(ROOT / "python"), path=str(self.path), how=how)
        child = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        if how == "kill":
            while not self.path.exists() or self.path.stat().st_size < 500000:
                time.sleep(0.01)
            os.kill(child.pid, signal.SIGKILL)
        told = child.communicate()[0].split("\n")
        finished = len(told) - 1
        self.assertGreater(finished, 10)
        lines = self.path.read_text().split("\n")
        self.assertGreaterEqual(len(lines) - 1, finished)
        for i in range(finished):
            self.assertEqual(len(json.loads(lines[i])["values"]), 2000)

    def test_exit(self):
        self.end("exit")

    def test_exit_without_handlers(self):
        self.end("_exit")

    def test_abort(self):
        self.end("abort")

    def test_kill(self):
        self.end("kill")


FORK = """
import os, resource, sys
sys.path.insert(0, {package!r})
from assay_tap import LogError, LogWriter
log = LogWriter({path!r}, values=None)
log.write("x", 0, [1.0])
if os.fork() == 0:
    log.write("x", 1, [2.0] * 50)
    os._exit(0)
os.wait()
if {after!r}: log.write("x", 2, [3.0])
size = os.path.getsize({path!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, resource.RLIM_INFINITY))
for i in range(2):
    try: log.write("x", 3, [4.0] * 50)
    except LogError as error: print(size, error)
"""


CHILD = """
import os, sys, threading
sys.path.insert(0, {package!r})
from assay_tap import LogError, LogWriter

def told(call):
    try: call()
    except LogError as error: print(str(error).removeprefix({path!r}), flush=True)
    else: print("fine", flush=True)

def fork(run):
    '''A child that runs `run`; the answer starts it, waits until it has run, and ends it.'''
    start, started = os.pipe()
    done, ended = os.pipe()
    pid = os.fork()
    if pid == 0:
        while os.read(start, 1) == b"r":
            run()
            os.write(ended, b".")
        os._exit(0)
    def go(end=False):
        os.write(started, b"e" if end else b"r")
        if end: os.waitpid(pid, 0)
        else: os.read(done, 1)
    return go

log = LogWriter({path!r}, values=None)
log.write("x", 0, [1.0])
{rest}
"""


class Children(Folder):
    def said(self, rest):
        code = CHILD.format(package=str(ROOT / "python"), path=str(self.path), rest=rest)
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout.splitlines()

    def test_one_that_did_not_log_keeps_nobody_from_the_log(self):
        """Breaks if a child that lives on held the lock; that child must not write into the next log either."""
        said = self.said("""
child = fork(lambda: told(lambda: log.write("x", 1, [2.0])))
log.close()
told(lambda: globals().update(log=LogWriter(log.path)))
log.write("y", 0, [1.0])
child()
child(end=True)
""")
        self.assertEqual(said[0], "fine")
        self.assertRegex(said[1], "another writer opened this log")
        self.assertEqual([json.loads(line)["checkpoint"] for line in self.lines()], ["y"])

    def test_what_one_logged_is_not_destroyed(self):
        for when in ("child(); log.close()", "log.close(); child()"):
            with self.subTest(when):
                said = self.said(f"""
child = fork(lambda: log.write("x", 1, [2.0]))
{when}
told(lambda: LogWriter(log.path))
child(end=True)
print(len(open(log.path).readlines()))
told(lambda: LogWriter(log.path))
""")
                self.assertRegex(said[0], "another writer, or a child of fork.. that logged to it, has this log open")
                self.assertEqual(said[1:], ["2", "fine"])

    def test_one_that_closes_leaves_its_parent_the_lock(self):
        said = self.said("""
child = fork(log.close)
child()
other = os.fork()
if other == 0:
    told(lambda: LogWriter(log.path))
    os._exit(0)
os.waitpid(other, 0)
log.write("x", 1, [1.0])
child(end=True)
""")
        self.assertRegex(said[0], "another writer")
        self.assertEqual(len(self.lines()), 2)

    def test_a_header_after_the_record_of_one_is_refused(self):
        said = self.said("""
log.close()
log = LogWriter(log.path)
child = fork(lambda: log.write("x", 0, [1.0]))
child()
told(log.header)
child(end=True)
""")
        self.assertRegex(said[0], "the header must be the first line")
        self.assertEqual(len(self.lines()), 1)

    def test_one_logs_whatever_the_threads_of_its_parent_did(self):
        """Breaks if a child waited for a thread that only its parent has."""
        self.said("""
import signal, time
held = threading.Event()
def hold():
    with log._lock:
        held.set()
        time.sleep(1)
threads = [threading.Thread(target=hold)]
threads[0].start()
held.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    log.write("x", 1, [2.0])
    os._exit(0)
sys.exit(os.waitpid(pid, 0)[1])
""")
        self.assertEqual([json.loads(line)["token_idx"] for line in self.lines()], [0, 1])


class Forks(Folder):
    def fail(self, after):
        """The size before the write that failed, and what was said of it, twice."""
        code = FORK.format(package=str(ROOT / "python"), path=str(self.path), after=after)
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        first, second = (line.partition(" ") for line in ran.stdout.splitlines())
        self.assertEqual(first[2], second[2])
        return int(first[0]), first[2]

    def test_a_record_that_does_not_fit_is_taken_back_and_no_other(self):
        """Breaks if what the child wrote were not counted, and a cut took finished records."""
        size, said = self.fail(after=True)
        self.assertTrue(said.endswith("the log ends with the last whole record"), said)
        self.assertEqual(self.path.stat().st_size, size)
        self.assertEqual([json.loads(line)["token_idx"] for line in self.lines()], [0, 1, 2])

    def test_where_that_is_not_sure_nothing_is_cut(self):
        size, said = self.fail(after=False)
        self.assertTrue(said.endswith("the last whole record and a torn line"), said)
        self.assertEqual(self.path.stat().st_size, size + 40)
        self.assertEqual([json.loads(line)["token_idx"] for line in self.lines()[:2]], [0, 1])


if __name__ == "__main__":
    unittest.main()
