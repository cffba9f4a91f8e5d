"""The network that a model of transformers has for text."""

from .networks import MODELS

OF_MODEL = "model."


def network_of(model):
    """Its network and the config of that: by config.model_type, or, of a model of images or sound and text, by its
    text_config's, with the modules where its decoder has them. The network is {} if it is not known.
    """
    config = getattr(model, "config", None)
    network = MODELS.get(getattr(config, "model_type", None), {})
    text = getattr(config, "text_config", None)
    if network or text is None:
        return network, config
    network = MODELS.get(getattr(text, "model_type", None), {})
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else None
    names = {name: module for name, module in model.named_modules() if name}
    place = next((name for name, module in names.items() if module is decoder), "")
    layers = network.get("layers", "")
    place = next((at for at in (place, f"{place}.model") if f"{at}.{layers.removeprefix(OF_MODEL)}" in names), None)
    if place is None or not layers.startswith(OF_MODEL):
        return {}, config
    own = {name: path for name, path in network.items() if isinstance(path, str) and path.startswith(OF_MODEL)}
    return network | {name: f"{place}.{path.removeprefix(OF_MODEL)}" for name, path in own.items()}, text
