"""The checkpoints in the order in which a network computes them.

Those of a layer, and those after all layers; the embedding comes first. Generated from
model/checkpoint.cc: do not edit, run ASSAY_GENERATE=1 model_test.
"""

LAYER = (
    "attn_norm",
    "q_a",
    "q_a_norm",
    "kv_a",
    "kv_a_norm",
    "kv_b",
    "q",
    "k",
    "v",
    "q_norm",
    "k_norm",
    "q_rope",
    "k_rope",
    "q_rope_norm",
    "k_rope_norm",
    "conv_b",
    "conv_c",
    "conv_x",
    "attn",
    "conv",
    "attn_out",
    "post_attn_norm",
    "attn_residual",
    "ffn_norm",
    "router",
    "experts",
    "expert_weights",
    "ffn_gate",
    "ffn_up",
    "ffn_act",
    "expert_out",
    "routed_out",
    "shared_gate",
    "shared_up",
    "shared_act",
    "shared_out",
    "shared_score",
    "shared_weight",
    "shared_scaled",
    "ffn_out",
    "post_ffn_norm",
    "output",
)
LAST = (
    "final_norm",
    "logits",
)
