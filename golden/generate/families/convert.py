"""From a transformers folder to a GGUF file by llama.cpp's own converter, without a tokenizer.

    ASSAY_LLAMA_CPP=SOURCE python golden/generate/families/convert.py FOLDER OUT.gguf

SOURCE is the source of llama.cpp, which the sdist of llama-cpp-python holds under vendor/llama.cpp. This runs as a
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


def no_vocabulary(self):
    """In the place of set_vocab: ids are all that a model knows."""
    self.gguf_writer.add_tokenizer_model("no_vocab")
    self.gguf_writer.add_vocab_size(self.hparams["vocab_size"])


def with_returned(modify):
    """A modify_tensors that is a generator and returns tensors loses them (StableLM's norms of heads); this has them."""

    def modify_tensors(self, *args):
        returned = yield from modify(self, *args)
        yield from returned or ()

    return modify_tensors


def main(folder, out):
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
        # Gemma 3 counts the tokens of this file to cut padding off.
        tokens = {str(i): i for i in range(params["vocab_size"])}
        (copy / "tokenizer.json").write_text(json.dumps({"model": {"vocab": tokens}, "added_tokens": []}))
        kind = conversion.get_model_class(get_model_architecture(params, ModelType.TEXT))
        kind.set_vocab = no_vocabulary
        kind.modify_tensors = with_returned(kind.modify_tensors)
        # GPT-NeoX's name for it, which transformers 5 no longer writes.
        params.setdefault("rotary_pct", (params.get("rope_parameters") or {}).get("partial_rotary_factor"))
        kind(copy, gguf.LlamaFileType.ALL_F32, Path(out), hparams=params).write()


def convert(folder, out):
    """Writes the model in `folder` as F32 GGUF to `out`."""
    done = subprocess.run([sys.executable, __file__, str(folder), str(out)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-600:])


if __name__ == "__main__":
    main(*sys.argv[1:])
