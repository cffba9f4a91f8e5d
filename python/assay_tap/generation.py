"""What generate() of transformers does that no pass shows: which tokens end a sequence, beams, and guesses."""

from .writer import LogError

# Each makes generate() evaluate tokens that it takes back where it would have chosen others.
GUESSES = ("assistant_model", "assistant_early_exit", "prompt_lookup_num_tokens")


def _said(name, model, args, kwargs):
    """A setting of the call, of its generation_config or of the model's."""
    configs = (kwargs.get("generation_config"), *args[1:2], getattr(model, "generation_config", None))
    values = (kwargs.get(name), *(getattr(config, name, None) for config in configs))
    return next((value for value in values if value is not None), None)


def _ids(value):
    if value is None:
        return set()
    return {int(each) for each in (value if hasattr(value, "__len__") and getattr(value, "ndim", 1) else [value])}


def _refuse(model, args, kwargs):
    """Raises LogError for what would be logged at the place of something else."""
    if (_said("num_beams", model, args, kwargs) or 1) > 1:
        raise LogError("generate() with beams moves sequences from row to row; log it with num_beams=1")
    guess = next((name for name in GUESSES if _said(name, model, args, kwargs) is not None), None)
    if guess is not None:
        raise LogError(f"generate() with {guess} evaluates tokens that it may take back; log it without")


def _sampling(model, args, kwargs):
    """How tokens are drawn; None where they are the likeliest."""
    if not _said("do_sample", model, args, kwargs):
        return None
    told = {name: _said(name, model, args, kwargs) for name in ("temperature", "top_k", "top_p")}
    return ", ".join(["do_sample", *(f"{name} {value}" for name, value in told.items() if value is not None)])


class Generation:
    """While generate() runs, `ends` are the ids that end a sequence: what follows them in a batch is padding.

    `sampling` says how it draws tokens, if it does.
    """

    def __init__(self, model):
        self.ends = set()
        self.sampling = None
        self._model = model
        self._listeners = getattr(vars(model).get("generate"), "listeners", None)  # of another tap's wrapper
        if self._listeners is None and callable(getattr(model, "generate", None)) and "generate" not in vars(model):
            self._listeners = self._watch(model.generate)
        if self._listeners is not None:
            self._listeners.append(self)

    def _watch(self, generate):
        listeners = []

        def watched(*args, **kwargs):
            _refuse(self._model, args, kwargs)
            ends = _ids(_said("eos_token_id", self._model, args, kwargs))
            sampling = _sampling(self._model, args, kwargs)
            for listener in listeners:
                listener.ends, listener.sampling = ends, sampling
            try:
                return generate(*args, **kwargs)
            finally:
                for listener in listeners:
                    listener.ends, listener.sampling = set(), None

        watched.listeners = listeners
        vars(self._model)["generate"] = watched
        return listeners

    def remove(self):
        if self._listeners is None:
            return
        self._listeners.remove(self)
        if not self._listeners:
            vars(self._model).pop("generate", None)
        self._listeners = None
