"""Small models that were trained until they write words: Llama, Qwen2, Phi-3 and GPT-2 shapes.

    python -m generate.trained.train NAME    text, vocabulary, training; writes the F16 file and the loss curve
    python -m generate NAME                  the other types and the goldens, from the F16 file
"""

from .shapes import SHAPES

__all__ = ["SHAPES"]
