"""A small model file in the GGUF format with the vocabulary that a test wants."""

import struct

ARCHITECTURE = "llama"
WIDTH = 8
HIDDEN = 12


def text(value):
    data = value if isinstance(value, bytes) else value.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def array(kind, items, pack):
    return struct.pack("<IIQ", 9, kind, len(items)) + b"".join(pack(item) for item in items)


def write(path, words, kinds):
    """One layer, rows of eight, all weights 0.01. `words`: text or bytes of each token; `kinds`: 1 normal, 6 a byte."""
    numbers = {"block_count": 1, "embedding_length": WIDTH, "feed_forward_length": HIDDEN, "context_length": 16,
               "attention.head_count": 2, "attention.head_count_kv": 1}
    keys = [(f"{ARCHITECTURE}.{name}", struct.pack("<II", 4, value)) for name, value in numbers.items()]
    keys += [
        ("general.architecture", struct.pack("<I", 8) + text(ARCHITECTURE)),
        (f"{ARCHITECTURE}.attention.layer_norm_rms_epsilon", struct.pack("<If", 6, 1e-5)),
        ("tokenizer.ggml.model", struct.pack("<I", 8) + text("llama")),
        ("tokenizer.ggml.tokens", array(8, words, text)),
        ("tokenizer.ggml.scores", array(6, words, lambda word: struct.pack("<f", 0.0))),
        ("tokenizer.ggml.token_type", array(5, kinds, lambda kind: struct.pack("<i", kind))),
    ]
    shapes = {"token_embd": (WIDTH, len(words)), "output": (WIDTH, len(words)), "output_norm": (WIDTH,),
              "blk.0.attn_norm": (WIDTH,), "blk.0.attn_q": (WIDTH, WIDTH), "blk.0.attn_k": (WIDTH, 4),
              "blk.0.attn_v": (WIDTH, 4), "blk.0.attn_output": (WIDTH, WIDTH), "blk.0.ffn_norm": (WIDTH,),
              "blk.0.ffn_gate": (WIDTH, HIDDEN), "blk.0.ffn_up": (WIDTH, HIDDEN), "blk.0.ffn_down": (HIDDEN, WIDTH)}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys))
    head += b"".join(text(name) + value for name, value in keys)
    data = b""
    for name, dims in shapes.items():
        head += text(name + ".weight") + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, len(data))
        count = dims[0] * (dims[1] if len(dims) > 1 else 1)
        data += struct.pack("<f", 0.01) * count
        data += bytes(-len(data) % 32)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32) + data)
