"""CTranslate2: the folder goes through its converter, and forward_batch() gives the logits of all positions."""

import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import ctranslate2
import numpy as np
from ctranslate2.converters import TransformersConverter

from protocol import Unsupported, main, refusals
from stub_tokenizer import with_tokenizer
from surfaces import others


def run(case):
    if case.surface not in ("alone", "batch"):
        raise Unsupported("CTranslate2 has no call that gives the logits of tokens after a cache")
    sequences = [list(one) for one in (case.tokens, *others(case.tokens, case.size - 1))]
    with with_tokenizer(case.folder()) as folder, tempfile.TemporaryDirectory() as converted:
        with refusals(ValueError, NotImplementedError):
            TransformersConverter(str(folder)).convert(converted, quantization="float32", force=True)
        generator = ctranslate2.Generator(converted, device="cpu", compute_type="float32", intra_threads=1)
        logits = np.array(generator.forward_batch(sequences, return_log_probs=False))
    return [("logits", range(len(case.tokens)), logits[0, : len(case.tokens)])]


main(run, "CTranslate2", ctranslate2.__version__)
