"""The suite of `assay conform`: a tiny model for each feature, in which that feature is loud, with float64 logits.

    python -m generate.conform --assay ASSAY [NAME…]    writes conform/suite/<feature>/, and measures how loud each is
    python -m generate.conform --assay ASSAY --check    fails if a committed file would come out otherwise

A row (`case.py`) is a config.json, what is special about the weights, and what an engine may take it for. All else
follows: the names of the tensors from transformers, their values from a seed (`draws.py`), the reference from
transformers in float64 (`reference.py`), GGUF's keys from llama.cpp's converter (`metadata.py`).
"""
