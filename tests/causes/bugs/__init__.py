"""Bugs of engines, converters and quantisers, as public issues tell of them, made again in transformers."""

from . import attention, experts, network, rotary

BUGS = rotary.BUGS + attention.BUGS + experts.BUGS + network.BUGS
