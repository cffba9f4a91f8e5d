"""Tiny transformers models from a config and a seed, converted by llama.cpp's own converter: oracles of many families.

Nothing here knows an architecture but its config (`config_values.py`).
"""

from .dense import DENSE
from .experts import EXPERTS

FAMILIES = DENSE + EXPERTS
