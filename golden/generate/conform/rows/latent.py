"""Networks with latent attention: queries, keys and values of low rank, shared experts, groups of experts."""

from ..bases import config
from ..case import Row, ignored, misread
from .family_mistakes import NO_CHOICE_BIAS, NO_ROUTED_SCALE, NO_SHARED_EXPERTS, UNCHANGED_WEIGHTS

GROUP = "latent attention"
YARN = dict(
    type="yarn", factor=40.0, beta_fast=32, beta_slow=1, original_max_position_embeddings=4096, mscale=0.707,
    mscale_all_dim=0.707
)
YARN_MISTAKES = (
    ignored("rope_scaling", "takes the angles without scaling", {"rope_scaling": None}),
    misread("attention_scale", "does not scale the scores", {
        "rope_scaling": {"mscale": None, "mscale_all_dim": None, "attention_factor": 1.0}
    }),
)
ONE_EXPERT = misread("experts_used", "uses one expert of each token", {"num_experts_per_tok": 1})

LATENT = [
    Row(
        "family_deepseek_v2", "model families", "DeepSeek V2 Lite",
        config("deepseek_v2", q_lora_rank=None, rope_scaling=YARN, max_position_embeddings=163840),
        mistakes=(ONE_EXPERT, *YARN_MISTAKES),
    ),
    Row(
        "family_deepseek_v3", "model families", "DeepSeek V3",
        config("deepseek_v3", n_group=4, topk_group=2, routed_scaling_factor=2.5), mistakes=(
            ONE_EXPERT,
            misread("router_scale", "leaves routed_scaling_factor out", {"routed_scaling_factor": 1.0}),
            misread("router_weights", "takes the weights as they are", {"norm_topk_prob": False}),
            misread("experts_used", "chooses among experts of all groups", {"n_group": 1, "topk_group": 1}),
            misread("bias_missing", "leaves the bias of the choice out", tensors={"*e_score_correction_bias": 0.0}),
        ),
    ),
    Row(
        "family_axk1", "model families", "A.X K1",
        config("axk1", n_group=4, topk_group=2, routed_scaling_factor=2.5), mistakes=(
            ONE_EXPERT, NO_CHOICE_BIAS, NO_SHARED_EXPERTS, NO_ROUTED_SCALE, UNCHANGED_WEIGHTS,
            misread("experts_used", "chooses among experts of all groups", {"n_group": 1, "topk_group": 1}),

            ignored(
                "norm_order", "leaves the norm of the experts' result out, as DeepSeek-V3 does",
                {"model_type": "deepseek_v3"}, {"*post_mlp_layernorm.weight": None}
            ),
        ),
    ),
    Row(
        "latent_query", GROUP, "A query of low rank", config("deepseek_v2"), ("q_lora_rank",),
        (misread("norm_weight_plus_one", "ignores the weights of its norm", tensors={"*q_a_layernorm.weight": 1.0}),),
    ),
    Row(
        "query_without_rank", GROUP, "Latent keys and values only, as of DeepSeek V2 Lite",
        config("deepseek_v2", q_lora_rank=None), ("q_lora_rank",),
    ),
    Row(
        "indexed_positions", GROUP, "Attention to the positions of the highest scores alone",
        config("deepseek_v32", index_topk=4), ("index_topk",),
        (ignored("attention_indexed", "sees all positions", {"index_topk": 512}),),
    ),
    Row(
        "indexer_types", GROUP, "Layers that see the positions that an earlier one has chosen",
        config(
            "glm_moe_dsa", num_hidden_layers=3, mlp_layer_types=["dense", "dense", "sparse"], first_k_dense_replace=2,
            index_topk=4, indexer_types=["full", "shared", "full"],
            rms_norm_eps=1e-6  # that of latent norms, which llama.cpp takes from the file
        ), ("indexer_types",), (misread("attention_indexed", "sees all positions", {"index_topk": 512}),),
    ),
    Row(
        "latent_values", GROUP, "Values that are not as wide as keys", config("deepseek_v2", v_head_dim=16),
        ("v_head_dim",), (ONE_EXPERT,),
    ),
    Row(
        "latent_yarn", GROUP, "YaRN whose mscale_all_dim scales the scores",
        config("deepseek_v2", rope_scaling=YARN, max_position_embeddings=163840), ("rope_scaling.mscale_all_dim",),
        YARN_MISTAKES,
    ),
    Row(
        "latent_without_scaling", GROUP, "Latent attention without rotary scaling",
        config("deepseek_v2", rope_scaling=None), ("rope_scaling",),
    ),
    Row(
        "routed_scaling_factor", "experts", "Weights of experts times routed_scaling_factor",
        config("deepseek_v2", routed_scaling_factor=4.0), ("routed_scaling_factor",),
        (ignored("router_scale", "leaves it out", {"routed_scaling_factor": 1.0}),),
    ),
    Row(
        "shared_experts", "experts", "Two shared experts beside those of the router",
        config("deepseek_v2", n_shared_experts=2), ("n_shared_experts",),
        (ignored("shared_expert", "leaves them out", tensors={"*shared_experts.down_proj.weight": 0.0}),),
    ),
    Row(
        "groups_of_experts", "experts", "Experts of the best groups only", config("deepseek_v3", n_group=4, topk_group=1),
        ("n_group", "topk_group"), (ignored("experts_used", "chooses among all", {"n_group": 1, "topk_group": 1}),),
        gain={"*e_score_correction_bias": 0.0},
    ),
    Row(
        "expert_choice_bias", "experts", "A bias by which experts are chosen, but not weighed", config("deepseek_v3"),
        (), (ignored("bias_missing", "leaves it out", tensors={"*e_score_correction_bias": 0.0}),),
    ),
]
