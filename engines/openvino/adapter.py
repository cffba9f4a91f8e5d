"""OpenVINO: the graph that it traces from transformers' model of the folder, without a cache, in float32."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from importlib.metadata import version

import numpy as np
import openvino
import torch
import transformers
from openvino.frontend import OpConversionFailure
from transformers import AutoModelForCausalLM

from protocol import Unsupported, main, refusals
from surfaces import others, padded


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids):
        inputs = dict(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids)
        return self.model(**inputs, use_cache=False).logits


def run(case):
    if case.surface not in ("alone", "batch"):
        raise Unsupported("the traced graph has no cache")
    with refusals(ValueError, NotImplementedError):
        model = AutoModelForCausalLM.from_pretrained(
            case.folder(),
            dtype=torch.float32,
            attn_implementation="eager",
            experts_implementation="batched_mm",  # has no operation that OpenVINO lacks a rule for
            local_files_only=True,
        ).eval()
    ids, mask = map(np.array, padded([case.tokens, *others(case.tokens, case.size - 1)]))
    inputs = [ids, mask, np.maximum(mask.cumsum(-1) - 1, 0)]
    example = tuple(map(torch.from_numpy, inputs))
    # What cannot be traced, or has an operation without a rule, is refused. Without PyTorch's check of the trace: LongRoPE
    # keeps its factors from one call to the next, and so has another graph in the second.
    with torch.no_grad(), refusals(OpConversionFailure, RuntimeError):
        traced = torch.jit.trace(Logits(model), example, check_trace=False, strict=False)
        graph = openvino.convert_model(traced, example_input=example)
    compiled = openvino.Core().compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    logits = compiled(inputs)[0]
    return [("logits", range(len(case.tokens)), logits[0, -len(case.tokens) :])]


transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
main(run, "OpenVINO", version("openvino"))
