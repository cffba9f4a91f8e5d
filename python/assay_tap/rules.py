"""Ready rules for transformers' models, for every checkpoint that Assay names.

`embedding` is what enters the first layer, so it includes learned positions. q and k are in the row order of a GGUF
file: for `llama` the two numbers that rotate together are neighbours, where transformers holds them half a head apart.
"""

from .rule import Rule
from .writer import LogError


def halves_to_adjacent(head_dim):
    """A change of [..., heads * head_dim]: from first half and second half of each head to neighbouring pairs."""

    def change(tensor):
        return tensor.reshape(*tensor.shape[:-1], -1, 2, head_dim // 2).transpose(-1, -2).reshape(tensor.shape)

    return change


def join_heads(tensor):
    """[1, heads, tokens, head_dim] as [tokens, heads * head_dim]."""
    return tensor[0].transpose(0, 1).reshape(tensor.shape[2], -1)


def _by_token(tensor):
    """[1, tokens, heads, head_dim], or without heads, as [tokens, n]."""
    return tensor.reshape(tensor.shape[1], -1)


def _head_dim(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _rotary(row_order=None):
    """What all models with rotary embeddings have in common; row_order changes the heads' rows of q and k."""
    layer, name = "model.layers.*", "layer_{0}_"

    def rotated(tensor):
        return row_order(join_heads(tensor)) if row_order else join_heads(tensor)

    return [
        Rule("model.layers.0", "embedding", of="input"),
        Rule(
            f"{layer}.self_attn",
            (f"{name}q_rope", f"{name}k_rope"),
            calls="apply_rotary_pos_emb",
            change=rotated,
        ),
        Rule(f"{layer}.self_attn.o_proj", f"{name}attn", of="input"),
        Rule(f"{layer}.self_attn.o_proj", f"{name}attn_out"),
        Rule(f"{layer}.mlp.down_proj", f"{name}ffn_act", of="input"),
        Rule(f"{layer}.mlp.down_proj", f"{name}ffn_out"),
        Rule(layer, f"{name}output"),
        Rule("model.norm", "final_norm"),
        Rule("lm_head", "logits"),
    ]


def _pre_norms():
    """Norms of what the attention and the feed-forward read."""
    layer, name = "model.layers.*", "layer_{0}_"
    return [
        Rule(f"{layer}.input_layernorm", f"{name}attn_norm"),
        Rule(f"{layer}.post_attention_layernorm", f"{name}attn_residual", of="input"),
        Rule(f"{layer}.post_attention_layernorm", f"{name}ffn_norm"),
    ]


def _qk_norms():
    layer, name = "model.layers.*.self_attn", "layer_{0}_"
    return [Rule(f"{layer}.{part}_norm", f"{name}{part}_norm", change=_by_token) for part in "qk"]


def _separate(row_order=None):
    """Projections of their own for q, k, v, gate and up."""
    layer, name = "model.layers.*", "layer_{0}_"
    return [
        Rule(f"{layer}.self_attn.q_proj", f"{name}q", change=row_order),
        Rule(f"{layer}.self_attn.k_proj", f"{name}k", change=row_order),
        Rule(f"{layer}.self_attn.v_proj", f"{name}v"),
        Rule(f"{layer}.mlp.gate_proj", f"{name}ffn_gate"),
        Rule(f"{layer}.mlp.up_proj", f"{name}ffn_up"),
    ]


def llama(config):
    order = halves_to_adjacent(_head_dim(config))
    return _rotary(order) + _pre_norms() + _separate(order)


def qwen2(_config):
    return _rotary() + _pre_norms() + _separate()


def qwen3(_config):
    return _rotary() + _pre_norms() + _separate() + _qk_norms()


def olmo2(_config):
    layer, name = "model.layers.*", "layer_{0}_"
    post_norms = [
        Rule(f"{layer}.post_attention_layernorm", f"{name}post_attn_norm"),
        Rule(f"{layer}.mlp", f"{name}attn_residual", of="input"),
        Rule(f"{layer}.post_feedforward_layernorm", f"{name}post_ffn_norm"),
    ]
    return _rotary() + _separate() + _qk_norms() + post_norms


def granite(config):
    logits = Rule("lm_head", "logits", change=lambda tensor: tensor / config.logits_scaling)
    return [rule for rule in llama(config) if rule.module != "lm_head"] + [logits]


def phi3(config):
    layer, name, head_dim = "model.layers.*", "layer_{0}_", _head_dim(config)
    q, kv = config.num_attention_heads * head_dim, config.num_key_value_heads * head_dim
    fused = tuple(f"{name}{part}" for part in "qkv")
    return [
        *_rotary(),
        *_pre_norms(),
        Rule(f"{layer}.self_attn.qkv_proj", fused, widths=(q, kv, kv)),
        Rule(f"{layer}.mlp.gate_up_proj", (f"{name}ffn_gate", f"{name}ffn_up"), widths=(config.intermediate_size,) * 2),
    ]


def gpt2(config):
    layer, name = "transformer.h.*", "layer_{0}_"
    fused = tuple(f"{name}{part}" for part in "qkv")
    return [
        Rule("transformer.h.0", "embedding", of="input"),
        Rule(f"{layer}.ln_1", f"{name}attn_norm"),
        Rule(f"{layer}.attn.c_attn", fused, widths=(config.n_embd,) * 3),
        Rule(f"{layer}.attn.c_proj", f"{name}attn", of="input"),
        Rule(f"{layer}.attn.c_proj", f"{name}attn_out"),
        Rule(f"{layer}.ln_2", f"{name}attn_residual", of="input"),
        Rule(f"{layer}.ln_2", f"{name}ffn_norm"),
        Rule(f"{layer}.mlp.c_fc", f"{name}ffn_up"),
        Rule(f"{layer}.mlp.c_proj", f"{name}ffn_act", of="input"),
        Rule(f"{layer}.mlp.c_proj", f"{name}ffn_out"),
        Rule(layer, f"{name}output"),
        Rule("transformer.ln_f", "final_norm"),
        Rule("lm_head", "logits"),
    ]


READY = {"llama": llama, "qwen2": qwen2, "qwen3": qwen3, "phi3": phi3, "olmo2": olmo2, "granite": granite, "gpt2": gpt2}


def rules_for(model):
    """The ready rules for a transformers model, by its config.model_type."""
    kind = getattr(getattr(model, "config", None), "model_type", None)
    if kind not in READY:
        raise LogError(
            f"no ready rules for {type(model).__name__} (model_type {kind}); there are {', '.join(READY)}: give "
            "attach() a list of Rule"
        )
    return READY[kind](model.config)
