"""A small oracle for tests: writes the golden "tiny" to $ASSAY_GOLDEN_OUT. Needs nothing but Python.

NUDGE: relative error put into the logits of f32.jsonl. FAKE: what goes wrong, or is otherwise, see below.
"""

import hashlib
import json
import os
import sys

fake = os.environ.get("FAKE", "")
nudge = float(os.environ.get("NUDGE", "0"))
out = os.path.join(os.environ["ASSAY_GOLDEN_OUT"], "tiny")
print("fake oracle at work")
if fake == "nothing":
    sys.exit(0)
if fake == "in_place":
    out = "tiny"
os.makedirs(out, exist_ok=True)


def write(name, data):
    with open(os.path.join(out, name), "wb") as file:
        file.write(data)
    return hashlib.sha256(data).hexdigest()


def log(name, tokens, nudge, sha256, chosen=()):
    header = {"assay": 1, "model": {"name": "tiny", "sha256": sha256, "arch": "llama", "type": "F32"}, "tokens": tokens}
    header |= {"engine": "fake", "math": "float64"}
    lines = [json.dumps(header)]
    for position in range(len(tokens) + max(len(chosen) - 1, 0)):
        for checkpoint, error in (("embedding", 0), ("layer_0_output", 0), ("logits", nudge)):
            values = [1 + 2 * error, 1, 1, 1]
            if checkpoint == "logits" and position + 1 >= len(tokens) and chosen:
                values[chosen[position + 1 - len(tokens)]] += 0.25
            record = {"checkpoint": checkpoint, "token_idx": position, "dtype": "f32", "shape": [4], "values": values}
            lines.append(json.dumps(record))
    text = "\n".join(lines) + "\n"
    return write(name, text[:-40].encode() if fake == "torn" else text.encode())


model = hashlib.sha256(b"GGUF of tiny").hexdigest()
if fake != "logs_only":
    write("tiny-f32.gguf", b"GGUF of tiny")
tokens = [1, 2] if fake == "other_tokens" else [1, 2, 3]
chosen = [2, 3] if nudge < 1 else [0, 0]
first = {"file": "f32.jsonl", "sha256": log("f32.jsonl", tokens, nudge, model, chosen), "prompt": "haiku", "set": "layers"}
first |= {"n_predict": 2, "greedy": chosen}
second = {"file": "long.jsonl", "sha256": log("long.jsonl", [4], 0, model), "prompt": "long", "set": "layers"}
logs = [first] if fake == "one_log" else [first, second]
if fake == "fail":
    sys.exit(3)
if fake == "one_log" or fake == "missing":
    os.remove(os.path.join(out, "long.jsonl"))
if fake == "missing":
    second["sha256"] = "0" * 64
if fake == "wrong_hash":
    first["sha256"] = "0" * 64
if fake == "orphan":
    write("stray.jsonl", b"{}\n")
floors = {"embedding": {"f32_vs_f64": {"max": 0}}, "output": {"f32_vs_f64": {"max": 1e-6}}, "logits": {"f32_vs_f64": {"max": 4e-6 if nudge < 1 else 8e-6}}}
manifest = {
    "schema": 2,
    "model": "tiny",
    "arch": "llama",
    "prompts": {"haiku": {"text": "a b", "tokens": [1, 2, 3]}, "long": {"text": "c", "tokens": [4]}},
    "padding_ids": [],
    "oracles": {"num_py": "2.4.6" if nudge < 1 else "2.4.7"},
    "command": f"python3 {__file__}",
    "tolerance": {"k": 3, "floor": "f32_vs_f64", "why": "measured"},
    "files": [{"type": "F32", "gguf": "tiny-f32.gguf", "sha256": model, "floors": floors, "logs": logs}],
}
if fake != "logs_only":
    write("manifest.json", (json.dumps(manifest, indent=1) + "\n").encode())
