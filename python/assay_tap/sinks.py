"""Where a tap's rows go: to a log, with a header, or to a function."""

import inspect
from pathlib import Path

from .network_of import network_of
from .writer import LogError, LogWriter


class LogSink:
    """Writes to a LogWriter; an empty log gets a header first, with the tokens of the first pass.

    A header names all sequences of a log or none: steps of training have new ones each, and so no tokens there.
    checkpoints: which were asked for; None: nothing was said.
    """

    def __init__(self, log, checkpoints=None):
        self._log = log
        self._checkpoints = checkpoints
        self._header = None
        self._named = None  # the sequences of the header; None: it has no tokens

    def begin(self, model, sequences, tokens, sampling=None):
        """A pass begins these sequences, whose tokens are `tokens`, a list each, or are not known: None.

        sampling: how further tokens are drawn, where that is known.
        """
        if self._header is not None and (not tokens or not self._log.is_empty()):
            return  # otherwise an earlier pass failed before its first record
        self._header = about(model) | dict(checkpoints=self._checkpoints, sampling=sampling)
        if not tokens or model.training or not self._log.is_empty():
            return
        self._named = set(sequences)
        if sequences != [0]:
            self._header |= dict(tokens=tokens, sequences=[str(each) for each in sequences])
        else:
            self._header["tokens"] = tokens[0]

    def write(self, name, positions, rows, dtype, **where):
        if self._named is not None and where["sequence"] not in self._named:
            raise LogError(
                f"{self._log.path}: a pass begins sequences that the log's header does not name; give each prompt or "
                "batch a log of its own, or a LogWriter whose header() you wrote without tokens"
            )
        if self._log.is_empty():
            self._log.header(**self._header)
        self._log.write_rows(name, positions, rows, dtype, **where)


class FunctionSink:
    """Calls a function (checkpoint, positions, rows), and by name what it has parameters for: sequence, step, phase."""

    def __init__(self, function):
        self._function = function
        try:
            takes = set(inspect.signature(function).parameters)
        except (TypeError, ValueError):  # a function without a signature
            takes = set()
        self._takes = takes & {"sequence", "step", "phase"}
        self._fault = None

    def begin(self, _model, sequences, _tokens, _sampling=None):
        self._fault = None
        if len(sequences) > 1 and "sequence" not in self._takes:
            self._fault = (
                f"a batch of {len(sequences)} sequences; give attach() a path, or a function with a parameter `sequence`"
            )

    def write(self, name, positions, rows, _dtype, **where):
        if self._fault is not None:
            raise LogError(self._fault)
        self._function(name, positions, rows, **{key: where[key] for key in self._takes})


def sink_of(log, checkpoints=None):
    return LogSink(log, checkpoints) if isinstance(log, LogWriter) else FunctionSink(log)


def about(model):
    """The header's description of a PyTorch model."""
    whole = getattr(model, "config", None)
    kind = getattr(whole, "model_type", "")
    network, config = network_of(model)
    has_experts = "moe" in (getattr(config, "layer_types", None) or ())
    own = "experts_architecture" if has_experts and "experts_architecture" in network else "architecture"
    parameter = next(model.parameters(), None)
    dtype = "" if parameter is None else str(parameter.dtype).removeprefix("torch.")
    return dict(
        model={
            "name": Path(getattr(whole, "_name_or_path", "") or "").name or type(model).__name__,
            "arch": network.get(own, kind),
            "type": dtype.replace("bfloat", "BF").replace("float", "F"),
        },
        engine="transformers" if kind else "torch",
        backend="" if parameter is None else parameter.device.type,
    )
