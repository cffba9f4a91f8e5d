"""The HTML report as Chromium shows it: python3 page_test.py, with ASSAY_PROGRAM set.

Screenshots are left in ASSAY_SHOTS. Exit code 77, which ctest shows as skipped, without Chromium.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import chromium
import logs

PROGRAM = os.environ["ASSAY_PROGRAM"]
SHOTS = os.environ.get("ASSAY_SHOTS", tempfile.gettempdir())


def report(folder, ref, got, *options):
    """Compares two lists of records and returns the path of the page."""
    page = os.path.join(folder, "page.html")
    paths = [os.path.join(folder, name) for name in ("ref.jsonl", "got.jsonl")]
    for path, records in zip(paths, (ref, got)):
        logs.write(path, records)
    run = subprocess.run([PROGRAM, "compare", *paths, "--format", "html", "-o", page, *options],
                         capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stderr
    return page


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = chromium.Chromium()
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def show(self, ref, got, *options, width=1280, dark=False, phone=False):
        browser = self.browser
        browser.complaints.clear()
        browser.requests.clear()
        browser.screen(width, 800, dark, phone)
        browser.open(report(self.folder.name, ref, got, *options))
        self.assertEqual(browser.complaints, [])
        return browser

    def shot(self, name):
        os.makedirs(SHOTS, exist_ok=True)
        path = os.path.join(SHOTS, name + ".png")
        self.browser.screenshot(path)
        self.assertGreater(os.path.getsize(path), 10000, "the screenshot is nearly empty")

    def texts(self, selector):
        return self.browser.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)")

    def test_shows_every_layer_and_token(self):
        page = self.show(logs.model(layers=6, tokens=9), logs.model(layers=6, tokens=9, fault=(3, "ffn_out", 4)))
        # embedding, six layers, final_norm and logits
        self.assertEqual(page.evaluate("document.querySelectorAll('.heat tbody tr').length"), 9)
        self.assertEqual(page.evaluate("document.querySelectorAll('.heat td').length"), 9 * 9)
        self.assertEqual(self.texts(".first .place"), ["layer_3_ffn_out at token 4"])
        self.assertEqual(page.evaluate("document.querySelectorAll('.heat .is-first').length"), 1)
        self.assertTrue(page.evaluate("document.querySelector('.is-first').getAttribute('aria-label')")
                        .startswith("First divergence: layer_3_ffn_out, token 4, "))
        self.shot("diverged")

    def test_loads_nothing(self):
        page = self.show(logs.model(), logs.model())
        self.assertEqual([url for url in page.requests if not url.endswith("/page.html")], [])

    def test_no_part_is_wider_than_a_phone(self):
        for dark in (False, True):
            page = self.show(logs.model(layers=12, tokens=40), logs.model(layers=12, tokens=40, fault=(3, "v", 4)),
                             width=360, phone=True, dark=dark)
            self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), 360)
            self.shot("phone-dark" if dark else "phone")

    def test_text_stands_out_from_its_background(self):
        for dark in (False, True):
            page = self.show(logs.model(), logs.model(fault=(1, "q", 1)), dark=dark)
            self.shot("dark" if dark else "light")
            faint = page.evaluate(logs.script("contrast.js"))
            self.assertEqual(faint, [])

    def test_every_part_has_a_name(self):
        page = self.show(logs.model(), logs.model(fault=(1, "q", 1)))
        nodes = page.accessibility()
        nameless = [node for node in nodes if node["role"] in ("button", "combobox", "grid", "image", "region", "link",
                                                              "navigation", "table", "gridcell", "columnheader")
                    and not node["name"].strip()]
        self.assertEqual(nameless, [])
        roles = [node["role"] for node in nodes]
        for role in ("banner", "navigation", "main", "contentinfo", "grid", "image"):
            self.assertIn(role, roles)
        self.assertEqual(page.evaluate("document.querySelectorAll('h1').length"), 1)
        # Each chart has its numbers as a table.
        charts = page.evaluate("document.querySelectorAll('.chart svg').length")
        self.assertGreaterEqual(charts, 2)
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        page.settle()
        self.assertGreaterEqual(page.evaluate("document.querySelectorAll('details table').length"), charts)

    def test_keys_move_through_the_heat_map(self):
        page = self.show(logs.model(), logs.model(fault=(1, "q", 1)))
        page.evaluate("document.querySelector('.heat td[tabindex=\"0\"]').focus()")
        at = "document.activeElement.parentNode.rowIndex * 100 + document.activeElement.cellIndex"
        start = page.evaluate(at)
        page.press("ArrowDown")
        self.assertEqual(page.evaluate(at), start + 100)
        page.press("ArrowRight")
        self.assertEqual(page.evaluate(at), start + 101)
        page.press("Home")
        self.assertEqual(page.evaluate(at), start + 100 - start % 100 + 1)
        self.assertIn("rel L2", self.texts("#tip")[0])
        page.press("Escape")
        self.assertTrue(page.evaluate("document.getElementById('tip').hidden"))
        self.assertEqual(page.evaluate("document.querySelectorAll('.heat td[tabindex=\"0\"]').length"), 1)

    def test_pointing_tells_the_numbers(self):
        page = self.show(logs.model(), logs.model(fault=(1, "q", 1)))
        x, y = page.evaluate("(() => { const cell = document.querySelector('.is-first'); cell.scrollIntoView({block: 'center'});"
                             "const box = cell.getBoundingClientRect(); return [box.x + 4, box.y + 4]; })()")
        page.hover(x, y)
        self.assertIn("First divergence: layer_1_q, token 1", self.texts("#tip")[0])

    def test_nothing_in_a_log_becomes_markup(self):
        for text in logs.HOSTILE:
            with self.subTest(text=text):
                ref = logs.model(extra=text, team=text)
                got = logs.model(extra=text, team=text, fault=(1, "q", 1))
                page = self.show(ref, got)
                self.assertIsNone(page.evaluate("window.injected ?? null"))
                tags = page.evaluate("[...new Set([...document.querySelectorAll('*')].map((e) => e.localName))].join(' ')")
                for tag in ("img", "iframe", "b", "object", "link"):
                    self.assertNotIn(tag, tags.split())
                self.assertEqual(page.evaluate("document.scripts.length"), 2)
                self.assertNotRegex(page.evaluate("document.body.innerText"), "[\u202a-\u202e\u2066-\u2069\u2028\u2029]")
                self.assertIn("records", page.evaluate("Object.keys(data).join(' ')"))

    def test_without_scripts_the_table_is_there(self):
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        try:
            self.browser.open(report(self.folder.name, logs.model(), logs.model(fault=(1, "q", 1))), scripts=False)
            nodes = self.browser.accessibility()
            self.assertTrue(any("first divergence  layer_1_q at token 1" in node["name"] for node in nodes))
        finally:
            self.browser.call("Emulation.setScriptExecutionDisabled", value=False)


if __name__ == "__main__":
    if chromium.program() is None:
        print("skipped: no Chromium here")
        sys.exit(77)
    unittest.main()
