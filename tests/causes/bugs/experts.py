"""Bugs of routers and experts."""

from contextlib import ExitStack, contextmanager

import torch

from .bug import Bug, each_module, named_modules, replaced


def routed_by(choose):
    """choose(module, logits, ...): ids and weights, in place of what the router chooses."""

    def wrong(right, module, x, *rest):
        logits = right(x, *rest)[0]
        ids, weights = choose(module, logits, *rest)
        return logits, weights, ids

    return each_module("outer", wrong)


def reweighed(change):
    """change(module, logits, weights, ids) in place of the weights."""

    def wrong(right, module, x, *rest):
        logits, weights, ids = right(x, *rest)
        return logits, change(module, logits, weights, ids), ids

    return each_module("outer", wrong)


def gated_by(function):
    """function(gate, up, module): gpt-oss's activation of gate and up, which are row by row."""

    @contextmanager
    def patch(model):
        with ExitStack() as stack:
            for layer in model.model.layers:
                made = layer.mlp.experts
                stack.enter_context(
                    replaced(made, "_apply_gate", lambda _, m=made: lambda x: function(x[..., ::2], x[..., 1::2], m))
                )
            yield

    return patch


def swiglu(gate, up, module):
    return up * gate * torch.sigmoid(gate * module.alpha)


def without_one(gate, up, module):
    return swiglu(gate.clamp(max=module.limit), up.clamp(-module.limit, module.limit), module)


def clamped_to_0(gate, up, module):
    return swiglu(gate.clamp(max=0.0), up.clamp(0.0, 0.0) + 1.0, module)


def raw_logits(_module, logits, _weights, ids):
    return logits.gather(1, ids)


def softmax_of_used(_module, logits, _weights, ids):
    return torch.softmax(logits.gather(1, ids), dim=-1)


def biased(module, logits, _weights, ids):
    """Weights by the scores that the bias is added to."""
    weights = (logits.sigmoid() + module.e_score_correction_bias).gather(1, ids)
    return weights / weights.sum(-1, keepdim=True) * module.routed_scaling_factor


def from_biased(module, logits, _weights, ids):
    """The score is what is left of the biased one in float32."""
    bias = module.e_score_correction_bias
    weights = ((logits.sigmoid() + bias) - bias).gather(1, ids)
    return weights / (weights.sum(-1, keepdim=True) + 1e-20) * module.routed_scaling_factor


def unscaled(module, _logits, weights, _ids):
    return weights / module.routed_scaling_factor


def grouped(merit):
    """DeepSeek's choice with another merit of a group."""

    def choose(module, logits):
        scores = logits.sigmoid()
        choice = scores + module.e_score_correction_bias
        groups = merit(choice.unflatten(-1, (module.num_group, -1)))
        kept = torch.zeros_like(groups).scatter_(1, groups.topk(module.topk_group, dim=-1)[1], 1.0).bool()
        kept = kept.repeat_interleave(choice.shape[-1] // module.num_group, dim=-1)
        ids = choice.masked_fill(~kept, -torch.inf).topk(module.top_k, dim=-1)[1]
        weights = scores.gather(1, ids)
        return ids, weights / weights.sum(-1, keepdim=True) * module.routed_scaling_factor

    return routed_by(choose)


def of_softmax_with_bias(_module, logits, bias):
    """LFM2's router as mlx-lm had it: softmax, and the bias in the weights as well as in the choice."""
    scores = torch.softmax(logits, dim=-1) + bias
    weights, ids = scores.topk(2, dim=-1)
    return ids, weights / (weights.sum(-1, keepdim=True) + 1e-20)


def shared_times(factor):
    return named_modules(("shared_experts", "shared_expert"), lambda right, _module, *args: right(*args) * factor)


def ungated(_right, block, x):
    flat = x.reshape(-1, x.shape[-1])
    _, weights, ids = block.gate(flat)
    block.shared_expert_gate(flat)  # which is logged
    return (block.experts(flat, ids, weights) + block.shared_expert(flat)).reshape(x.shape)


def weighed_twice(right, module, x):
    """Llama 4: the weights are on what the experts get, and once more on what they give."""
    flat = x.reshape(-1, module.hidden_dim)
    scores, logits = module.router(flat)
    given = (flat.repeat(scores.shape[1], 1) * scores.T.reshape(-1, 1))
    routed = module.experts(given).reshape(scores.shape[1], -1, module.hidden_dim) * scores.T[..., None]
    return module.shared_expert(flat) + routed.sum(0), logits


def weighed_after(right, module, x):
    """Llama 4: the weights are on what the experts give, not on what they get."""
    flat = x.reshape(-1, module.hidden_dim)
    scores, logits = module.router(flat)
    routed = module.experts(flat.repeat(scores.shape[1], 1)).reshape(scores.shape[1], -1, module.hidden_dim)
    return module.shared_expert(flat) + (routed * scores.T[..., None]).sum(0), logits


def halves_for_turns(state):
    """gpt-oss has gate and up row by row; they are read as two halves."""
    for name, values in state.items():
        if "gate_up_proj" in name:
            halves = values.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
            values.copy_(halves)


BUGS = (
    Bug(
        "raw-logits-for-weights", "router", "sgl-project/sglang#35160",
        "weighed the experts by the router's logits themselves", "qwen2moe",
        ops="router_weights", at="expert_weights", logits="router_weights", patch=reweighed(raw_logits),
    ),
    Bug(
        "softmax-of-the-chosen", "router", "lablup/mlxcel#391 flashinfer-ai/flashinfer#2889",
        "took the softmax over the chosen experts, not over all", "olmoe",
        ops="router_weights", at="expert_weights", logits="router_weights", patch=reweighed(softmax_of_used),
    ),
    Bug(
        "not-normalised", "router", "pytorch/torchtitan#1448 pytorch/torchtitan#1418",
        "did not divide the weights by their sum", "qwen3moe",
        ops="router_weights", at="expert_weights", logits="router_weights", config=dict(norm_topk_prob=False),
    ),
    Bug(
        "bias-in-the-weights", "router",
        "huggingface/transformers#41647 huggingface/transformers#41663 vllm-project/vllm#12002",
        "had the bias of the choice in the weights, too", "deepseek3",
        ops="router_weights", at="expert_weights", logits="router_weights", patch=reweighed(biased),
    ),
    Bug(
        "scale-not-applied", "router", "sgl-project/sglang#8511",
        "did not multiply by the routed scale", "deepseek3",
        ops="router_scale", at="expert_weights", logits="router_scale", patch=reweighed(unscaled),
    ),
    Bug(
        "groups-by-their-best", "router", "vllm-project/vllm#13474",
        "scored a group by its best expert, not by the sum of the best two", "deepseek3",
        ops="experts_used", at="experts", logits="experts_used",
        patch=grouped(lambda groups: groups.amax(-1)), prompt="long",
    ),
    Bug(
        "softmax-bias-no-scale", "router", "ml-explore/mlx-lm#1354 ml-explore/mlx-lm#1883",
        "had a softmax for the sigmoid, the bias in the weights, and no scale", "lfm2moe",
        ops="router_weights", at="experts", logits="router_weights", patch=routed_by(of_softmax_with_bias),
    ),
    Bug(
        "shared-gate-dropped", "shared expert", "InternLM/lmdeploy#3491 NousResearch/torchtitan#36",
        "did not multiply the shared expert by its gate", "qwen2moe",
        ops="shared_expert", at="ffn_out", logits="shared_expert", patch=each_module("SparseMoeBlock", ungated),
    ),
    Bug(
        "shared-divided-by-the-scale", "shared expert", "sgl-project/sglang#28237 sgl-project/sglang#35163",
        "divided the shared expert by the routed scale", "deepseek3",
        ops="shared_expert", at="ffn_out", logits="shared_expert", patch=shared_times(1 / 2.375),
    ),
    Bug(
        "shared-by-each-rank", "shared expert", "sgl-project/sglang#26845",
        "added the shared expert once for each of two ranks", "deepseek3",
        ops="shared_expert", at="ffn_out", logits="shared_expert", patch=shared_times(2.0),
    ),
    Bug(
        "weights-after-experts", "experts",
        "NVIDIA/TensorRT-LLM#3492 sgl-project/sglang#7889 vllm-project/llm-compressor#1907",
        "had the weights on what Llama 4's experts give, not on what they get", "llama4",
        ops="router_weights", at="ffn_out", logits="router_weights", patch=each_module("TextMoe", weighed_after),
    ),
    Bug(
        "weights-before-and-after", "experts", "vllm-project/vllm#43694",
        "had the weights on what Llama 4's experts get and on what they give", "llama4",
        ops="router_weights", at="ffn_out", logits="router_weights", patch=each_module("TextMoe", weighed_twice),
    ),
    Bug(
        "gate-and-up-interleaved", "experts", "ROCm/ATOM#748",
        "read gate and up as two halves where they are row by row", "gpt-oss",
        ops="fused_order", at="ffn_gate", logits="fused_order", weights=halves_for_turns,
    ),
    Bug(
        "up-without-1", "experts' activation", "sgl-project/sglang#39939",
        "did not add 1 to up before the product", "gpt-oss",
        ops="activation_kind", at="ffn_act", logits="activation_kind", patch=gated_by(without_one),
    ),
    Bug(
        "limit-0", "experts' activation", "microsoft/onnxruntime#27221",
        "took 0 for a limit that was not given, and cut gate and up to it", "gpt-oss",
        ops="activation_kind", at="ffn_act", logits="activation_kind", patch=gated_by(clamped_to_0),
    ),
)  # fmt: skip
