"""Logs the checkpoints of any PyTorch model, or of any other engine, in the format that `assay compare` reads."""

from .checkpoints import CheckpointSet
from .environment import writer_from_environment
from .rule import Rule
from .tap import Tap, attach
from .writer import LogError, LogWriter

__all__ = ["CheckpointSet", "LogError", "LogWriter", "Rule", "Tap", "attach", "writer_from_environment"]
