"""Linear attention, whose state is carried from token to token, and short convolutions."""

from ..base_parts import EPSILON
from ..bases import config
from ..case import Row, ignored, misread
from .family_mistakes import (
    ALL_EXPERTS, BASE_10000, LOUD_SKIP, MAMBA, NO_SSM_NORM_WEIGHTS, NO_SSM_NORMS, ONE_EXPERT, SELECTIVE,
)

GROUP = "linear attention and convolutions"
HYBRID = "granitemoehybrid"
FULL, LINEAR, CONV = "full_attention", "linear_attention", "conv"


def row(feature, title, settings, states=(), mistakes=(), **more):
    return Row(feature, GROUP, title, settings, states, mistakes, **more)


RECURRENT = [
    row(
        "linear_attention", "A layer of linear attention", config("qwen3_next"), (),
        (
            misread("delta_rule", "does not let the state decay", tensors={"*A_log": -10000.0}),
            misread("delta_rule", "takes the rate of decay for 1", tensors={"*A_log": 0.0}),
            misread("bias_missing", "leaves dt_bias out", tensors={"*dt_bias": 0.0}),
        ),
        gain={"*A_log": 2.0},
    ),
    row(
        "linear_attention_norm", "The norm of linear attention, whose weight is no 1 + w",
        config("qwen3_next"), ("rms_norm_eps",),
        (
            ignored("norm_kind", "ignores the norm's weights", tensors={"*linear_attn.norm.weight": 1.0}),
            misread("norm_weight_plus_one", "multiplies by 2", tensors={"*linear_attn.norm.weight": 2.0}),
        ),
    ),
    row(
        "linear_num_value_heads_alike", "As many heads of values as of keys",
        config("qwen3_next", linear_num_value_heads=2), ("linear_num_value_heads",),
    ),
    row(
        "linear_num_value_heads_in_threes", "Three heads of values for each of keys",
        config("qwen3_next", linear_num_value_heads=6), ("linear_num_value_heads",),
    ),
    row(
        "linear_value_head_dim", "Values that are narrower than keys",
        config("qwen3_next", linear_value_head_dim=16), ("linear_value_head_dim",),
    ),
    row(
        "linear_conv_kernel_dim", "A convolution over three tokens before linear attention",
        config("qwen3_next", linear_conv_kernel_dim=3), ("linear_conv_kernel_dim",),
    ),
    row(
        "full_attention_interval", "Full attention in every third layer, by interval",
        config("qwen3_next", num_hidden_layers=3, full_attention_interval=3), ("full_attention_interval",),
    ),
    row(
        "full_attention_by_layer_types", "Full attention first, by list",
        config("qwen3_next", layer_types=[FULL, LINEAR]), ("layer_types",),
    ),
    row(
        "mamba2", "A layer of Mamba-2", config(HYBRID), (),
        (*MAMBA, misread("ssm", "takes the rate of decay for 1", tensors={"*A_log": 0.0})),
        gain={"*A_log": 2.0},
    ),
    row(
        "mamba2_norm", "The norm behind Mamba-2", config(HYBRID), ("rms_norm_eps",),
        (ignored("norm_kind", "ignores the norm's weights", tensors={"*mamba.norm.weight": 1.0}),),
    ),
    row(
        "mamba_n_groups", "Two groups of B and C, which are normalised by themselves",
        config(HYBRID, mamba_n_groups=2), ("mamba_n_groups",),
    ),
    row(
        "mamba_d_state", "A state of 24 numbers for each of a head's values",
        config(HYBRID, mamba_d_state=24), ("mamba_d_state",),
    ),
    row(
        "mamba_n_heads", "Eight heads of Mamba-2", config(HYBRID, mamba_n_heads=8, mamba_d_head=16),
        ("mamba_n_heads", "mamba_d_head"),
    ),
    row(
        "mamba_d_conv", "A convolution over three tokens before Mamba-2", config(HYBRID, mamba_d_conv=3),
        ("mamba_d_conv",),
    ),
    row(
        "mamba_attention_first", "Attention before Mamba-2, by list",
        config(HYBRID, layer_types=["attention", "mamba"]), ("layer_types",),
    ),
    row(
        "mamba_with_rotation", "Attention with rotation beside Mamba-2",
        config(HYBRID, position_embedding_type="rope"), ("position_embedding_type",),
        (ignored("rope_missing", "rotates nothing", {"position_embedding_type": "nope"}),),
    ),
    row(
        "selective_scan", "A layer of Mamba", config("mamba", num_hidden_layers=1), (),
        (*SELECTIVE, misread("ssm", "takes the rate of decay for 1", tensors={"*A_log": 0.0})),
        gain=LOUD_SKIP | {"*A_log": 2.0},
    ),
    row(
        "selective_scan_norms", "Norms without weights within Mamba",
        config("falcon_mamba", num_hidden_layers=1, layer_norm_epsilon=1e-6), (),  # that of the norms within
        (NO_SSM_NORMS,),
    ),
    row(
        "selective_scan_norm_weights", "Norms with weights within Mamba",
        config("jamba", num_hidden_layers=2, attn_layer_period=2, num_experts=1, num_experts_per_tok=1), (),
        NO_SSM_NORM_WEIGHTS,
    ),
    row(
        "mixer_rms_eps", "The epsilon of norms within Mamba", config("falcon_mamba", mixer_rms_eps=EPSILON),
        ("mixer_rms_eps",), (misread("eps", "takes that of the other norms", {"mixer_rms_eps": 1e-5}),),
    ),
    row(
        "time_step_rank", "Steps of Mamba that are a product of twelve numbers",
        config("mamba", num_hidden_layers=1, time_step_rank=12), ("time_step_rank",),
    ),
    row(
        "state_size", "A state of 24 numbers a channel", config("mamba", num_hidden_layers=1, state_size=24),
        ("state_size",),
    ),
    row(
        "attn_layer_period", "Attention first, by period",
        config("jamba", num_hidden_layers=2, attn_layer_period=2, attn_layer_offset=0, num_experts=1, num_experts_per_tok=1),
        ("attn_layer_period", "attn_layer_offset"),
    ),
    row(
        "expert_layer_period", "Experts in the first of two layers, by period",
        config("jamba", num_hidden_layers=2, attn_layer_period=2, expert_layer_offset=0),
        ("expert_layer_period", "expert_layer_offset"), (ONE_EXPERT, ALL_EXPERTS),
    ),
    row(
        "nemotron_mlp_first", "Nemotron-H with a feed-forward first, by pattern",
        config("nemotron_h", hybrid_override_pattern="-M*"), ("hybrid_override_pattern",),
    ),
    row(
        "conv_L_cache", "A convolution over four tokens", config("lfm2", conv_L_cache=4), ("conv_L_cache",),
    ),
    row(
        "conv_after_attention", "LFM2 with attention first, by list",
        config("lfm2", layer_types=[FULL, CONV], full_attn_idxs=[0], rope_theta=64.0), ("layer_types",),
        (BASE_10000, misread("rope_base", "takes the class's 1000000", {"rope_theta": 1000000.0})),
    ),
    row(
        "block_auto_adjust_ff_dim", "LFM2's feed-forward, adjusted from what block_ff_dim says",
        config(
            "lfm2", block_ff_dim=160, block_auto_adjust_ff_dim=True, block_ffn_dim_multiplier=1.25
        ),
        ("block_auto_adjust_ff_dim",),
    ),
]  # fmt: skip
