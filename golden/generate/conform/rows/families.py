"""Each family that Assay knows, as published models of it are."""

from ..bases import config
from ..case import WHOLE_PAIRS, Row, ignored, misread

GROUP = "model families"

NO_BIASES = ignored("bias_missing", "leaves all biases out", tensors={"*.bias": 0.0})
BASE_10000 = misread("rope_base", "takes the rotary base for 10000", {"rope_theta": 10000.0})
ALL_DIMENSIONS = misread("rope_dimensions", "rotates whole heads", {"partial_rotary_factor": 1.0})
HALF_DIMENSIONS = misread("rope_dimensions", "rotates half of each head", {"partial_rotary_factor": 0.5})
NO_NORM_WEIGHTS = misread(
    "qk_norm", "ignores the weights of the norms of q and k", tensors={"*q_norm.weight": 1.0, "*k_norm.weight": 1.0}
)
ERF = misread("activation_kind", "takes GELU with erf", {"hidden_act": "gelu"}, small=True)
ONE_EXPERT = misread("experts_used", "uses one expert of each token", {"num_experts_per_tok": 1})
ALL_EXPERTS = misread("experts_used", "uses all experts", {"num_experts_per_tok": 4})
UNCHANGED_WEIGHTS = misread(
    "router_weights", "does not make the experts' weights add up to 1", {"norm_topk_prob": False}
)
CHANGED_WEIGHTS = misread("router_weights", "makes the experts' weights add up to 1", {"norm_topk_prob": True})
SCALES = tuple(
    misread(name, f"leaves {key} out", {key: 1.0})
    for name, key in (
        ("embedding_scale", "embedding_multiplier"),
        ("attention_scale", "attention_multiplier"),
        ("residual_multiplier", "residual_multiplier"),
        ("logit_scale", "logits_scaling"),
    )
)


def family(model_type, title, *mistakes, feature=None, gain=None, **changes):
    return Row(
        feature or f"family_{model_type}", GROUP, title, config(model_type, **changes), mistakes=mistakes,
        gain=gain or {},
    )


FAMILIES = [
    family("llama", "Llama", BASE_10000, HALF_DIMENSIONS, rope_theta=500000.0),
    family("mistral", "Mistral", BASE_10000, HALF_DIMENSIONS, rope_theta=1000000.0),
    family("mixtral", "Mixtral", BASE_10000, ONE_EXPERT, ALL_EXPERTS),
    family("qwen2", "Qwen2", NO_BIASES, BASE_10000),
    family("qwen3", "Qwen3", BASE_10000, NO_NORM_WEIGHTS),
    family("qwen3_moe", "Qwen3 with experts", BASE_10000, NO_NORM_WEIGHTS, ONE_EXPERT, ALL_EXPERTS, UNCHANGED_WEIGHTS),
    family("phi3", "Phi-3", HALF_DIMENSIONS),
    family("phi", "Phi-2", NO_BIASES, ALL_DIMENSIONS, ERF, gain={"*fc1.weight": 2.0}),
    family(
        "gpt2", "GPT-2", NO_BIASES,
        ignored("rope_position", "leaves the learned positions out", tensors={"*wpe.weight": 0.0}),
        misread("activation_kind", "takes GELU with erf", {"activation_function": "gelu"}, small=True),
        gain={"*c_fc.weight": 2.0},
    ),
    family(
        "gpt_neox", "GPT-NeoX", NO_BIASES, misread("rope_dimensions", "rotates whole heads", {"rotary_pct": 1.0}),
        misread("parallel_residual", "adds attention first", {"use_parallel_residual": False}),
        misread("activation_kind", "takes GELU with tanh", {"hidden_act": "gelu_new"}, small=True),
        gain={"*dense_h_to_4h.weight": 2.0},
    ),
    family(
        "falcon", "Falcon 7B: one head of keys, one norm", HALF_DIMENSIONS,
        misread("activation_kind", "takes GELU with tanh", {"activation": "gelu_pytorch_tanh"}, small=True),
        feature="family_falcon_7b", gain={"*dense_h_to_4h.weight": 2.0},
    ),
    family(
        "falcon", "Falcon 40B: groups of heads, two norms", HALF_DIMENSIONS,
        misread(
            "norm_order", "ignores the weights of the norm before the feed-forward",
            tensors={"*ln_mlp.weight": 1.0, "*ln_mlp.bias": 0.0}
        ),
        misread("activation_kind", "takes GELU with tanh", {"activation": "gelu_pytorch_tanh"}, small=True),
        feature="family_falcon_40b", new_decoder_architecture=True, num_attention_heads=4, num_kv_heads=2,
        multi_query=None, gain={"*dense_h_to_4h.weight": 2.0},
    ),
    family(
        "gemma", "Gemma", HALF_DIMENSIONS,
        misread("activation_kind", "takes GELU with erf", {"hidden_activation": "gelu"}, small=True),
        misread("activation_kind", "takes SiLU", {"hidden_activation": "silu"}),
        gain={"*gate_proj.weight": 2.0},
    ),
    family(
        "gemma2", "Gemma 2", HALF_DIMENSIONS,
        misread("activation_kind", "takes GELU with erf", {"hidden_activation": "gelu"}, small=True),
        gain={"*gate_proj.weight": 2.0},
    ),
    family(
        "gemma3_text", "Gemma 3", NO_NORM_WEIGHTS,
        misread("rope_base", "takes one rotary base for all layers", {"rope_local_base_freq": 1000000.0}),
    ),
    family(
        "cohere", "Command R", HALF_DIMENSIONS,
        misread("logit_scale", "leaves logit_scale out", {"logit_scale": 1.0}),
    ),
    family(
        "cohere2", "Command R7B", BASE_10000, misread("logit_scale", "leaves logit_scale out", {"logit_scale": 1.0}),
        misread("rope_unwanted", "rotates global layers", {"layer_types": ["sliding_attention"] * 4}),
    ),
    family("olmo2", "OLMo 2", BASE_10000, NO_NORM_WEIGHTS),
    family("olmoe", "OLMoE", NO_NORM_WEIGHTS, CHANGED_WEIGHTS, ONE_EXPERT, ALL_EXPERTS),
    family("granite", "Granite", *SCALES),
    family("granitemoe", "Granite with experts", *SCALES, ONE_EXPERT, ALL_EXPERTS),
    family("stablelm", "StableLM", ALL_DIMENSIONS, HALF_DIMENSIONS),
    family("starcoder2", "StarCoder2", NO_BIASES, BASE_10000, ERF, gain={"*c_fc.weight": 2.0}),
    family(
        "nemotron", "Nemotron", ALL_DIMENSIONS,
        misread("activation_kind", "takes SiLU", {"hidden_act": "silu"}),
    ),
    family(
        "smollm3", "SmolLM3", BASE_10000,
        misread("rope_unwanted", "rotates every layer", {"no_rope_layers": [1, 1, 1, 1]}),
    ),
    family(
        "exaone4", "EXAONE 4", BASE_10000, NO_NORM_WEIGHTS,
        misread("rope_unwanted", "rotates global layers", {"layer_types": ["sliding_attention"] * 4}),
    ),
    family(
        "gpt_oss", "gpt-oss", NO_BIASES, BASE_10000, ONE_EXPERT, ALL_EXPERTS,
        ignored("attention_sinks", "leaves the sinks out", tensors={"*.sinks": -10000.0}),
        WHOLE_PAIRS,
    ),
]
