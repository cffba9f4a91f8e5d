#!/usr/bin/env python3
"""A tensor-parallel transformers model in four processes, against the same model in one: tensor_parallel_test.py ASSAY.

Each process logs its part of each tensor, of a batch of padded prompts; the reference logs the prompts one by one, in
another order. A healthy run must pass, whole, and a fault in one process must be found at the checkpoint and the rank
where it is. Exit code 77: torch is not installed.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

try:
    import torch
    import torch.distributed as dist
    import transformers
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
except ImportError:
    torch = None

RANKS = 4
FAULTY = 2  # the rank
PROMPTS = {"a": [5, 17, 3, 44, 9, 21], "b": [8, 2, 30], "c": [61, 7, 7, 13]}
PAD = 0
# What a rank holds of these; all other checkpoints are whole on each.
CUT = ("q", "k", "v", "q_rope", "k_rope", "attn", "ffn_gate", "ffn_up", "ffn_act")
COLUMNS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
ROWS = ("self_attn.o_proj", "mlp.down_proj")


def new_model():
    torch.manual_seed(11)
    config = transformers.LlamaConfig(
        vocab_size=96,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=64,
        attn_implementation="eager",
    )
    return transformers.LlamaForCausalLM(config).eval()


def padded(prompts):
    """Ids and mask, with padding on the left."""
    length = max(map(len, prompts))
    ids = [[PAD] * (length - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (length - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(ids), torch.tensor(mask)


def logging_to(log, prompts):
    """A sink for attach() that says which part of a tensor a rank holds."""
    names = list(prompts)

    def sink(checkpoint, positions, rows, sequence, step, phase):
        op = checkpoint.split("_", 2)[-1] if checkpoint.startswith("layer_") else checkpoint
        for position, row in zip(positions, rows, strict=True):
            log.write(
                checkpoint,
                position,
                row,
                shape=[len(row)],
                dims="h[tp]" if log.rank is not None and op in CUT else "h",
                sequence=names[int(sequence)],
                step=step,
                phase=phase,
            )

    return sink


def run(model, log, prompts):
    from assay_tap import attach

    log.header(
        list(prompts.values()),
        sequences=list(prompts),
        engine="transformers",
        model={"name": "tiny llama"},
        ranks=log.rank and {"tp": RANKS},
    )
    ids, mask = padded(list(prompts.values()))
    with torch.no_grad(), attach(model, logging_to(log, prompts), checkpoints="ops"):
        model(ids, attention_mask=mask)
    log.close()


def break_model(model, fault):
    """Only called in the faulty process."""
    layer = model.model.layers[1]
    with torch.no_grad():
        if fault == "weights":  # the rows of another rank's heads
            local = layer.self_attn.q_proj.weight.to_local()
            local.copy_(local.flip(0))
        elif fault == "norm":
            layer.input_layernorm.weight[3] = 1.5
        elif fault == "partial":  # its addend is lost
            layer.mlp.down_proj.weight.to_local().zero_()


def work(rank, folder, fault):
    """What one process does."""
    from assay_tap import LogWriter

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
    model = new_model()
    plan = {name: ColwiseParallel() for name in COLUMNS} | {name: RowwiseParallel() for name in ROWS}
    for layer in model.model.layers:
        parallelize_module(layer, mesh, plan)
    if rank == FAULTY:
        break_model(model, fault)
    log = LogWriter(f"{folder}/rank{rank}.jsonl", rank={"tp": rank}, values=None, sketch=True)
    run(model, log, PROMPTS)
    dist.barrier()
    dist.destroy_process_group()


@unittest.skipIf(torch is None, "torch and transformers are not installed")
class TensorParallel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from assay_tap import LogWriter

        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.ref = f"{cls.folder.name}/ref.jsonl"
        log = LogWriter(cls.ref, values=None, sketch=True)
        run(new_model(), log, dict(reversed(list(PROMPTS.items()))))

    def ranks(self, fault="none"):
        """The folder of a run of four processes."""
        folder = Path(self.folder.name, fault)
        folder.mkdir()
        command = [sys.executable, __file__, "--rank"]
        processes = [subprocess.Popen([*command, str(rank), str(folder), fault]) for rank in range(RANKS)]
        self.assertEqual([process.wait(timeout=300) for process in processes], [0] * RANKS)
        return folder

    def compare(self, *arguments):
        command = [ASSAY, "compare", self.ref, *map(str, arguments), "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True)
        report = json.loads(done.stdout) if done.stdout else None
        return done.returncode, report, done.stderr

    def assert_found(self, fault, checkpoint, rank):
        status, report, _ = self.compare(self.ranks(fault))
        self.assertEqual(status, 1, report and report["verdict"])
        first = report["first_divergence"]
        self.assertEqual(first["checkpoint"], checkpoint)
        self.assertEqual(first.get("rank"), rank)
        return report

    def test_a_healthy_run_passes_whole(self):
        folder = self.ranks()
        status, report, error = self.compare(folder)
        self.assertEqual(status, 0, error)
        self.assertTrue(report["pass"])
        self.assertEqual(report["evidence"]["unproven"], 0)
        self.assertEqual(report["evidence"]["partial"], 0)
        tokens = sum(map(len, PROMPTS.values()))
        self.assertEqual(report["evidence"]["whole"] % tokens, 0)
        self.assertGreaterEqual(report["evidence"]["whole"], 30 * tokens)
        self.assertEqual({result["sequence"] for result in report["results"]}, set(PROMPTS))
        self.assertLess(max(result["rel_l2"] for result in report["results"]), 1e-5)
        # Without one of its files it is no run.
        Path(folder, "rank1.jsonl").unlink()
        status, report, error = self.compare(folder)
        self.assertEqual(status, 2)
        self.assertIn("rank tp 1 of 4 is missing", error)

    def test_wrong_weights_of_one_rank_are_found_there(self):
        self.assert_found("weights", "layer_1_q", "tp 2")

    def test_a_norm_that_differs_on_one_rank_is_a_replica_that_differs(self):
        report = self.assert_found("norm", "layer_1_attn_norm", "tp 2")
        self.assertEqual(report["first_divergence"]["metric"], "replica")

    def test_a_lost_addend_is_found_where_the_sum_is_wrong(self):
        self.assert_found("partial", "layer_1_ffn_out", None)


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        work(int(sys.argv[2]), sys.argv[3], sys.argv[4])
        sys.exit(0)
    if torch is None:
        print("skipped: torch and transformers are not installed (scripts/fetch.sh packages)")
        sys.exit(77)
    ASSAY = sys.argv.pop(1)
    unittest.main(verbosity=2)
