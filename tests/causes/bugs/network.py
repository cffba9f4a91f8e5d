"""Bugs of norms, products, activations, states, scales and numbers."""

from functools import partial

import torch
from torch import nn

from .bug import Bug, each_module, module_of, named_modules, replaced


def without(*ends):
    """Converters that drop tensors: they are 0."""

    def edit(state):
        found = [name for name in state if name.endswith(ends)]
        assert found, ends
        for name in found:
            state[name].zero_()

    return edit


def times(ends, factor):
    def edit(state):
        found = [name for name in state if name.endswith(ends)]
        assert found, ends
        for name in found:
            state[name] *= factor

    return edit


def gate_and_up_at_once(_right, module, x):
    """The activation of the product, not the product with the activation."""
    return module.down_proj(module.act_fn(module.gate_proj(x) * module.up_proj(x)))


def activated_by(function):
    return named_modules(("act_fn",), lambda _right, _module, x: function(x))


def scaled_tanh(right, model, *args, **kwargs):
    """x tanh(x / cap) in place of cap tanh(x / cap)."""
    cap, model.config.final_logit_softcapping = model.config.final_logit_softcapping, None
    made = right(*args, **kwargs)
    model.config.final_logit_softcapping = cap
    made.logits = made.logits * torch.tanh(made.logits / cap)
    return made


def of_model(wrong):
    return lambda model: replaced(model, "forward", lambda right: partial(wrong, right, model))


def exponent_twice(state):
    """A file has -e^A_log, and that is taken for A_log."""
    for name, values in state.items():
        if name.endswith("A_log"):
            values.copy_(-values.exp())


def split_by_ranks(ranks, parts):
    """Each rank takes a run of the rows of [q | k | v], and reads it as its own q, k and v."""

    def edit(state):
        for name, values in state.items():
            if name.endswith(("in_proj_qkv.weight", "conv1d.weight")) and values.shape[0] == sum(parts):
                runs = values.chunk(ranks, dim=0)
                own = [run.split([part // ranks for part in parts], dim=0) for run in runs]
                values.copy_(torch.cat([torch.cat([each[i] for each in own]) for i in range(len(parts))]))

    return edit


def whole_for_heads(state):
    """The rows of Q, K and V head by head are read as all of Q, all of K and all of V."""
    for name, values in state.items():
        if "query_key_value" in name:
            heads = values.unflatten(0, (3, 4, -1)).transpose(0, 1).flatten(0, 2)
            values.copy_(heads)


def norm_in_bfloat16(_right, norm, x):
    """Gemma's: x in float32, 1 + weight and the product in bfloat16."""
    root = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + norm.eps)
    return ((x * root).bfloat16() * (1.0 + norm.weight.bfloat16())).float()


def embedding_scale_in_bfloat16(model):
    """As Gemma 7B's: 55.5 for the root of 3072."""
    return replaced(model.model.embed_tokens, "forward", lambda right: lambda ids: right(ids) * (55.5 / 3072**0.5))


def old_state(right, x, *args, **kwargs):
    """The convolution begins with what another sequence has left."""
    stale = torch.sin(torch.arange(x.shape[0] * x.shape[1] * 3.0)).reshape(x.shape[0], x.shape[1], 3)
    return right(torch.cat((stale, x), dim=-1), *args, **kwargs)[..., 3:]


def of_convolution(wrong):
    return lambda model: replaced(module_of(model), "causal_conv1d_fn", lambda right: partial(wrong, right))


def eps_of(ends, eps):
    def wrong(right, norm, x):
        kept, norm.eps = norm.eps, eps
        made = right(x)
        norm.eps = kept
        return made

    return named_modules(ends, wrong)


BUGS = (
    Bug(
        "eps-of-another-family", "norms", "apache/tvm#15856 paiml/aprender#1606 PaddlePaddle/FastDeploy#2790",
        "took an eps of 1e-5 for the config's", "qwen3",
        ops="eps", at="attn_norm", logits="eps", config=dict(rms_norm_eps=1e-5),
    ),
    Bug(
        "eps-of-post-norms", "norms", "NVIDIA-NeMo/Megatron-Bridge#5712",
        "took an eps of 1e-5 for the config's in the norms behind attention and feed-forward", "gemma2",
        ops="eps", at="post_attn_norm", logits="eps",
        patch=eps_of(("post_attention_layernorm", "post_feedforward_layernorm"), 1e-5),
    ),
    Bug(
        "norm-in-bfloat16", "norms", "huggingface/transformers#29402 vllm-project/vllm#3653",
        "multiplied by 1 + weight in bfloat16", "gemma2",
        ops=None, at="attn_norm", logits=None, patch=each_module("RMSNorm", norm_in_bfloat16), passes=True,
    ),
    Bug(
        "attention-biases-dropped", "biases", "sbryngelson/ANEForge#253",
        "dropped the biases of Q, K and V when it converted", "seed_oss",
        ops="bias_missing", at="q", logits="bias_missing",
        weights=without("q_proj.bias", "k_proj.bias", "v_proj.bias"),
    ),
    Bug(
        "bias-on-each-rank", "tensor parallel",
        "Wenyueh/MinivLLM#80 PaddlePaddle/Paddle#35186",
        "added the bias of a row-parallel product on each of 4 ranks", "starcoder2",
        ops="bias_missing", at="attn_out", logits="bias_missing", weights=times(("o_proj.bias", "c_proj.bias"), 4.0),
    ),
    Bug(
        "qkv-read-whole", "fused tensors", "lablup/mlxcel#928 tenstorrent/tt-metal#6243",
        "read a product of Q, K and V that is head by head as if it held each whole", "gptneox",
        ops="fused_order", at="q", logits="fused_order", weights=whole_for_heads,
    ),
    Bug(
        "delta-rows-by-ranks", "fused tensors", "NVIDIA/Megatron-LM#1989",
        "cut the rows of q, k and v of linear attention in two runs, one for each rank", "qwen35",
        ops=None, at="linear_qkv", logits=None, weights=split_by_ranks(2, (32, 32, 64)),
    ),
    Bug(
        "gelu-exact-for-tanh", "activation", "google/gemma_pytorch#37",
        "took GELU by erf for GELU by tanh", "gemma2",
        ops="activation_kind", at="ffn_act", logits="activation_kind",
        patch=activated_by(nn.functional.gelu), passes=True,
    ),
    Bug(
        "silu-for-gelu", "activation", "tenstorrent/tt-metal#24520",
        "took SiLU for GELU", "gemma2",
        ops="activation_kind", at="ffn_act", logits="activation_kind", patch=activated_by(nn.functional.silu),
    ),
    Bug(
        "activation-of-the-product", "activation", "devvrit/matformer#4",
        "activated the product of gate and up, not the gate", "qwen3",
        ops="activation_kind", at="ffn_act", logits="activation_kind", patch=each_module("MLP", gate_and_up_at_once),
    ),
    Bug(
        "logits-not-capped", "logits", "vllm-project/vllm#52173",
        "did not cap the logits", "gemma2",
        ops="logit_softcap", at="logits", logits="logit_softcap", config=dict(final_logit_softcapping=None),
    ),
    Bug(
        "logits-times-tanh", "logits", "unslothai/unsloth-zoo#593",
        "multiplied the logits by the tanh of the cap, not the cap", "gemma2",
        ops="logit_softcap", at="logits", logits="logit_softcap", patch=of_model(scaled_tanh),
    ),
    Bug(
        "logits-not-scaled", "logits", "vllm-project/vllm#52158",
        "did not divide the logits by their scale", "granite",
        ops="logit_scale", at="logits", logits="logit_scale", config=dict(logits_scaling=1.0),
    ),
    Bug(
        "embedding-scale-rounded", "embedding", "Lightning-AI/litgpt#1031",
        "rounded the root of the width, by which embeddings are multiplied, to bfloat16", "gemma2",
        ops="scale", at="embedding", logits="scale", patch=embedding_scale_in_bfloat16, passes=True,
    ),
    Bug(
        "mamba-decay-of-decay", "state", "1bit-MONSTER/1bit-MONSTER#1460",
        "took -e^A_log, which the file has, for A_log", "mamba2",
        ops="ssm", at="ssm", logits="ssm", weights=exponent_twice,
    ),
    Bug(
        "delta-decay-of-decay", "state", "1bit-MONSTER/1bit-MONSTER#1460",
        "the same in linear attention", "qwen35",
        ops="delta_rule", at="delta", logits="delta_rule", weights=exponent_twice,
    ),
    Bug(
        "convolution-of-another-request", "state", "sgl-project/sglang#24717",
        "began a convolution with what another request had left", "lfm2",
        ops=None, at="conv", logits=None, patch=of_convolution(old_state),
    ),
)  # fmt: skip
