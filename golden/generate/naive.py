"""A second, plain float64 forward pass in numpy, written straight from the definitions, to check the oracle with.

It shares with the oracle only the reading of the file. It works in the row order of the model file, one token and one
head at a time.
"""

import numpy as np


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x) + eps) * weight


def layer_norm(x, weight, bias, eps):
    centred = x - np.mean(x)
    return centred / np.sqrt(np.mean(centred * centred) + eps) * weight + bias


def silu(x):
    return x / (1.0 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def softmax(scores):
    weights = np.exp(scores - np.max(scores))
    return weights / np.sum(weights)


class Naive:
    def __init__(self, tensors, params, frequencies):
        self.t = tensors
        self.p = params
        self.frequencies = frequencies  # None where positions are learned
        self.adjacent = params.arch == "llama"

    def norm(self, x, name):
        weight = self.t[f"{name}.weight"]
        if self.p.arch == "gpt2":
            return layer_norm(x, weight, self.t[f"{name}.bias"], self.p.eps)
        return rms_norm(x, weight, self.p.eps)

    def linear(self, x, name):
        return self.t[f"{name}.weight"] @ x + self.t.get(f"{name}.bias", 0.0)

    def qkv(self, x, block):
        q_rows, kv_rows = self.p.heads * self.p.head_dim, self.p.kv_heads * self.p.head_dim
        if f"{block}.attn_qkv.weight" in self.t:
            fused = self.linear(x, f"{block}.attn_qkv")
            return fused[:q_rows], fused[q_rows : q_rows + kv_rows], fused[q_rows + kv_rows :]
        return tuple(self.linear(x, f"{block}.attn_{part}") for part in "qkv")

    def rotate(self, head, position):
        if self.frequencies is None:
            return head
        angle = position * self.frequencies
        cos, sin = np.cos(angle) * self.p.attn_factor, np.sin(angle) * self.p.attn_factor
        half = len(head) // 2
        first, second = (slice(0, None, 2), slice(1, None, 2)) if self.adjacent else (slice(half), slice(half, None))
        rotated = np.empty_like(head)
        rotated[first] = head[first] * cos - head[second] * sin
        rotated[second] = head[second] * cos + head[first] * sin
        return rotated

    def rotate_heads(self, joined, position):
        heads = joined.reshape(-1, self.p.head_dim)
        return np.concatenate([self.rotate(head, position) for head in heads])

    def attention(self, q, keys, values, position):
        """One token's heads over its keys: q [heads * head_dim], keys and values one row per position so far."""
        dim, group = self.p.head_dim, self.p.heads // self.p.kv_heads
        start = 0 if self.p.window is None else max(0, position - self.p.window + 1)
        joined = []
        for head in range(self.p.heads):
            query = self.rotate(q[head * dim : (head + 1) * dim], position)
            columns = slice(head // group * dim, (head // group + 1) * dim)
            scores = [query @ self.rotate(keys[j][columns], j) for j in range(start, position + 1)]
            weights = softmax(np.array(scores) * dim**-0.5)
            joined.append(sum(w * values[start + j][columns] for j, w in enumerate(weights)))
        return np.concatenate(joined)

    def ffn(self, x, block):
        if self.p.arch == "gpt2":
            act = gelu_tanh(self.linear(x, f"{block}.ffn_up"))
        elif self.p.arch == "phi3":
            fused = self.linear(x, f"{block}.ffn_up")
            act = silu(fused[: self.p.ffn]) * fused[self.p.ffn :]
        else:
            act = silu(self.linear(x, f"{block}.ffn_gate")) * self.linear(x, f"{block}.ffn_up")
        return self.linear(act, f"{block}.ffn_down")

    def run(self, tokens):
        """Checkpoints `embedding`, `layer_N_q`, `_k`, `_q_rope`, `_k_rope`, `_output`, `logits`; each is [tokens, n]."""
        hidden = [self.t["token_embd.weight"][token] for token in tokens]
        if "position_embd.weight" in self.t:
            hidden = [x + self.t["position_embd.weight"][i] for i, x in enumerate(hidden)]
        seen = {"embedding": np.array(hidden)}
        for layer in range(self.p.layers):
            block = f"blk.{layer}"
            parts = [self.qkv(self.norm(x, f"{block}.attn_norm"), block) for x in hidden]
            for column, part in enumerate("qk"):
                seen[f"layer_{layer}_{part}"] = np.array([qkv[column] for qkv in parts])
                turned = [self.rotate_heads(qkv[column], i) for i, qkv in enumerate(parts)]
                seen[f"layer_{layer}_{part}_rope"] = np.array(turned)
            keys, values = [part[1] for part in parts], [part[2] for part in parts]
            for i, x in enumerate(hidden):
                attended = self.linear(self.attention(parts[i][0], keys, values, i), f"{block}.attn_output")
                x = x + attended
                hidden[i] = x + self.ffn(self.norm(x, f"{block}.ffn_norm"), block)
            seen[f"layer_{layer}_output"] = np.array(hidden)
        output = self.t.get("output.weight", self.t["token_embd.weight"])
        seen["logits"] = np.array([output @ self.norm(x, "output_norm") for x in hidden])
        return seen
