"""The tables of engines as Chromium shows them: python3 engine_page_test.py, with ASSAY_PROGRAM set.

Screenshots are left in ASSAY_SHOTS. Exit code 77, which ctest shows as skipped, without Chromium.
"""

import os
import subprocess

from page_case import PROGRAM, PageCase, main

MARKUP = "</script><script>window.injected=1</script><img src=x onerror='window.injected=1'>"


class EnginePageTest(PageCase):
    def show(self, command, arguments, width=1280, dark=False, phone=False):
        folder = self.folder.name
        page = os.path.join(folder, "page.html")
        run = subprocess.run(
            [PROGRAM, command, *arguments, "--work", os.path.join(folder, "work"), "--format", "html", "-o", page],
            capture_output=True, text=True, check=False)
        self.exit_code = run.returncode
        self.assertIn(run.returncode, (0, 1), run.stderr)
        return self.open_page(page, width, dark, phone)

    def test_every_feature_has_its_cell_and_its_commands(self):
        self.show("conform", ["assay", "--features", "yarn*"])
        self.assertEqual(self.exit_code, 0)
        self.assertEqual(self.texts("h1"), ["Honoured"])
        marks = self.texts("main section td a")
        self.assertGreaterEqual(len(marks), 9)
        self.assertEqual(set(marks), {"✓"})
        self.assertTrue(any("assay conform assay --features yarn_beta_fast" in text for text in self.texts("code")))
        self.check_names(("table", "link"))
        self.shot("conformance")
        self.browser.screen(420, 800, False, True)
        self.browser.settle()
        self.check_first_column_stays("main section .scroll")
        self.shot("conformance_phone")

    def test_deviations_come_first_and_their_text_is_no_markup(self):
        engine = f"echo \"{MARKUP}\" >&2; exit 7"
        page = self.show("conform", ["--command", engine, "--features", "rope_theta*"], width=420, phone=True, dark=True)
        self.assertEqual(self.exit_code, 1)
        self.assertEqual(self.texts("h1"), ["Deviations"])
        self.assertTrue(any("ended with exit code 7" in text for text in self.texts(".reason")))
        self.check_no_markup()
        # No link leads nowhere.
        self.assertEqual(page.evaluate(
            "[...document.querySelectorAll('main a')].filter((a) => !document.getElementById(a.hash.slice(1))).length"), 0)
        self.shot("conformance_phone_dark")

    def test_what_has_changed_since_a_baseline_is_shown(self):
        known = os.path.join(self.folder.name, "known.json")
        own = f"'{PROGRAM}' engine"
        before = f"case $ASSAY_MODEL_DIR in *rope_theta) exit 7;; *gemma) exit 9;; *) {own};; esac"
        now = f"case $ASSAY_MODEL_DIR in *left_out) exit 7;; *gemma) exit 9;; *) {own};; esac"
        features = ["--features", "rope_theta*", "--work", os.path.join(self.folder.name, "work")]
        subprocess.run([PROGRAM, "conform", "--command", before, *features, "--format", "baseline", "-o", known], check=False)
        self.show("conform", ["--command", now, *features[:2], "--baseline", known])
        self.assertEqual(self.exit_code, 1)
        self.assertEqual(self.texts("h1"), ["Worse than the baseline"])
        self.assertEqual(sorted(self.texts("main section td a")),
                         ["crashed (as before)", "crashed (worse)", "honoured (better)", "✓"])
        self.assertTrue(any("in the baseline: honoured" in text for text in self.texts(".reason")))
        self.shot("conformance_baseline")

    def test_surfaces_are_shown_as_features_are(self):
        self.show("invariance", ["assay", "--features", "family_llama"])
        self.assertEqual(self.exit_code, 0)
        self.assertEqual(self.texts("h1"), ["Invariant"])
        self.assertEqual(self.texts("main section td a").count("✓"), 6)
        self.assertEqual(self.texts("main section td a").count("–"), 2)


if __name__ == "__main__":
    main()
