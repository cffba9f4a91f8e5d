"""The HTML report as Chromium shows it: python3 page_test.py, with ASSAY_PROGRAM set.

Screenshots are left in ASSAY_SHOTS. Exit code 77, which ctest shows as skipped, without Chromium.
"""

import json
import math
import os
import subprocess

import logs
import models
from page_case import PROGRAM, PageCase, main

def report(folder, ref, got, *options, exits=(0, 1)):
    """Compares two lists of records and returns the path of the page."""
    page = os.path.join(folder, "page.html")
    paths = [os.path.join(folder, name) for name in ("ref.jsonl", "got.jsonl")]
    for path, records in zip(paths, (ref, got)):
        logs.write(path, records)
    run = subprocess.run([PROGRAM, "compare", *paths, "--format", "html", "-o", page, *options],
                         capture_output=True, text=True, check=False)
    assert run.returncode in exits, run.stderr
    return page


class PageTest(PageCase):
    def show(self, ref, got, *options, width=1280, dark=False, phone=False, exits=(0, 1)):
        return self.open_page(report(self.folder.name, ref, got, *options, exits=exits), width, dark, phone)

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

    def test_a_sequence_of_several_is_chosen(self):
        def run(fault=None):
            names = ["request 1", "request 2"]
            header = {"assay": 1, "tokens": [[1, 2, 3], [4, 5, 6]], "sequences": names, "engine": "toy"}
            return [header, *logs.model(tokens=3, sequence=names[0]), *logs.model(tokens=3, fault=fault, sequence=names[1])]
        page = self.show(run(), run(fault=(1, "v", 2)))
        choose = "s = document.getElementById('heat-sequence'); s.value = '{}'; s.dispatchEvent(new Event('change'))"
        for sequence, failing in (("", 1), ("request 2", 1), ("request 1", 0)):
            page.evaluate(choose.format(sequence))
            self.assertEqual(self.texts(".heat tbody th"), ["embedding", "layer 0", "layer 1", "layer 2", "final_norm", "logits"])
            self.assertEqual(page.evaluate("document.querySelectorAll('.heat tbody tr:nth-child(3) .fails').length"), failing)
            self.assertEqual(page.evaluate("document.querySelectorAll('.heat .is-first').length"), failing)
        self.shot("sequences")

    def test_the_head_says_what_was_run_and_warns_before_the_figures(self):
        def run(name, kind, sha):
            header = {"assay": 1, "model": {"name": name, "type": kind, "sha256": sha * 64}, "tokens": [1, 2], "engine": "toy", "math": "exact"}
            return [header, *logs.model()]
        self.show(run("one", "F32", "a"), run("one", "Q8_0", "b"))
        self.shot("head")
        self.assertEqual(self.texts(".files .run"), ["one, F32, toy, exact", "one, Q8_0, toy, exact"])
        warnings = self.texts("#head .warnings li")
        self.assertEqual(len(warnings), 1)
        self.assertIn("the logs are of different model files", warnings[0])
        self.assertTrue(self.browser.evaluate(
            "(document.querySelector('.warnings').compareDocumentPosition(document.querySelector('.figures')) & 4) === 4"))

    def test_the_worst_error_is_the_one_that_is_no_number(self):
        got = logs.model(fault=(1, "v", 2))
        wrong = next(item for item in got if item["checkpoint"] == "layer_1_q" and item["token_idx"] == 1)
        wrong["values"][0] = math.nan
        self.show(logs.model(), got)
        worst = next(text for text in self.texts(".figures > div") if text.startswith("Worst"))
        self.assertEqual(worst, "Worst rel L2not a numberlayer_1_q, token 1")

    def test_the_checkpoints_that_fail_stand_first_and_whole(self):
        ref = logs.model(layers=12)
        got = [item for item in logs.model(layers=12, fault=(7, "v", 2)) if item["token_idx"] < 4]
        for width in (1280, 420):
            page = self.show(ref, got, width=width, phone=width == 420)
            table = "document.querySelector('[aria-label=Checkpoints].rows')"
            self.assertTrue(self.texts("[aria-label=Checkpoints] tbody tr")[0].startswith("layer_7_vwrong2 of 4"))
            fits = page.evaluate(f"{table}.scrollWidth <= {table}.clientWidth")
            self.assertEqual(fits, width == 1280)
            # What is cut off is faded, until it is scrolled to.
            self.assertEqual(page.evaluate(f"getComputedStyle({table}).maskImage !== 'none'"), not fits)
            page.evaluate(f"{table}.scrollLeft = 9999")
            page.settle()
            self.assertEqual(page.evaluate(f"getComputedStyle({table}).maskImage"), "none")
            self.shot(f"checkpoints-{width}")

    def test_where_the_error_jumps_stands_with_the_first_divergence(self):
        """The jump at layer 1 is within the tolerance, and layer 2 is the first that is not."""
        got = logs.model(layers=4)
        for item in got:
            layer = int(item["checkpoint"].split("_")[1]) if item["checkpoint"].startswith("layer_") else -1
            off = 0 if layer < 1 else 5e-3 if layer == 1 else 2e-2
            item["values"] = [v * (1 + off) for v in item["values"]]
        self.show(logs.model(layers=4), got)
        self.shot("jump")
        self.assertTrue(self.texts(".first .place")[0].startswith("layer_2_"))
        self.assertTrue(any(text.startswith("Error jumps atlayer_1_output: from 0 in the layer before to 0.005")
                            for text in self.texts(".first dl > div")), self.texts(".first dl > div"))

    def test_loads_nothing(self):
        page = self.show(logs.model(), logs.model())
        self.assertEqual([url for url in page.requests if not url.endswith("/page.html")], [])

    def test_no_part_is_wider_than_a_phone(self):
        for dark in (False, True):
            page = self.show(logs.model(layers=12, tokens=40), logs.model(layers=12, tokens=40, fault=(3, "v", 4)),
                             width=360, phone=True, dark=dark)
            self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), 360)
            self.shot("phone-dark" if dark else "phone")

    def test_a_long_name_of_a_model_fits_a_phone(self):
        head = {"assay": 1, "model": {"name": "m" * 300}, "engine": "e" * 300}
        page = self.show([head, *logs.model()], [head, *logs.model(fault=(1, "q", 1))], width=360, phone=True)
        self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), 360)

    def test_text_stands_out_from_its_background(self):
        for dark in (False, True):
            page = self.show(logs.model(), logs.model(fault=(1, "q", 1)), dark=dark)
            self.shot("dark" if dark else "light")
            faint = page.evaluate(logs.script("contrast.js"))
            self.assertEqual(faint, [])

    def test_every_part_has_a_name(self):
        page = self.show(logs.model(), logs.model(fault=(1, "q", 1)))
        self.check_names(("grid", "image"))
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

    def test_next_tokens_stand_side_by_side(self):
        page = self.show(logs.model(), logs.model(fault=(1, "q", 1)))
        first = [[max(range(12), key=lambda i: values[i]) for values in
                  (record["values"] for record in records if record["checkpoint"] == "logits")]
                 for records in (logs.model(), logs.model(fault=(1, "q", 1)))]
        page.evaluate("const pick = document.getElementById('logits-token'); pick.value = '2';"
                      "pick.dispatchEvent(new Event('change'))")
        words = self.texts(".candidates li:first-child .word")
        self.assertEqual(words, [f"#{first[0][2]}", f"#{first[1][2]}"])
        self.assertEqual(len(self.texts(".candidates li")), 10)

    def test_tokens_have_the_words_of_the_vocabulary(self):
        golden = os.path.join(os.environ["ASSAY_SOURCE_DIR"], "golden", "tinyllama")
        log = os.path.join(golden, "f32.jsonl")
        page = os.path.join(self.folder.name, "golden.html")
        subprocess.run([PROGRAM, "compare", log, log, "--format", "html", "-o", page,
                        "--model", os.path.join(golden, "tinyllama-f32.gguf")], check=True)
        self.browser.complaints.clear()
        self.browser.screen(1280, 800)
        self.browser.open(page)
        self.assertEqual(self.browser.complaints, [])
        words = self.texts(".candidates .word")
        self.assertTrue(words)
        self.assertTrue(all(word.startswith("\u201c") for word in words), words)

    def test_garbage_is_on_a_map(self):
        ref, got = logs.model(), logs.model()
        for record in ref:
            if record["checkpoint"] == "logits" and record["token_idx"] in (1, 3):
                record["values"] = [-1.0e18, 3.1e-41, *record["values"][2:]]
        self.show(ref, got)
        self.assertEqual(self.texts(".garbage tbody th"), ["token 1", "token 3"])
        self.assertEqual(len(self.texts(".garbage td[class]")), 4)

    def test_speed_stands_beside_accuracy(self):
        paths = []
        for name, decode in (("a", 20.0), ("b", 30.0)):
            paths.append(os.path.join(self.folder.name, name + ".json"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                json.dump({"prefill_tok_s": 100.0, "decode_tok_s": decode}, file)

        def timed(milliseconds, prompt=2):
            """The tokens of the prompt come in one pass."""
            records = logs.model()
            for record in records:
                step = max(record["token_idx"] - prompt + 1, 0)
                record["ts"] = f"2026-01-31T12:00:{step * milliseconds / 1000 + record['token_idx'] * 1e-6:09.6f}Z"
            return [{"assay": 1, "model": {}, "tokens": list(range(prompt))}, *records]

        self.show(timed(40), timed(50), "--ref-speed", paths[0], "--got-speed", paths[1])
        table = self.texts("table:has(caption) tbody tr")
        self.assertEqual(self.browser.evaluate("data.ref_times.map(([token]) => token)"), [1, 2, 3, 4])
        self.assertIn("decode, tokens/s20301.5 \u00d7 as fast", table)
        self.assertIn("between decode steps in the log, ms (median)40501.25 \u00d7 slower", table)

    def test_one_pass_has_no_speed(self):
        """Breaks if the time stamps of one pass, which tell how fast logging is, were called the engine's speed."""
        records = [{**item, "ts": f"2026-01-31T12:00:0{item['token_idx']}Z"} for item in logs.model()]
        for header in ([], [{"assay": 1, "model": {}, "tokens": [1, 2, 3, 4, 5]}]):
            self.show(header + records, header + records)
            self.assertNotIn("Speed beside accuracy", self.texts("h2"))
        decoded = [{**item, "phase": "decode"} for item in records]
        self.show(decoded, decoded)
        self.assertIn("Speed beside accuracy", self.texts("h2"))

    def test_a_large_comparison_opens(self):
        page = self.show(logs.model(layers=60, tokens=210), logs.model(layers=60, tokens=210, fault=(30, "v", 100)))
        self.assertGreater(page.evaluate("data.compared"), 100000)
        self.assertLessEqual(page.evaluate("records.length"), 20000)
        self.assertLess(page.evaluate("document.querySelectorAll('*').length"), 30000)
        self.assertTrue(any("stands for all of it" in text for text in self.texts("section li")))
        self.assertEqual(self.texts(".first .place"), ["layer_30_v at token 100"])

    def without(self, **more):
        """A log without layer_1_q, and from token 3 on without layer 2."""
        return [item for item in logs.model(**more) if item["checkpoint"] != "layer_1_q" and
                not (item["token_idx"] >= 3 and item["checkpoint"].startswith("layer_2_"))]

    def cell(self, row, token):
        """Class and name of a cell of the heat map."""
        return self.browser.evaluate(
            f"(() => {{ const row = [...document.querySelectorAll('.heat tbody tr')].find((r) => r.cells[0].textContent === '{row}');"
            f"const cell = row.cells[{token} + 1]; return [cell.className, cell.getAttribute('aria-label')]; }})()")

    def test_what_is_unproven_is_grey_and_says_why(self):
        for dark in (False, True):
            page = self.show(logs.model(), self.without(), dark=dark, exits=(2,))
            self.shot("incomplete-dark" if dark else "incomplete")
            self.assertEqual(self.texts("h1"), ["Incomplete"])
            self.assertRegex(self.texts(".evidence")[0], "^Evidence: 135 records of the reference: 114 whole, 21 unproven, argmax 5 of 5")
            self.assertEqual(self.texts(".first .place"), ["layer_1_q at token 0"])
            self.assertIn("--allow-missing", self.texts(".first dd")[0])
            self.assertEqual(page.evaluate("document.querySelectorAll('.heat .s-unproven').length"), 5 + 2)
            self.assertTrue(any("unproven" in text for text in self.texts(".legend li")))
            self.assertEqual(self.cell("layer 1", 0), ["s-unproven is-first", "The first that is unproven, layer_1_q, token 0: "
                             "unproven, it is missing in the other log, layer_1_attn_norm, token 0: match, rel L2 0 "
                             "(tolerance 0.01), largest difference 0"])
            kind, label = self.cell("layer 2", 3)
            self.assertEqual(kind, "s-unproven")
            self.assertTrue(label.startswith("8 records unproven, the first layer_2_"), label)
            self.assertEqual(self.cell("layer 2", 2)[0], "s-p0")
            # A checkpoint that is missing altogether has its row.
            rows = self.texts("[aria-label=Checkpoints] tbody tr")
            self.assertEqual(len(rows), 27)
            self.assertEqual(rows[0], "layer_1_qunproven\u2013\u2013\u2013\u2013\u2013\u20135 unproven, first at token 0")
            # One reason is said once.
            about = [text for text in self.texts("section > .about") if "it is missing in the other log" in text]
            self.assertEqual(len(about), 1)
            self.assertEqual(page.evaluate(logs.script("contrast.js")), [])
            # Grey stands out from the page and from all that passes, 3 to 1 and by its bar (WCAG 2.1, 1.4.11).
            self.assertGreaterEqual(page.evaluate("""(() => {
              const light = (color) => color.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255)
                .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
                .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
              const [low, high] = [document.querySelector('.heat .s-unproven'), document.querySelector('section')]
                .map((e) => light(getComputedStyle(e).backgroundColor)).sort((a, b) => a - b);
              return (high + 0.05) / (low + 0.05);
            })()"""), 3)

    def test_gaps_fit_a_phone(self):
        for dark in (False, True):
            page = self.show(logs.model(layers=12, tokens=40), self.without(layers=12, tokens=40), width=360, phone=True, dark=dark, exits=(2,))
            self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), 360)
            self.shot("incomplete-phone-dark" if dark else "incomplete-phone")
            self.check_names(("grid",))

    def test_a_failure_is_not_hidden_by_what_is_missing(self):
        page = self.show(logs.model(), self.without(fault=(1, "v", 3)))
        self.assertEqual(self.texts("h1"), ["Divergedwrong"])
        self.assertEqual(self.texts(".first .place"), ["layer_1_v at token 3"])
        kind, label = self.cell("layer 1", 3)
        self.assertIn("fails", kind)
        self.assertIn("layer_1_q, token 3: unproven, it is missing in the other log", label)
        self.assertEqual(self.cell("layer 1", 1)[0], "s-unproven")
        self.assertEqual(page.evaluate("document.querySelectorAll('section.unshown').length"), 0)

    def test_what_is_excused_is_hatched(self):
        ref = logs.model()
        page = self.show(ref, [item for item in ref if not item["checkpoint"].startswith("layer_2_")],
                         "--allow-missing", "layer_2_*")
        self.shot("excused")
        self.assertEqual(self.texts("h1"), ["In paritymatch"])
        self.assertEqual(page.evaluate("document.querySelectorAll('.heat .s-excused').length"), 5)
        self.assertEqual(page.evaluate("document.querySelectorAll('.heat .s-unproven').length"), 0)
        self.assertTrue(self.cell("layer 2", 4)[1].startswith("8 records excused, the first layer_2_"))
        self.assertIn("excused", self.texts(".legend li"))
        self.assertFalse(any(text.startswith("unproven") for text in self.texts(".legend li")))
        self.assertTrue(any("excused" in text for text in self.texts("[aria-label=Checkpoints] tbody tr")))

    def test_parts_are_grey_where_whole_evidence_is_asked(self):
        records = [{**item, "shape": [20], "n": 20} for item in logs.model()]
        page = self.show(records, records, "--evidence", "whole", exits=(2,))
        self.assertEqual(page.evaluate("document.querySelectorAll('.heat .s-unproven').length"), 6 * 5)
        self.assertIn("only a part of it was compared", self.cell("layer 0", 0)[1])
        page = self.show(records, records)
        self.assertEqual(page.evaluate("document.querySelectorAll('.heat .s-unproven').length"), 0)
        self.assertIn("compared in part", self.cell("layer 0", 0)[1])

    def test_nothing_to_compare_is_no_error_of_zero(self):
        """Breaks if records without a value in common were drawn as equal."""
        empty = [{**item, "values": [], "shape": [12], "n": 12} for item in logs.model()]
        page = self.show(logs.model(), empty, exits=(2,))
        self.assertEqual(page.evaluate("records.length"), 0)
        self.assertEqual(page.evaluate("document.querySelectorAll('.heat .s-unproven').length"), 6 * 5)
        self.assertFalse(any("No error" in text for text in self.texts("section p.note")))

    def test_a_large_gap_opens(self):
        ref = logs.model(layers=60, tokens=120)
        page = self.show(ref, [item for item in ref if item["token_idx"] < 60 or item["checkpoint"] == "logits"], exits=(2,))
        self.assertLessEqual(page.evaluate("gaps.length"), 20000)
        self.assertEqual(page.evaluate("gaps.reduce((sum, gap) => sum + gap.records, 0)"), 60 * 482)
        self.assertLess(page.evaluate("document.querySelectorAll('*').length"), 30000)
        self.assertEqual(page.evaluate(logs.script("overlap.js")), [])

    def test_labels_of_charts_do_not_overlap(self):
        for width in (360, 1280):
            page = self.show(logs.model(layers=30, tokens=60), logs.model(layers=30, tokens=60, fault=(9, "q", 5)),
                             width=width)
            self.assertEqual(page.evaluate(logs.script("overlap.js")), [])

    def half_equal(self):
        """Layers 0 to 2 are equal, and what follows is off."""
        got = logs.model(layers=6, tokens=5)
        off = logs.model(layers=6, tokens=5, fault=(3, "attn_norm", 0))
        names = [item["checkpoint"] for item in got]
        first = names.index("layer_3_attn_norm")
        each = len(names) // 5
        return [right if i % each < first else wrong for i, (right, wrong) in enumerate(zip(got, off))]

    def test_zeros_stand_apart_from_errors(self):
        page = self.show(logs.model(layers=6, tokens=5), self.half_equal())
        self.shot("zeros")
        for title, axis in (("Drift over layers", 1), ("Error against magnitude", 1)):
            chart = f"[...document.querySelectorAll('section')].find((s) => s.querySelector('h2').textContent === '{title}')"
            ticks = page.evaluate(f"[...{chart}.querySelectorAll('.chart text')].map((t) => t.textContent)")
            self.assertEqual(ticks.count("0"), axis + (title == "Drift over layers"), ticks)  # layer 0, too
            # What is 0 lies within the band, what is not above all of it.
            self.assertTrue(page.evaluate(f"""(() => {{
              const band = {chart}.querySelector('.zero-band').getBBox();
              const marks = [...{chart}.querySelectorAll('path.dots, circle.mark')].flatMap((m) => m.r ?
                [m.cy.baseVal.value] : [...m.getAttribute('d').matchAll(/M[^ ]+ ([^h]+)h/g)].map((d) => Number(d[1])));
              return marks.some((y) => y >= band.y) && marks.some((y) => y < band.y - 10) &&
                !marks.some((y) => y < band.y && y > band.y - 3);
            }})()"""))
        self.assertTrue(any("records whose values are equal" in text for text in self.texts(".legend li")))
        self.assertEqual(page.evaluate(logs.script("overlap.js")), [])

    def test_no_error_is_said_and_not_drawn(self):
        self.show(logs.model(), logs.model())
        notes = self.texts("section p.note")
        self.assertEqual(sum(note == "No error: all of it is 0." for note in notes), 2, notes)
        self.assertTrue(any(note.startswith("No error: the values of all ") for note in notes), notes)

    def test_drift_is_told_as_measured(self):
        self.show(logs.model(layers=6, tokens=5), self.half_equal())
        figures = self.texts(".figures > div")
        drift = next(text for text in figures if text.startswith("Drift"))
        self.assertRegex(drift, "^Driftincreasing0 at layer 0, 0\\.[0-9]+ at layer 5; it jumps at layer 3$")

    def test_nothing_in_a_log_becomes_markup(self):
        for text in logs.HOSTILE:
            with self.subTest(text=text):
                ref = logs.model(extra=text, team=text)
                got = logs.model(extra=text, team=text, fault=(1, "q", 1))
                page = self.show(ref, got)
                self.check_no_markup()
                self.assertIn("records", page.evaluate("Object.keys(data).join(' ')"))

    def test_nothing_in_a_file_name_becomes_markup(self):
        for text in logs.HOSTILE:
            with self.subTest(text=text):
                name = text.replace("/", "\u2215").replace("\0", "")[:60]
                paths = [os.path.join(self.folder.name, start + name) for start in ("r", "g")]
                for path in paths:
                    logs.write(path, logs.model())
                page = os.path.join(self.folder.name, "page.html")
                subprocess.run([PROGRAM, "compare", *paths, "--format", "html", "-o", page], check=True)
                self.open_page(page)
                self.check_no_markup()

    def words_of(self, words, kinds):
        """All words of tokens that the page shows for a model with this vocabulary."""
        model = os.path.join(self.folder.name, "vocabulary.gguf")
        models.write(model, words, kinds)
        records = [logs.record("logits", token, [math.sin(1 + (i * 7 + token * 5) % 11 + i / 50) for i in range(len(words))])
                   for token in range(12)]
        page = self.show(records, records, "--model", model)
        shown = set()
        for token in range(12):
            page.evaluate(f"(() => {{ const pick = document.getElementById('logits-token'); pick.value = '{token}';"
                          "pick.dispatchEvent(new Event('change')); })()")
            shown.update(self.texts(".candidates .word"))
        return shown

    def test_nothing_in_a_vocabulary_becomes_markup(self):
        words = [word[:200] for word in logs.HOSTILE]
        shown = self.words_of(words, [1] * len(words))
        self.check_no_markup()
        self.assertEqual(len(shown), len(words), shown)
        self.assertIn("\u201c<!--<script>\u201d", shown)

    def test_tokens_that_are_no_text_are_shown_as_bytes(self):
        words = [b"<0xFF>", b"<0x0A>", b"\xc3(", b"\xe2\x82", b"caf\xc3\xa9", b"plain"]
        shown = self.words_of(words, [6, 6, 1, 1, 1, 1])
        self.assertEqual(shown, {"\u201c" + word + "\u201d"
                                 for word in ("\\xff", "\\x0a", "\\xc3(", "\\xe2\\x82", "caf\u00e9", "plain")})

    def test_without_scripts_the_table_is_there(self):
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        try:
            self.browser.open(report(self.folder.name, logs.model(), logs.model(fault=(1, "q", 1))), scripts=False)
            nodes = self.browser.accessibility()
            self.assertTrue(any("first divergence  layer_1_q at token 1" in node["name"] for node in nodes))
        finally:
            self.browser.call("Emulation.setScriptExecutionDisabled", value=False)


if __name__ == "__main__":
    main()
