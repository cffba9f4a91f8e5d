"""Text in which llama.cpp and hooks of PyTorch print tensors: printed_test.py ASSAY; exit 77 without torch.

printed.tar.xz holds what was printed of the model below, F32: eval.txt and eval_steps.txt (a prompt of eight tokens, then
one more) by common_debug_cb_eval of the llama.cpp in llama_cpp_python 0.3.36, eval_old.txt by ggml_debug of that in 0.3.16,
hooks.txt by debug_hook of examples/model-conversion on the folder in transformers. llama.cpp keeps its cache in F16.

What would break: a value taken for that of another token or element, a text that is cut and passes, a fault in it that
is not seen.
"""

import json
import sys
import tarfile
from pathlib import Path

from dump_case import DumpCase, unittest

CONFIG = {
    "model_type": "llama", "vocab_size": 48, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}  # fmt: skip
PROMPT = "1,5,9,2,7,3"
# The last layer goes on with the last token alone.
LAST_ALONE = [word for glob in ("layer_1_*", "final_norm", "logits") for word in ("--allow-missing", glob)]
LLAMA_CPP = ("--map", "llama.cpp")
HOOKS = ("--map", "transformers:arch=llama,head_dim=8")


class Printed(DumpCase):
    def setUp(self):
        super().setUp()
        with tarfile.open(Path(__file__).with_name("printed.tar.xz")) as archive:
            archive.extractall(self.folder)
        (self.folder / "config.json").write_text(json.dumps(CONFIG))
        self.assay("synth", "config.json", "--type", "F32", "-o", "m.gguf", code=0)

    def run_model(self, tokens=PROMPT, name="ref.jsonl"):
        self.assay("run", "m.gguf", "--tokens", tokens, "-n", 0, "--backend", "cpu", "--checkpoints", "ops", "--sketch",
                   "--log", name, code=0)  # fmt: skip
        return name

    def report(self, *arguments, code):
        return json.loads(self.assay("compare", *arguments, "--format", "json", code=code).stdout)

    def edited(self, name, old, new):
        text = (self.folder / name).read_text()
        self.assertIn(old, text)
        (self.folder / "edited.txt").write_text(text.replace(old, new, 1))
        return "edited.txt"

    def test_what_llama_cpp_prints_is_what_the_model_computes(self):
        ref = self.run_model()
        for text in ("eval.txt", "eval_old.txt"):
            with self.subTest(text):
                report = self.report(ref, text, *LLAMA_CPP, *LAST_ALONE, code=0)
                # 15 of the 16 ops of layer 0 for 6 tokens (llama.cpp has all), 7 of layer 1 for all and 7 for one.
                self.assertEqual(report["evidence"]["partial"], 153)
                self.assertEqual(report["evidence"]["excused"], 45)
                self.assertLess(max(result["rel_l2"] for result in report["results"]), 4e-3)
                self.assertEqual([warning for warning in report["warnings"] if "tokens" in warning], [])
                self.assertEqual(self.report(text, ref, *LLAMA_CPP, code=0)["evidence"]["partial"], 153)
        self.assertEqual(self.report("eval.txt", "eval_old.txt", *LLAMA_CPP, code=0)["verdict"], "match")

    def test_without_leave_the_last_layer_is_not_proved(self):
        report = self.report(self.run_model(), "eval.txt", *LLAMA_CPP, code=2)
        self.assertEqual(report["evidence"]["unproven"], 45)

    def test_a_long_prompt_lacks_its_middle_and_a_step_follows_it(self):
        ref = self.run_model("1,5,9,2,7,3,4,11,6")
        answer = self.assay("import", "eval_steps.txt", "-o", "steps.jsonl", code=0)
        self.assertIn("only the first and the last are printed", answer.stderr)
        header, *records = map(json.loads, (self.folder / "steps.jsonl").read_text().splitlines())
        self.assertEqual(header["tokens"], [1, 5, 9, 2, 7, 3, 4, 11])
        at = {record["token_idx"] for record in records if record["checkpoint"] == "embd"}
        self.assertEqual(at, {0, 1, 2, 5, 6, 7, 8})
        at = {record["token_idx"] for record in records if record["checkpoint"] == "result_output"}
        self.assertEqual(at, {7, 8})
        report = self.report("steps.jsonl", ref, *LLAMA_CPP, code=0)
        self.assertEqual(report["evidence"]["unproven"], 0)
        # Of the step the sum is that of one token: another value in the middle of the row.
        text = (self.folder / "eval_steps.txt").read_text()
        step = text.index(" l_out-0 = ", text.rindex(" embd = "))
        sum_of = text[text.index("sum = ", step) :].split("\n")[0]
        (self.folder / "summed.txt").write_text(text[:step] + text[step:].replace(sum_of, "sum = 99.5", 1))
        first = self.report(ref, "summed.txt", *LLAMA_CPP, "--tokens", "8..8", code=1)["first_divergence"]
        self.assertEqual((first["checkpoint"], first["token_idx"]), ("layer_0_output", 8))

    def test_a_sum_that_is_no_number_is_found(self):
        ref = self.run_model()
        text = (self.folder / "eval.txt").read_text()
        tensor = text.index(" ffn_norm-0 = ")
        sum_of = text[text.index("sum = ", tensor) :].split("\n")[0]
        (self.folder / "nan.txt").write_text(text[:tensor] + text[tensor:].replace(sum_of, "sum = nan", 1))
        first = self.report(ref, "nan.txt", *LLAMA_CPP, *LAST_ALONE, code=1)["first_divergence"]
        self.assertEqual((first["checkpoint"], first["metric"]), ("layer_0_ffn_norm", "nonfinite"))

    def tensor(self, text, name):
        """Where the text of a tensor begins, its lines, and where it ends."""
        begin = text.rindex("\n", 0, text.index(f" {name} = ")) + 1
        end = text.index("\n", text.index("sum = ", begin)) + 1
        return begin, text[begin:end].split("\n"), end

    # Breaks if an infinity passes that stands where values are not compared: at the end of a row, or in what is left out.
    def test_what_is_not_finite_is_found_wherever_it_is(self):
        ref = self.run_model()
        text = (self.folder / "eval.txt").read_text()
        begin, lines, end = self.tensor(text, "l_out-0")
        for value in ("inf", "-inf", "nan"):
            last = lines[4].rindex(", ") + 2
            rows = [*lines[:4], f"{lines[4][:last]} {value}  ],", *lines[5:]]
            sums = [f"    sum = {value}" if "sum" in line else line for line in lines]
            both = [f"    sum = {value}" if "sum" in line else line for line in rows]
            for changed, token in ((rows, 1), (sums, 0), (both, 1)):
                (self.folder / "edited.txt").write_text(text[:begin] + "\n".join(changed) + text[end:])
                report = self.report(ref, "edited.txt", *LLAMA_CPP, *LAST_ALONE, code=1)
                first = report["first_divergence"]
                self.assertEqual((first["checkpoint"], first["token_idx"], first["metric"]), ("layer_0_output", token, "nonfinite"))
                self.assertEqual(report["summary"]["failed"], 1)

    # Breaks if the run of yesterday passes, to which that of today was appended.
    def test_two_runs_in_one_text_are_refused(self):
        for name in ("eval.txt", "eval_old.txt", "hooks.txt"):
            text = (self.folder / name).read_text()
            tensors = text[text.index("common_debug" if name == "eval.txt" else "ggml_debug") :]
            for twice in (text + text, tensors + tensors):
                (self.folder / "twice.txt").write_text(twice)
                self.refused("twice.txt", "a second run begins; keep each run in a file of its own")

    # Breaks if a cache of block types, of which llama.cpp prints no values, or a tensor of no element ends the text.
    def test_tensors_without_values_are_passed_over(self):
        ref = self.run_model()
        text = (self.folder / "eval.txt").read_text()
        begin = self.tensor(text, "l_out-0")[0]
        cache = "common_debug_cb_eval: cache_k_l0 (view) = (q8_0) SET_ROWS(a{16, 6, 1, 1}, b{6, 1, 1, 1}}) = {16, 256, 1, 1}\n"
        empty = "common_debug_cb_eval: none = (f32) VIEW(a{16, 6, 1, 1}, }) = {16, 0, 1, 1}\n    [\n    ]\n    sum = 0.0\n"
        (self.folder / "edited.txt").write_text(text[:begin] + cache + empty + text[begin:] + cache)
        answer = self.assay("compare", ref, "edited.txt", *LLAMA_CPP, *LAST_ALONE, code=0)
        self.assertEqual(answer.stderr, "")

    def test_what_hooks_print_is_what_the_model_computes(self):
        ref = self.run_model()
        report = self.report(ref, "hooks.txt", *HOOKS, code=2)
        self.assertEqual(report["summary"]["failed"], 0)
        self.assertEqual(report["evidence"]["partial"], 102)
        self.assertLess(max(result["rel_l2"] for result in report["results"]), 4e-4)
        maps = ("--map-ref", HOOKS[1], "--map-got", "llama.cpp:arch=llama")
        report = self.report("hooks.txt", "eval.txt", *maps, code=2)
        self.assertEqual((report["summary"]["failed"], report["evidence"]["partial"]), (0, 72))

    def test_a_fault_is_found_where_it_is(self):
        ref = self.run_model()
        text = (self.folder / "eval.txt").read_text()
        rows = text[text.index(" l_out-0 = ") :].split("\n")[3:9]
        for token in (0, 5):
            number = rows[token].split("[")[1].split(",")[1].strip()
            faulty = self.edited("eval.txt", rows[token], rows[token].replace(number, f"{float(number) + 0.5:.4f}"))
            first = self.report(ref, faulty, *LLAMA_CPP, *LAST_ALONE, code=1)["first_divergence"]
            self.assertEqual((first["checkpoint"], first["token_idx"]), ("layer_0_output", token))
        faulty = self.edited("eval.txt", rows[2], rows[2].replace(rows[2].split("[")[1].split(",")[0].strip(), "nan"))
        first = self.report(ref, faulty, *LLAMA_CPP, *LAST_ALONE, code=1)["first_divergence"]
        self.assertEqual((first["checkpoint"], first["metric"]), ("layer_0_output", "nonfinite"))

    def test_values_that_are_rounded_away_prove_nothing(self):
        faint = "\n".join(
            ["ggml_debug: embd = (f32) GET_ROWS(w{2, 4, 1, 1}, inp_tokens{2, 1, 1, 1}}) = {2, 2, 1, 1}", " [", "  [",
             "   [  0.0001,  0.0011],", "   [ -0.0003,  0.0002],", "  ],", " ]", " sum = 0.0011", ""]
        )  # fmt: skip
        (self.folder / "faint.txt").write_text(faint)
        answer = self.assay("import", "faint.txt", "-o", "faint.jsonl", code=0)
        self.assertIn("left out the values of 1 tensor, the first 'embd'", answer.stderr)
        self.assertEqual([json.loads(line)["values"] for line in (self.folder / "faint.jsonl").read_text().splitlines()[1:]],
                         [[], []])  # fmt: skip
        (self.folder / "faint.txt").write_text(faint.replace("0.0001", "0.00011234").replace("0.0011]", "0.00112345]"))
        self.assay("import", "faint.txt", "-o", "precise.jsonl", code=0)
        first = json.loads((self.folder / "precise.jsonl").read_text().splitlines()[1])
        self.assertEqual(first["values"], [0.00011234, 0.00112345])

    def test_broken_texts_are_one_line(self):
        head = "ggml_debug: embd = (f32) GET_ROWS(w{3, 4, 1, 1}, inp_tokens{2, 1, 1, 1}}) = {3, 2, 1, 1}\n"
        row, end = "[ 1.0, 2.0, 3.0],\n", "],\n]\nsum = 12\n"
        whole = head + "[\n[\n" + row * 2 + end
        for text, said in (
            (head + "[\n[\n" + row + end, "bad.txt:5: 'embd': 1 row, and 2 expected"),
            (head + "[\n[\n" + row * 3 + end, "3 rows, and 2 expected"),
            (head + "[\n[\n" + row + "[1.0],\n" + end, "bad.txt:5: 'embd': a row of 1 number, and 3 expected"),
            (head + "[\n[\n[ 1.0, x ],\n", "holds what is no number"),
            (head + "[\n[\n...\n...\n", "'...' twice"),
            (head + "[\n[\n[\n", "brackets within a row"),
            (head + "]\n", "a bracket closes nothing"),
            (head + "[\n]\n", "0 blocks of rows, and 1 expected"),
            (head + head, "it ends before all of it is printed"),
            (head, "prints no tensor with a row for each token"),
            (head.replace("{3, 2, 1, 1}", "{0, 2, 1, 1}"), "prints no tensor"),
            (head.replace("{3, 2, 1, 1}", "{99999999999999999999, 2, 1, 1}"), "bad.txt:1: a tensor's name, type and sizes"),
            (whole + head[:60] + "main: 3 ms\n", "bad.txt:9: a tensor's name, type and sizes"),
            (whole + "[\n", "bad.txt:9: rows of no tensor"),
            (head + "[\n[\n" + row * 2 + "],\n]\n" + head, "it ends before its sum"),
            (head + "[\n[\n" + row * 2 + "],\n]\n[\n", "it ends before its sum"),
            (whole.replace("sum = 12", "sum = x"), "its sum is no number"),
            (whole.replace("sum = 12", "sum = 12.9"), "bad.txt:8: 'embd': its sum is 12.9, and that of its values 12"),
            (head + "[\n[\n[ 1.0, ..., 2.0, 3.0],\n", "a row of 1 number before '...', and 2 behind it"),
            (head + "[\n[\n[ 1.0, ..., 2.0, ...],\n", "'...' twice in a row"),
            (head.replace("3, 2, 1, 1}\n", "3, 9, 1, 1}\n") + "[\n[\n" + row * 2 + "...\n" + row * 3 + end, "5 rows, and 9 expected"),
        ):
            with self.subTest(said):
                (self.folder / "bad.txt").write_text(text)
                self.refused("bad.txt", said)
        (self.folder / "bad.txt").write_text(whole)
        self.refused("bad.txt", "'nothing' matches no tensor", command=("import", "--skip", "nothing", "-o", "x.jsonl"))

    def test_a_torn_text_lacks_its_last_tensor(self):
        text = (self.folder / "eval.txt").read_text()
        (self.folder / "torn.txt").write_text(text[: text.rindex("]")])
        answer = self.assay("compare", "eval.txt", "torn.txt", *LLAMA_CPP, code=2)
        self.assertIn("the text ends within 'result_output', which is left out", answer.stderr)

    def test_a_line_of_the_log_is_none_of_the_text(self):
        answer = self.assay("compare", self.run_model(), "eval.txt", code=2)
        self.assertIn("eval.txt, as a log, line 26: 'Qcur-0' at token 0 was logged before, in line 20", answer.stderr)

    def test_a_log_is_no_text(self):
        """Whatever it is called, and whatever its prompt says."""
        (self.folder / "run.log").write_text(
            json.dumps({"assay": 1, "prompt": "ggml_debug: x = (f32) = {1, 1, 1, 1}", "tokens": [1]})
            + '\n{"checkpoint":"logits","token_idx":0,"dtype":"f32","shape":[2],"values":[1,2]}\n'
        )
        self.assay("analyze", "run.log", code=0)


if __name__ == "__main__":
    DumpCase.program = sys.argv.pop(1)
    unittest.main()
