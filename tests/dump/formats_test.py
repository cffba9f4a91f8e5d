"""Dumps in each format, made here from its documentation: formats_test.py ASSAY; exit 77 without torch.

What would break: a dump that passes although it differs, or that is read as other tensors than it holds.
"""

import json
import sys

from dump_case import IDS, TOKENS, DumpCase, np, safetensors, tensors, torch, unittest
from safetensors.torch import save_file as save_torch_file


def save_npz(folder, values):
    np.savez(folder / "dump.npz", **values)
    return folder / "dump.npz"


def save_compressed_npz(folder, values):
    np.savez_compressed(folder / "dump.npz", **values)
    return folder / "dump.npz"


def save_safetensors(folder, values):
    safetensors.numpy.save_file(values, folder / "dump.safetensors")
    return folder / "dump.safetensors"


def save_batch_of_one(folder, values):
    """[batch, tokens, width], as modules of transformers return it."""
    safetensors.numpy.save_file({name: value[None] for name, value in values.items()}, folder / "dump.safetensors")
    return folder / "dump.safetensors"


def save_shards(folder, values):
    """As safetensors' documentation has them: an index beside the files."""
    shards = folder / "shards"
    shards.mkdir()
    weight_map = {}
    for i, (name, value) in enumerate(values.items()):
        shard = f"dump-{i + 1:05}-of-{len(values):05}.safetensors"
        safetensors.numpy.save_file({name: value}, shards / shard)
        weight_map[name] = shard
    index = shards / "dump.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    return index


def save_folder_of_shards(folder, values):
    return save_shards(folder, values).parent


def save_npy_folder(folder, values):
    (folder / "npy").mkdir()
    for name, value in values.items():
        np.save(folder / "npy" / f"{name}.npy", value)
    return folder / "npy"


def save_npy_by_step(folder, values):
    """CHECKPOINT/step_N.npy: the prompt, then a token a step."""
    for name, value in values.items():
        place = folder / "steps" / name
        place.mkdir(parents=True)
        np.save(place / "step_0.npy", value[: TOKENS - 2])
        for step in (1, 2):
            np.save(place / f"step_{step}.npy", value[TOKENS - 3 + step : TOKENS - 2 + step])
    return folder / "steps"


def save_npy_by_token(folder, values):
    """token_N/CHECKPOINT.npy, each of one dimension."""
    for token in range(TOKENS):
        place = folder / "tokens" / f"token_{token}"
        place.mkdir(parents=True)
        for name, value in values.items():
            np.save(place / f"{name}.npy", value[token])
    return folder / "tokens"


def save_pt(folder, values):
    torch.save({name: torch.from_numpy(value) for name, value in values.items()}, folder / "dump.pt")
    return folder / "dump.pt"


def save_pt_folder(folder, values):
    (folder / "pt").mkdir()
    for name, value in values.items():
        torch.save(torch.from_numpy(value), folder / "pt" / f"{name}.pt")
    return folder / "pt"


def save_sglang_passes(folder, values):
    """TP0_PP0_Rank0_pid1/PassNNNNN.pt, a dictionary for each forward pass: the prompt, then a token."""
    place = folder / "passes" / "TP0_PP0_Rank0_pid1"
    place.mkdir(parents=True)
    for number, rows in enumerate((slice(0, TOKENS - 1), slice(TOKENS - 1, TOKENS))):
        torch.save({name: torch.from_numpy(value[rows]) for name, value in values.items()}, place / f"Pass{number:05}.pt")
    return folder / "passes"


SAVERS = (save_npz, save_compressed_npz, save_safetensors, save_batch_of_one, save_shards, save_folder_of_shards,
          save_npy_folder, save_npy_by_step, save_npy_by_token)  # fmt: skip
PICKLERS = (save_pt, save_pt_folder, save_sglang_passes)  # each takes the seconds in which torch starts


class Formats(DumpCase):
    def compared(self, values, save, code):
        with self.subTest(save.__name__):
            place = self.folder / f"{save.__name__}-{code}"
            place.mkdir()
            return json.loads(self.assay("compare", self.log(tensors()), save(place, values), "--format", "json", code=code).stdout)

    def test_each_holds_the_records_of_its_tensors(self):
        for save in SAVERS + PICKLERS:
            with self.subTest(save.__name__):
                report = self.compared(tensors(), save, 0)
                self.assertEqual(report["verdict"], "match")
                self.assertEqual(report["evidence"]["whole"], 4 * TOKENS)
                self.assertEqual(report["summary"]["unmatched_got"], 0)

    def test_one_wrong_element_is_found(self):
        wrong = tensors()
        wrong["layer_1_output"][4, 11] += 2
        for save in SAVERS + PICKLERS[:1]:
            with self.subTest(save.__name__):
                first = self.compared(wrong, save, 1)["first_divergence"]
                self.assertEqual((first["checkpoint"], first["token_idx"]), ("layer_1_output", 4))

    def test_a_missing_tensor_is_not_proved(self):
        short = tensors()
        del short["layer_0_output"]
        for save in SAVERS:
            with self.subTest(save.__name__):
                self.assertEqual(self.compared(short, save, 2)["verdict"], "incomplete")

    def test_not_a_number_fails(self):
        broken = tensors()
        broken["logits"][2, 7] = np.nan
        for save in SAVERS:
            with self.subTest(save.__name__):
                first = self.compared(broken, save, 1)["first_divergence"]
                self.assertEqual((first["checkpoint"], first["metric"]), ("logits", "nonfinite"))

    def test_types(self):
        """Values of each type are those that the type holds, and its name is the record's."""
        kinds = {"f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
        cast = {f"{key}_{name}": torch.from_numpy(value).to(kind)
                for name, kind in kinds.items() for key, value in tensors().items()}  # fmt: skip
        log = self.log({key: value.to(torch.float64).numpy() for key, value in cast.items()})
        save_torch_file(cast, self.folder / "dump.safetensors")
        torch.save(cast, self.folder / "dump.pt")
        for dump in ("dump.safetensors", "dump.pt"):
            with self.subTest(dump=dump):
                self.assay("import", dump, "-o", "got.jsonl", code=0)  # once: torch takes seconds to start
                judged = "got.jsonl" if dump.endswith(".pt") else dump
                self.assertIn("match: ", self.assay("compare", log, judged, code=0).stdout)
                records = map(json.loads, (self.folder / "got.jsonl").read_text().splitlines()[1:])
                held = {(record["checkpoint"], record["dtype"]) for record in records}
                self.assertEqual(held, {(key, key.rpartition("_")[2]) for key in cast})

    def test_single_array(self):
        values = tensors()["logits"]
        np.save(self.folder / "logits.npy", values)
        self.assay("compare", self.log({"logits": values}), "logits.npy", code=0)
        np.save(self.folder / "fortran.npy", np.asfortranarray(values))
        answer = self.assay("import", "fortran.npy")
        if answer.returncode == 0:  # read in its own order, or refused: never as other elements
            rows = [json.loads(line)["values"] for line in answer.stdout.splitlines() if "checkpoint" in line]
            self.assertEqual(np.array(rows, np.float32).tobytes(), values.tobytes())
        else:
            self.assertEqual(answer.returncode, 2)

    def test_parquet(self):
        self.log(tensors())
        self.assay("convert", "ref.jsonl", "log.parquet", code=0)
        self.assertIn("match: ", self.assay("compare", "ref.jsonl", "log.parquet", code=0).stdout)

    def test_batch_with_padding(self):
        """Two prompts, the first padded on the left: each is a sequence, and the padding is no record."""
        values = {"input_ids": np.array([[0, 0, 5, 6], [1, 2, 3, 4]]), "attention_mask": np.array([[0, 0, 1, 1], [1, 1, 1, 1]]),
                  "layer_0_output": np.random.default_rng(1).normal(size=(2, 4, 8)).astype(np.float32)}  # fmt: skip
        dump = save_npz(self.folder, values)
        lines = [json.loads(line) for line in self.assay("import", dump, code=0).stdout.splitlines()]
        records = [line for line in lines if "checkpoint" in line]
        self.assertEqual([(r.get("sequence", "0"), r["token_idx"]) for r in records],
                         [("0", 0), ("0", 1), ("1", 0), ("1", 1), ("1", 2), ("1", 3)])  # fmt: skip
        self.assertEqual(np.array(records[0]["values"], np.float32).tobytes(), values["layer_0_output"][0, 2].tobytes())

    def two_sequences(self):
        """Reference of two sequences, and their tensors [2, tokens, width]."""
        values, others = tensors(), {name: rows[::-1] + 1 for name, rows in tensors().items()}
        ids = {"a": IDS, "b": IDS[::-1]}
        with open(self.folder / "two.jsonl", "w") as log:
            print(json.dumps({"assay": 1, "tokens": list(ids.values()), "sequences": list(ids)}), file=log)
            for sequence, of in (("a", values), ("b", others)):
                for line in self.log(of, "one.jsonl").read_text().splitlines()[1:]:
                    print(json.dumps({**json.loads(line), "sequence": sequence}), file=log)
        return {name: np.stack([values[name], others[name]]) for name in values}

    def test_sequences_of_a_batch_are_paired_by_their_tokens(self):
        both = self.two_sequences()
        ids = np.array([IDS, IDS[::-1]])
        save_npz(self.folder, {**both, "input_ids": ids})
        self.assay("compare", "two.jsonl", "dump.npz", code=0)
        save_npz(self.folder, {**{name: rows[::-1] for name, rows in both.items()}, "input_ids": ids[::-1]})
        self.assay("compare", "two.jsonl", "dump.npz", code=0)
        save_npz(self.folder, {**both, "input_ids": ids + 40})
        self.assay("compare", "two.jsonl", "dump.npz", code=2)

    def test_lengths_alone_say_which_sequence_a_row_is_of(self):
        flat = {name: rows.reshape(2 * TOKENS, -1) for name, rows in self.two_sequences().items()}
        ids = np.array(IDS + IDS[::-1])
        for lengths, code, text in ([TOKENS, TOKENS], 0, ""), ([TOKENS, 5], 2, "'seq_lens' does not fit 12 tokens"), (
                [0, 12], 2, "does not fit"), ([11], 2, "does not fit"), ([12], 2, "unproven"):  # fmt: skip
            save_npz(self.folder, {**flat, "input_ids": ids, "seq_lens": np.array(lengths)})
            self.assertIn(text, self.assay("compare", "two.jsonl", "dump.npz", code=code).stderr)

    def test_ranks_are_given_the_same_tokens(self):
        for rank, ids in ((0, IDS), (1, IDS)):
            for name, rows in (tensors() | {"input_ids": np.array([ids])}).items():
                path = self.folder / "ranks" / f"rank{rank}" / f"{name}.npy"
                path.parent.mkdir(parents=True, exist_ok=True)
                np.save(path, rows)
        self.assay("compare", self.log(tensors()), "ranks", code=0)
        np.save(self.folder / "ranks/rank1/input_ids.npy", np.array([[*IDS[:-1], 4]]))
        self.refused("ranks", "rank tp 1", "the token 4 at position 5", "rank tp 0", "the token 3")

    def test_a_pass_that_is_missing_is_told(self):
        values = tensors()
        for step, rows in ((0, slice(0, 4)), (2, slice(4, TOKENS))):
            (self.folder / "dump" / f"step{step}").mkdir(parents=True)
            for name, each in values.items():
                np.save(self.folder / "dump" / f"step{step}" / f"{name}.npy", each[rows])
        self.assertIn("after pass 0 comes 2", self.assay("import", "dump", "-o", "got.jsonl", code=0).stderr)
        (self.folder / "dump" / "step2").rename(self.folder / "dump" / "step1")
        self.assertEqual(self.assay("import", "dump", "-o", "got.jsonl", code=0).stderr.count("after pass"), 0)

    def test_heads_before_tokens(self):
        values = np.random.default_rng(1).normal(size=(1, 3, TOKENS, 4)).astype(np.float32)
        np.savez(self.folder / "heads.npz", layer_0_q_rope=values, input_ids=np.array([IDS]))
        records = [json.loads(line) for line in self.assay("import", "heads.npz", code=0).stdout.splitlines()][1:]
        self.assertEqual(records[2]["shape"], [3, 4])
        self.assertEqual(np.ravel(records[2]["values"]).astype(np.float32).tobytes(), values[0, :, 2].tobytes())

    def test_llama_cpp_model_conversion(self):
        """examples/model-conversion: MODEL.bin has float32 logits after the last token, MODEL-tokens.bin the ids."""
        logits = tensors()["logits"]
        place = self.folder / "data"
        place.mkdir()
        logits[-1].tofile(place / "llamacpp-tiny.bin")
        np.array(IDS, np.int32).tofile(place / "llamacpp-tiny-tokens.bin")
        log = self.log({"logits": logits})
        for dump in (place, place / "llamacpp-tiny.bin"):
            self.assay("compare", log, dump, "--tokens", str(TOKENS - 1), code=0)
            self.assay("compare", log, dump, code=2)  # the other positions are not proved
        (logits[-1] * 1.1).astype(np.float32).tofile(place / "llamacpp-tiny.bin")
        self.assay("compare", log, place, "--tokens", str(TOKENS - 1), code=1)

    def states(self):
        """What output_hidden_states gives of a model of two layers, and the log of it."""
        values = tensors()
        named = {"embedding": values["embedding"], "layer_0_output": values["layer_0_output"],
                 "final_norm": values["layer_1_output"], "logits": values["logits"]}  # fmt: skip
        return [torch.tensor(named[name])[None] for name in list(named)[:3]], torch.tensor(named["logits"])[None], named

    def test_transformers_hidden_states(self):
        """A tuple of the inputs of all layers, of which the first is the embedding, and of the last norm's output."""
        states, logits, named = self.states()
        ref = self.log(named)
        torch.save({"hidden_states": tuple(states), "logits": logits}, self.folder / "dump.pt")
        answer = self.assay("compare", ref, "dump.pt", code=0)
        self.assertIn("24 of 24 records whole", answer.stdout)
        self.assertIn("'hidden_states' are read as transformers returns them", answer.stderr)
        # Breaks if one of several, which may be any, were taken for the first.
        torch.save({"hidden_states": {"1": states[1], "2": states[2]}, "logits": logits}, self.folder / "some.pt")
        answer = self.assay("compare", ref, "some.pt", code=2)
        self.assertIn("hidden_states.1", answer.stderr)

    def test_transformers_generation(self):
        """generate() returns a tuple of steps of such tuples, and a tuple of the last tokens' logits."""
        states, logits, named = self.states()
        steps = ((0, 4), (4, 5), (5, 6))
        saved = {"hidden_states": tuple(tuple(state[:, a:b] for state in states) for a, b in steps),
                 "logits": tuple(logits[:, b - 1] for _, b in steps), "sequences": torch.tensor([[*IDS, 4]])}  # fmt: skip
        torch.save(saved, self.folder / "dump.pt")
        answer = self.assay("compare", self.log(named), "dump.pt", "--tokens", "3..5", code=0)
        self.assertIn("12 of 12 records whole", answer.stdout)
        saved["hidden_states"][2][1][0, 0, 0] += 1
        torch.save(saved, self.folder / "dump.pt")
        answer = self.assay("compare", self.log(named), "dump.pt", "--tokens", "3..5", code=1)
        self.assertIn("layer_0_output at token 5", answer.stdout)

    def test_vllm_hidden_states(self):
        """The connector's safetensors file: hidden_states [tokens, layers, width] and token_ids."""
        values = tensors()
        states = np.stack([values["embedding"], values["layer_0_output"], values["layer_1_output"]], 1)
        safetensors.numpy.save_file({"hidden_states": states, "token_ids": np.array(IDS)}, self.folder / "req.safetensors")
        answer = self.assay("import", "req.safetensors", "-o", "vllm.jsonl", code=0)
        self.assertIn("does not say which layers", answer.stderr)
        self.assay("import", "req.safetensors", "--layers", "0,1,2", "-o", "vllm.jsonl", code=0)
        del values["logits"]
        self.assertIn("match: ", self.assay("compare", self.log(values), "vllm.jsonl", code=0).stdout)
        self.assay("import", "req.safetensors", "--layers", "0,1", "-o", "none.jsonl", code=2)
        self.assertFalse((self.folder / "none.jsonl").exists())
        answer = self.assay("import", "req.safetensors", "--layers", "0,-1,2", "-o", "none.jsonl", code=2)
        self.assertIn("--layers: '-1' is not a layer id; give ids from 0", answer.stderr)

    def test_a_map_is_suggested_from_names_and_widths(self):
        hf = {"model.embed_tokens": "embedding", "model.layers.0": "layer_0_output", "model.layers.1": "layer_1_output",
              "lm_head": "logits"}  # fmt: skip
        values = tensors()
        dump = save_npz(self.folder, {**{name: values[to] for name, to in hf.items()}, "model.layers.0.extra": values["logits"],
                                      "layer_7_output": values["layer_0_output"]})  # fmt: skip
        answer = self.assay("import", dump, "-o", "got.jsonl", "--suggest-map", "map.json", code=0)
        self.assertIn("model.layers.{N}.extra", answer.stderr)
        rules = {rule["name"]: rule["to"] for rule in json.loads((self.folder / "map.json").read_text())["rules"]}
        self.assertEqual(rules, {"model.embed_tokens": "embedding", "model.layers.{N}": "layer_{N}_output", "lm_head": "logits",
                                 "model.layers.{N}.extra": None})  # fmt: skip
        self.assay("compare", self.log(values), "got.jsonl", "--map", "map.json", code=0)
        self.assertIn("of transformers", self.assay("import", dump, "-o", "again.jsonl", code=0).stderr)

    def test_a_suggested_map_knows_all_kinds_of_layers(self):
        x = tensors()["layer_0_output"]
        lfm2 = {"operator_norm": "attn_norm", "self_attn.q_proj": "q", "self_attn.out_proj": "attn_out",
                "conv.in_proj": ["conv_b", "conv_c", "conv_x"], "conv.out_proj": "attn_out", "feed_forward.w2": "ffn_out"}  # fmt: skip
        mixtral = {"self_attn.q_proj": "q", "self_attn.o_proj": "attn_out", "mlp.gate": "router", "mlp.experts": "ffn_out"}
        for modules in lfm2, mixtral:
            wide = {name: np.concatenate([x] * len(to), 1) if isinstance(to, list) else x for name, to in modules.items()}
            dump = save_npz(self.folder, {f"model.layers.0.{name}": values for name, values in wide.items()})
            self.assay("import", dump, "-o", "got.jsonl", "--suggest-map", "map.json", code=0)
            found = {}
            for rule in json.loads((self.folder / "map.json").read_text())["rules"]:
                found.setdefault(rule["name"].removeprefix("model.layers.{N}."), set()).add(rule["to"])
            want = {name: {f"layer_{{N}}_{one}" for one in (to if isinstance(to, list) else [to])} for name, to in modules.items()}
            self.assertEqual(found, want)

    def suggested(self, names):
        """What each name is said to be, of tensors of one width, or as wide as the number beside it says."""
        x = tensors()["layer_0_output"]
        wide = names if isinstance(names, dict) else dict.fromkeys(names, 1)
        dump = save_npz(self.folder, {name: np.concatenate([x] * times, 1) for name, times in wide.items()})
        self.assay("import", dump, "-o", "got.jsonl", "--suggest-map", "map.json", code=0)
        found = {}
        for rule in json.loads((self.folder / "map.json").read_text())["rules"]:
            to = rule["to"] and rule["to"].removeprefix("layer_{N}_")
            to = to and to + "".join(f" {rule[key]}" for key in ("part", "rows", "arch") if key in rule)
            found.setdefault(rule["name"], []).append(to)
        return found

    def test_a_map_is_suggested_whatever_separates_the_parts_of_a_name(self):
        for name in ("blk0/attn_norm", "blk.0.attn_norm", "block0_attn_norm", "blocks[0].attn_norm", "h_0/attn/norm",
                     "Layer-0:attn-norm", "transformer_layer_0.attn_norm", "model/layers/0/input_layernorm",
                     "layers_0.input_layernorm", "blk.0.attn_norm.output"):  # fmt: skip
            (pattern, to), = self.suggested([name]).items()
            self.assertEqual(to, ["attn_norm"], name)
            self.assertEqual(pattern, name.replace("0", "{N}", 1))

    def test_a_map_is_suggested_of_the_names_of_other_engines(self):
        both = {one: [f"{one} halves ['llama']", f"{one} ['!llama']"] for one in "qk"}
        fused = {one: [f"{one} {one} halves ['llama']", f"{one} {one} ['!llama']"] for one in "qk"}
        engines = {
            "tinygrad, candle": {"tok_embeddings": "embedding", "layers.0.attention_norm": "attn_norm", "layers.0.attention.wq": "q",
                                 "layers.0.attention.wo": "attn_out", "layers.0.attention_wv": "v", "layers.0.ffn_norm": "ffn_norm",
                                 "layers.0.feed_forward.w1": "ffn_gate", "layers.0.feed_forward.w3": "ffn_up",
                                 "layers.0.feed_forward_w2": "ffn_out", "layers.0": "output", "norm": "final_norm", "output": "logits"},
            "burn": {"layers.0.attention.wk": "k", "layers.0.feed_forward.swiglu.linear_inner": "ffn_gate",
                     "layers.0.feed_forward.swiglu.linear_outer": "ffn_up", "layers.0.feed_forward.w2": "ffn_out"},
            "GGUF": {"token_embd": "embedding", "blk.0.attn_q": "q", "blk.0.attn_output": "attn_out", "blk.0.ffn_down": "ffn_out",
                     "blk.0.attn_k_norm": "k_norm", "output_norm": "final_norm"},
            "TransformerLens": {"hook_embed": "embedding", "blocks.0.hook_resid_post": "output",
                                "blocks.0.hook_resid_mid": "attn_residual", "blocks.0.hook_mlp_out": "ffn_out"},
            "hooks of transformers": {"model.layers.0.self_attn.q_proj.output": both["q"], "model.layers.0.self_attn.0": "attn_out",
                                      "model.layers.0.mlp.output": "ffn_out", "model.layers.0.output": "output"},
            "MLX": {"model.layers.0.self_attn.k_proj": both["k"], "model.layers.0.mlp.down_proj": "ffn_out",
                    "model.norm": "final_norm"},
        }  # fmt: skip
        for engine, names in engines.items():
            want = {name.replace("0", "{N}", 1): to if isinstance(to, list) else [to] for name, to in names.items()}
            self.assertEqual(self.suggested(list(names)), want, engine)
        vllm = {"model.layers.0.self_attn.qkv_proj": 3, "model.layers.0.self_attn.o_proj": 1, "model.layers.0.mlp.gate_up_proj": 2,
                "model.layers.0.mlp.down_proj": 1}  # fmt: skip
        found = self.suggested(vllm)
        self.assertEqual(found["model.layers.{N}.self_attn.qkv_proj"], [*fused["q"], *fused["k"], "v v"])
        self.assertEqual(found["model.layers.{N}.mlp.gate_up_proj"], ["ffn_gate 1/2", "ffn_up 2/2"])

    def test_nothing_is_suggested_for_a_name_that_may_be_two_things(self):
        unclear = ("blk0/attn", "layers/0/mlp/act_fn", "blocks.0.ln1.hook_normalized", "layers.0.hidden", "scratch0", "w1")
        for name in (*unclear, "hidden_states.7"):
            found = self.suggested(["blk0/attn_norm", name])
            self.assertEqual(found.pop("blk{N}/attn_norm"), ["attn_norm"])
            self.assertEqual(list(found.values()), [[None]], name)


if __name__ == "__main__":
    DumpCase.program = sys.argv.pop(1)
    unittest.main()
