"""What engines compute of the families in place of what is published, and what some of their configs have."""

import math

from ..base_parts import NO_CAP, ROOT
from ..case import ignored, misread

NO_BIASES = ignored("bias_missing", "leaves all biases out", tensors={"*.bias": 0.0})
BASE_10000 = misread("rope_base", "takes the rotary base for 10000", {"rope_theta": 10000.0})
ALL_DIMENSIONS = misread("rope_dimensions", "rotates whole heads", {"partial_rotary_factor": 1.0})
NO_NORM_WEIGHTS = misread(
    "qk_norm", "ignores the weights of the norms of q and k", tensors={"*q_norm.weight": 1.0, "*k_norm.weight": 1.0}
)
DBRX = (
    ignored("clip", "does not clip q, k and v", {"attn_config": {"clip_qkv": 65536.0}}),
    misread(
        "rope_base", "takes the rotary base for 10000", {"rope_theta": 10000.0, "attn_config": {"rope_theta": 10000.0}}
    ),
    misread("norm_kind", "ignores the weights of the norms", tensors={"*norm_1.weight": 1.0, "*norm_2.weight": 1.0}),
    misread("experts_used", "uses one expert of each token", {"ffn_config": {"moe_top_k": 1}}),
    misread("experts_used", "uses all experts", {"ffn_config": {"moe_top_k": 4}}),
)
ERF = misread("activation_kind", "takes GELU with erf", {"hidden_act": "gelu"}, small=True)
ONE_EXPERT = misread("experts_used", "uses one expert of each token", {"num_experts_per_tok": 1})
ALL_EXPERTS = misread("experts_used", "uses all experts", {"num_experts_per_tok": 4})
UNCHANGED_WEIGHTS = misread(
    "router_weights", "does not make the experts' weights add up to 1", {"norm_topk_prob": False}
)
CHANGED_WEIGHTS = misread("router_weights", "makes the experts' weights add up to 1", {"norm_topk_prob": True})
WIDE = 1 << 20
NO_WINDOW = misread("attention_window", "leaves the window out", {"sliding_window": WIDE})
SCALES = tuple(
    misread(name, text, {key: value})
    for name, text, key, value in (
        ("embedding_scale", "leaves embedding_multiplier out", "embedding_multiplier", 1.0),
        ("attention_scale", "scales scores by the root of the heads' width", "attention_multiplier", ROOT),
        ("residual_multiplier", "leaves residual_multiplier out", "residual_multiplier", 1.0),
        ("logit_scale", "leaves logits_scaling out", "logits_scaling", 1.0),
    )
)
GRANITE = dict(embedding_multiplier=4.0, attention_multiplier=0.5, residual_multiplier=0.5, logits_scaling=4.0)
LONGROPE = dict(
    type="longrope", short_factor=[1.0 + i / 8 for i in range(16)], long_factor=[1.0 + i / 2 for i in range(16)]
)
PHI_MSCALE = (1 + math.log(2048 / 512) / math.log(512)) ** 0.5  # which converters take it for, whatever is stated
GELU_ERF = misread("activation_kind", "takes GELU with erf", {"hidden_activation": "gelu"}, small=True)
SOFTCAPS = (
    misread("attention_softcap", "leaves the soft cap of the scores out", {"attn_logit_softcapping": NO_CAP}),
    misread("logit_softcap", "leaves the soft cap of the logits out", {"final_logit_softcapping": NO_CAP}),
)
ALL_ROTATED = misread("rope_unwanted", "has global layers like the others", {"layer_types": ["sliding_attention"] * 4})
NO_LOGIT_SCALE = misread("logit_scale", "leaves logit_scale out", {"logit_scale": 1.0})
SOFTPLUS_IS_1 = 0.541324854612918  # ln(e - 1)
LLAMA3 = dict(
    rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16
)
NO_SHARED_EXPERT = misread("shared_expert", "leaves the shared expert out", tensors={"*shared_expert.down_proj.weight": 0.0})
NO_SHARED_EXPERTS = misread(
    "shared_expert", "leaves the shared experts out", tensors={"*shared_experts.down_proj.weight": 0.0}
)
HALF_A_SHARED_EXPERT = misread(
    "shared_expert", "takes a half for the score of the shared expert", tensors={"*shared_expert_gate.weight": 0.0}
)
# Of attention that sees chosen positions alone. A scale of all scores, or of the weights of heads, changes no choice.
INDEXER = (
    misread("attention_indexed", "sees all positions", {"index_topk": WIDE}),
    misread("attention_indexed", "chooses a position less", {"index_topk": 3}),
    misread("attention_indexed", "chooses a position more", {"index_topk": 5}),
    misread("bias_missing", "leaves the bias of the indexer's norm out", tensors={"*indexer.k_norm.bias": 0.0}),
    misread("norm_kind", "ignores the weights of the indexer's norm", tensors={"*indexer.k_norm.weight": 1.0}),
)
AS_GLM_5 = misread(
    "rope_pairing", "turns neighbours in the indexer's heads, as GLM-5 does",
    {"model_type": "glm_moe_dsa"}
)
AS_DEEPSEEK_V32 = misread(
    "rope_pairing", "turns halves of the indexer's heads, as DeepSeek-V3.2 does", {"model_type": "deepseek_v32"}
)
# Of Mamba-2.
MAMBA = (
    misread("ssm", "does not let the state decay", tensors={"*A_log": -10000.0}),
    misread("ssm", "leaves D out", tensors={"*.D": 0.0}),
    misread("bias_missing", "leaves dt_bias out", tensors={"*dt_bias": 0.0}),
    misread("bias_missing", "leaves the convolution's bias out", tensors={"*conv1d.bias": 0.0}),
)
# Of the first Mamba.
SELECTIVE = (
    misread("ssm", "does not let the state decay", tensors={"*A_log": -10000.0}),
    misread("ssm", "leaves D out", tensors={"*.D": 0.0}),
    misread("bias_missing", "leaves the bias of dt_proj out", tensors={"*dt_proj.bias": 0.0}),
    misread("bias_missing", "leaves the convolution's bias out", tensors={"*conv1d.bias": 0.0}),
)
LOUD_SKIP = {"*.D": 8.0}  # or the few states would be louder than D
SSM_NORMED = misread("norm_kind", "normalises dt, B and C, as Falcon Mamba does", {"model_type": "falcon_mamba"})
NO_SSM_NORMS = misread("norm_kind", "leaves the norms of dt, B and C out", {"model_type": "mamba"})
NO_SSM_NORM_WEIGHTS = tuple(
    misread("norm_kind", f"ignores the weights of {what}'s norm", tensors={f"*{name}_layernorm.weight": 1.0})
    for what, name in (("dt", "mamba.dt"), ("B", "mamba.b"), ("C", "mamba.c"))
)
FALCON_H1_SCALES = (
    misread("embedding_scale", "leaves embedding_multiplier out", {"embedding_multiplier": 1.0}),
    misread("logit_scale", "leaves lm_head_multiplier out", {"lm_head_multiplier": 1.0}),
    *(
        misread("scale", f"leaves {name}_multiplier out", {f"{name}_multiplier": 1.0})
        for name in ("key", "attention_in", "attention_out", "ssm_in", "ssm_out")
    ),
    misread(
        "scale", "multiplies v by no attention_in_multiplier, and k by no key_multiplier",
        {"attention_in_multiplier": 1.0, "key_multiplier": 4.0}
    ),
    misread("scale", "leaves mlp_multipliers out", {"mlp_multipliers": [1.0, 1.0]}),
    misread("scale", "leaves ssm_multipliers out", {"ssm_multipliers": [1.0] * 5}),
)
SHARED_GATE = {"*shared_expert_gate.weight": 2.0}
NO_CHOICE_BIAS = misread(
    "router_weights", "chooses experts without the bias", tensors={
        "*e_score_correction_bias": 0.0, "*expert_bias": 0.0, "*moe_statics*": 0.0
    }
)
NO_ROUTED_SCALE = misread("router_scale", "leaves routed_scaling_factor out", {"routed_scaling_factor": 1.0})
BASE_OF_PARAMETERS = misread(
    "rope_base", "takes the rotary base for 10000", {"rope_parameters": {"rope_theta": 10000.0}}
)
MINISTRAL = (
    misread("rope_scaling", "takes the angles without scaling", {"rope_parameters": {"factor": 1.0}}),
    misread("rope_position", "does not scale queries by position", {"rope_parameters": {"llama_4_scaling_beta": 1e-9}}),
)
NO_HEAD_NORMS = misread(
    "qk_norm", "ignores the weights of the norms of q and k", tensors={"*_layernorm.weight": 1.0}
)
NO_HEAD_NORMS_AT_ALL = misread(
    "qk_norm", "leaves the norms of q and k out", {"qk_layernorm": False},
    {"*q_layernorm.*": None, "*k_layernorm.*": None}
)
SUB_NORMS = (
    misread("norm_kind", "ignores the weights of the norm of attention's result", tensors={"*attn_sub_norm.weight": 1.0}),
    misread("norm_kind", "ignores the weights of the norm within the feed-forward", tensors={"*ffn_sub_norm.weight": 1.0}),
    ignored(
        "norm_order", "leaves the norms within attention and feed-forward out, as Llama does", {"model_type": "llama"},
        {"*sub_norm.weight": None}
    ),
)
NO_HUNYUAN_NORMS = misread(
    "qk_norm", "ignores the weights of the norms of q and k",
    tensors={"*query_layernorm.weight": 1.0, "*key_layernorm.weight": 1.0}
)
NO_ALPHA = misread("rope_scaling", "takes the rotary base as it is, without alpha", {"rope_scaling": {"alpha": 1.0}})
LINEAR_ATTENTION = (
    misread("delta_rule", "does not let the state decay", tensors={"*A_log": -10000.0}),
    misread("bias_missing", "leaves dt_bias out", tensors={"*dt_bias": 0.0}),
    misread("norm_kind", "ignores the weights of linear attention's norm", tensors={"*linear_attn.norm.weight": 1.0}),
)


GEMMA4_EMBEDDINGS = (
    misread(
        "layer_embedding", "leaves the layers' own embeddings out",
        tensors={"*post_per_layer_input_norm.weight": 0.0}
    ),
    misread(
        "layer_embedding", "has the product of the embedding alone in the layers' own",
        tensors={"*embed_tokens_per_layer.weight": 0.0}
    ),
    misread(
        "layer_embedding", "has no product of the embedding in the layers' own",
        tensors={"*per_layer_projection_norm.weight": 0.0}
    ),
)
GEMMA4_EXPERTS = (
    misread("experts_used", "uses one expert of each token", {"top_k_experts": 1}),
    misread("experts_used", "uses all experts", {"top_k_experts": 4}),
    misread("experts_used", "leaves the experts out", tensors={"*experts.down_proj": 0.0}),
    misread("shared_expert", "leaves the feed-forward beside the experts out", tensors={"*mlp.down_proj.weight": 0.0}),
    misread("router_scale", "leaves the router's own scale out", tensors={"*router.scale": 1.0}),
    misread("router_scale", "leaves the scale of each expert out", tensors={"*per_expert_scale": 1.0}),
    misread(
        "norm_order", "ignores the weights of the experts' own norms",
        tensors={"*pre_feedforward_layernorm_2.weight": 1.0, "*post_feedforward_layernorm_2.weight": 1.0}
    ),
)
NO_SHARED_MLP = misread("shared_expert", "leaves the shared expert out", tensors={"*shared_mlp.output_linear.weight": 0.0})
NO_SINKS = ignored("attention_sinks", "leaves the sinks out", tensors={"*sink*": -10000.0})
GRANITE_SWA = (
    *SCALES, NO_WINDOW, NO_SINKS,
    misread("rope_base", "takes the rotary base for 10000", {"layer_rope_theta": [0, 10000.0]}),
    misread("rope_unwanted", "rotates every layer", {"layer_rope_theta": [500000.0, 500000.0], "no_rope_layers": [1, 1]}),
)
OF_GRANITE_SWA = dict(
    rope_theta=500000.0, layer_rope_theta=[0, 500000.0], no_rope_layers=[0, 1], sliding_window=4, **GRANITE
)


def mimo_rotation(share, base, local):
    parts = {"full_attention": base, "sliding_attention": local}
    return {
        "rope_parameters": {
            kind: dict(rope_type="default", rope_theta=theta, partial_rotary_factor=share) for kind, theta in parts.items()
        }
    }


LLAMA4 = (
    misread("attention_window", "leaves the chunks out", {"attention_chunk_size": 512}),
    misread("attention_scale", "leaves the temperature out", {"attn_temperature_tuning": False}),
    misread("qk_norm", "leaves the norms of q and k out", {"use_qk_norm": False}),
    misread(
        "rope_unwanted", "rotates every layer",
        {"no_rope_layers": [1, 1, 1, 1], "layer_types": ["chunked_attention"] * 3 + ["full_attention"]}
    ),
    misread("rope_scaling", "takes the angles without scaling", {"rope_scaling": None}),
    misread("experts_used", "uses two experts of each token", {"num_experts_per_tok": 2}),
    misread("experts_used", "leaves the experts out", tensors={"*experts.down_proj": 0.0}),
)
ALTUP = (
    misread(
        "residual_streams", "takes each layer's streams as they are, without predicting them",
        tensors={"*altup.prediction_coefs.weight": 0.0}
    ),
    misread(
        "residual_streams", "corrects all streams alike, without coefficients",
        tensors={"*altup.correction_coefs.weight": 0.0}
    ),
    misread(
        "residual_streams", "leaves correct_output_scale out", tensors={"*altup.correct_output_scale": 1.0}
    ),
    misread(
        "residual_streams", "takes the first stream alone at the end", tensors={"*altup_unembed_projections*": 0.0}
    ),
    misread(
        "residual_streams", "begins with the first stream alone", tensors={"*altup_projections*": 0.0}
    ),
)
NO_LAUREL = misread("laurel", "leaves LAuReL's products out", tensors={"*post_laurel_norm.weight": 0.0})
OF_SAMPLE = 0.9507578  # of 112 numbers: as far as 0.95 by the deviation of a sample, which is divided by 111


def sparsity(text, *shares, small=False):
    return misread("activation_cutoff", text, {"activation_sparsity_pattern": list(shares)}, small=small)
