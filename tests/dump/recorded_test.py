"""What SGLang 0.5.23's dumper and msprobe 26.2.0 wrote of one tiny Llama: recorded_test.py ASSAY; exit 77 without torch.

recorded.tar.xz holds sglang/ (82 of the 168 files of DUMPER_NON_INTRUSIVE_MODE=all: without the inputs of most modules),
msprobe/ (task tensor, level L0; outputs and the ids, the path in dump.json made relative) and reference.jsonl, the log of
assay_tap. The model has two layers of width 16, random weights, the prompt 1,5,9,2,7 and one token more with a KV cache.

What would break: a reader of a tool's files that its makers' version writes otherwise than its documentation says.
"""

import json
import shutil
import sys
import tarfile
from pathlib import Path

from dump_case import DumpCase, torch, unittest

LAYERS = "layer_*_output,logits,final_norm,embedding"


class Recorded(DumpCase):
    logs = {}  # of each tool's dump, imported once: torch takes seconds to start

    def setUp(self):
        super().setUp()
        with tarfile.open(Path(__file__).with_name("recorded.tar.xz")) as archive:
            archive.extractall(self.folder)

    def compared(self, ref, got, *arguments, code):
        answer = self.assay("compare", ref, got, "--map", "transformers:arch=llama,head_dim=8", "--format", "json", *arguments, code=code)
        return json.loads(answer.stdout)

    def imported(self, dump):
        path = self.folder / f"{dump}.jsonl"
        if dump not in self.logs:
            self.assay("import", dump, "-o", path, code=0)
            self.logs[dump] = path.read_bytes()
        path.write_bytes(self.logs[dump])
        return path

    def test_each_tool_is_the_taps_log(self):
        for tool in ("sglang", "msprobe"):
            with self.subTest(tool):
                report = self.compared("reference.jsonl", self.imported(tool), "--checkpoints", LAYERS, code=0)
                self.assertEqual(report["evidence"]["whole"], 5 * 6)
                self.assertEqual((report["evidence"]["partial"], report["evidence"]["unproven"]), (0, 0))
                self.assertLess(max(result["rel_l2"] for result in report["results"]), 1e-6)

    def test_the_tools_agree_with_each_other(self):
        report = self.compared(self.imported("sglang"), self.imported("msprobe"), code=0)
        self.assertEqual(report["evidence"]["whole"], 138)
        self.assertEqual(report["summary"]["failed"], 0)

    def test_a_fault_in_a_tools_file_is_found(self):
        (path,) = (self.folder / "sglang").glob("step=1___*name=non_intrusive__model.layers.1.output___*.pt")
        saved = torch.load(path, weights_only=True)
        saved["value"][0, 0, 3] += 1
        torch.save(saved, path)
        first = self.compared("reference.jsonl", "sglang", "--checkpoints", LAYERS, code=1)["first_divergence"]
        self.assertEqual((first["checkpoint"], first["token_idx"]), ("layer_1_output", 5))
        (path,) = (self.folder / "msprobe/step0").rglob("Module.model.layers.0.LlamaDecoderLayer.forward.0.output.0.pt")
        saved = torch.load(path, weights_only=True)
        saved[0, 2] *= 1.1
        torch.save(saved, path)
        described = next((self.folder / "msprobe/step0").rglob("dump.json"))
        calls = json.loads(described.read_text())
        output = calls["data"]["Module.model.layers.0.LlamaDecoderLayer.forward.0"]["output"][0]
        # Breaks if the tensors of another run beside a dump.json were taken for what it describes.
        answer = self.assay("compare", "reference.jsonl", "msprobe", "--map", "transformers:arch=llama,head_dim=8", code=2)
        self.assertIn("LlamaDecoderLayer.forward.0.output.0.pt: min", answer.stderr)
        self.assertIn("dump.json says", answer.stderr)
        output.update(Max=saved.max().item(), Min=saved.min().item())
        described.write_text(json.dumps(calls))
        first = self.compared("reference.jsonl", "msprobe", "--checkpoints", LAYERS, code=1)["first_divergence"]
        self.assertEqual((first["checkpoint"], first["token_idx"]), ("layer_0_output", 2))

    def test_a_step_that_is_missing_is_not_proved(self):
        shutil.rmtree(self.folder / "msprobe" / "step1")
        report = self.compared("reference.jsonl", "msprobe", "--checkpoints", LAYERS, code=2)
        self.assertEqual(report["evidence"]["first_unproven"]["token_idx"], 5)


if __name__ == "__main__":
    DumpCase.program = sys.argv.pop(1)
    unittest.main()
