"""Random weights, loud enough that each part of a network moves its logits."""

import numpy as np
import torch

NORM, BIAS, SINK = 0.3, 0.25, 1.0


def drawn(name, start, hidden, gain, rng):
    """Values of one parameter: `start`, what its class starts with, says whether a vector scales or is added."""
    noise = rng.standard_normal(start.shape) * next((value for part, value in gain.items() if part in name), 1.0)
    if name.endswith("act_fn.beta"):
        return 0.5 + 0.1 * noise
    if name.endswith("act_fn.eps"):
        return -0.25 * np.abs(noise)
    if name.endswith("A_log"):  # states that last for some tokens
        return -2.0 + noise
    if name.endswith("sinks"):
        return 1.0 + SINK * noise
    if start.ndim == 1 or "norm" in name:
        is_scale = start.mean() > 0.5  # what it starts with may be random itself
        return 1.0 + NORM * noise if is_scale else BIAS * noise
    if name.endswith("bias"):
        return BIAS * noise
    if "embed" in name or name.endswith(("wte.weight", "word_embeddings.weight")):
        return 0.5 * noise
    # Experts hold [experts, out, in] or [experts, in, out]: the side of a projection into the stream is the hidden one.
    fan_in = start.shape[-1]
    if start.ndim == 3:
        sides = set(start.shape[1:]) - {hidden}
        fan_in = min(sides) if "down" in name and sides else hidden
    return noise / np.sqrt(fan_in)


def randomise(model, seed, gain):
    """Sets every parameter and the buffers of routers, in order of name, to float32 values from one seeded stream.

    gain: {part of a name: factor} for what is random.
    """
    rng = np.random.default_rng(seed)
    named = dict(model.named_parameters()) | {
        name: buffer for name, buffer in model.named_buffers() if name in model.state_dict()
    }
    hidden = model.config.get_text_config().hidden_size
    with torch.no_grad():
        for name in sorted(named):
            values = drawn(name, named[name].double().numpy(), hidden, gain, rng)
            named[name].copy_(torch.from_numpy(np.asarray(values, np.float32)))
