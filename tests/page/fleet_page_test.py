"""The page of a fleet as Chromium shows it: python3 fleet_page_test.py, with ASSAY_PROGRAM set.

The page is made of what `assay fleet report --json` gives, which tests/fleet/ checks. Screenshots are left in
ASSAY_SHOTS. Exit code 77, which ctest shows as skipped, without Chromium.
"""

import json
import os
import subprocess

from page_case import PROGRAM, PageCase, main

MARKUP = "</script><script>window.injected=1</script><img src=x onerror='window.injected=1'>"
DIVERGED = {
    "engine": "c cpu fast", "model": "model-2", "type": "Q8_0", "prompt": "GPU haiku", "commit": "c11edd", "run": "874fa36bec79f2c8",
    "reference": "b6f9c922e7bc4d9f", "state": "diverged", "verdict": "wrong", "checkpoint": "layer_3_output", "token_idx": 7,
    "metric": "rel_l2", "value": 0.2, "tolerance": 0.01, "problem": None, "state_before": "parity", "checkpoint_before": None,
    "commit_before": "c0ffee",
}  # fmt: skip


def fleet(engines=("a cpu fast", "c cpu fast"), commits=12, new=3):
    """What a report of a fleet has, of some engines and commits; the last one diverges with the last commit."""
    trends = [
        {"engine": engine, "commit": f"{0xc0ffee + 7919 * i:x}", "first": "", "night": f"2026-11-{i + 1:02}", "runs": 25,
         "diverged": 5 * (engine == engines[-1] and i == commits - 1), "median_error": 1e-6 * (1 + i % 3),
         "worst_error": 0.2 if engine == engines[-1] and i == commits - 1 else 3e-6 * (1 + i % 4)}
        for engine in engines for i in range(commits)]  # fmt: skip
    rows = [{"engine": engine, "runs": 25, "parity": 25 - new * (engine == engines[-1]), "diverged": new * (engine == engines[-1]),
             "not_proved": 0, "not_judged": 0, "median_error": 1e-6, "worst_of_tolerance": 1e-4} for engine in engines]  # fmt: skip
    return {
        "text": "Night of 2026-11-12\n", "dataset": "nights", "night": "2026-11-12", "before": "2026-11-11",
        "counts": {"runs": 25 * len(engines), "parity": 25 * len(engines) - new, "diverged": new, "not_proved": 0, "not_judged": 0,
                   "new": new, "still": 1, "fixed": 1, "gone": 1, "problems": 0},
        "problems": [], "engines": rows, "trends": trends, "new": [dict(DIVERGED) for _ in range(new)],
        "ops": [{"op": "output", "engine": engines[-1], "runs": new, "first_layer": 3, "last_layer": 5, "commonest": "layer_3_output",
                 "worst": "NaN"}],
        "still": [{**DIVERGED, "state_before": "diverged", "checkpoint_before": "layer_5_q"}],
        "fixed": [{**DIVERGED, "state": "parity", "verdict": "noise", "checkpoint": None, "state_before": "diverged",
                   "checkpoint_before": "logits"}],
        "gone": [{"engine": "b cpu fast", "model": "model-0", "type": "F32", "prompt": "Prompt 0", "commit": "c0ffee",
                  "run": "874fa36bec79f2c8", "state_before": "parity"}],
    }  # fmt: skip


class FleetPageTest(PageCase):
    def show(self, data, **screen):
        path, page = (os.path.join(self.folder.name, name) for name in ("data.json", "page.html"))
        with open(path, "w") as file:
            json.dump(data, file)
        run = subprocess.run([PROGRAM, "fleet", "page", path, "-o", page], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return self.open_page(page, **screen)

    def test_what_is_new_comes_first(self):
        page = self.show(fleet())
        self.assertEqual(self.texts("h1"), ["3 newnight of 2026-11-12"])
        self.assertEqual(self.texts("h2"), ["New", "As before", "In parity again", "Did not run", "Engines", "Ops", "Trend of a cpu fast",
                                            "Trend of c cpu fast"])  # fmt: skip
        self.assertIn("layer_3_output at token 7: rel_l2 0.2, tolerance 0.01", self.texts("section:first-of-type .reason")[0])
        self.assertTrue(any("first at layer_5_q" in text for text in self.texts("td")))
        self.assertEqual(page.evaluate("document.querySelectorAll('.chart svg').length"), 2)
        commands = self.texts("section:first-of-type code")
        self.assertIn("assay convert 'nights/run=874fa36bec79f2c8/log.parquet' got.jsonl && assay compare ref.jsonl got.jsonl", commands[0])
        self.assertEqual(page.requests[1:], [])
        self.check_names(("table", "image"))
        self.shot("fleet")

    def test_all_in_parity_says_so(self):
        data = fleet(new=0)
        data["still"], data["fixed"], data["ops"] = [], [], []
        data["counts"].update(still=0, fixed=0)
        self.show(data)
        self.assertEqual(self.texts("h1"), ["1 did not runnight of 2026-11-12"])
        data["gone"], data["counts"]["gone"] = [], 0
        self.show(data, dark=True)
        self.assertEqual(self.texts("h1"), ["All in paritynight of 2026-11-12"])
        self.shot("fleet_dark")

    def test_text_is_no_markup_and_fits_a_phone(self):
        data = fleet(engines=(MARKUP, "x" * 300), commits=3)
        data["gone"][0].update(engine=MARKUP, model=MARKUP, prompt=MARKUP * 20, commit=MARKUP)
        for row in data["new"]:
            row.update(engine=MARKUP, model=MARKUP, prompt=MARKUP * 20, commit=MARKUP, problem=MARKUP)
        data["problems"] = [{"run": MARKUP, "problem": "\u202e" + MARKUP}]
        data["counts"]["problems"] = 1
        data["text"] = MARKUP
        page = self.show(data, width=390, phone=True)
        self.check_no_markup()
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 390)
        self.shot("fleet_phone")

    def test_commits_are_short_and_leave_room_on_a_phone(self):
        data = fleet()
        for row in [*data["trends"], *data["new"]]:
            row["commit"] = (row["commit"] * 7)[:40]
        for row in data["new"]:
            row["commit_before"] = "c0ffee" * 7
        page = self.show(data, width=420, phone=True, dark=True)
        self.assertEqual({len(text) for text in self.texts("[aria-label^='Commits of'] tbody th")}, {12})
        self.assertTrue(all(text.endswith("commit c0ffeec0ffee") for text in self.texts("section:first-of-type td:nth-child(8)")))
        self.check_first_column_stays("[aria-label^='Commits of'].rows, [aria-label=Engines].rows")
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 420)
        self.shot("fleet_commits_phone")

    def test_what_is_no_report_is_one_line(self):
        path = os.path.join(self.folder.name, "bad.json")
        lacking = [json.dumps({**fleet(), name: None}) for name in ("text", "counts", "gone")]
        for text in ("{", "[]", '{"text": "Night"}', *lacking):
            with open(path, "w") as file:
                file.write(text)
            run = subprocess.run([PROGRAM, "fleet", "page", path], capture_output=True, text=True, check=False)
            self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (2, "", 1))


if __name__ == "__main__":
    main()
