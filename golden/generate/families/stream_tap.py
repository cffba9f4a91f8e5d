"""The products that further residual streams begin and end with (Gemma 3n), of which transformers has a module for each."""

from contextlib import contextmanager

import torch

# List of modules: the checkpoint of all their outputs, in the first layer or in the last.
PRODUCTS = {"altup_projections": ("altup_proj", 0), "altup_unembed_projections": ("unembedded", -1)}


@contextmanager
def streams_into(model, sink):
    """Within it, each pass calls sink(checkpoint, positions, rows [tokens, streams - 1, hidden] as rows of all)."""
    handles = []
    for path, modules in model.named_modules():
        name, layer = PRODUCTS.get(path.split(".")[-1], (None, 0))
        if name is None:
            continue
        checkpoint, seen = f"layer_{layer % model.config.num_hidden_layers}_{name}", []

        def keep(_module, _args, out, checkpoint=checkpoint, seen=seen, count=len(modules)):
            seen.append(out.detach().reshape(-1, out.shape[-1]))
            if len(seen) == count:
                rows = torch.cat(seen, dim=-1).double().numpy()
                seen.clear()
                sink(checkpoint, range(len(rows)), rows)

        handles += [module.register_forward_hook(keep) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
