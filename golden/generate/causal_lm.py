"""transformers' choice of a class by its config, with a class that its own list lacks."""

from transformers import AutoModelForCausalLM, Mistral4Config
from transformers.models.mistral4.modeling_mistral4 import Mistral4ForCausalLM

# In published files it is the text part of a model of images and text, which alone is listed.
AutoModelForCausalLM.register(Mistral4Config, Mistral4ForCausalLM, exist_ok=True)

__all__ = ["AutoModelForCausalLM"]
