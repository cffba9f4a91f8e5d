"""Dumps that are broken, or made to do harm: hostile_test.py ASSAY; exit 77 without torch.

What would break: the machine of whoever looks at a stranger's dump, or a verdict on half of one.
"""

import io
import json
import os
import struct
import subprocess
import sys
import zipfile

from dump_case import IDS, DumpCase, np, safetensors, tensors, torch, unittest


MEMBER = "layer_0_output.npy"


class Payload:
    """What a pickle runs when it is loaded as Python would."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def npy_header(shape, descr="<f4", fortran=False):
    text = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode()
    text += b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def safetensors_file(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Hostile(DumpCase):
    def put(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def test_an_empty_file_of_torch_says_why(self):
        self.refused(self.put("empty.pt", b""), "empty.pt: cannot be read by torch.load (EOFError", "save it again")

    def test_a_checkpoint_of_too_few_rows_says_how_many_are_expected(self):
        """Breaks if a checkpoint that lost its last row were left out, and a comparison said only that it is missing."""
        values = tensors()
        whole = {name: rows for name, rows in values.items() if name != "layer_0_output"}
        cut = whole | {"layer_0_output": values["layer_0_output"][:-1]}
        rows = len(values["layer_0_output"])
        shape = f"'layer_0_output' has the shape [{rows - 1},{len(values['layer_0_output'][0])}]"
        remedy = "save it for all tokens, which come before all other axes, or leave it out with assay import --skip"
        for more, counted in (({}, "as its other tensors have it"), ({"input_ids": np.array(IDS)}, "by 'input_ids'")):
            safetensors.numpy.save_file(cut | more, self.folder / "dump.safetensors")
            self.refused("dump.safetensors", "dump.safetensors", f"{shape}, and {rows} rows, {counted}, are expected", remedy)
            answer = self.assay("import", "dump.safetensors", "--skip", "layer_0_output", "-o", "log.jsonl", code=0)
            self.assertEqual(answer.stderr, "")
        os.mkdir(self.folder / "folder")
        for name, array in cut.items():
            np.save(self.folder / "folder" / f"{name}.npy", array)
        self.refused("folder", "folder", shape, remedy)
        # A name that is not a checkpoint's may be of anything: a warning, with the same numbers.
        safetensors.numpy.save_file(whole | {"table": values["layer_0_output"][:-1]}, self.folder / "more.safetensors")
        answer = self.assay("import", "more.safetensors", "-o", "log.jsonl", code=0)
        self.assertIn(f"'table' has the shape [{rows - 1},", answer.stderr)
        # Fewer tokens than any tensor has rows.
        safetensors.numpy.save_file({"table": values["layer_0_output"], "input_ids": np.array(IDS[:-1])}, self.folder / "ids.safetensors")
        self.refused("ids.safetensors", f"and {rows - 1} rows, by 'input_ids', are expected")

    def test_a_pickle_that_runs_code_runs_nothing(self):
        trap = self.folder / "trap"
        inner = {"layer_0_output": torch.zeros(2, 4), "more": Payload(str(trap))}
        torch.save(inner, self.folder / "dump.pt")
        self.refused("dump.pt", "dump.pt", "running a pickle is not safe")
        torch.save(inner, self.folder / "old.pt", _use_new_zipfile_serialization=False)
        self.refused("old.pt", "old.pt", "not safe")
        os.mkdir(self.folder / "folder")
        torch.save(inner, self.folder / "folder" / "layer_0_output.pt")
        self.refused("folder", "layer_0_output.pt", "not safe")
        np.save(self.folder / "objects.npy", np.array([Payload(str(trap))], dtype=object), allow_pickle=True)
        self.refused("objects.npy", "objects.npy")
        np.savez(self.folder / "objects.npz", layer_0_output=np.array([Payload(str(trap))], dtype=object))
        self.refused("objects.npz", "objects.npz")
        os.mkdir(self.folder / "arrays")
        np.save(self.folder / "arrays" / "x.npy", np.array([Payload(str(trap))], dtype=object), allow_pickle=True)
        self.refused("arrays", "x.npy", "pickle")
        self.assertFalse(trap.exists())

    def test_modules_beside_the_dump_are_not_imported(self):
        for name in ("numpy", "torch", "json", "struct"):
            self.put(f"{name}.py", f"open({str(self.folder / 'ran')!r}, 'w')\n".encode())
        torch.save({"layer_0_output": torch.ones(3, 4)}, self.folder / "dump.pt")
        self.assay("analyze", "dump.pt", code=0, ASSAY_PYTHON=sys.executable)
        self.assertFalse((self.folder / "ran").exists())

    def test_truncated_files(self):
        values = tensors()
        np.savez(self.folder / "dump.npz", **values)
        np.savez_compressed(self.folder / "packed.npz", **values)
        safetensors.numpy.save_file(values, self.folder / "dump.safetensors")
        np.save(self.folder / "logits.npy", values["logits"])
        for name in ("dump.npz", "packed.npz", "dump.safetensors", "logits.npy"):
            whole = (self.folder / name).read_bytes()
            for share in (0, 0.01, 0.3, 0.9, 1 - 1 / len(whole)):
                with self.subTest(name, share=share):
                    self.put("cut-" + name, whole[: int(share * len(whole))])
                    self.refused("cut-" + name, "cut-" + name)
        torch.save({name: torch.from_numpy(value) for name, value in values.items()}, self.folder / "dump.pt")
        whole = (self.folder / "dump.pt").read_bytes()
        self.put("cut.pt", whole[: len(whole) // 2])
        self.refused("cut.pt", "cut.pt", "torch.load")

    def test_shapes_that_the_data_do_not_fill(self):
        for shape in ((2**40, 4), (2**62, 2**62), (-1, 4), (3, 2**33), (0, 4)):
            with self.subTest(shape):
                self.refused(self.put("layer_0_output.npy", npy_header(shape) + bytes(64)), "layer_0_output.npy")
                self.put("folder/layer_0_output.npy", npy_header(shape) + bytes(64))
                self.refused("folder", "folder")
        for info in ({"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 32]}, {"dtype": "F32", "shape": [4], "data_offsets": [0, 1 << 60]},
                     {"dtype": "F32", "shape": [-4, -1], "data_offsets": [0, 16]}, {"dtype": "F32", "shape": [4], "data_offsets": [16, 0]},
                     {"dtype": "F99", "shape": [4, 1], "data_offsets": [0, 16]}, {"dtype": "F32", "shape": [1 << 40] * 4, "data_offsets": [0, 16]}):  # fmt: skip
            with self.subTest(info=info):
                self.refused(self.put("bad.safetensors", safetensors_file({"layer_0_output": info}, bytes(16))), "bad.safetensors")
        self.refused(self.put("long.safetensors", struct.pack("<Q", 1 << 62) + b"{}"), "long.safetensors")
        self.refused(self.put("deep.safetensors", safetensors_file(b"[" * 100000)), "deep.safetensors")

    def test_data_beyond_what_the_header_says(self):
        """A row more than the shape has was not compared, and nothing said so."""
        right = npy_header((4, 4)) + bytes(range(64))
        for name, whole in (("rows.npy", right + bytes(16)), ("two.npy", right + right)):
            self.refused(self.put(name, whole), name, "the file goes on after its array")
        info = {"layer_0_output": {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]}}
        for name, data in (("behind.safetensors", bytes(80)), ("gap.safetensors", bytes(96))):
            if name.startswith("gap"):
                info["layer_1_output"] = {"dtype": "F32", "shape": [4], "data_offsets": [80, 96]}
            self.refused(self.put(name, safetensors_file(info, data)), name, "some belong to no array")

    def test_a_mask_of_other_numbers(self):
        values = {**tensors(), "input_ids": np.array([IDS]), "attention_mask": np.array([[1] * (len(IDS) - 1) + [2]])}
        safetensors.numpy.save_file(values, self.folder / "mask.safetensors")
        self.refused("mask.safetensors", "'attention_mask' holds 2, and not only 0 and 1")

    def test_a_zip_bomb_takes_little_memory(self):
        """Two rows of 2^28 zeros in 9 MB: refused by their width, in bounded memory."""
        text = io.BytesIO()
        with zipfile.ZipFile(text, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, archive.open(MEMBER, "w", force_zip64=True) as member:
            member.write(npy_header((2, 2**28)))
            for _ in range(64):
                member.write(bytes(1 << 25))
        self.put("bomb.npz", text.getvalue())
        limited = f'ulimit -v 2000000; exec "{self.program}" analyze bomb.npz'
        answer = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertIn("bomb.npz", answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)

    def test_names_are_names_and_no_paths(self):
        outside = self.folder / "outside"
        values = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
        safetensors.numpy.save_file({str(outside): values, "../../up": values, "a\n\x1b[31mb": values}, self.folder / "dump.safetensors")
        self.assay("import", "dump.safetensors", "-o", "log.jsonl", "--suggest-map", "map.json", code=0)
        self.assertFalse(outside.exists())
        self.assertNotIn("\x1b", self.assay("analyze", "dump.safetensors").stdout)
        self.put("shards/x.safetensors.index.json", json.dumps({"weight_map": {"a": "../dump.safetensors"}}).encode())
        self.refused("shards/x.safetensors.index.json", "is not the name of a file beside it")
        self.put("shards/y.safetensors.index.json", json.dumps({"weight_map": {"a": "none.safetensors"}}).encode())
        self.refused("shards/y.safetensors.index.json", "none.safetensors")
        with zipfile.ZipFile(self.folder / "paths.npz", "w") as archive:
            archive.writestr(str(outside) + ".npy", npy_header((3, 4)) + values.tobytes())
        self.assay("analyze", "paths.npz", code=0)
        self.assertFalse(outside.exists())

    def test_msprobe_that_names_files_elsewhere(self):
        secret = self.folder / "secret.npy"
        np.save(secret, np.ones((3, 4), np.float32))
        call = {"output": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [3, 4], "data_name": "../../../secret.npy"}]}
        self.put("msp/step0/rank0/dump.json", json.dumps({"data": {"Module.layers.0.Layer.forward.0": call}}).encode())
        self.refused("msp", "secret.npy")
        call["output"][0]["data_name"] = "none.pt"
        self.put("msp/step0/rank0/dump.json", json.dumps({"data": {"Module.layers.0.Layer.forward.0": call}}).encode())
        for saved, count in ([1, 2], 0), ([torch.ones(3, 4), torch.ones(3, 4)], 2):
            torch.save(saved, self.put("msp/step0/rank0/dump_tensor_data/none.pt", b""))
            self.refused("msp", "none.pt", f"{count} tensors, dump.json says one")
        self.put("msp/step0/rank0/dump.json", b"{" * 50000)
        self.refused("msp", "dump.json")
        self.put("msp/step0/rank0/dump.json", json.dumps({"data": {}}).encode())
        self.refused("msp", "no tensor was saved, only statistics")

    def test_rows_that_do_not_fit_together(self):
        values = np.ones((6, 4), np.float32)
        np.savez(self.folder / "ids.npz", layer_0_output=values, input_ids=np.array([IDS[:5]]))
        self.refused("ids.npz", "ids.npz")
        np.savez(self.folder / "positions.npz", layer_0_output=values, input_ids=np.array([IDS]), positions=np.arange(4))
        self.refused("positions.npz", "'positions' has 4 elements for 6 tokens")
        np.savez(self.folder / "negative.npz", layer_0_output=values, positions=np.arange(6) - 3)
        self.refused("negative.npz", "negative position")
        np.savez(self.folder / "far.npz", layer_0_output=values, positions=np.arange(6) + (2**63 - 6))
        self.refused("far.npz", "'positions' holds the position 9223372036854775802, beyond any context")
        np.savez(self.folder / "float_ids.npz", layer_0_output=values, input_ids=np.ones((1, 6), np.float32))
        self.refused("float_ids.npz", "input_ids", "no list of whole numbers")
        np.savez(self.folder / "mixed.npz", layer_0_output=values, weight=np.ones((9, 9), np.float32), input_ids=np.array([IDS]))
        answer = self.assay("import", "mixed.npz", code=0)
        self.assertIn("left out 1 tensor, the first 'weight'", answer.stderr)
        for name in ("attn_probs", "loss"):
            nan = np.full((4, 9, 9) if name == "attn_probs" else (), np.nan, np.float32)
            np.savez(self.folder / "nan.npz", layer_0_output=values, **{name: nan}, input_ids=np.array([IDS]))
            self.refused("nan.npz", f"'{name}' is no tensor of tokens, and holds NaN")
            self.assay("import", "nan.npz", "--skip", name, code=0)

    def test_a_mask_in_another_shape_than_the_rows(self):
        """Of as many elements as there are tokens: each marks its own token, and no memory behind the mask."""
        mask = np.array([1, 1, 0, 1, 1, 1])
        batch = {"layer_0_output": np.ones((2, 3, 4), np.float32)}
        flat = {"layer_0_output": np.ones((6, 4), np.float32), "positions": np.array([0, 1, 2, 0, 1, 2])}
        for name, dump, shape in (("pairs", batch, (3, 2)), ("row", batch, 6), ("flat", flat, 6), ("flat_row", flat, (1, 6))):
            with self.subTest(name):
                np.savez(self.folder / f"{name}.npz", attention_mask=mask.reshape(shape), **dump)
                records = [json.loads(line) for line in self.assay("import", f"{name}.npz", code=0).stdout.splitlines()]
                places = [(record.get("sequence", "0"), record["token_idx"]) for record in records]
                self.assertEqual(places, [("0", 0), ("0", 1), ("1", 0), ("1", 1), ("1", 2)])

    def test_a_log_or_a_model_is_no_dump(self):
        self.put("a.jsonl", b'{"checkpoint":"x","token_idx":0,"dtype":"f32","shape":[1,1],"values":[1]}\n')
        self.put("a.gguf", b"GGUF" + bytes(20))
        for name, text in ("a.jsonl", "a log needs no import"), ("a.gguf", "is a model"):
            self.assertIn(text, self.assay("import", name, code=2).stderr)

    def test_a_pipe_is_not_waited_for(self):
        for name in ("pipe", "pipe.npy", "pipe.pt", "pipe.json"):
            os.mkfifo(self.folder / name)
            answer = self.assay("import", name, code=2)
            self.assertEqual(answer.stderr, f"assay: {name}: is neither a regular file nor a folder; give the path of a dump\n")

    def test_weights_are_left_out(self):
        rows, weights = np.ones((3, 4), np.float32), np.ones((3, 4), np.float32)
        np.savez(self.folder / "both.npz", **{"layer_0_output": rows, "model.layers.0.mlp.up_proj.weight": weights})
        answer = self.assay("import", "both.npz", code=0)
        self.assertIn("mlp.up_proj.weight': a model's weights", answer.stderr)
        self.assertNotIn("up_proj", answer.stdout)
        np.savez(self.folder / "model.npz", **{"model.layers.0.mlp.up_proj.weight": weights})
        self.refused("model.npz", "holds no tensor")

    def test_a_tensor_whose_tokens_do_not_come_first_is_named(self):
        np.savez(self.folder / "dump.npz", input_ids=np.arange(24), layer_0_attn=np.zeros((4, 24, 32), np.float32))
        self.refused("dump.npz", "'layer_0_attn' has the shape [4,24,32], and 24 rows", "before all other axes")

    def test_a_glob_that_leaves_nothing_out_is_a_typing_error(self):
        np.savez(self.folder / "one.npz", layer_0_output=np.ones((3, 4), np.float32))
        answer = self.assay("import", "one.npz", "--skip", "layer_9_*", code=2)
        self.assertIn("'layer_9_*' matches no tensor of one.npz", answer.stderr)

    def test_a_file_that_is_not_read_is_named(self):
        """Breaks if a tensor under a name that the tool's dump does not have were left out in silence."""
        rows = torch.ones(3, 4)
        dumper, passes, shards = self.folder / "dumper", self.folder / "passes", self.folder / "shards"
        for folder in (dumper, passes / "TP0_PP0_Rank0_pid1", shards):
            folder.mkdir(parents=True)
        torch.save({"value": rows, "meta": {}}, dumper / "step=0___rank=0___dump_index=1___name=final_norm.pt")
        torch.save({"value": rows, "meta": {}}, dumper / "step=0___rank=0___dump_index=2___name=non_intrusive__model.norm.inputs.0.pt")
        torch.save({"final_norm": rows}, passes / "TP0_PP0_Rank0_pid1" / "Pass00000.pt")
        safetensors.numpy.save_file({"final_norm": rows.numpy()}, shards / "model.safetensors")
        self.assertNotIn("not read", self.assay("import", dumper, code=0).stderr)
        torch.save({"value": rows * 2}, dumper / "logits.pt")
        error = self.assay("import", dumper, code=0).stderr
        self.assertRegex(error, "dumper: 1 file is not read, the first 'logits.pt': .*of sglang")
        for folder, kind in ((passes, "of sglang"), (shards, "safetensors")):
            with self.subTest(folder.name):
                self.assertNotIn("not read", self.assay("import", folder, code=0).stderr)
                torch.save({"value": rows * 2}, folder / "logits.pt")
                np.save(folder / "embedding.npy", rows.numpy())
                error = self.assay("import", folder, code=0).stderr
                self.assertRegex(error, f"{folder.name}: 2 files are not read, the first 'embedding.npy': .*{kind}")

    def test_what_a_writer_left_is_named(self):
        """Breaks if a reference lacks, unsaid, what its writer did not finish or wrote under another name."""
        rows = np.ones((3, 4), np.float32)
        for name, left in (("arrays", "layer_0_output.npy.tmp"), ("other", "layer_0_output.NPY"), ("below", "old/x.safetensors"),
                           ("shards", "layer_0_output.safetensors.part"), ("deep", "more/layer_0_output.safetensors")):
            with self.subTest(left):
                folder = self.folder / name
                (folder / left).parent.mkdir(parents=True)
                (folder / left).write_bytes(b"")
                if name in ("shards", "deep"):
                    safetensors.numpy.save_file({"logits": rows}, folder / "model.safetensors")
                else:
                    np.save(folder / "logits.npy", rows)
                self.assertIn(f"{name}: 1 file is not read, the first '{left}'", self.assay("import", folder, code=0).stderr)

    def test_an_index_names_what_is_there(self):
        """Breaks if a reference that has lost a shard, or a tensor of one, asks for less and passes."""
        folder = self.folder / "shards"
        folder.mkdir()
        rows = np.ones((3, 4), np.float32)
        safetensors.numpy.save_file({"logits": rows}, folder / "a.safetensors")
        for place, shard in (("a", "a"), ("b", "b")):
            weight_map = {"logits": "a.safetensors", "layer_0_output": f"{shard}.safetensors"}
            (folder / "x.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
            self.refused("shards", f"'layer_0_output' is not in '{place}.safetensors', where the index says it is")
        weight_map["layer_0_output"] = "a.safetensors"
        (folder / "x.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        self.refused("shards/x.safetensors.index.json", "'layer_0_output' is not in 'a.safetensors'")
        safetensors.numpy.save_file({"logits": rows, "layer_0_output": rows}, folder / "a.safetensors")
        for dump in ("shards", "shards/x.safetensors.index.json"):
            self.assertEqual(self.assay("analyze", dump, code=0).stderr, "")

    def test_an_archive_holds_arrays_alone(self):
        """Breaks if an array is left out of an archive because its name has no ending."""
        values = npy_header((3, 4)) + np.ones((3, 4), np.float32).tobytes()
        for name in ("layer_0_output", "notes.txt", ".npy.tmp"):
            with zipfile.ZipFile(self.folder / "mixed.npz", "w") as archive:
                archive.writestr("logits.npy", values)
                archive.writestr(name, values)
            self.refused("mixed.npz", f"'{name}' in the archive is no .npy file")

    def test_folders(self):
        os.mkdir(self.folder / "empty")
        self.refused("empty", "empty")
        self.put("notes/readme.txt", b"hello")
        self.refused("notes", "notes")
        os.mkdir(self.folder / "loop")
        np.save(self.folder / "loop" / "layer_0_output.npy", np.ones((3, 4), np.float32))
        os.symlink(self.folder / "loop", self.folder / "loop" / "again")
        os.symlink(self.folder / "nowhere", self.folder / "loop" / "gone.npy")
        os.mkfifo(self.folder / "loop" / "pipe.npy")
        self.assertIn("2 files are not read, the first 'gone.npy'", self.assay("analyze", "loop", code=0).stderr)
        self.refused("absent.npz", "absent.npz")
        self.put("x.bin", bytes(16))
        self.refused("x.bin", "x-tokens.bin is missing")


if __name__ == "__main__":
    DumpCase.program = sys.argv.pop(1)
    unittest.main()
