"""ONNX Runtime GenAI: the folder goes through its model builder (float32, CPU)."""

import json
import os
import tempfile
from importlib.metadata import version

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import onnxruntime_genai
from onnxruntime_genai.models import builder

import surfaces
from protocol import Unsupported, main
from stub_tokenizer import with_tokenizer


class Session:
    def __init__(self, model, length):
        settings = onnxruntime_genai.GeneratorParams(model)
        settings.set_search_options(max_length=length, do_sample=False)
        self.generator = onnxruntime_genai.Generator(model, settings)
        self.fed = 0

    def feed(self, tokens):
        try:
            self.generator.append_tokens(np.array([tokens], dtype=np.int32))
        except RuntimeError as error:
            _, refused, reason = str(error).partition("Status Message: ")
            if refused:  # an operator does not take these sizes
                raise Unsupported(reason) from error
            raise
        self.fed += len(tokens)
        return {"logits": np.array(self.generator.get_output("logits"))[0, -len(tokens) :]}

    def restored(self):
        self.generator.rewind_to(self.fed)
        return self


class Model:
    def __init__(self, model, length):
        self.model, self.length = model, length

    def start(self):
        return Session(self.model, self.length)

    def together(self, sequences):
        raise Unsupported("batches need a padding token, which the suite's models do not have")


def run(case):
    with with_tokenizer(case.folder()) as folder, tempfile.TemporaryDirectory() as scratch:
        built = os.path.join(scratch, "built")
        target = ("", str(folder), built, "fp32", "cpu", os.path.join(scratch, "cache"))
        try:
            builder.create_model(*target, **builder.parse_extra_options(*target, []))
        except NotImplementedError as error:
            raise Unsupported(str(error).replace(str(folder), "this")) from error
        # It refuses less room than a layer's window, and more than the model's context.
        config = json.loads((folder / "config.json").read_text())
        window = min(config.get("sliding_window") or 0, config.get("max_position_embeddings") or 0)
        length = max(len(case.tokens) + 1, window)
        return surfaces.records(case, Model(onnxruntime_genai.Model(built), length))


main(run, "onnxruntime-genai", version("onnxruntime-genai"))
