"""From a transformers folder to a GGUF file by llama.cpp's own converter, with a vocabulary of our own or none.

    ASSAY_LLAMA_CPP=SOURCE python -m generate.families.convert FOLDER OUT.gguf own|none|VOCABULARY.json F32|F16 [CLASS]

SOURCE is the source of llama.cpp, which the sdist of llama-cpp-python holds under vendor/llama.cpp. CLASS is the class
whose converter is taken, if not that of config.json. This runs as a
program of its own, because the converter needs the `gguf` of the same source and not the installed one.
"""

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


GOLDEN = Path(__file__).resolve().parents[2]


def no_vocabulary(self):
    """In the place of set_vocab: ids are all that a model knows."""
    self.gguf_writer.add_tokenizer_model("no_vocab")
    self.gguf_writer.add_vocab_size(self.hparams["vocab_size"])


def own_vocabulary(self):
    """In the place of set_vocab: bytes, a few merges, and rows of padding."""
    from generate import vocab  # needs the converter's gguf

    end = "<|endoftext|>"
    size = self.hparams["vocab_size"]
    vocab.add_to_gguf(self.gguf_writer, vocab.bpe("gpt-2", 50, [end], size, add_bos=False, bos=end, eos=end))


def given_vocabulary(path):
    """In the place of set_vocab: the vocabulary that `convert` wrote to `path`."""

    def set_vocab(self):
        from generate import vocab  # needs the converter's gguf

        vocab.add_to_gguf(self.gguf_writer, vocab.Vocab(**json.loads(Path(path).read_text())))

    return set_vocab


SET_VOCAB = {"none": no_vocabulary, "own": own_vocabulary}


def with_returned(modify):
    """A modify_tensors that yields and then returns tensors, as of StableLM's norms of heads, with what it returns."""

    def modify_tensors(self, *args):
        returned = yield from modify(self, *args)
        yield from returned or ()

    return modify_tensors


def with_chunks(set_parameters):
    """Llama 4's set_gguf_parameters, with what llama.cpp takes for the same in all models and no key of a file says."""

    def set_gguf_parameters(self):
        set_parameters(self)
        self.gguf_writer.add_sliding_window(self.hparams["attention_chunk_size"])
        self.gguf_writer.add_attn_temperature_scale(self.hparams["attn_scale"])
        self.gguf_writer.add_attn_temperature_length(self.hparams["floor_scale"])

    return set_gguf_parameters


def with_jitter(set_parameters):
    """Phi-3.5-MoE's set_gguf_parameters, with what says which experts are near, which llama.cpp does not compute."""

    def set_gguf_parameters(self):
        set_parameters(self)
        self.gguf_writer.add_float32("assay.router_jitter_noise", self.hparams["router_jitter_noise"])

    return set_gguf_parameters


def with_temperature(set_parameters):
    """Mistral Small 4's set_gguf_parameters, with the scale of queries by position, which llama.cpp reads and the
    converter does not write."""

    def set_gguf_parameters(self):
        set_parameters(self)
        scaling = self.rope_parameters
        self.gguf_writer.add_attn_temperature_scale(scaling["llama_4_scaling_beta"])
        self.gguf_writer.add_attn_temperature_length(scaling["original_max_position_embeddings"])

    return set_gguf_parameters


def main(folder, out, vocabulary, type_name, published=None):
    source = os.environ.get("ASSAY_LLAMA_CPP")
    if not source or not (Path(source) / "conversion").is_dir():
        raise SystemExit("set ASSAY_LLAMA_CPP to the source of llama.cpp (its folder has `conversion/`)")
    sys.path[:0] = [str(Path(source) / "gguf-py"), source]
    import conversion
    import torch
    from conversion.base import ModelBase, ModelType, get_model_architecture, gguf

    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
        copy = Path(scratch) / "model"
        shutil.copytree(folder, copy)
        params = ModelBase.load_hparams(copy, False)
        if params["model_type"] == "mimo_v2_flash":  # whose converter reads the published keys alone
            params = json.loads((copy / "config.json").read_text())
        # Gemma 3 counts the tokens of this file to cut padding off.
        tokens = {str(i): i for i in range(params["vocab_size"])}
        (copy / "tokenizer.json").write_text(json.dumps({"model": {"vocab": tokens}, "added_tokens": []}))
        kind = conversion.get_model_class(published or get_model_architecture(params, ModelType.TEXT))
        # To which Mistral3Model leaves all.
        kind = getattr(kind, "Mistral4Model" if params["model_type"] == "mistral4" else "Ministral3Model", kind)
        kind.no_mtp = True  # transformers leaves out the layers that predict further tokens
        kind.set_vocab = SET_VOCAB.get(vocabulary) or given_vocabulary(vocabulary)
        kind.modify_tensors = with_returned(kind.modify_tensors)
        # What GPT-NeoX, Cohere2 and GPT-2 have it under, which transformers 5 no longer writes.
        params.setdefault("rotary_pct", (params.get("rope_parameters") or {}).get("partial_rotary_factor", 1.0))
        params.setdefault("n_ctx", params.get("n_positions"))
        params.setdefault("activation_function", params.get("hidden_act"))  # EXAONE's name of it
        if published == "MiniCPMForCausalLM":  # whose names of Granite's multipliers are these
            params["scale_emb"] = params["embedding_multiplier"]
            params["scale_depth"] = params["residual_multiplier"] * params["num_hidden_layers"] ** 0.5
            params["dim_model_base"] = params["hidden_size"] / params["logits_scaling"]
        file_type = {"F32": gguf.LlamaFileType.ALL_F32, "F16": gguf.LlamaFileType.MOSTLY_F16}[type_name]
        # Older names of Granite's kinds of layers, which transformers 5 no longer writes.
        if params["model_type"] == "granitemoehybrid":
            kinds = {"linear_attention": "mamba", "full_attention": "attention"}
            params["layer_types"] = [kinds.get(each, each) for each in params["layer_types"]]
        if params["model_type"] in ("exaone_moe", "glm4_moe_lite"):
            params["scoring_func"] = "sigmoid"  # which published files state, and transformers' class does not know
        if params["model_type"] == "hunyuan_v1_moe":  # published files have lists, of all layers
            used = params.get("moe_topk", params.get("num_experts_per_tok"))
            sizes = {"moe_intermediate_size": params["intermediate_size"], "moe_topk": used, "num_shared_expert": 1}
            params |= {key: [value] * params["num_hidden_layers"] for key, value in sizes.items()}
        if params["model_type"] == "nemotron_h":
            letters = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
            if "layers_block_type" in params:
                params["hybrid_override_pattern"] = "".join(letters[each] for each in params["layers_block_type"])
            if "E" not in params["hybrid_override_pattern"]:
                for key in ("num_experts_per_tok", "n_routed_experts", "n_group", "topk_group"):
                    params.pop(key, None)  # or it is taken for a mixture of experts
        if params["model_type"] == "llama4_text":
            kind.set_gguf_parameters = with_chunks(kind.set_gguf_parameters)
        if params["model_type"] == "mistral4":
            kind.set_gguf_parameters = with_temperature(kind.set_gguf_parameters)
        if params["model_type"] == "phimoe":
            kind.set_gguf_parameters = with_jitter(kind.set_gguf_parameters)
        kind(copy, file_type, Path(out), hparams=params).write()


def convert(folder, out, vocabulary, type_name="F32", published=""):
    """Writes the model in `folder` as GGUF to `out`; vocabulary: `own`, `none`, or a vocab.Vocab."""
    with tempfile.TemporaryDirectory() as scratch:
        if not isinstance(vocabulary, str):
            path = Path(scratch) / "vocabulary.json"
            path.write_text(json.dumps(vars(vocabulary)))
            vocabulary = path
        command = [sys.executable, "-m", __name__, folder, Path(out).resolve(), vocabulary, type_name]
        command += [published] if published else []
        done = subprocess.run(command, cwd=GOLDEN, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-600:])


if __name__ == "__main__":
    main(*sys.argv[1:])
