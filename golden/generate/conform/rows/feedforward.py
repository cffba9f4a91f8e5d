"""Activations, biases and experts of the feed-forward."""

from ..bases import config
from ..case import Row, ignored, misread
from .family_mistakes import OF_SAMPLE, sparsity

GROUP = "feed-forward"
EXPERTS = "experts"

FEEDFORWARD = [
    Row(
        "mlp_bias", GROUP, "Biases of the feed-forward of Llama", config("llama", mlp_bias=True), ("mlp_bias",),
        (
            ignored("bias_missing", "leaves the biases out", tensors={"*.mlp.*.bias": 0.0}),
            misread("bias_missing", "leaves that of the last matrix out", tensors={"*.down_proj.bias": 0.0}),
        ),
    ),
    Row(
        "as_wide_as_the_vocabulary", GROUP, "An MLP as wide as the vocabulary",
        config("llama", intermediate_size=96), ("intermediate_size",),
    ),
    Row(
        "intermediate_size", GROUP, "GPT-NeoX with an MLP that is not four times as wide as the stream",
        config("gpt_neox", intermediate_size=112), ("intermediate_size",),
    ),
    Row(
        "hidden_act", GROUP, "Llama with GELU", config("llama", hidden_act="gelu"), ("hidden_act",),
        (
            ignored("activation_kind", "takes SiLU", {"hidden_act": "silu"}),
            misread("activation_kind", "takes GELU with tanh", {"hidden_act": "gelu_pytorch_tanh"}, small=True),
        ),
    ),
    Row(
        "gelu_with_tanh", GROUP, "GPT-NeoX with GELU by tanh", config("gpt_neox", hidden_act="gelu_fast"),
        ("hidden_act",), (ignored("activation_kind", "takes GELU with erf", {"hidden_act": "gelu"}, small=True),),
        gain={"*dense_h_to_4h.weight": 2.0},
    ),
    Row(
        "gelu_with_erf", GROUP, "GPT-2 with GELU by erf", config("gpt2", activation_function="gelu"),
        ("activation_function",),
        (ignored("activation_kind", "takes GELU with tanh", {"activation_function": "gelu_new"}, small=True),),
        gain={"*c_fc.weight": 2.0},
    ),
    Row(
        "hidden_activation", GROUP, "Gemma's hidden_act, which says gelu and means the form with tanh",
        config("gemma", hidden_act="gelu"), ("hidden_act",),
        (ignored("activation_kind", "takes GELU with erf", {"hidden_act": "gelu_python"}, small=True),),
        gain={"*gate_proj.weight": 2.0},
    ),
    Row(
        "activation_sparsity_pattern", GROUP, "A cutoff of Gemma 3n's gate, in the first layer",
        config("gemma3n_text", activation_sparsity_pattern=[0.95, 0.0]), ("activation_sparsity_pattern",),
        (
            ignored("activation_cutoff", "leaves it out", {"activation_sparsity_pattern": [0.0, 0.0]}),
            sparsity("has it in all layers", 0.95, 0.95),
            sparsity("takes the deviation of a sample for it", OF_SAMPLE, 0.0, small=True),
            sparsity("takes that deviation, in all layers", OF_SAMPLE, OF_SAMPLE),
            sparsity("cuts at the mean", 0.5, 0.0),
        ),
        gain={"*gate_proj.weight": 2.0},
    ),
    Row(
        "squared_relu", GROUP, "Squared ReLU", config("nemotron"), ("hidden_act",),
        (
            ignored("activation_kind", "takes SiLU", {"hidden_act": "silu"}),
            misread("activation_kind", "takes GELU", {"hidden_act": "gelu"}),
        ),
    ),
    Row(
        "clamped_swiglu", GROUP, "The clamped SwiGLU of gpt-oss, with inputs beyond its limit",
        config("gpt_oss"), ("swiglu_limit",),
        gain={"*gate_up_proj": 8.0, "*gate_up_proj_bias": 8.0, "*down_proj": 0.125},
    ),
]

MIX = [
    Row(
        "num_experts_per_tok", EXPERTS, "Three experts of each token", config("mixtral", num_experts_per_tok=3),
        ("num_experts_per_tok",),
        (
            ignored("experts_used", "uses two", {"num_experts_per_tok": 2}),
            misread("experts_used", "uses one", {"num_experts_per_tok": 1}),
            misread("experts_used", "uses all", {"num_experts_per_tok": 4}),
        ),
    ),
    Row(
        "norm_topk_prob_false", EXPERTS, "Experts' weights as they are", config("qwen3_moe", norm_topk_prob=False),
        ("norm_topk_prob",),
        (ignored("router_weights", "makes the weights add up to 1", {"norm_topk_prob": True}),),
    ),
    Row(
        "mlp_only_layers", EXPERTS, "A layer without experts, by list",
        config("qwen3_moe", num_hidden_layers=3, mlp_only_layers=[1]), ("mlp_only_layers",),
        (misread("experts_used", "uses one expert", {"num_experts_per_tok": 1}),),
    ),
    Row(
        "decoder_sparse_step", EXPERTS, "Experts in every second layer",
        config("qwen3_moe", num_hidden_layers=3, decoder_sparse_step=2), ("decoder_sparse_step",),
        (misread("experts_used", "uses one expert", {"num_experts_per_tok": 1}),),
    ),
    Row(
        "router_bias", EXPERTS, "Biases of router and experts", config("gpt_oss"), (),
        (
            ignored("bias_missing", "leaves the router's bias out", tensors={"*router.bias": 0.0}),
            misread("bias_missing", "leaves the experts' biases out", tensors={"*experts*bias": 0.0}),
        ),
        gain={"*router.bias": 4.0, "*.mlp.experts.down_proj": 0.25},
    ),
    Row(
        "many_experts", EXPERTS, "Sixteen experts, four of each token",
        config("qwen3_moe", num_experts=16, num_experts_per_tok=4, moe_intermediate_size=40),
        ("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
        (
            misread("experts_used", "uses eight", {"num_experts_per_tok": 8}),
            misread("experts_used", "uses two", {"num_experts_per_tok": 2}),
        ),
    ),
]
