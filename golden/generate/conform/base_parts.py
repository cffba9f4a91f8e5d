"""What the configs of bases.py have in common."""

EPSILON = 0.046875  # large, so that a wrong one is loud
NO_CAP = 65536.0  # of scores or logits; null is not read by engines whose class has a cap
ROOT = 0.17677669529663689  # 1 / sqrt(32), the usual scale of scores

ABSENT = object()


def common(architecture, model_type, **more):
    config = {
        "architectures": [architecture],
        "model_type": model_type,
        "vocab_size": 96,
        "hidden_size": 64,
        "intermediate_size": 112,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 512,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "initializer_range": 0.02,
        "torch_dtype": "float32",
        "use_cache": True,
    }
    return {key: value for key, value in (config | more).items() if value is not ABSENT}


RMS = dict(hidden_act="silu", rms_norm_eps=1e-5)
LAYER = dict(layer_norm_eps=1e-5)
UNTIED = dict(tie_word_embeddings=False)
TIED = dict(tie_word_embeddings=True)
GEMMA = dict(
    head_dim=32,
    hidden_act="gelu_pytorch_tanh",
    hidden_activation="gelu_pytorch_tanh",
    rms_norm_eps=1e-6,
    attention_bias=False,
    pad_token_id=0,
    tie_word_embeddings=True,
)

MAMBA = dict(
    mamba_n_heads=4, mamba_d_head=32, mamba_d_state=16, mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2,
    mamba_chunk_size=16, mamba_conv_bias=True, mamba_proj_bias=False
)
# Of the first Mamba, as published files state it.
SELECTIVE = dict(
    intermediate_size=128, num_attention_heads=ABSENT, num_key_value_heads=ABSENT, max_position_embeddings=ABSENT,
    hidden_act="silu", layer_norm_epsilon=1e-5, state_size=16, conv_kernel=4, expand=2, time_step_rank=6,
    use_conv_bias=True, use_bias=False, residual_in_fp32=False, rescale_prenorm_residual=False, time_step_scale=1.0,
    time_step_min=0.001, time_step_max=0.1, time_step_floor=0.0001, time_step_init_scheme="random", pad_token_id=0
)
# Two value heads for each key head, so that it matters which of them share one.
LINEAR = dict(
    linear_conv_kernel_dim=4,
    linear_key_head_dim=32,
    linear_value_head_dim=32,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
)
