"""Rules for a model of transformers of which no description is known: the embedding, layers and logits."""

from .rule import Rule, model_logits
from .writer import LogError


def _layers(model):
    """The path of the list of the decoder's layers, or why there is none: (path, None) or (None, reason)."""
    if not hasattr(getattr(model, "config", None), "model_type"):
        return None, "is no model of transformers"
    if getattr(model.config, "is_encoder_decoder", False):
        return None, "has an encoder too"
    if model.get_output_embeddings() is None:
        return None, "computes no logits (attach to the model that has its head)"
    parts = set(model.get_decoder().modules())  # without encoders of images or sound
    lists = {name: module for name, module in model.named_modules() if module in parts and _is_list(module)}
    if not lists:
        return None, "has no list of layers"
    path, layers = next(iter(lists.items()))
    beside = [name for name in lists if name.rpartition(".")[0] == path.rpartition(".")[0]]
    pieces = [name for name in beside if len(lists[name]) == len(layers)]
    return (path, None) if len(pieces) == 1 else (None, f"has its layers in pieces ({', '.join(pieces)})")


def _is_list(module):
    return type(module).__name__ == "ModuleList" and len(module) > 0


def rules_for_any(model):
    """`embedding` is what enters the first layer; logits are the model's own, after scales and caps.

    Raises LogError if the layers or the logits cannot be found.
    """
    path, reason = _layers(model)
    if path is None:
        raise LogError(f"no ready rules for {type(model).__name__}: it {reason}; give attach() a list of Rule")
    return [
        Rule(f"{path}.0", "embedding", of="input"),
        Rule(f"{path}.*", "layer_{0}_output"),
        Rule("", "logits", change=model_logits),
    ]
