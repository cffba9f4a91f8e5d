"""What to log, from the environment: the same variables for every engine."""

import os

from .checkpoints import CheckpointSet
from .writer import DEFAULT_VALUES, LogError, LogWriter


def head_values(text, where="ORCH_LOG_VALUES"):
    """`all` -> None, or a count of 0 or more."""
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit()):
        raise LogError(f"{where}: {text!r} is not a count of values; give a number of 0 or more, or all")
    return int(text)


def checkpoints_from_environment():
    return CheckpointSet(os.environ.get("ASSAY_LOG_CHECKPOINTS") or "logits", "ASSAY_LOG_CHECKPOINTS")


def times_from_environment():
    value = os.environ.get("ASSAY_LOG_TS") or "on"
    if value not in ("on", "off"):
        raise LogError(f"ASSAY_LOG_TS: {value!r} is neither on nor off; give one of them")
    return value == "on"


def writer_from_environment(**options):
    """A LogWriter by ORCH_LOG_FILE, ORCH_LOG_TEAM, ORCH_LOG_VALUES and ASSAY_LOG_TS; None without ORCH_LOG_FILE."""
    path = os.environ.get("ORCH_LOG_FILE")
    if not path:
        return None
    values = os.environ.get("ORCH_LOG_VALUES")
    options.setdefault("team", os.environ.get("ORCH_LOG_TEAM", ""))
    options.setdefault("values", head_values(values) if values else DEFAULT_VALUES)
    options.setdefault("times", times_from_environment())
    return LogWriter(path, **options)
