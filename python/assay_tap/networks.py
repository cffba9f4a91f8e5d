"""What transformers' models compute, by config.model_type: modules, and the ops of a layer.

An op is (checkpoint, kind, inputs, tensor of a GGUF file, module within a layer); the input `output` is what enters
the layer. Ops of the same module are parts of its output, in this order. Without a line a property is false:

halves_to_adjacent: rows of a head's q and k that rotate together are half a head apart here, neighbours in a file
fused_by_kv_head: a module of q, k and v has those of each key-value head together
heads_first: norms of q and k are given [heads, tokens, head_dim]
transposed: weights of linear modules are [inputs, outputs]
norm_plus_one: norms add 1 to their weights

Generated from model/architecture.cc and model/hf_names.cc: do not edit, run ASSAY_GENERATE=1 model_test.
"""

LAYERS = {
    "llama": (
        ("attn_norm", "norm", "output", "attn_norm", "input_layernorm"),
        ("q", "linear", "attn_norm", "attn_q", "self_attn.q_proj"),
        ("k", "linear", "attn_norm", "attn_k", "self_attn.k_proj"),
        ("v", "linear", "attn_norm", "attn_v", "self_attn.v_proj"), ("q_rope", "rope", "q", "", ""),
        ("k_rope", "rope", "k", "", ""), ("attn", "attention", "q_rope k_rope v", "", ""),
        ("attn_out", "linear", "attn", "attn_output", "self_attn.o_proj"),
        ("attn_residual", "add", "output attn_out", "", ""),
        ("ffn_norm", "norm", "attn_residual", "ffn_norm", "post_attention_layernorm"),
        ("ffn_gate", "linear", "ffn_norm", "ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "linear", "ffn_norm", "ffn_up", "mlp.up_proj"), ("ffn_act", "activation", "ffn_up ffn_gate", "", ""),
        ("ffn_out", "linear", "ffn_act", "ffn_down", "mlp.down_proj"),
        ("output", "add", "attn_residual ffn_out", "", ""),
    ),
    "qwen3": (
        ("attn_norm", "norm", "output", "attn_norm", "input_layernorm"),
        ("q", "linear", "attn_norm", "attn_q", "self_attn.q_proj"),
        ("k", "linear", "attn_norm", "attn_k", "self_attn.k_proj"),
        ("v", "linear", "attn_norm", "attn_v", "self_attn.v_proj"),
        ("q_norm", "norm", "q", "attn_q_norm", "self_attn.q_norm"),
        ("k_norm", "norm", "k", "attn_k_norm", "self_attn.k_norm"), ("q_rope", "rope", "q_norm", "", ""),
        ("k_rope", "rope", "k_norm", "", ""), ("attn", "attention", "q_rope k_rope v", "", ""),
        ("attn_out", "linear", "attn", "attn_output", "self_attn.o_proj"),
        ("attn_residual", "add", "output attn_out", "", ""),
        ("ffn_norm", "norm", "attn_residual", "ffn_norm", "post_attention_layernorm"),
        ("ffn_gate", "linear", "ffn_norm", "ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "linear", "ffn_norm", "ffn_up", "mlp.up_proj"), ("ffn_act", "activation", "ffn_up ffn_gate", "", ""),
        ("ffn_out", "linear", "ffn_act", "ffn_down", "mlp.down_proj"),
        ("output", "add", "attn_residual ffn_out", "", ""),
    ),
    "phi3": (
        ("attn_norm", "norm", "output", "attn_norm", "input_layernorm"),
        ("q", "linear", "attn_norm", "attn_qkv", "self_attn.qkv_proj"),
        ("k", "linear", "attn_norm", "attn_qkv", "self_attn.qkv_proj"),
        ("v", "linear", "attn_norm", "attn_qkv", "self_attn.qkv_proj"), ("q_rope", "rope", "q", "", ""),
        ("k_rope", "rope", "k", "", ""), ("attn", "attention", "q_rope k_rope v", "", ""),
        ("attn_out", "linear", "attn", "attn_output", "self_attn.o_proj"),
        ("attn_residual", "add", "output attn_out", "", ""),
        ("ffn_norm", "norm", "attn_residual", "ffn_norm", "post_attention_layernorm"),
        ("ffn_gate", "linear", "ffn_norm", "ffn_up", "mlp.gate_up_proj"),
        ("ffn_up", "linear", "ffn_norm", "ffn_up", "mlp.gate_up_proj"),
        ("ffn_act", "activation", "ffn_up ffn_gate", "", ""),
        ("ffn_out", "linear", "ffn_act", "ffn_down", "mlp.down_proj"),
        ("output", "add", "attn_residual ffn_out", "", ""),
    ),
    "olmo2": (
        ("q", "linear", "output", "attn_q", "self_attn.q_proj"),
        ("k", "linear", "output", "attn_k", "self_attn.k_proj"),
        ("v", "linear", "output", "attn_v", "self_attn.v_proj"),
        ("q_norm", "norm", "q", "attn_q_norm", "self_attn.q_norm"),
        ("k_norm", "norm", "k", "attn_k_norm", "self_attn.k_norm"), ("q_rope", "rope", "q_norm", "", ""),
        ("k_rope", "rope", "k_norm", "", ""), ("attn", "attention", "q_rope k_rope v", "", ""),
        ("attn_out", "linear", "attn", "attn_output", "self_attn.o_proj"),
        ("post_attn_norm", "norm", "attn_out", "post_attention_norm", "post_attention_layernorm"),
        ("attn_residual", "add", "output post_attn_norm", "", ""),
        ("ffn_gate", "linear", "attn_residual", "ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "linear", "attn_residual", "ffn_up", "mlp.up_proj"),
        ("ffn_act", "activation", "ffn_up ffn_gate", "", ""),
        ("ffn_out", "linear", "ffn_act", "ffn_down", "mlp.down_proj"),
        ("post_ffn_norm", "norm", "ffn_out", "post_ffw_norm", "post_feedforward_layernorm"),
        ("output", "add", "attn_residual post_ffn_norm", "", ""),
    ),
    "gpt2": (
        ("attn_norm", "norm", "output", "attn_norm", "ln_1"), ("q", "linear", "attn_norm", "attn_qkv", "attn.c_attn"),
        ("k", "linear", "attn_norm", "attn_qkv", "attn.c_attn"),
        ("v", "linear", "attn_norm", "attn_qkv", "attn.c_attn"), ("attn", "attention", "q k v", "", ""),
        ("attn_out", "linear", "attn", "attn_output", "attn.c_proj"),
        ("attn_residual", "add", "output attn_out", "", ""), ("ffn_norm", "norm", "attn_residual", "ffn_norm", "ln_2"),
        ("ffn_up", "linear", "ffn_norm", "ffn_up", "mlp.c_fc"), ("ffn_act", "activation", "ffn_up", "", ""),
        ("ffn_out", "linear", "ffn_act", "ffn_down", "mlp.c_proj"), ("output", "add", "attn_residual ffn_out", "", ""),
    ),
}
MODELS = {
    "llama": {
        "architecture": "llama", "layer": LAYERS["llama"], "layers": "model.layers", "token_embd": "model.embed_tokens",
        "output_norm": "model.norm", "output": "lm_head", "halves_to_adjacent": True,
    },
    "mistral": {
        "architecture": "llama", "layer": LAYERS["llama"], "layers": "model.layers", "token_embd": "model.embed_tokens",
        "output_norm": "model.norm", "output": "lm_head", "halves_to_adjacent": True,
    },
    "mixtral": {
        "architecture": "llama", "layer": LAYERS["llama"], "layers": "model.layers", "token_embd": "model.embed_tokens",
        "output_norm": "model.norm", "output": "lm_head", "halves_to_adjacent": True,
    },
    "qwen2": {
        "architecture": "qwen2", "layer": LAYERS["llama"], "layers": "model.layers", "token_embd": "model.embed_tokens",
        "output_norm": "model.norm", "output": "lm_head",
    },
    "qwen3": {
        "architecture": "qwen3", "layer": LAYERS["qwen3"], "layers": "model.layers", "token_embd": "model.embed_tokens",
        "output_norm": "model.norm", "output": "lm_head",
    },
    "phi3": {
        "architecture": "phi3", "layer": LAYERS["phi3"], "layers": "model.layers", "token_embd": "model.embed_tokens",
        "output_norm": "model.norm", "output": "lm_head",
    },
    "olmo2": {
        "architecture": "olmo2", "layer": LAYERS["olmo2"], "layers": "model.layers", "token_embd": "model.embed_tokens",
        "output_norm": "model.norm", "output": "lm_head",
    },
    "granite": {
        "architecture": "granite", "layer": LAYERS["llama"], "layers": "model.layers",
        "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
        "halves_to_adjacent": True,
    },
    "gpt2": {
        "architecture": "gpt2", "layer": LAYERS["gpt2"], "layers": "transformer.h", "token_embd": "transformer.wte",
        "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f", "output": "lm_head", "transposed": True,
    },
}
