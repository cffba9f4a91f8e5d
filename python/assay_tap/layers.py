"""Which of a network's layers one is (networks.py), by the modules that it has and by its place."""


def layer_of(network, config, modules, number=0):
    """The ops of layer `number` with these modules."""
    last = config.num_hidden_layers - 1
    place = "only" if last == 0 else {0: "first", last: "last"}.get(number, "")

    def holds(condition, name):
        if condition == "place":
            return name == place
        return getattr(config, name, False) if condition == "key" else (name in modules) == (condition == "with")

    variants = network.get("variants", ())
    layer = next((ops for conditions, ops in variants if all(holds(*each) for each in conditions)), network["layer"])
    layer = without_clips(layer)
    return without_cutoff(layer) if not has_cutoff(config, number) else layer


def without_clips(layer):
    """Its rotations and attention read q, k and v themselves: no module gives what is clipped, and none reads it."""
    clipped = {out: inputs for out, kind, inputs, *_ in layer if out in ("q_clip", "k_clip", "v_clip")}
    return tuple(
        (out, kind, " ".join(clipped.get(name, name) for name in inputs.split()), *rest)
        for out, kind, inputs, *rest in layer
        if out not in clipped
    )


def has_cutoff(config, number):
    """Whether the activation of layer `number` lets the largest numbers alone pass."""
    pattern = getattr(config, "activation_sparsity_pattern", None)
    return pattern is not None and pattern[number] > 0


def without_cutoff(layer):
    """Its activation reads the gate itself."""
    return tuple(
        (out, kind, " ".join("ffn_gate" if name == "ffn_cutoff" else name for name in inputs.split()), *rest)
        for out, kind, inputs, *rest in layer
        if kind != "cutoff"
    )
