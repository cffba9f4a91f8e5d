"""Bugs of attention: masks, scores, heads, what is kept."""

import math
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from .bug import Bug, attention, module_of, named_modules, replaced


def attended(module, query, key, value, mask, scaling, softcap=None, sinks=None, head_map=None):
    """The attention of most models, written out. sinks: [heads, queries]."""
    groups = query.shape[1] // key.shape[1]
    heads = torch.arange(query.shape[1])
    read = heads // groups if head_map is None else head_map(heads, key.shape[1])
    scores = torch.matmul(query, key[:, read].transpose(2, 3)) * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if mask is not None:
        scores = scores + mask
    if sinks is not None:
        scores = torch.cat((scores, sinks[None, :, :, None]), dim=-1)
    weights = torch.softmax(scores, dim=-1)
    if sinks is not None:
        weights = weights[..., :-1]
    return torch.matmul(weights, value[:, read]).transpose(1, 2).contiguous(), weights


def scaled_by(scale):
    """scale(module) in place of the scale of the scores."""

    def wrong(right, module, q, k, v, mask, **more):
        return right(module, q, k, v, mask, **more | dict(scaling=scale(module)))

    return attention(wrong)


def uncapped(right, module, q, k, v, mask, **more):
    return right(module, q, k, v, mask, **more | dict(softcap=None))


def with_sinks(sinks):
    """sinks(module, queries): [heads, queries]."""

    def wrong(_right, module, q, k, v, mask, scaling=None, **_):
        return attended(module, q, k, v, mask, scaling, sinks=sinks(module, q.shape[2]))

    return attention(wrong)


def sinks_by_row(module, queries):
    heads = module.sinks.numel()
    rows = torch.arange(heads)[:, None] * queries + torch.arange(queries)
    return module.sinks[rows % heads]


def with_head_map(head_map):
    def wrong(_right, module, q, k, v, mask, scaling=None, **_):
        return attended(module, q, k, v, mask, scaling, head_map=head_map)

    return attention(wrong)


def with_scaled_cache(of_keys, of_values):
    """Keys and values come from a cache in 8 bits without, or with twice, the scale that they were divided by."""

    def wrong(right, module, q, k, v, mask, **more):
        return right(module, q, k * of_keys, v * of_values, mask, **more)

    return attention(wrong)


def masked(change):
    """change(mask, module): the mask of [.., queries, keys] that is added to the scores."""

    def wrong(right, module, q, k, v, mask, **more):
        return right(module, q, k, v, change(mask.clone(), module), **more)

    return attention(wrong)


def open_within_chunk(mask, _module, first=8):
    """Queries from `first` on see all keys from `first` on."""
    mask[..., first:, first:] = 0.0
    return mask


def ring_cut(mask, module, first=20, size=8):
    """A ring whose newest position is not its last slot: a second chunk sees none of the slots behind it."""
    if getattr(module, "sliding_window", None):
        mask[..., first:, first - size : first - first % size] = -torch.inf
    return mask


def heads_not_transposed(right, *args, **more):
    """Heads are put side by side as if [heads, tokens, width] were [tokens, heads, width]."""
    output, weights = right(*args, **more)
    return output.transpose(1, 2).reshape(output.shape), weights


def without_keys(first, last, head):
    """The cache has zeros for these positions of one key-value head."""

    def wrong(right, module, q, k, v, mask, **more):
        k, v = k.clone(), v.clone()
        k[:, head, first:last] = 0.0
        v[:, head, first:last] = 0.0
        return right(module, q, k, v, mask, **more)

    return attention(wrong)


def unwindowed_after_prompt(right, module, q, k, v, mask, **more):
    return right(module, q, k, v, torch.zeros_like(mask) if q.shape[2] == 1 else mask, **more)


@contextmanager
def key_and_value_swapped_after_prompt(model):
    """What a single token adds to the cache is the other of key and value."""

    def other(layer, name):
        def make(right):
            return lambda x: right(x) if x.shape[1] > 1 else nn.functional.linear(x, getattr(layer, name).weight)

        return make

    with ExitStack() as stack:
        for layer in model.model.layers:
            for name, wanted in (("k_proj", "v_proj"), ("v_proj", "k_proj")):
                projection = getattr(layer.self_attn, name)
                stack.enter_context(replaced(projection, "forward", other(layer.self_attn, wanted)))
        yield


def normalised_by_ranks(ranks):
    """Each rank normalises its heads alone, over a part of the row."""

    def wrong(_right, norm, x):
        parts = x.unflatten(-1, (ranks, -1))
        root = torch.rsqrt(parts.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
        return (parts * root).flatten(-2) * norm.weight

    return named_modules(("q_norm", "k_norm"), wrong)


@contextmanager
def normalised_before_rotation(model):
    """Hunyuan's norms of q and k, which come after the rotation."""

    def rotation(right):
        def turned(q, k, cos, sin, *rest, **more):
            layer = turned.layer
            return right(layer.query_layernorm(q), layer.key_layernorm(k), cos, sin, *rest, **more)

        return turned

    module = module_of(model)
    layers = [layer.self_attn for layer in model.model.layers]
    norms = [(layer, layer.query_layernorm, layer.key_layernorm) for layer in layers]
    with replaced(module, "apply_rotary_pos_emb", rotation):
        turned = module.apply_rotary_pos_emb

        class Passed(nn.Module):
            def forward(self, x):
                return x

        class Taken(nn.Module):
            def __init__(self, query, key):
                super().__init__()
                self.query_layernorm, self.key_layernorm = query, key

        handles = []
        for layer, query, key in norms:
            taken = Taken(query, key)
            handles.append(layer.register_forward_pre_hook(lambda *_, taken=taken: setattr(turned, "layer", taken)))
            layer.query_layernorm, layer.key_layernorm = Passed(), Passed()
        yield
        for handle in handles:
            handle.remove()


BUGS = (
    Bug(
        "window-one-longer", "attention window",
        "huggingface/transformers#29623 vllm-project/vllm#3385 NVIDIA-NeMo/Megatron-Bridge#2656 "
        "ml-explore/mlx-lm#390",
        "attended to one token more than the window has", "gemma2",
        ops="attention_window", at="attn", logits="attention_window", config=dict(sliding_window=9), prompt="long",
    ),
    Bug(
        "windows-in-the-other-layers", "attention window", "NVIDIA-NeMo/Megatron-Bridge#4875",
        "had the window in the layers without, and not in those with one", "gemma2",
        ops="attention_window", at="attn", logits="attention_window", prompt="long",
        config=dict(layer_types=["full_attention", "sliding_attention", "full_attention"]),
    ),
    Bug(
        "window-in-all-layers", "attention window", "vllm-project/vllm#49795",
        "had the window in all layers", "gemma2",
        ops="attention_window", at="attn", logits="attention_window", prompt="long",
        config=dict(layer_types=["sliding_attention"] * 3),
    ),
    Bug(
        "window-ignored-after-prompt", "attention window", "vllm-project/vllm#23969",
        "had the window in the prompt, and not when it decoded", "gemma2",
        ops="attention_window", at="attn", logits="attention_window", patch=attention(unwindowed_after_prompt), after=6,
    ),
    Bug(
        "softcap-missing", "scores",
        "sgl-project/sglang#33915 vllm-project/vllm-metal#665 kekzl/imp#688 EricLBuehler/mistral.rs#1930",
        "did not cap the attention scores", "gemma2",
        ops="attention_softcap", at="attn", logits="attention_softcap", patch=attention(uncapped),
    ),
    Bug(
        "scale-of-width-over-heads", "scores",
        "ggml-org/llama.cpp#8444 antonellof/ferrox#40 tenstorrent/tt-metal#22810 zzhhjjj/gemma-triton-flash-attn#6",
        "took the size of a head, or width / heads, for the number that scales the scores", "gemma2",
        ops="attention_scale", at="attn", logits="attention_scale", patch=scaled_by(lambda _: 16**-0.5),
    ),
    Bug(
        "scale-left-out", "scores", "mlc-ai/mlc-llm#3426",
        "did not scale the scores", "xverse",
        ops="attention_scale", at="attn", logits="attention_scale", patch=scaled_by(lambda _: 1.0),
    ),
    Bug(
        "scale-multiplied", "scores", "AI-Hypercomputer/maxtext#1370",
        "divided by the scale that is to multiply the scores of latent attention", "deepseek3",
        ops="attention_scale", at="attn", logits="attention_scale", patch=scaled_by(lambda module: module.qk_head_dim**0.5),
    ),
    Bug(
        "mscale-left-out", "scores", "onnxruntime/mobius#548",
        "left YaRN's mscale out of the scale of latent attention", "deepseek2",
        ops="attention_scale", at="attn", logits="attention_scale", patch=scaled_by(lambda module: module.qk_head_dim**-0.5),
    ),
    Bug(
        "mscale-for-mscale-all-dim", "scores", "NVIDIA/Megatron-LM#1429",
        "took mscale for mscale_all_dim in the scale of latent attention", "mistral4",
        ops="attention_scale", at="attn", logits="attention_scale",
        patch=scaled_by(lambda module: module.qk_head_dim**-0.5 * (0.1 * math.log(16.0) + 1.0) ** 2),
    ),
    Bug(
        "prompt-not-causal", "mask", "Mikyx-1/TinyLLM#18",
        "let the tokens of a prompt attend to later ones where there is a cache", "xverse",
        ops="attention_mask", at="attn", logits="attention_mask", patch=masked(lambda mask, _: torch.zeros_like(mask)),
    ),
    Bug(
        "chunk-not-causal", "mask", "tenstorrent/tt-metal#48899",
        "let the tokens of a later chunk of the prompt attend to all of that chunk", "xverse",
        ops="attention_mask", at="attn", logits="attention_mask", patch=masked(open_within_chunk),
    ),
    Bug(
        "ring-cut-at-its-newest-slot", "mask", "ollama/ollama#15591",
        "dropped the older half of a window's ring where a second chunk came", "gemma2",
        ops=None, at="attn", logits=None, patch=masked(ring_cut), prompt="long",
    ),
    Bug(
        "heads-merged-untransposed", "heads",
        "jsbaan/transformer-from-scratch#6 ajhalthor/Transformer-Neural-Network#4 vllm-project/vllm#11979 "
        "mlverse/minhub#1",
        "put the heads side by side without transposing heads and tokens", "xverse",
        ops="head_order", at="attn", logits="head_order", patch=attention(heads_not_transposed),
    ),
    Bug(
        "sinks-dropped", "attention sinks", "modular/modular#6198 vllm-project/vllm-metal#550",
        "left the sinks out of the softmax", "gpt-oss",
        ops="attention_sinks", at="attn", logits="attention_sinks",
        patch=with_sinks(lambda module, queries: torch.full((module.sinks.numel(), queries), -torch.inf)),
    ),
    Bug(
        "sinks-by-query", "attention sinks", "modular/modular#6591",
        "took the number of a row of scores, modulo the heads, for the head whose sink it has", "gpt-oss",
        ops="attention_sinks", at="attn", logits="attention_sinks", patch=with_sinks(sinks_by_row),
    ),
    Bug(
        "kv-heads-all-the-first", "heads", "PSAL-POSTECH/ONNXim#34",
        "gave all query heads the first key-value head", "xverse",
        ops="gqa_map", at="attn", logits="gqa_map", patch=with_head_map(lambda heads, _: heads * 0),
    ),
    Bug(
        "keys-and-values-swapped", "heads", "tenstorrent/tt-mlir#8958",
        "took values for keys and keys for values when it decoded", "xverse",
        ops=None, at="k", logits=None, patch=key_and_value_swapped_after_prompt, after=6,
    ),
    Bug(
        "cache-scale-not-applied", "cache in 8 bits", "flashinfer-ai/flashinfer#1023 sgl-project/sglang#18818",
        "read keys and values from a cache without the one scale of both", "qwen3",
        ops="kv_scale", at="attn", logits="kv_scale", patch=with_scaled_cache(4.0, 4.0),
    ),
    Bug(
        "cache-scale-of-values", "cache in 8 bits", "sgl-project/sglang#34765",
        "applied the scale of keys and not that of values", "qwen3",
        ops="scale", at="attn", logits="residual", patch=with_scaled_cache(1.0, 4.0),
    ),
    Bug(
        "cache-two-scales-not-applied", "cache in 8 bits", "flashinfer-ai/flashinfer#4979 sgl-project/sglang#20705",
        "read keys and values from a cache without the scale of each", "qwen3",
        ops=None, at="attn", logits=None, patch=with_scaled_cache(4.0, 2.0),
    ),
    Bug(
        "cache-with-holes", "cache", "tenstorrent/tt-metal#54413",
        "left positions of one head empty when it filled the cache", "xverse",
        ops=None, at="attn", logits=None, patch=without_keys(4, 7, 1),
    ),
    Bug(
        "qk-norm-skipped", "norms of q and k", "vllm-project/vllm-metal#659",
        "did not normalise q and k", "hunyuan-dense",
        ops="qk_norm", at="q_rope_norm", logits="qk_norm",
        patch=named_modules(("query_layernorm", "key_layernorm"), lambda _right, _module, x: x),
    ),
    Bug(
        "qk-norm-before-rotation", "norms of q and k", "vllm-project/vllm-metal#660",
        "normalised q and k before the rotation, not after it", "hunyuan-dense",
        ops="norm_order", at="q_rope", logits="norm_order", patch=normalised_before_rotation,
    ),
    Bug(
        "qk-norm-by-rank", "norms of q and k",
        "turboderp-org/exllamav3#141 EleutherAI/gpt-neox#1424 sgl-project/sglang#38230",
        "normalised the heads of each rank by themselves where the norm is over all", "minimax-m2",
        ops="qk_norm", at="q_norm", logits="qk_norm", patch=normalised_by_ranks(2),
    ),
)  # fmt: skip
