"""The common part of the oracles' command lines: a model file, a prompt, and what to log."""

import argparse
import sys
from pathlib import Path

from assay_tap import CheckpointSet, LogError, LogWriter
from assay_tap.environment import head_values

from .model_file import ModelFile


def token_ids(text):
    try:
        ids = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of token ids; give 1,2,3") from error
    if min(ids) < 0:
        raise argparse.ArgumentTypeError("token ids are 0 or more")
    return ids


def count_of_values(text):
    try:
        return head_values(text, "--values")
    except LogError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def parser(name, description):
    made = argparse.ArgumentParser(prog=f"python -m generate.{name}", description=description)
    made.add_argument("model", metavar="MODEL.gguf", type=Path)
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--prompt", metavar="TEXT", help="tokenised as the file says, with its BOS")
    what.add_argument("--prompt-file", metavar="F", type=Path, help="the same from a file")
    what.add_argument("--tokens", metavar="1,2,3", type=token_ids, help="token ids, taken as they are")
    made.add_argument("-n", metavar="N", type=int, default=0, help="greedy tokens to go on with (default 0)")
    made.add_argument("--log", metavar="F", required=True, help="the log, JSON lines")
    made.add_argument("--checkpoints", metavar="SET", default="ops", help="logits, layers, ops (default) or globs")
    made.add_argument("--values", metavar="N", type=count_of_values, default=10, help="leading values, or all")
    made.add_argument("--sketch", action="store_true", help="64 numbers that represent the whole row")
    made.add_argument("--team", default="", help="a name that each record carries")
    return made


def prompt_of(options):
    """(text or None, token ids)."""
    if options.tokens is not None:
        return None, options.tokens
    text = options.prompt
    if options.prompt_file is not None:
        text = options.prompt_file.read_text(encoding="utf-8")
    try:
        from .llamacpp_engine import LlamaCpp, quiet
    except ModuleNotFoundError as error:
        hint = "give --tokens, as assay tokenize prints them, or install llama-cpp-python"
        raise ValueError(f"--prompt is tokenised by llama.cpp, and {error.name} is not installed; {hint}") from error
    quiet()
    with LlamaCpp(options.model, 256) as engine:
        return text, engine.tokenize(text)


def run(options, record):
    """Calls record(file, tokens, log, header); an error is one line on stderr and exit status 2."""
    try:
        if options.n < 0:
            raise ValueError("-n is 0 or more")
        if not options.model.is_file():
            raise FileNotFoundError(f"{options.model}: no such file")
        CheckpointSet(options.checkpoints, "--checkpoints")
        file = ModelFile(options.model)
        text, tokens = prompt_of(options)
        if not tokens:
            raise ValueError("the prompt has no tokens")
        model = {"name": file.name, "sha256": file.sha256, "arch": file.arch, "type": file.type_name}
        with LogWriter(options.log, options.team, options.values, sketch=options.sketch) as log:
            record(file, tokens, log, dict(tokens=tokens, prompt=text, model=model))
    except (LogError, RuntimeError, ValueError, OSError, KeyError) as error:
        print(f"{Path(sys.argv[0]).stem}: {error}", file=sys.stderr)
        return 2
    return 0
