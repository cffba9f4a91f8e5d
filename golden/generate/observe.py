"""Runs an oracle model with hooks on it, and collects the checkpoints of CONTRACT.md by name.

Each is a float array [tokens, n] in the row order of the model file. `embedding` is what enters the first layer, so for
learned positions it includes them.
"""

import torch

from .oracle import attention, eager_attention, halves_to_adjacent


class Observer:
    def __init__(self, model, params):
        self.model = model
        self.params = params
        self.seen = {}
        self.layer = 0  # the layer whose attention runs next

    def keep(self, name, value):
        self.seen[name] = value.detach().reshape(-1, value.shape[-1]).numpy().copy()

    def keep_heads(self, name, value):
        """value [1, heads, tokens, head_dim], joined to [tokens, heads * head_dim]."""
        heads = value.shape[1]
        joined = value.detach()[0].transpose(0, 1).reshape(value.shape[2], -1).numpy().copy()
        self.seen[name] = halves_to_adjacent(joined, heads) if self.params.arch == "llama" else joined

    def output_of(self, module, name):
        def hook(_module, _inputs, output):
            self.keep(name, output[0] if isinstance(output, tuple) else output)

        return module.register_forward_hook(hook)

    def input_of(self, module, name):
        return module.register_forward_pre_hook(lambda _module, inputs: self.keep(name, inputs[0]))

    def parts_of(self, module, **widths):
        """Keeps a fused projection's output as its parts, in order, by name and width."""

        def hook(_module, _inputs, output):
            for name, part in zip(widths, output.split(list(widths.values()), dim=-1)):
                self.keep(name, part)

        return module.register_forward_hook(hook)

    def rotated_projection(self, module, name, heads):
        def hook(_module, _inputs, output):
            tokens = output.shape[1]
            self.keep_heads(name, output.reshape(1, tokens, heads, -1).transpose(1, 2))

        return module.register_forward_hook(hook)

    def rotary_layer(self, n, layer):
        p, mlp, attn = self.params, layer.mlp, layer.self_attn
        q_width, kv_width = p.heads * p.head_dim, p.kv_heads * p.head_dim
        name = f"layer_{n}_"
        yield self.output_of(layer.input_layernorm, f"{name}attn_norm")
        if p.arch == "phi3":
            yield self.parts_of(attn.qkv_proj, **{f"{name}q": q_width, f"{name}k": kv_width, f"{name}v": kv_width})
            yield self.parts_of(mlp.gate_up_proj, **{f"{name}ffn_gate": p.ffn, f"{name}ffn_up": p.ffn})
        else:
            yield self.rotated_projection(attn.q_proj, f"{name}q", p.heads)
            yield self.rotated_projection(attn.k_proj, f"{name}k", p.kv_heads)
            yield self.output_of(attn.v_proj, f"{name}v")
            yield self.output_of(mlp.gate_proj, f"{name}ffn_gate")
            yield self.output_of(mlp.up_proj, f"{name}ffn_up")
        yield self.input_of(attn.o_proj, f"{name}attn")
        yield self.output_of(attn.o_proj, f"{name}attn_out")
        yield self.input_of(layer.post_attention_layernorm, f"{name}attn_residual")
        yield self.output_of(layer.post_attention_layernorm, f"{name}ffn_norm")
        yield self.input_of(mlp.down_proj, f"{name}ffn_act")
        yield self.output_of(mlp.down_proj, f"{name}ffn_out")
        yield self.output_of(layer, f"{name}output")

    def gpt2_layer(self, n, layer):
        hidden, name = self.params.hidden, f"layer_{n}_"
        yield self.output_of(layer.ln_1, f"{name}attn_norm")
        yield self.parts_of(layer.attn.c_attn, **{f"{name}{part}": hidden for part in "qkv"})
        yield self.input_of(layer.attn.c_proj, f"{name}attn")
        yield self.output_of(layer.attn.c_proj, f"{name}attn_out")
        yield self.input_of(layer.ln_2, f"{name}attn_residual")
        yield self.output_of(layer.ln_2, f"{name}ffn_norm")
        yield self.output_of(layer.mlp.c_fc, f"{name}ffn_up")
        yield self.input_of(layer.mlp.c_proj, f"{name}ffn_act")
        yield self.output_of(layer.mlp.c_proj, f"{name}ffn_out")
        yield self.output_of(layer, f"{name}output")

    def hooks(self):
        gpt2 = self.params.arch == "gpt2"
        body = self.model.transformer if gpt2 else self.model.model
        layers = body.h if gpt2 else body.layers
        yield self.input_of(layers[0], "embedding")
        for n, layer in enumerate(layers):
            yield from (self.gpt2_layer if gpt2 else self.rotary_layer)(n, layer)
        yield self.output_of(body.ln_f if gpt2 else body.norm, "final_norm")
        yield self.output_of(self.model.lm_head, "logits")

    def observed_attention(self, module, query, key, value, mask, **options):
        if self.params.arch != "gpt2":
            self.keep_heads(f"layer_{self.layer}_q_rope", query)
            self.keep_heads(f"layer_{self.layer}_k_rope", key)
        self.layer += 1
        return attention(module, query, key, value, mask, **options)


def observe(model, params, tokens):
    """All checkpoints of one pass over `tokens`, by name, in the order in which the network computes them."""
    observer = Observer(model, params)
    hooks = list(observer.hooks())
    try:
        with torch.no_grad(), eager_attention(params.arch, observer.observed_attention):
            model(input_ids=torch.tensor([tokens]), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return observer.seen


def logits(model, params, tokens):
    """Logits [tokens, vocabulary] of one pass."""
    with torch.no_grad(), eager_attention(params.arch, attention):
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].numpy()
