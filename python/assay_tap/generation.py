"""What generate() of transformers does that no pass shows: which tokens end a sequence, and beams."""

from .writer import LogError


def _said(name, model, args, kwargs):
    """A setting of the call, of its generation_config or of the model's."""
    configs = (kwargs.get("generation_config"), *args[1:2], getattr(model, "generation_config", None))
    values = (kwargs.get(name), *(getattr(config, name, None) for config in configs))
    return next((value for value in values if value is not None), None)


def _ids(value):
    if value is None:
        return set()
    return {int(each) for each in (value if hasattr(value, "__len__") and getattr(value, "ndim", 1) else [value])}


class Generation:
    """While generate() runs, `ends` are the ids that end a sequence: what follows them in a batch is padding."""

    def __init__(self, model):
        self.ends = set()
        self._model = model
        self._is_watched = callable(getattr(model, "generate", None)) and "generate" not in vars(model)
        if self._is_watched:
            generate = model.generate

            def watched(*args, **kwargs):
                if (_said("num_beams", model, args, kwargs) or 1) > 1:
                    raise LogError("generate() with beams moves sequences from row to row; log it with num_beams=1")
                self.ends = _ids(_said("eos_token_id", model, args, kwargs))
                try:
                    return generate(*args, **kwargs)
                finally:
                    self.ends = set()

            vars(model)["generate"] = watched

    def remove(self):
        if self._is_watched:
            vars(self._model).pop("generate", None)
