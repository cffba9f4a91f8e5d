"""What a hostile log may put into a report: hostile_reports.py [test], with ASSAY_PROGRAM set.

Names of checkpoints, teams and files are made to break out of each format; the reports are read by parsers that Assay has
no part in. tests/page does the same for HTML, in Chromium, and for the words of tokens.
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
CHECKPOINTS = 3


class HostileReports(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.summary = pathlib.Path(self.folder.name) / "summary.md"

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text, factor):
        """A log whose middle checkpoint and team are `text`."""
        records = []
        for checkpoint in ("layer_0_q", text, "logits"):
            values = [factor * value for value in (1.0, -2.0, 3.0)]
            records.append(logs.record(checkpoint, 0, values, team=text, source=text, file=text))
        path = os.path.join(os.fsencode(self.folder.name), name)
        with open(path, "w", encoding="utf-8") as file:
            for record in records:
                file.write(json.dumps(record) + "\n")
        return path

    def check_all(self, form, where):
        """Calls check_FORM(inside, text, path) with the report of two logs with each hostile text: inside of them in the
        names of checkpoints and teams, or as their own names, as `where` says."""
        for number, text in enumerate(HOSTILE):
            # A log with half of a surrogate pair is no JSON and refused; a file may be named in any bytes.
            name = text if where == "file" else "log"
            inside = text if where == "log" and not re.search("[\ud800-\udfff]", text) else "layer_1_q"
            bare = name.encode("utf-8", "surrogatepass" if "\ud800" in name else "surrogateescape")
            bare = bare.replace(b"/", b"\xe2\x88\x95").replace(b"\0", b"")[:200]
            with self.subTest(text=text, where=where):
                self.summary.write_text("")
                ref = self.write(b"%d " % number + bare, inside, 1.0)
                got = self.write(bare, inside, 2.0)
                run = subprocess.run([PROGRAM, "compare", ref, got, "--format", form], capture_output=True, check=False,
                                     env={**os.environ, "GITHUB_STEP_SUMMARY": str(self.summary)})
                self.assertEqual((run.returncode, run.stderr), (1, b""))
                getattr(self, "check_" + form)(inside, run.stdout.decode("utf-8"), os.fsdecode(got))
                os.unlink(ref)
                os.unlink(got)

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
            self.assertEqual({row["ref_team"] for row in rows}, {inside})

    def check_json(self, inside, text, _path):
        report = json.loads(text)
        self.assertEqual(len(report["results"]), CHECKPOINTS)
        self.assertNotIn("injected", report)
        self.assertIn(inside, [result["checkpoint"] for result in report["results"]])


def add(form, where):
    def test(self):
        self.check_all(form, where)

    setattr(HostileReports, f"test_{form}_{where}", test)


for each in ("junit", "sarif", "github", "table", "csv", "json"):
    for place in ("log", "file"):
        add(each, place)

if __name__ == "__main__":
    unittest.main()
