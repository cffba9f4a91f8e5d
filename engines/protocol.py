"""What every adapter shares: the protocol by which `assay conform` and `assay invariance` run an engine.

An adapter calls main() with a function run(case) that returns records: (checkpoint, positions, rows [positions, n])
each. It raises Unsupported with one line for the user if the engine does not support the model or the surface. The
environment tells the case; with ASSAY_SERVE=1, lines of stdin tell one case after the other (docs/conform.md).
"""

import json
import os
import re
import sys
import traceback
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from assay_tap import CheckpointSet, LogError, LogWriter

LOGGED, CRASHED, BAD_CASE, UNSUPPORTED = 0, 1, 2, 3
SURFACE = re.compile(r"(alone|steps|cached)|(batch|chunks):([1-9][0-9]{0,5})")
LONGEST_MESSAGE = 400


class Unsupported(Exception):
    """The engine does not support this model or surface."""


class BadCase(Exception):
    """The caller's mistake: a variable or a key that is missing or makes no sense."""


@dataclass(frozen=True)
class Case:
    model_dir: Path | None
    gguf: Path | None
    tokens: tuple[int, ...]
    surface: str  # without its size
    size: int  # of the batch, or of a chunk; 0 for other surfaces
    log: Path

    def folder(self):
        """The Hugging Face folder."""
        if self.model_dir is None or not (self.model_dir / "config.json").is_file():
            raise BadCase(f"ASSAY_MODEL_DIR: {self.model_dir or 'nothing'} is not a folder with a config.json")
        return self.model_dir

    def model_file(self):
        """The GGUF file."""
        if self.gguf is None:
            raise Unsupported("reads GGUF files, and none can state this model")
        if not self.gguf.is_file():
            raise BadCase(f"ASSAY_GGUF: {self.gguf} is not a file")
        return self.gguf


def make_case(model_dir, gguf, tokens, surface, log):
    """A Case of texts and token ids; model_dir, gguf and surface may be empty."""
    match = SURFACE.fullmatch(surface or "alone")
    if not match:
        raise Unsupported(f"no surface {surface!r}; there are alone, batch:K, chunks:K, steps and cached")
    if not tokens:
        raise BadCase("ASSAY_TOKENS: no tokens; give their ids, such as 1,2,3")
    if not log:
        raise BadCase("ASSAY_LOG_FILE: nothing; give the path of the log")
    kind, sized, size = match.groups()
    path = [Path(text).absolute() if text else None for text in (model_dir, gguf)]
    return Case(*path, tuple(tokens), kind or sized, int(size or 0), Path(log).absolute())


def token_ids(text):
    ids = text.split(",")
    if not all(part.isascii() and part.isdigit() for part in ids):
        raise BadCase(f"ASSAY_TOKENS: {text!r} is not a list of token ids; give 1,2,3")
    return [int(part) for part in ids]


def case_of_environment():
    get = os.environ.get
    return make_case(
        get("ASSAY_MODEL_DIR"),
        get("ASSAY_GGUF"),
        token_ids(get("ASSAY_TOKENS") or ""),
        get("ASSAY_SURFACE"),
        get("ASSAY_LOG_FILE"),
    )


def case_of_line(line):
    """A case of one line of stdin: {"model_dir","gguf","tokens","surface","log"}."""
    try:
        given = json.loads(line)
    except ValueError as error:
        raise BadCase(f"a case is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise BadCase("a case is not a JSON object")
    tokens = given.get("tokens")
    if not isinstance(tokens, list) or not all(type(token) is int and token >= 0 for token in tokens):
        raise BadCase("tokens: not an array of token ids")
    texts = {key: given.get(key) for key in ("model_dir", "gguf", "surface", "log")}
    for key, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise BadCase(f"{key}: not a string")
    return make_case(tokens=tokens, **texts)


def write_log(case, records, engine, math):
    wanted = CheckpointSet(os.environ.get("ASSAY_LOG_CHECKPOINTS") or "ops", "ASSAY_LOG_CHECKPOINTS")
    with LogWriter(case.log, values=None) as log:
        log.header(case.tokens, engine=engine, backend="cpu", math=math)
        for checkpoint, positions, rows in records:
            if checkpoint in wanted:
                log.write_rows(checkpoint, positions, rows)


def one_line(error):
    return " ".join(str(error).split())[:LONGEST_MESSAGE] or type(error).__name__


def outcome(make, run, engine, math):
    """(exit code, one line) of the case that make() gives."""
    try:
        case = make()
        write_log(case, run(case), engine, math)
    except Unsupported as error:
        return UNSUPPORTED, one_line(error)
    except (BadCase, LogError) as error:
        return BAD_CASE, one_line(error)
    except Exception as error:
        traceback.print_exc()
        return CRASHED, f"{type(error).__name__}: {one_line(error)}"
    return LOGGED, ""


def serve(run, engine, math):
    """Answers each line of stdin with {"exit","message"} on stdout, until stdin ends."""
    # Engines print to stdout, too: what they print goes to stderr.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            code, message = outcome(lambda line=line: case_of_line(line), run, engine, math)
            print(json.dumps({"exit": code, "message": message}), file=answers, flush=True)


@contextmanager
def refusals(*errors):
    """Where an engine loads a model: its own refusals, exceptions of these types, say that it does not support it."""
    try:
        yield
    except errors as error:
        raise Unsupported(one_line(error)) from error


def main(run, name, version, math="float32"):
    """Runs the case, or the cases, and exits."""
    engine = f"{name} {version}"
    if os.environ.get("ASSAY_SERVE") == "1":
        sys.exit(serve(run, engine, math))
    code, message = outcome(case_of_environment, run, engine, math)
    if message:
        print(f"{name}: {message}", file=sys.stderr)
    # Without the engine's own clean-up, which may crash after all was logged.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
