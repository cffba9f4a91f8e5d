"""The page of a verdict on speed as Chromium shows it: python3 perf_page_test.py, with ASSAY_PROGRAM set.

Screenshots are left in ASSAY_SHOTS. Exit code 77, which ctest shows as skipped, without Chromium.
"""

import json
import os
import subprocess

import logs
from page_case import PROGRAM, PageCase, main

# How much slower each has become.
CHANGES = {
    "matrix_vector/Q4_K/real_time": 1.08,
    "decode/smollm2/Q4_1/fast/16/real_time": 0.8,
    "prefill/smollm2/Q4_1/fast/512/real_time": 1.0,
    "decode/smollm2/Q4_1/exact/16/real_time": 1.0,
    "attention/f32/512/512/real_time": 0.93,
    "rms_norm/1/real_time": 1.001,
    "log_compare_full_logits_of_a_very_long_name_that_goes_on_and_on/real_time": 1.3,
}


UNSURE = ("rms_norm/1/real_time",)


def bench(changes, pairs=20, head=False):
    entries = []
    for place, (name, change) in enumerate(changes.items()):
        for i in range(pairs):
            wave = 1 + 0.004 * ((i * 7 + place) % 5)
            if head and name in UNSURE:
                wave *= 1 + 0.1 * (i % 5 - 2)
            entries.append({"name": name, "run_name": name, "run_type": "iteration", "time_unit": "us",
                            "real_time": 100 * (place + 1) * wave * (change if head else 1)})
    return {"context": {"num_cpus": 2}, "benchmarks": entries}


def comparison(x_floor):
    return {"pass": x_floor <= 3, "summary": {"failed": int(x_floor > 3), "unmatched_ref": 0}, "results": [
        {"checkpoint": "layer_3_output", "token_idx": 7, "tolerance": 3e-6, "floor": 1e-6, "x_floor": x_floor}]}


class PerfPageTest(PageCase):
    def show(self, changes=None, accuracy=None, width=1280, dark=False, phone=False, pairs=20):
        folder = self.folder.name
        changes = CHANGES if changes is None else changes
        paths = [os.path.join(folder, side + ".json") for side in ("base", "head")]
        for path, head in zip(paths, (False, True)):
            with open(path, "w", encoding="utf-8") as file:
                json.dump(bench(changes, pairs, head), file)
        options = []
        for side, models in zip(("before", "after"), accuracy or ()):
            os.makedirs(os.path.join(folder, side), exist_ok=True)
            options.append(os.path.join(folder, side))
            for name, x_floor in models.items():
                with open(os.path.join(folder, side, name + "-haiku.json"), "w", encoding="utf-8") as file:
                    json.dump(comparison(x_floor), file)
        page = os.path.join(folder, "page.html")
        run = subprocess.run([PROGRAM, "perf", *paths, "--format", "html", "-o", page,
                              *(["--accuracy", *options] if options else [])],
                             capture_output=True, text=True, check=False)
        assert run.returncode in (0, 1) or pairs < 8 and os.path.exists(page), run.stderr
        self.exit_code = run.returncode
        return self.open_page(page, width, dark, phone)

    ACCURACY = ({"smollm2-Q4_1-fast": 0.83, "smollm2-Q4_1-exact": 0.6, "gpt2-F16-exact": 0.5},
                {"smollm2-Q4_1-fast": 4.21, "smollm2-Q4_1-exact": 0.61, "gpt2-F16-exact": 0.5})

    def test_sorts_by_effect_and_shows_each_verdict(self):
        page = self.show()
        self.assertEqual(self.exit_code, 1)
        self.assertEqual(self.texts("h1"), ["Slower"])
        # Ticks of the axis stand above the names.
        names = [text for text in self.texts(".chart text") if "/" in text]
        self.assertEqual(len(names), len(CHANGES))
        self.assertTrue(names[0].startswith("log_compare"))
        self.assertEqual(names[1], "matrix_vector/Q4_K/real_time")
        self.assertEqual(names[-1], "decode/smollm2/Q4_1/fast/16/real_time")
        for verdict, least in (("SLOW", 2), ("FAST", 2), ("SAME", 1), ("UNSURE", 1)):
            marks = page.evaluate(f"document.querySelectorAll('.chart .mark.perf-{verdict}').length")
            self.assertGreaterEqual(marks, least, verdict)
        # Intervals hold their estimate.
        self.assertTrue(page.evaluate("data.benchmarks.every((r) => Number(r.low) <= r.ratio && r.ratio <= Number(r.high))"))
        self.shot("perf")

    def test_speed_and_accuracy_stand_side_by_side(self):
        self.show({name: change for name, change in CHANGES.items() if change <= 1}, self.ACCURACY)
        self.assertEqual(self.exit_code, 1)
        self.assertEqual(self.texts("h1"), ["Refused"])
        refused = self.texts("section.first li")
        self.assertEqual(len(refused), 1)
        self.assertTrue(refused[0].startswith("smollm2 Q4_1 fast: it breaks its floor: 4.21 times as far"))
        self.assertIn("that it is faster (decode -20.0 %) does not count", refused[0])
        table = self.texts("[aria-label=Models] tbody tr")
        self.assertEqual(len(table), 3)
        fast = next(row for row in table if "fast" in row)
        for part in ("−20.0 %", "faster", "0.83", "4.21", "1.27", "refused"):
            self.assertIn(part, fast)
        self.shot("perf-refused")

    def test_is_readable_on_a_phone_and_in_the_dark(self):
        for dark in (False, True):
            page = self.show(accuracy=self.ACCURACY, width=360, phone=True, dark=dark)
            self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), 360)
            self.assertEqual(page.evaluate(logs.script("overlap.js")), [])
            self.assertEqual(page.evaluate(logs.script("contrast.js")), [])
            self.shot("perf-phone-dark" if dark else "perf-phone")
            page = self.show(accuracy=self.ACCURACY, dark=dark)
            self.assertEqual(page.evaluate(logs.script("overlap.js")), [])
            self.assertEqual(page.evaluate(logs.script("contrast.js")), [])
            self.shot("perf-dark" if dark else "perf-light")

    def test_every_part_has_a_name_and_nothing_is_loaded(self):
        page = self.show(accuracy=self.ACCURACY)
        self.check_names(("image", "table"))
        self.assertEqual([url for url in page.requests if not url.endswith("/page.html")], [])
        # The chart's numbers are a table too.
        self.assertEqual(len(self.texts("[aria-label=Benchmarks] tbody tr")), len(CHANGES))

    def test_keys_move_from_benchmark_to_benchmark(self):
        page = self.show()
        page.evaluate("document.querySelector('.chart svg').focus()")
        page.press("ArrowDown")
        self.assertTrue(self.texts("#tip")[0].startswith("log_compare"))
        page.press("ArrowDown")
        self.assertTrue(self.texts("#tip")[0].startswith("matrix_vector/Q4_K/real_time\n+8."))
        page.press("End")
        self.assertTrue(self.texts("#tip")[0].startswith("decode/smollm2/Q4_1/fast"))
        self.assertIn("decode/smollm2", self.texts("#live")[0])
        page.press("Escape")
        self.assertTrue(page.evaluate("document.getElementById('tip').hidden"))

    def test_pointing_tells_the_numbers(self):
        page = self.show()
        x, y = page.evaluate("(() => { const mark = document.querySelector('.chart .mark'); mark.scrollIntoView({block: 'center'});"
                             "const box = mark.getBoundingClientRect(); return [box.x + 3, box.y + 3]; })()")
        page.hover(x, y)
        self.assertIn("20 pairs", self.texts("#tip")[0])

    def test_too_few_pairs_have_no_interval_and_say_so(self):
        self.show(pairs=2)
        self.assertEqual(self.exit_code, 2)
        self.assertEqual(self.texts("h1"), ["Unsure"])
        self.assertTrue(any("too few" in text for text in self.texts("section li")))
        self.assertIn("? to ?", self.texts("[aria-label=Benchmarks] tbody tr")[0])

    def test_thousands_of_benchmarks_open(self):
        page = self.show({f"kernel/{i}/real_time": 1 + i * 1e-5 for i in range(5000)}, pairs=3)
        self.assertLess(page.evaluate("document.querySelectorAll('*').length"), 30000)
        self.assertEqual(page.evaluate("data.total"), 5000)
        self.assertTrue(any("3,000 further benchmarks are not listed" in text for text in self.texts(".note")))

    def test_nothing_in_a_name_becomes_markup(self):
        for text in logs.HOSTILE:
            with self.subTest(text=text):
                self.show({text: 1.1, "decode/" + text.replace("/", "") + "/F32/exact/16": 1.0})
                self.check_no_markup()


if __name__ == "__main__":
    main()
