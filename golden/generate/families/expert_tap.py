"""What a layer with experts computes, from the arguments that transformers gives its experts: in the order of the
token's own experts, the heaviest first, where transformers goes through the experts and meets their tokens."""

import re
from contextlib import contextmanager

import torch

KINDS = {"router", "experts", "expert_weights", "expert_in", "ffn_gate", "ffn_up", "ffn_act", "expert_out"}
KINDS |= {"routed_out", "shared_gate", "shared_up", "shared_act", "shared_out", "ffn_out"}
KINDS |= {"shared_score", "shared_weight", "shared_scaled"}
# What no module computes where the experts, their router and a dense feed-forward are modules of the layer itself.
OF_EXPERTS = {"experts", "expert_weights", "ffn_gate", "ffn_up", "ffn_act", "expert_out"}
SHARED = {"gate_proj": "shared_gate", "up_proj": "shared_up", "down_proj": "shared_out"}
SHARED_MODULES = ("shared_experts", "shared_expert", "shared_mlp")
FUSED = ("shared_gate", "shared_up")  # in one module, beside the experts'


def inner(experts, x, chosen, weights, scales=None):
    """Of rows x [tokens, hidden] and the chosen experts [tokens, used]: {checkpoint: [tokens, used, n]}, their sum.

    scales: of each expert [experts], which its weights have been multiplied by.
    """
    if type(experts).__name__ != "PhimoeExperts":  # whose first is the one with the highest score, whatever its weight
        merits = weights if scales is None else weights / scales[chosen]
        order = torch.argsort(merits, dim=-1, descending=True, stable=True)
        chosen, weights = chosen.gather(1, order), weights.gather(1, order)
    seen = {"experts": chosen, "expert_weights": weights}
    if not hasattr(experts, "gate_up_proj"):  # without gates
        up = torch.einsum("th,tkfh->tkf", x, experts.up_proj[chosen])
        act = experts.act_fn(up)
        out = torch.einsum("tkf,tkhf->tkh", act, experts.down_proj[chosen])
        return seen | {"ffn_up": up, "ffn_act": act, "expert_out": out}, (out * weights[..., None]).sum(1)
    gate_up, down = experts.gate_up_proj, experts.down_proj  # [experts, out, in], or [experts, in, out] with biases
    if hasattr(experts, "gate_up_proj_bias"):
        both = torch.einsum("th,tkhf->tkf", x, gate_up[chosen]) + experts.gate_up_proj_bias[chosen]
        gate, up, act = both[..., ::2], both[..., 1::2], experts._apply_gate(both)
        out = torch.einsum("tkf,tkfh->tkh", act, down[chosen]) + experts.down_proj_bias[chosen]
    else:
        gate, up = torch.einsum("th,tkfh->tkf", x, gate_up[chosen]).chunk(2, dim=-1)
        act = experts.act_fn(gate) * up
        out = torch.einsum("tkf,tkhf->tkh", act, down[chosen])
    seen |= {"ffn_gate": gate, "ffn_up": up, "ffn_act": act, "expert_out": out}
    return seen, (out * weights[..., None]).sum(1)


def inner_of_weighed(block, x, logits):
    """Of Llama 4's experts, which get rows x [tokens, hidden] times their weights: as inner()."""
    best, chosen = torch.topk(logits, block.top_k, dim=-1)
    weights = torch.sigmoid(best)
    given = x[:, None] * weights[..., None]
    gate, up = torch.einsum("tkh,tkhf->tkf", given, block.experts.gate_up_proj[chosen]).chunk(2, dim=-1)
    act = block.experts.act_fn(gate) * up
    out = torch.einsum("tkf,tkfh->tkh", act, block.experts.down_proj[chosen])
    seen = {"experts": chosen, "expert_weights": weights, "expert_in": given, "ffn_gate": gate, "ffn_up": up}
    return seen | {"ffn_act": act, "expert_out": out}, out.sum(1)


def layers_with_experts(model):
    """{layer: (path, module) of its experts}."""
    named = ((path, module) for path, module in model.named_modules() if path.endswith(".experts"))
    return {int(re.search(r"\.(\d+)\.", path)[1]): (path, module) for path, module in named}


def is_of_layer(path):
    """Whether experts are a module of the layer itself, beside its feed-forward."""
    return re.search(r"\.\d+\.experts$", path) is not None


def without_experts(model, sink):
    """A sink that leaves what is computed in layers with experts to experts_into()."""
    left = {
        f"layer_{layer}_{kind}"
        for layer, (path, _) in layers_with_experts(model).items()
        for kind in (OF_EXPERTS if is_of_layer(path) else KINDS)
    }
    return lambda name, *rest: None if name in left else sink(name, *rest)


@contextmanager
def experts_into(model, sink):
    """Within it, each pass calls sink(checkpoint, positions, rows) for the checkpoints KINDS of layers with experts."""
    handles = []

    def keep(layer, name, value):
        value = value[0] if isinstance(value, tuple) else value
        rows = value.detach().reshape(-1, value.shape[-1])
        sink(f"layer_{layer}_{name}", range(len(rows)), rows.double().numpy())

    def on_output(module, layer, name):
        handles.append(module.register_forward_hook(lambda _module, _args, out: keep(layer, name, out)))

    def computed(layer, experts, args, summed, scales=None):
        seen, mixed = inner(experts, *args, scales)
        if not torch.allclose(mixed, summed, rtol=1e-4, atol=1e-4 * float(summed.abs().max())):
            raise RuntimeError(f"layer {layer}: these are not the experts' own values")
        for name, value in seen.items():
            keep(layer, name, value.flatten(1))

    def weighed_before(block, layer):
        """Of experts that get the weighed token, each of them all tokens."""
        shared = []

        def on_block(module, args, out):
            seen, routed = inner_of_weighed(module, args[0].reshape(-1, args[0].shape[-1]), out[1])
            rows = out[0].reshape(routed.shape)
            if not torch.allclose(routed + shared.pop(), rows, rtol=1e-4, atol=1e-4 * float(rows.abs().max())):
                raise RuntimeError(f"layer {layer}: these are not the experts' own values")
            for name, value in {"router": out[1], **seen, "routed_out": routed, "ffn_out": rows}.items():
                keep(layer, name, value.flatten(1))

        # What the block adds to in place.
        handles.append(block.shared_expert.register_forward_hook(lambda _module, _args, out: shared.append(out.clone())))
        handles.append(block.register_forward_hook(on_block))

    def weigh(block, layer):
        """Of a shared expert that a gate multiplies, from the outputs of both; the block's own sum has to agree."""
        seen = {}

        def add_up(_module, _args, out):
            weight = torch.sigmoid(seen["score"])
            scaled = weight * seen["shared"]
            rows = out.reshape(-1, out.shape[-1])
            if not torch.allclose(seen["routed"] + scaled, rows, rtol=1e-4, atol=1e-4 * float(rows.abs().max())):
                raise RuntimeError(f"layer {layer}: this is not the shared expert's own share")
            for name, value in {"shared_score": seen["score"], "shared_weight": weight, "shared_scaled": scaled}.items():
                keep(layer, name, value)

        parts = {"score": block.shared_expert_gate, "shared": block.shared_expert, "routed": block.experts}
        for name, part in parts.items():
            handles.append(
                part.register_forward_hook(lambda _module, _args, out, key=name: seen.update({key: out.detach()}))
            )
        handles.append(block.register_forward_hook(add_up))

    def add_beside(block, shared, layer):
        """Of a shared expert that is no part of the experts' module: the sum of both is that of no module."""
        seen = {}

        def on_both(_module, _args, out):
            for name, half in zip(FUSED, out.chunk(2, dim=-1), strict=True):
                keep(layer, name, half)

        def on_shared(_module, _args, out):
            keep(layer, "shared_out", out)
            keep(layer, "ffn_out", seen["routed"] + out)

        handles.append(block.register_forward_hook(lambda _module, _args, out: seen.update(routed=out.detach())))
        handles.append(shared.input_linear.register_forward_hook(on_both))
        handles.append(
            shared.output_linear.register_forward_pre_hook(lambda _, args: keep(layer, "shared_act", args[0]))
        )
        handles.append(shared.register_forward_hook(on_shared))

    for layer, (path, experts) in layers_with_experts(model).items():
        block = model.get_submodule(path.rpartition(".")[0])
        router = next(part for name, part in block.named_children() if name in ("gate", "router"))
        scales = getattr(router, "per_expert_scale", None)
        weighs_inputs = type(block).__name__ == "Llama4TextMoe"
        if weighs_inputs:
            weighed_before(block, layer)
        else:
            handles.append(
                experts.register_forward_hook(
                    lambda module, args, out, at=layer, by=scales: computed(at, module, args, out, by)
                )
            )
        if is_of_layer(path):
            continue
        if not weighs_inputs:
            on_output(router, layer, "router")
        shared = next((part for name, part in block.named_children() if name in SHARED_MODULES), None)
        beside = getattr(model.get_submodule(path.rpartition(".")[0].rpartition(".")[0]), "shared_mlp", None)
        if beside is not None:
            on_output(experts, layer, "routed_out")
            add_beside(block, beside, layer)
            continue
        if shared is not None:
            if not weighs_inputs:
                on_output(experts, layer, "routed_out")
            for name, checkpoint in SHARED.items():
                if hasattr(shared, name):
                    on_output(shared.get_submodule(name), layer, checkpoint)
            if hasattr(block, "shared_expert_gate"):
                weigh(block, layer)
            handles.append(
                shared.down_proj.register_forward_pre_hook(lambda _, args, at=layer: keep(at, "shared_act", args[0]))
            )
        if not weighs_inputs:
            on_output(block, layer, "ffn_out")
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
