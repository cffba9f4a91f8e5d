"""A Llama in numpy, small enough to read at one go: engine.py MODEL.gguf --tokens 1,2,3 --log mine.jsonl

The engine of docs/tutorial.md. float32, one token at a time, F32 files; logs every op through assay_tap.
Needs the packages gguf and numpy.
"""

import argparse
import sys
from pathlib import Path

import gguf
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
import assay_tap


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        number = lambda key: reader.fields[f"llama.{key}"].contents()
        self.weights = {tensor.name: np.array(tensor.data, dtype=np.float32) for tensor in reader.tensors}
        self.layers, self.heads = number("block_count"), number("attention.head_count")
        self.kv_heads, self.eps = number("attention.head_count_kv"), number("attention.layer_norm_rms_epsilon")
        self.head_dim = number("embedding_length") // self.heads
        self.base = number("rope.freq_base")
        self.keys = [[] for _ in range(self.layers)]
        self.values = [[] for _ in range(self.layers)]

    def linear(self, name, x):
        return self.weights[f"{name}.weight"] @ x

    def norm(self, name, x):
        return x / np.sqrt(np.mean(x * x) + np.float32(self.eps)) * self.weights[f"{name}.weight"]

    def rotate(self, heads, position):
        """[heads, head_dim]: each pair of neighbours turned by position * base^(-2i / head_dim)."""
        angles = position * self.base ** (-np.arange(0, self.head_dim, 2) / self.head_dim)
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        even, odd = heads[:, 0::2], heads[:, 1::2]
        turned = np.empty_like(heads)
        turned[:, 0::2] = even * cos - odd * sin
        turned[:, 1::2] = odd * cos + even * sin
        return turned

    def attend(self, layer, q):
        """[heads, head_dim] queries over all keys so far -> [heads * head_dim]."""
        keys, values = np.stack(self.keys[layer]), np.stack(self.values[layer])  # [positions, kv_heads, head_dim]
        group = self.heads // self.kv_heads
        joined = []
        for head in range(self.heads):
            scores = keys[:, head // group] @ q[head] / np.sqrt(np.float32(self.head_dim))
            weights = np.exp(scores - scores.max())
            joined.append(weights / weights.sum() @ values[:, head // group])
        return np.concatenate(joined)

    def token(self, token, position, log):
        x = self.weights["token_embd.weight"][token]
        log("embedding", position, x)
        for n in range(self.layers):
            block = f"blk.{n}"

            def saw(name, row):
                log(f"layer_{n}_{name}", position, row.reshape(-1))
                return row

            h = saw("attn_norm", self.norm(f"{block}.attn_norm", x))
            q = saw("q", self.linear(f"{block}.attn_q", h)).reshape(self.heads, self.head_dim)
            k = saw("k", self.linear(f"{block}.attn_k", h)).reshape(self.kv_heads, self.head_dim)
            v = saw("v", self.linear(f"{block}.attn_v", h)).reshape(self.kv_heads, self.head_dim)
            q = saw("q_rope", self.rotate(q, position))
            k = saw("k_rope", self.rotate(k, position))
            self.keys[n].append(k)
            self.values[n].append(v)
            a = saw("attn", self.attend(n, q))
            x = saw("attn_residual", x + saw("attn_out", self.linear(f"{block}.attn_output", a)))
            h = saw("ffn_norm", self.norm(f"{block}.ffn_norm", x))
            gate = saw("ffn_gate", self.linear(f"{block}.ffn_gate", h))
            up = saw("ffn_up", self.linear(f"{block}.ffn_up", h))
            act = saw("ffn_act", gate / (1 + np.exp(-gate)) * up)
            x = saw("output", x + saw("ffn_out", self.linear(f"{block}.ffn_down", act)))
        h = self.norm("output_norm", x)
        log("final_norm", position, h)
        log("logits", position, self.linear("output" if "output.weight" in self.weights else "token_embd", h))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--tokens", required=True, help="comma-separated ids")
    parser.add_argument("--log", required=True)
    options = parser.parse_args()
    model = Model(options.model)
    log = assay_tap.LogWriter(options.log, team="numpy", values=None)  # None: all of them
    for position, token in enumerate(options.tokens.split(",")):
        model.token(int(token), position, log.write)


if __name__ == "__main__":
    main()
