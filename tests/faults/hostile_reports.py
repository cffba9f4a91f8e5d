"""What a hostile log may put into a report: hostile_reports.py [test], with ASSAY_PROGRAM set.

Names of checkpoints, teams and files and the texts of headers are made to break out of each format; the reports are read
by parsers that Assay has no part in. tests/page does the same for HTML, in Chromium, and for the words of tokens.
"""

import csv
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "page"))
import logs  # pylint: disable=wrong-import-position

PROGRAM = os.environ["ASSAY_PROGRAM"]
HOSTILE = (
    *logs.HOSTILE,
    "x\n::add-mask::y\r\n::set-output name=a::b",
    "::error file=a,line=1::injected",
    "  ::stop-commands::t",
    "##[set-output name=a]b",
    "%0A::error::injected%0D",
    "a | b | [c](http://d) @e `f` <img src=x>\n# g\n\n| h |",
    "&lt;&amp;&#x3c;&bogus;",
    "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>&b;",
    "]]></failure><testcase name='injected'/>",
    "\udcff\udc80 not UTF-8",
    "\ud800 half a pair",
    "\ufffe\uffff\U0001fffe",
    "=cmd|' /C calc'!A0",
    '","injected":"',
    "../../../../etc/passwd",
    "C:\\windows?#%41",
)
# What may not stand in XML 1.0, in one line of a log, or on a terminal.
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufffe\uffff]")
# What no JSON may hold, so that a log with it is refused.
HALF_PAIR = re.compile("[\ud800-\udfff]")
CHECKPOINTS = 3
MANIFEST = pathlib.Path(__file__).parents[2] / "golden" / "tinyllama" / "manifest.json"


def header(text, number, **more):
    """The first line of the log of this number, whose texts are `text`; only the first is of the engine of that name."""
    model = {"name": text, "sha256": f"{text}{number}", "arch": text, "type": text}
    return {"assay": 1, "model": model, "tokens": [1], "prompt": text, "engine": f"engine {number}" if number else text,
            "backend": text, "math": text, **more}


class HostileReports(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.summary = pathlib.Path(self.folder.name) / "summary.md"

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text, factor, first=None):
        """A log whose middle checkpoint and team are `text`, after the header `first`."""
        records = [first] if first else []
        for checkpoint in ("layer_0_q", text, "logits"):
            values = [factor * value for value in (1.0, -2.0, 3.0)]
            records.append(logs.record(checkpoint, 0, values, team=text, source=text, file=text))
        path = os.path.join(os.fsencode(self.folder.name), name)
        with open(path, "w", encoding="utf-8") as file:
            for record in records:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        return path

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, check=False,
                              env={**os.environ, "GITHUB_STEP_SUMMARY": str(self.summary)})

    def check_all(self, form, where):
        """Calls check_FORM(inside, text, path) with the report of two logs with each hostile text: inside of them in the
        names of checkpoints and teams, or in their headers, or as their own names, as `where` says."""
        for number, text in enumerate(HOSTILE):
            # A log with half of a surrogate pair is no JSON and refused; a file may be named in any bytes.
            name = text if where == "file" else "log"
            is_json = not HALF_PAIR.search(text)
            inside = text if where == "log" and is_json else "layer_1_q"
            ref_header, got_header = (header(text, i) if where == "header" and is_json else None for i in (0, 1))
            bare = name.encode("utf-8", "surrogatepass" if "\ud800" in name else "surrogateescape")
            bare = bare.replace(b"/", b"\xe2\x88\x95").replace(b"\0", b"")[:200]
            with self.subTest(text=text, where=where):
                self.summary.write_text("")
                ref = self.write(b"%d " % number + bare, inside, 1.0, ref_header)
                got = self.write(bare, inside, 2.0, got_header)
                run = self.run_program("compare", ref, got, "--format", form)
                self.assertEqual(run.returncode, 1)
                self.check_messages(run.stderr, 1 if ref_header else 0)  # that they are of other models
                getattr(self, "check_" + form)(inside, run.stdout.decode("utf-8"), os.fsdecode(got))
                os.unlink(ref)
                os.unlink(got)

    def write_logs(self, headers):
        """A log with each header, of which the third differs."""
        return [self.write(b"%d.jsonl" % number, "layer_1_q", 2.0 if number == 2 else 1.0, first)
                for number, first in enumerate(headers)]

    def check_headers(self, command, form):
        """Holds to check_table() or check_COMMAND() what is said of three logs whose headers hold each hostile text."""
        lines = set()
        for text in ("harmless", *HOSTILE):
            if HALF_PAIR.search(text):
                continue
            with self.subTest(text=text):
                headers = [header(text, number) for number in range(3)]
                if command == "matrix":  # of one model, of which the first is the reference
                    headers = [{**one, "model": headers[0]["model"]} for one in headers]
                    headers[0]["math"] = "float64"
                flags = [] if form == "table" else ["--format", "json"] if command == "compare" else ["--json"]
                run = self.run_program(command, *self.write_logs(headers), *flags)
                self.assertEqual(run.returncode, 0 if command == "analyze" else 1)
                self.check_messages(run.stderr, 1 if command == "compare" else 0)  # that they are of other models
                report = run.stdout.decode("utf-8")
                if form == "json":
                    getattr(self, "check_" + command)(text, json.loads(report))
                    continue
                self.check_table(text, report, "")
                lines.add(report.count("\n"))
                self.assertEqual(len(lines), 1, "a text has become two lines")

    def check_analyze(self, text, report):
        self.assertEqual([(log["model"], log["type"], log["engine"]) for log in report["logs"]],
                         [(text, text, engine) for engine in (text, "engine 1", "engine 2")])
        self.assertNotIn("injected", {key for log in report["logs"] for key in log})

    def check_matrix(self, text, report):
        self.assertEqual(set(report), {"pass", "engines", "rows", "left_out", "unreadable"})
        self.assertEqual(report["unreadable"], [])
        self.assertEqual(report["engines"], [f"{text} {text} float64", f"engine 1 {text} {text}", f"engine 2 {text} {text}"])
        self.assertEqual([(row["model"], row["type"], row["prompt"]) for row in report["rows"]], [(text, text, text)])

    def check_compare(self, text, report):
        self.assertEqual(set(report), {"consensus", "pass", "why", "runs", "pairs", "warnings"})
        self.assertEqual([(run["model"], run["type"], run["engine"]) for run in report["runs"]],
                         [(text, text, f"{engine} {text} {text}") for engine in (text, "engine 1", "engine 2")])
        self.assertNotRegex(report["why"] + "".join(report["warnings"]), CONTROL)

    def test_messages(self):
        """What is refused for the texts of its header is so in one line."""
        cases = (
            ("compare", lambda text: (header(text, 0, tokens=None), header("other", 1, tokens=None))),
            ("compare", lambda text: (header(text, 0), header(text, 1)), "--policy", str(MANIFEST)),
            ("matrix", lambda text: (header(text, 0, math="float64"),)),
            ("analyze", lambda text: (header(text, 0, tokens=[text]),)),
        )
        for text in ("harmless", *HOSTILE):
            if HALF_PAIR.search(text):
                continue
            for command, headers, *flags in cases:
                with self.subTest(text=text, command=command, flags=flags):
                    run = self.run_program(command, *self.write_logs(headers(text)), *flags)
                    self.assertEqual((run.returncode, run.stdout), (2, b""))
                    self.check_messages(run.stderr, 1)
                    if text == "harmless":
                        self.assertIn(text.encode(), run.stderr)

    def check_messages(self, stderr, expected):
        """`expected` lines, each of a message of the program."""
        text = stderr.decode("utf-8")
        self.assertNotRegex(text, CONTROL)
        self.assertNotIn("##[", text)
        lines = text.split("\n")
        self.assertEqual(lines.pop(), "")
        self.assertEqual(len(lines), expected, text)
        for line in lines:
            self.assertTrue(line.startswith("assay: "), line)

    def check_junit(self, inside, text, _path):
        self.assertNotRegex(text, CONTROL)
        self.assertNotIn("<!DOCTYPE", text)
        self.assertNotRegex(text, r"\n\s*::")
        root = ElementTree.fromstring(text)
        self.assertEqual({element.tag for element in root.iter()},
                         {"testsuites", "testsuite", "properties", "property", "testcase", "failure", "system-out",
                          "system-err"})
        names = [case.get("name") for case in root.iter("testcase")]
        self.assertEqual(len(names), CHECKPOINTS)
        if not re.search(r"[^ -~]", inside) and len(inside) < 100:
            self.assertIn(re.sub("^( *):(?=:)", r"\1\\x3a", inside.replace("##[", r"##\x5b")), names)

    def check_sarif(self, _inside, text, path):
        self.assertNotRegex(text, CONTROL)
        run = json.loads(text)["runs"][0]
        self.assertEqual(len(run["results"]), CHECKPOINTS)
        self.assertEqual({result["ruleId"] for result in run["results"]}, {"rel_l2"})
        for result in run["results"]:
            self.assertNotIn("injected", result)
            self.assertNotIn("\n", result["message"]["text"])
            uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
            self.assertRegex(uri, r"\Afile:///([A-Za-z0-9._~/-]|%[0-9A-F]{2})*\Z")
            encoded = os.fsencode(path)
            self.assertEqual(re.sub(rb"%(..)", lambda m: bytes([int(m[1], 16)]), uri[7:].encode()), encoded)

    def check_github(self, _inside, text, _path):
        self.assertNotRegex(text, CONTROL)
        lines = text.split("\n")
        self.assertEqual(lines.pop(), "")
        self.assertEqual(len(lines), CHECKPOINTS)
        for line in lines:
            self.assertRegex(line, r"\A::error file=[^,:\r\n]+,title=[^,:\r\n]+::[^\r\n]+\Z")
            self.assertNotIn("##[", line)
            self.assertNotRegex(line, "%(?!25|3A|2C)")
        summary = self.summary.read_text(encoding="utf-8")
        self.assertNotRegex(summary, CONTROL)
        self.assertNotRegex(re.sub("</?code>", "", summary), r"[<>@`\[\]]|://")
        rows = [line for line in summary.split("\n") if line.startswith("|")]
        self.assertEqual(len(rows), 2 + CHECKPOINTS)
        self.assertEqual({line.count("|") for line in rows}, {9})

    def check_table(self, _inside, text, _path):
        self.assertNotRegex(text, CONTROL)
        for line in text.split("\n"):
            self.assertFalse(line.strip().startswith("::"), line)
            self.assertNotIn("##[", line)

    def check_csv(self, inside, text, _path):
        rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        self.assertEqual(len(rows), CHECKPOINTS)
        self.assertEqual({None} & set(rows[0]), set(), "a field has become two")
        self.assertEqual(len({row["ref_team"] for row in rows}), 1)
        if not re.search(r"[^ -~]", inside):
            shown = "'" + inside if inside.startswith(("=", "+", "-", "@")) else inside  # no formula
            self.assertEqual({row["ref_team"] for row in rows}, {shown})

    def check_json(self, inside, text, _path):
        report = json.loads(text)
        self.assertEqual(len(report["results"]), CHECKPOINTS)
        self.assertNotIn("injected", report)
        self.assertIn(inside, [result["checkpoint"] for result in report["results"]])


def add(name, check, *arguments):
    def test(self):
        getattr(self, check)(*arguments)

    setattr(HostileReports, "test_" + name, test)


for each in ("junit", "sarif", "github", "table", "csv", "json"):
    for place in ("log", "file", "header"):
        add(f"{each}_{place}", "check_all", each, place)
for each in ("analyze", "matrix", "compare"):
    for shape in ("table", "json"):
        add(f"{each}_{shape}_headers", "check_headers", each, shape)

if __name__ == "__main__":
    unittest.main()
