"""Small logs of an invented model, with a fault where a test wants one."""

import json
import math
import os

OPS = ("attn_norm", "q", "k", "v", "attn", "attn_out", "ffn_out", "output")

# What a name in a log may hold to break out of where the page puts it.
HOSTILE = (
    "</script><script>window.injected = 1</script>",
    "<img src=x onerror='window.injected = 1'>",
    "\"><b onmouseover=\"window.injected = 1\">",
    "<!--<script>",
    "]]>{{DATA}}",
    "'\"`${window.injected = 1}\\",
    "a\u2028b\u2029c",
    "\u202egnp.exe\u202c \u2066x\u2069",
    "\x00\x01\x1b[31m\x7f\x9b",
    "\ufeff\u200b\u0301\ufffe",
    "javascript:window.injected=1",
    "x" * 3000,
)


def record(checkpoint, token, values, **more):
    return {"checkpoint": checkpoint, "token_idx": token, "dtype": "f32", "shape": [len(values)], "values": values, **more}


def model(layers=3, tokens=5, fault=None, extra=None, **more):
    """Records of each checkpoint. `fault`: (layer, op, token) after which everything is off."""
    names = ["embedding"]
    names += [f"layer_{layer}_{op}" for layer in range(layers) for op in OPS]
    names += ["final_norm", "logits"] + ([extra] if extra is not None else [])
    first = names.index(f"layer_{fault[0]}_{fault[1]}") if fault else len(names)
    records = []
    for token in range(tokens):
        for place, checkpoint in enumerate(names):
            values = [math.sin(1 + i + 3 * place + 7 * token) for i in range(12)]
            if fault and token >= fault[2] and place >= first:
                values = [v * (1.02 + 0.004 * (place - first)) + 0.01 * math.cos(i) for i, v in enumerate(values)]
            elif fault:
                values = [v * (1 + 1e-6 * math.cos(i * place)) for i, v in enumerate(values)]
            records.append(record(checkpoint, token, values, **more))
    return records


def write(path, records):
    with open(path, "w", encoding="utf-8") as file:
        for item in records:
            file.write(json.dumps(item) + "\n")


def script(name):
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()
