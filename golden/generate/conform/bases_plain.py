"""Those of bases.py whose feed-forward has no gate, of the networks that came last."""

from .base_parts import ABSENT, LAYER, NO_CAP, RMS, UNTIED, common

PLAIN_BASES = {
    "gptj": {
        "architectures": ["GPTJForCausalLM"],
        "model_type": "gptj",
        "vocab_size": 96,
        "n_embd": 64,
        "n_head": 2,
        "n_layer": 2,
        "n_positions": 512,
        "n_inner": None,
        "rotary": True,
        "rotary_dim": 32,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "scale_attn_weights": True,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "float32",
    },
    "persimmon": common(
        "PersimmonForCausalLM", "persimmon", **LAYER, num_key_value_heads=ABSENT, hidden_act="relu2",
        partial_rotary_factor=1.0, qk_layernorm=False, rope_theta=10000.0, rope_scaling=None, **UNTIED
    ),
    "nanochat": common(
        "NanoChatForCausalLM", "nanochat", **RMS | dict(hidden_act="relu2", rms_norm_eps=1e-6), rope_theta=10000.0,
        final_logit_softcapping=NO_CAP, attention_bias=False, **UNTIED
    ),
    "opt": {
        "architectures": ["OPTForCausalLM"],
        "model_type": "opt",
        "vocab_size": 96,
        "hidden_size": 64,
        "word_embed_proj_dim": 64,
        "ffn_dim": 112,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 80,
        "activation_function": "relu",
        "do_layer_norm_before": True,
        "_remove_final_layer_norm": False,
        "attention_dropout": 0.0,
        "dropout": 0.1,
        "init_std": 0.02,
        "layerdrop": 0.0,
        "pad_token_id": 1,
        "bos_token_id": 2,
        "eos_token_id": 2,
        "prefix": "</s>",
        "torch_dtype": "float32",
        "use_cache": True,
    },
}
