"""What the tests of pages share: one Chromium for all tests of a class, and what every page must do."""

import json
import os
import sys
import tempfile
import unittest

import chromium

PROGRAM = os.environ["ASSAY_PROGRAM"]
SHOTS = os.environ.get("ASSAY_SHOTS", tempfile.gettempdir())


class PageCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = chromium.Chromium()
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def open_page(self, path, width=1280, dark=False, phone=False):
        browser = self.browser
        browser.complaints.clear()
        browser.requests.clear()
        browser.screen(width, 800, dark, phone)
        browser.open(path)
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

    def check_first_column_stays(self, selector):
        """Of each table there, the second column can be seen beside the first, which stays when the rest is scrolled."""
        for place in self.browser.evaluate(f"""[...document.querySelectorAll({json.dumps(selector)})].map((box) => {{
          const edges = (cell) => [cell.getBoundingClientRect().left, cell.getBoundingClientRect().right];
          const cells = box.querySelector('tbody tr').cells;
          const whole = edges(cells[1])[1] <= box.getBoundingClientRect().right;
          const start = edges(cells[0])[0];
          box.scrollLeft = 200;
          return [box.ariaLabel, whole, edges(cells[0])[0] === start];
        }})"""):
            self.assertEqual(place[1:], [True, True], place[0])

    def check_names(self, roles):
        """Every part that a screen reader stops at has a name; parts of all these roles are there."""
        nodes = self.browser.accessibility()
        nameless = [node for node in nodes if node["role"] in ("button", "combobox", "grid", "image", "region", "link",
                                                              "navigation", "table", "gridcell", "columnheader")
                    and not node["name"].strip()]
        self.assertEqual(nameless, [])
        found = [node["role"] for node in nodes]
        for role in ("banner", "navigation", "main", "contentinfo", *roles):
            self.assertIn(role, found)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('h1').length"), 1)

    def check_no_markup(self):
        """No text of the data has become an element, a script, or a turn of direction."""
        page = self.browser
        self.assertIsNone(page.evaluate("window.injected ?? null"))
        tags = page.evaluate("[...new Set([...document.querySelectorAll('*')].map((e) => e.localName))].join(' ')")
        for tag in ("img", "iframe", "b", "object", "link"):
            self.assertNotIn(tag, tags.split())
        self.assertEqual(page.evaluate("document.scripts.length"), 2)
        self.assertNotRegex(page.evaluate("document.body.innerText"), "[\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def main():
    """Runs the tests of the program that calls; exit code 77, which ctest shows as skipped, without Chromium."""
    if chromium.program() is None:
        print("skipped: no Chromium here")
        sys.exit(77)
    unittest.main(module="__main__")
