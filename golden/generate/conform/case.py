"""A row of the suite, and what is committed of it."""

import json
from dataclasses import dataclass, field
from fnmatch import fnmatchcase


@dataclass
class Mistake:
    """What an engine may compute instead: the same folder with `config` merged into its config.json (RFC 7396).

    tensors: {glob: constant} for tensors that it takes for a constant, None for those that it does not read.
    small: it moves the logits by less than 1e-2.
    """

    verdict: str  # "ignored" or "misread"
    name: str  # a cause, as `assay compare` names them
    text: str
    config: dict = field(default_factory=dict)
    tensors: dict = field(default_factory=dict)
    small: bool = False

    def data(self):
        data = {"verdict": self.verdict, "name": self.name, "text": self.text, "config": self.config}
        return data | ({"tensors": self.tensors} if self.tensors else {}) | ({"small": True} if self.small else {})


def ignored(name, text, config=None, tensors=None, small=False):
    return Mistake("ignored", name, text, config or {}, tensors or {}, small)


def misread(name, text, config=None, tensors=None, small=False):
    return Mistake("misread", name, text, config or {}, tensors or {}, small)


@dataclass
class Row:
    feature: str
    group: str
    title: str
    config: dict
    states: tuple = ()  # keys of config.json that state the feature
    mistakes: tuple = ()
    gain: dict = field(default_factory=dict)  # {glob of tensors: factor of their deviation}
    tokens: tuple = ()  # drawn from the seed if there are none
    length: int = 0  # of what is drawn; that of its group if 0
    dtypes: dict = field(default_factory=dict)  # {glob: type}
    saved_names: bool = False  # tensors are called as transformers saves them, not as published files have them
    folder: dict = field(default_factory=dict)  # {name: content} of further JSON files of the folder
    gguf: dict = field(default_factory=dict)  # keys that the converter does not write

    def hears(self, name):
        """Whether one of the mistakes is of this name."""
        return any(mistake.name == name for mistake in self.mistakes)


def mistakes_of(row):
    """Those of the row, and what engines do that do not know the key of transformers 5."""
    mistakes = list(row.mistakes)
    parameters = row.config.get("rope_parameters")
    if parameters and all(mistake.config != {"rope_parameters": None} for mistake in mistakes):
        name = "rope_base" if parameters.get("rope_type", "default") == "default" else "rope_scaling"
        mistakes.append(misread(name, "reads neither base nor scaling", {"rope_parameters": None}))
    return mistakes


def merged(target, patch):
    """`target` with `patch` merged into it, as RFC 7396 has it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def first_match(globs, name, default):
    return next((value for glob, value in globs.items() if fnmatchcase(name, glob)), default)


def case_text(data):
    """case.json: a line for each key of the config, each tensor and each mistake."""

    def block(value):
        if isinstance(value, dict):
            lines = [f"{json.dumps(key)}: {json.dumps(inner)}" for key, inner in value.items()]
        else:
            lines = [json.dumps(inner, ensure_ascii=False) for inner in value]
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return opening + "\n    " + ",\n    ".join(lines) + "\n  " + closing if lines else opening + closing

    long = ("config", "folder", "tensors", "counterfactuals", "gguf")
    lines = [
        f"{json.dumps(key)}: {block(value) if key in long else json.dumps(value, ensure_ascii=False)}"
        for key, value in data.items()
    ]
    return "{\n  " + ",\n  ".join(lines) + "\n}\n"
