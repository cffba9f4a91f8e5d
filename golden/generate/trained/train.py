"""`python -m generate.trained.train NAME`: golden/NAME/NAME-f16.gguf, and its loss curve in NAME.csv beside this file.

One thread, float32 and one seed: on one kind of processor the weights are the same bit for bit. About 20 minutes each.
"""

import csv
import random
import sys
import tempfile
import time
from pathlib import Path

import torch
import transformers
from torch.nn.functional import cross_entropy

from .. import fixtures
from ..families.convert import convert
from . import SHAPES, bpe, text

BATCH = 2048  # tokens of a step
STEPS = 1000
WARM_UP = 60
LATE = 0.75  # after this share of the steps the rate falls, and windows are as long as the goldens' longest prompt
SHORT, LONG = 128, 640
RATE, DECAY = 3e-3, 0.1
EVERY = 50  # steps between two rows of the loss curve
VALIDATION = 16  # windows of LONG tokens


def stream(tokenizer, texts):
    ids = [encoding.ids for encoding in tokenizer.encode_batch([text + "\n\n" for text in texts])]
    return torch.tensor([token for document in ids for token in document])


def windows(data, starts, length, bos):
    """(what the model reads, what comes next), [windows, length] each."""
    rows = torch.stack([data[start : start + length + 1] for start in starts])
    if bos is not None:
        rows[:, 0] = bos
    return rows[:, :-1], rows[:, 1:]


def loss_of(model, read, expected):
    return cross_entropy(model(input_ids=read, use_cache=False).logits.flatten(0, 1), expected.flatten())


def validated(model, data, bos):
    starts = torch.linspace(0, len(data) - LONG - 2, VALIDATION).long()
    with torch.no_grad():
        return float(loss_of(model, *windows(data, starts, LONG, bos)))


def optimizer_of(model):
    matrices = [tensor for tensor in model.parameters() if tensor.ndim > 1]
    vectors = [tensor for tensor in model.parameters() if tensor.ndim == 1]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95))


def rate(step):
    """The share of RATE at this step: up in a line, level, then down in a line."""
    return min((step + 1) / WARM_UP, 1.0, (1 - step / STEPS) / (1 - LATE))


def train(shape, data, held, bos):
    """(the model, rows of the loss curve)"""
    torch.manual_seed(shape.seed)
    torch.set_num_threads(1)
    config = getattr(transformers, shape.config)(**shape.values, attn_implementation="sdpa")
    model = transformers.AutoModelForCausalLM.from_config(config)
    optimizer = optimizer_of(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    curve, losses, began = [], [], time.monotonic()
    for step in range(STEPS):
        length = LONG if step >= LATE * STEPS else SHORT
        starts = torch.randint(len(data) - length - 1, (BATCH // length,))
        loss = loss_of(model, *windows(data, starts, length, bos))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        losses.append(loss.item())
        if (step + 1) % EVERY == 0 or step + 1 == STEPS:
            seen = sum(losses[-EVERY:]) / len(losses[-EVERY:])
            curve.append((step + 1, length, round(seen, 4), round(validated(model, held, bos), 4)))
            print(shape.name, *curve[-1], f"{time.monotonic() - began:.0f} s", flush=True)
    return model.eval(), curve


def main(name):
    shape = next(shape for shape in SHAPES if shape.name == name)
    texts, held = text.documents()
    random.Random(shape.seed).shuffle(texts)
    tokenizer = bpe.trained(shape, texts)
    vocabulary = bpe.for_file(shape, tokenizer)
    bos = vocabulary.special_ids["bos"] if shape.add_bos else None
    model, curve = train(shape, stream(tokenizer, texts), stream(tokenizer, held), bos)
    with Path(__file__).with_name(f"{name}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("step", "window", "training", "validation"), *curve])
    folder = fixtures.OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        model.save_pretrained(scratch)
        convert(scratch, folder / f"{name}-f16.gguf", vocabulary, "F16")


if __name__ == "__main__":
    main(*sys.argv[1:])
