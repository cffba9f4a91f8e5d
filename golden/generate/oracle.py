"""The oracle: transformers' own models over the weights of a GGUF file, in float64 throughout.

transformers computes rotary angles, RMSNorm and the attention softmax in float32 even in a float64 model. Each is
replaced here by the same formula in the model's own type; `python -m generate.selfcheck` shows that nothing is left.
In a bfloat16 model they stay in float32, as transformers has them.
"""

from contextlib import contextmanager

import numpy as np
import torch
from torch import nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.llama import modeling_llama
from transformers.models.phi3 import modeling_phi3
from transformers.models.qwen2 import modeling_qwen2

CLASSES = {
    "llama": LlamaForCausalLM,
    "qwen2": Qwen2ForCausalLM,
    "phi3": Phi3ForCausalLM,
    "gpt2": GPT2LMHeadModel,
}
MODULES = {
    "llama": modeling_llama,
    "qwen2": modeling_qwen2,
    "phi3": modeling_phi3,
    "gpt2": modeling_gpt2,
}

# From names in the file to names in transformers, for the parts of a layer.
ROTARY_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
GPT2_LAYER = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
ROTARY_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
GPT2_TOP = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
}
ROTARY_FACTORS = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}


def inner_type(dtype):
    """What norms, angles and softmax are computed in, in a model of `dtype`."""
    return torch.float32 if dtype is torch.bfloat16 else dtype


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight, the quotient in the inner type of x."""

    def __init__(self, weight, eps):
        super().__init__()
        self.weight = weight
        self.eps = eps

    def forward(self, x):
        wide = x.to(inner_type(x.dtype))
        return (wide / torch.sqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


class Rotary(nn.Module):
    """Cosines and sines of position times frequency, twice over for the two halves; angles in their own type."""

    def __init__(self, frequencies, factor, angle_type):
        super().__init__()
        self.frequencies = torch.from_numpy(frequencies).to(angle_type)
        self.factor = factor

    def forward(self, x, position_ids):
        angles = position_ids[..., None].to(self.frequencies.dtype) * self.frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return (angles.cos() * self.factor).to(x.dtype), (angles.sin() * self.factor).to(x.dtype)


def attention(module, query, key, value, attention_mask, scaling=None, **_):
    """softmax(q k^T * scaling + mask) v; query [batch, heads, tokens, head_dim], softmax in its inner type."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ key.transpose(2, 3) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if attention_mask is None:
        raise RuntimeError("transformers gave no attention mask")
    weights = torch.softmax(scores + attention_mask, dim=-1, dtype=inner_type(query.dtype)).to(query.dtype)
    return (weights @ value).transpose(1, 2).contiguous(), weights


@contextmanager
def eager_attention(arch, function):
    """Within it, transformers' eager attention of one architecture is `function`."""
    module = MODULES[arch]
    original = module.eager_attention_forward
    module.eager_attention_forward = function
    try:
        yield
    finally:
        module.eager_attention_forward = original


def config(params, tied):
    if params.arch == "gpt2":
        return GPT2Config(
            vocab_size=params.vocab,
            n_positions=params.context,
            n_embd=params.hidden,
            n_layer=params.layers,
            n_head=params.heads,
            n_inner=params.ffn,
            activation_function="gelu_new",
            layer_norm_epsilon=params.eps,
            tie_word_embeddings=tied,
            attn_implementation="eager",
        )
    common = dict(
        vocab_size=params.vocab,
        hidden_size=params.hidden,
        intermediate_size=params.ffn,
        num_hidden_layers=params.layers,
        num_attention_heads=params.heads,
        num_key_value_heads=params.kv_heads,
        hidden_act="silu",
        max_position_embeddings=params.context,
        rms_norm_eps=params.eps,
        tie_word_embeddings=tied,
        attn_implementation="eager",
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    if params.arch == "llama":
        return LlamaConfig(head_dim=params.head_dim, **common)
    if params.arch == "qwen2":
        return Qwen2Config(**common)
    return Phi3Config(sliding_window=params.window, **common)


def adjacent_to_halves(rows, heads):
    """Undoes the row order of `llama` files: from adjacent rotary pairs, per head, to first half and second half."""
    tail = rows.shape[1:]
    return rows.reshape(heads, -1, 2, *tail).swapaxes(1, 2).reshape(rows.shape)


def state(tensors, params):
    """The file's tensors under transformers' names and in its layouts."""
    gpt2 = params.arch == "gpt2"
    top, layer_names = (GPT2_TOP, GPT2_LAYER) if gpt2 else (ROTARY_TOP, dict(ROTARY_LAYER))
    if params.arch == "phi3":
        layer_names["ffn_up"] = "mlp.gate_up_proj"
    layers = "transformer.h" if gpt2 else "model.layers"
    made = {}
    for name, tensor in tensors.items():
        if name in ROTARY_FACTORS:
            continue
        stem, kind = name.rsplit(".", 1)
        if stem.startswith("blk."):
            _, layer, part = stem.split(".")
            target = f"{layers}.{layer}.{layer_names[part]}.{kind}"
            if params.arch == "llama" and part in ("attn_q", "attn_k"):
                tensor = adjacent_to_halves(tensor, params.heads if part == "attn_q" else params.kv_heads)
            if gpt2 and kind == "weight" and tensor.ndim == 2:
                tensor = tensor.T  # its Conv1D holds [in, out]
        else:
            target = f"{top[stem]}.{kind}"
        made[target] = torch.from_numpy(np.ascontiguousarray(tensor))
    if "output.weight" not in tensors:
        made["lm_head.weight"] = made[f"{top['token_embd']}.weight"]
    return made


def use_own_type(model, params, frequencies, angle_type):
    """Replaces the parts that transformers would compute in float32."""
    if params.arch == "gpt2":
        return
    for name, module in list(model.named_modules()):
        if type(module).__name__.endswith("RMSNorm"):
            model.set_submodule(name, RMSNorm(module.weight, params.eps))
    model.model.rotary_emb = Rotary(frequencies, params.attn_factor, angle_type)


def build(tensors, params, frequencies, dtype=torch.float64, angle_type=None):
    """A transformers model in `dtype` over the file's weights; rotary angles in `angle_type`, or in its inner type."""
    if params.arch not in CLASSES:
        raise ValueError(f"no oracle for the architecture '{params.arch}'; there are {', '.join(CLASSES)}")
    torch.set_num_threads(1)
    previous = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        model = CLASSES[params.arch](config(params, "output.weight" not in tensors)).eval()
    finally:
        torch.set_default_dtype(previous)
    model.load_state_dict({name: tensor.to(dtype) for name, tensor in state(tensors, params).items()}, strict=True)
    use_own_type(model, params, frequencies, angle_type or inner_type(dtype))
    return model
