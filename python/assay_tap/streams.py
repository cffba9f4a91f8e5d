"""Rules for networks of several residual streams, which layers are given as [streams, sequences, tokens, n] (Gemma 3n)."""

from .rule import Rule

# What one of several modules computes, each of another stream.
OF_SEVERAL_MODULES = ("altup_proj", "unembedded")


def rows_of(streams):
    """[sequences, tokens, streams * n]"""
    return streams.permute(1, 2, 0, 3).flatten(2)


def _predicted(coefficients, streams):
    """What no module gives: each stream, and all of them times the coefficients [sequences, tokens, streams * streams]."""
    import torch

    each = coefficients.unflatten(-1, (len(streams), -1))
    return rows_of(streams + torch.einsum("stij,jstn->istn", each, streams))


def _corrected(streams, spread):
    """What a layer gives, before the embedding of its own was added to all streams but the first."""
    import torch

    return rows_of(torch.cat([streams[:1], streams[1:] - spread]))


def stream_rule(layer, out, is_last, output_norm, width):
    """The rule for a checkpoint of such a layer, by its path; None for those that rules of other layers fit."""
    altup = f"{layer}.altup"
    entering = Rule(layer, "", of="input")
    if out == ("streams_out" if is_last else "output"):
        return Rule(layer, "", change=rows_of)
    rules = {
        "output": lambda: Rule(output_norm, "", of="input"),
        "streams": lambda: Rule(layer, "", of="input", change=rows_of),
        "altup_norm": lambda: Rule(f"{altup}.router_norm", "", call=0, change=lambda value: value / width),
        "altup_router": lambda: Rule(f"{altup}.modality_router", "", call=0),
        "predictions": lambda: Rule(f"{altup}.prediction_coefs", "", beside=entering, change=_predicted),
        "ffn_cutoff": lambda: Rule(f"{layer}.mlp.act_fn", "", of="input"),
        "correct_norm": lambda: Rule(f"{altup}.router_norm", "", call=1, change=lambda value: value / width),
        "correct_router": lambda: Rule(f"{altup}.modality_router", "", call=1),
        "corrected": lambda: Rule(
            layer, "", beside=Rule(f"{layer}.post_per_layer_input_norm", ""), change=_corrected
        ),
    }
    return rules[out]() if out in rules else None
