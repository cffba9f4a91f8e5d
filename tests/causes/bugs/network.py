"""Bugs of norms, products, activations, states, scales and numbers."""

from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import nn

from .bug import Bug, each_module, module_of, named_modules, replaced


def without(*ends):
    """Converters that drop tensors: they are 0."""

    def edit(state):
        found = [name for name in state if name.endswith(ends)]
        assert found, ends
        for name in found:
            state[name].zero_()

    return edit


def ones(*ends):
    def edit(state):
        found = [name for name in state if name.endswith(ends)]
        assert found, ends
        for name in found:
            state[name].fill_(1.0)

    return edit


def times(ends, factor):
    def edit(state):
        found = [name for name in state if name.endswith(ends)]
        assert found, ends
        for name in found:
            state[name] *= factor

    return edit


def plus(ends, number):
    def edit(state):
        found = [name for name in state if name.endswith(ends)]
        assert found, ends
        for name in found:
            state[name] += number

    return edit


def taken_for(name, other):
    """Tensors whose names have `name` are those that have `other` there, and the other way round."""

    def edit(state):
        pairs = [(each, each.replace(name, other)) for each in state if name in each]
        assert pairs, name
        for here, there in pairs:
            values = state[here].clone()
            state[here].copy_(state[there])
            state[there].copy_(values)

    return edit


def embedding_for_head(state):
    state["lm_head.weight"].copy_(state["model.embed_tokens.weight"])


def gate_and_up_at_once(_right, module, x):
    """The activation of the product, not the product with the activation."""
    return module.down_proj(module.act_fn(module.gate_proj(x) * module.up_proj(x)))


def activated_by(function):
    return named_modules(("act_fn",), lambda _right, _module, x: function(x))


def scaled_tanh(right, model, *args, **kwargs):
    """x tanh(x / cap) in place of cap tanh(x / cap)."""
    cap, model.config.final_logit_softcapping = model.config.final_logit_softcapping, None
    made = right(*args, **kwargs)
    model.config.final_logit_softcapping = cap
    made.logits = made.logits * torch.tanh(made.logits / cap)
    return made


def of_model(wrong):
    return lambda model: replaced(model, "forward", lambda right: partial(wrong, right, model))


def exponent_twice(state):
    """A file has -e^A_log, and that is taken for A_log."""
    for name, values in state.items():
        if name.endswith("A_log"):
            values.copy_(-values.exp())


def split_by_ranks(ranks, parts, ends=("in_proj_qkv.weight", "conv1d.weight")):
    """Each rank takes a run of the rows of [q | k | v], and reads it as its own q, k and v."""

    def edit(state):
        for name, values in state.items():
            if name.endswith(ends) and values.shape[0] == sum(parts):
                runs = values.chunk(ranks, dim=0)
                own = [run.split([part // ranks for part in parts], dim=0) for run in runs]
                values.copy_(torch.cat([torch.cat([each[i] for each in own]) for i in range(len(parts))]))

    return edit


def whole_for_heads(state):
    """The rows of Q, K and V head by head are read as all of Q, all of K and all of V."""
    for name, values in state.items():
        if "query_key_value" in name:
            heads = values.unflatten(0, (3, 4, -1)).transpose(0, 1).flatten(0, 2)
            values.copy_(heads)


def norm_in_bfloat16(_right, norm, x):
    """Gemma's: x in float32, 1 + weight and the product in bfloat16."""
    root = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + norm.eps)
    return ((x * root).bfloat16() * (1.0 + norm.weight.bfloat16())).float()


def embedding_scale_in_bfloat16(model):
    """As Gemma 7B's: 55.5 for the root of 3072."""
    return replaced(model.model.embed_tokens, "forward", lambda right: lambda ids: right(ids) * (55.5 / 3072**0.5))


def skipped(*ends):
    return named_modules(ends, lambda _right, _module, x: x)


@contextmanager
def fed_the_layers_input(model):
    """The feed-forward reads the norm of what the layer reads, as attention does."""
    with ExitStack() as stack:
        for layer in model.model.layers:
            norm, seen = layer.post_attention_layernorm, {}

            def keep(_module, args, kwargs, seen=seen):
                seen["x"] = args[0] if args else kwargs["hidden_states"]

            handle = layer.register_forward_pre_hook(keep, with_kwargs=True)
            stack.callback(handle.remove)
            stack.enter_context(
                replaced(norm, "forward", lambda right, seen=seen: lambda _: right(seen["x"]))
            )
        yield


def root_mean_square(right, x, dim=-1, eps=1e-6):
    """For the root of the sum."""
    return right(x, dim=dim, eps=eps) * x.shape[dim] ** 0.5


def of_function(name, wrong):
    """A patch: wrong(right, ...) in place of a function of the model's source."""
    return lambda model: replaced(module_of(model), name, lambda right: partial(wrong, right))


def unscaled_readout(right, query, *args, **kwargs):
    output, state = right(query, *args, **kwargs)
    return output * query.shape[-1] ** 0.5, state


def groups_in_turn(right, x, dt, a, b, c, *args, **kwargs):
    """Head h reads group h % groups of B and C, not group h / (heads / groups)."""
    per = x.shape[2] // b.shape[2]
    return right(x, dt, a, b.repeat(1, 1, per, 1), c.repeat(1, 1, per, 1), *args, **kwargs)


def in_groups_of(size):
    """size(module): the elements that the gated norm of Mamba-2 normalises together."""

    def wrong(right, module, *args, **kwargs):
        kept, module.group_size = module.group_size, size(module)
        made = right(*args, **kwargs)
        module.group_size = kept
        return made

    return named_modules(("mixer.norm",), wrong)


def unlearned(names, rows):
    """Tokens from `rows` on have no row in the table of any rank."""

    def edit(state):
        for name in names:
            state[name][rows:] = 0.0

    return edit


def old_state(right, x, *args, **kwargs):
    """The convolution begins with what another sequence has left."""
    stale = torch.sin(torch.arange(x.shape[0] * x.shape[1] * 3.0)).reshape(x.shape[0], x.shape[1], 3)
    return right(torch.cat((stale, x), dim=-1), *args, **kwargs)[..., 3:]


def of_convolution(wrong):
    return lambda model: replaced(module_of(model), "causal_conv1d_fn", lambda right: partial(wrong, right))


def eps_of(ends, eps):
    def wrong(right, norm, x):
        kept, norm.eps = norm.eps, eps
        made = right(x)
        norm.eps = kept
        return made

    return named_modules(ends, wrong)


BUGS = (
    Bug(
        "eps-of-another-family", "norms", "apache/tvm#15856 paiml/aprender#1606 PaddlePaddle/FastDeploy#2790",
        "took an eps of 1e-5 for the config's", "qwen3",
        ops="eps", at="attn_norm", logits="eps", config=dict(rms_norm_eps=1e-5),
    ),
    Bug(
        "eps-of-post-norms", "norms", "NVIDIA-NeMo/Megatron-Bridge#5712",
        "took an eps of 1e-5 for the config's in the norms behind attention and feed-forward", "gemma2",
        ops="eps", at="post_attn_norm", logits="eps",
        patch=eps_of(("post_attention_layernorm", "post_feedforward_layernorm"), 1e-5),
    ),
    Bug(
        "norm-in-bfloat16", "norms", "huggingface/transformers#29402 vllm-project/vllm#3653",
        "multiplied by 1 + weight in bfloat16", "gemma2",
        ops=None, at="attn_norm", logits=None, patch=each_module("RMSNorm", norm_in_bfloat16), passes=True,
    ),
    Bug(
        "attention-biases-dropped", "biases",
        "sbryngelson/ANEForge#253 onnxruntime/mobius#396 huggingface/transformers#35060 EricLBuehler/candle-vllm#167",
        "dropped the biases of Q, K and V when it converted", "seed_oss",
        ops="bias_missing", at="q", logits="bias_missing",
        weights=without("q_proj.bias", "k_proj.bias", "v_proj.bias"),
    ),
    Bug(
        "bias-on-each-rank", "tensor parallel",
        "Wenyueh/MinivLLM#80 PaddlePaddle/Paddle#35186",
        "added the bias of a row-parallel product on each of 4 ranks", "starcoder2",
        ops="bias_missing", at="attn_out", logits="bias_missing", weights=times(("o_proj.bias", "c_proj.bias"), 4.0),
    ),
    Bug(
        "qkv-read-whole", "fused tensors", "lablup/mlxcel#928 tenstorrent/tt-metal#6243 huggingface/transformers#12004",
        "read a product of Q, K and V that is head by head as if it held each whole", "gptneox",
        ops="fused_order", at="q", logits="fused_order", weights=whole_for_heads,
    ),
    Bug(
        "delta-rows-by-ranks", "fused tensors", "NVIDIA/Megatron-LM#1989",
        "cut the rows of q, k and v of linear attention in two runs, one for each rank", "qwen35",
        ops=None, at="linear_qkv", logits=None, weights=split_by_ranks(2, (32, 32, 64)),
    ),
    Bug(
        "gelu-exact-for-tanh", "activation", "google/gemma_pytorch#37",
        "took GELU by erf for GELU by tanh", "gemma2",
        ops="activation_kind", at="ffn_act", logits="activation_kind",
        patch=activated_by(nn.functional.gelu), passes=True,
    ),
    Bug(
        "silu-for-gelu", "activation", "tenstorrent/tt-metal#24520",
        "took SiLU for GELU", "gemma2",
        ops="activation_kind", at="ffn_act", logits="activation_kind", patch=activated_by(nn.functional.silu),
    ),
    Bug(
        "activation-of-the-product", "activation", "devvrit/matformer#4",
        "activated the product of gate and up, not the gate", "qwen3",
        ops="activation_kind", at="ffn_act", logits="activation_kind", patch=each_module("MLP", gate_and_up_at_once),
    ),
    Bug(
        "logits-not-capped", "logits", "vllm-project/vllm#52173",
        "did not cap the logits", "gemma2",
        ops="logit_softcap", at="logits", logits="logit_softcap", config=dict(final_logit_softcapping=None),
    ),
    Bug(
        "logits-times-tanh", "logits", "unslothai/unsloth-zoo#593",
        "multiplied the logits by the tanh of the cap, not the cap", "gemma2",
        ops="logit_softcap", at="logits", logits="logit_softcap", patch=of_model(scaled_tanh),
    ),
    Bug(
        "logits-not-scaled", "logits", "vllm-project/vllm#52158",
        "did not divide the logits by their scale", "granite",
        ops="logit_scale", at="logits", logits="logit_scale", config=dict(logits_scaling=1.0),
    ),
    Bug(
        "embedding-scale-rounded", "embedding", "Lightning-AI/litgpt#1031",
        "rounded the root of the width, by which embeddings are multiplied, to bfloat16", "gemma2",
        ops="scale", at="embedding", logits="scale", patch=embedding_scale_in_bfloat16, passes=True,
    ),
    Bug(
        "mamba-decay-of-decay", "state", "1bit-MONSTER/1bit-MONSTER#1460",
        "took -e^A_log, which the file has, for A_log", "mamba2",
        ops="ssm", at="ssm", logits="ssm", weights=exponent_twice,
    ),
    Bug(
        "delta-decay-of-decay", "state", "1bit-MONSTER/1bit-MONSTER#1460",
        "the same in linear attention", "qwen35",
        ops="delta_rule", at="delta", logits="delta_rule", weights=exponent_twice,
    ),
    Bug(
        "convolution-of-another-request", "state", "sgl-project/sglang#24717",
        "began a convolution with what another request had left", "lfm2",
        ops=None, at="conv", logits=None, patch=of_convolution(old_state),
    ),
    Bug(
        "one-added-twice", "norms", "vllm-project/vllm#31464 utensils/mold#1078",
        "added 1 to the weights of norms that a converter had added 1 to", "gemma2",
        ops="norm_weight_plus_one", at="attn_norm", logits="norm_weight_plus_one", weights=plus(("norm.weight",), 1.0),
    ),
    Bug(
        "post-norms-left-out", "norms", "ggml-org/llama.cpp#12957",
        "left out the norms behind attention and feed-forward", "glm4",
        ops="norm_kind", at="post_attn_norm", logits="norm_kind", patch=skipped("post_self_attn_layernorm", "post_mlp_layernorm"),
    ),
    Bug(
        "sequential-for-parallel", "residual", "deepspeedai/DeepSpeed#2446",
        "added attention before the feed-forward read it, where both read the layer's input", "gptneox",
        ops="parallel_residual", at="ffn_norm", logits="parallel_residual", config=dict(use_parallel_residual=False),
    ),
    Bug(
        "parallel-for-sequential", "residual", "mlverse/minhub#1",
        "let the feed-forward read the layer's input, not what attention was added to", "qwen3",
        ops="parallel_residual", at="ffn_norm", logits="parallel_residual", patch=fed_the_layers_input,
    ),
    Bug(
        "gate-and-up-exchanged", "fused tensors", "nntrainer/nntrainer#4194",
        "read the matrix of gate for that of up, and the other way round", "qwen3",
        ops="gate_up_swapped", at="ffn_gate", logits="gate_up_swapped", weights=taken_for("gate_proj", "up_proj"),
    ),
    Bug(
        "qkv-rows-by-ranks", "fused tensors", "BlackSamorez/tensor_parallel#103",
        "cut the rows of q, k and v in two runs, one for each rank", "mpt",
        ops="fused_order", at="q", logits="fused_order", weights=split_by_ranks(2, (48, 48, 48), ("Wqkv.weight",)),
    ),
    Bug(
        "embedding-for-lm-head", "logits", "Comfy-Org/ComfyUI#15048 pegainfer-project/pegainfer#544",
        "multiplied by the embedding where the file has a matrix of its own", "xverse",
        ops="output_tied", at="logits", logits="output_tied", weights=embedding_for_head,
    ),
    Bug(
        "lm-head-of-zeros", "logits", "GradientHQ/parallax#444 kekzl/imp#1282",
        "multiplied by a matrix that was never read: all logits are 0", "xverse",
        ops="weights_missing", at="logits", logits="weights_missing", weights=without("lm_head.weight"),
    ),
    Bug(
        "lm-head-bias-dropped", "logits", "vllm-project/vllm#46835",
        "left out the bias of the logits", "phi2",
        ops="bias_missing", at="logits", logits="bias_missing", weights=without("lm_head.bias"),
    ),
    Bug(
        "embedding-rows-of-no-rank", "embedding", "huggingface/text-generation-inference#1463",
        "had no row for the last ids, as 12 ranks divide the vocabulary with a rest", "xverse",
        ops="weights_missing", at="embedding", logits="weights_missing",
        weights=unlearned(("model.embed_tokens.weight",), 312),
    ),
    Bug(
        "multipliers-left-out", "scales", "OpenNMT/CTranslate2#1882",
        "left out the multipliers of scores and residual stream, and the divisor of the logits", "granite",
        ops="residual_multiplier", at="attn_residual", logits="multipliers",
        config=dict(attention_multiplier=16**-0.5, residual_multiplier=1.0, logits_scaling=1.0),
    ),
    Bug(
        "lm-head-multiplier-left-out", "scales", "linkedin/Liger-Kernel#1477",
        "did not multiply the logits", "falcon-h1",
        ops="scale", at="logits", logits="scale", config=dict(lm_head_multiplier=1.0),
    ),
    Bug(
        "mlp-multipliers-left-out", "scales", "unslothai/unsloth#2938",
        "did not multiply the gate, and what the feed-forward gives", "falcon-h1",
        ops="scale", at="ffn_gate", logits=None, config=dict(mlp_multipliers=[1.0, 1.0]),
    ),
    Bug(
        "ssm-multipliers-left-out", "scales", "huggingface/transformers#38320",
        "did not multiply what Mamba-2 reads and its parts", "falcon-h1",
        ops="scale", at="linear_z", logits=None, config=dict(ssm_multipliers=[1.0] * 5, ssm_in_multiplier=1.0),
    ),
    Bug(
        "groups-in-turn", "state", "huggingface/transformers#38320",
        "gave the heads of Mamba-2 the groups of B and C in turn", "falcon-h1",
        ops="gqa_map", at="ssm", logits="gqa_map", patch=of_function("mamba2_chunk_scan", groups_in_turn),
    ),
    Bug(
        "norm-in-twice-the-groups", "state",
        "state-spaces/mamba#908 state-spaces/mamba#951 state-spaces/mamba#916",
        "normalised twice as many groups as there are", "nemotron_h",
        ops="norm_groups", at="ssm_norm", logits="norm_groups", patch=in_groups_of(lambda module: module.group_size // 2),
    ),
    Bug(
        "norm-in-one-group", "state",
        "state-spaces/mamba#910 osaurus-ai/vmlx-swift#188 huggingface/transformers#35943",
        "normalised all groups together", "nemotron_h",
        ops="norm_groups", at="ssm_norm", logits="norm_groups", patch=in_groups_of(lambda module: module.weight.numel()),
    ),
    Bug(
        "norm-without-weights", "state", "1bit-MONSTER/1bit-MONSTER#1154",
        "took 1 for the weights of the gated norm", "mamba2",
        ops="norm_kind", at="ssm_norm", logits="norm_kind", weights=ones("mixer.norm.weight"),
    ),
    Bug(
        "root-mean-square-for-l2", "state", "1bit-MONSTER/1bit-MONSTER#2134",
        "divided q and k of linear attention by the root of the mean, not of the sum", "qwen35",
        ops="qk_norm", at="delta", logits="qk_norm", patch=of_function("l2norm", root_mean_square),
    ),
    Bug(
        "readout-not-scaled", "state", "ml-explore/mlx-lm#1798",
        "did not scale the queries of linear attention", "qwen35",
        ops="attention_scale", at="delta", logits="attention_scale", patch=of_function("torch_chunk_gated_delta_rule", unscaled_readout),
    ),
)  # fmt: skip
