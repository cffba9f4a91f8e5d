"""A byte-level BPE vocabulary of the training text, for training and for the model file."""

import json

from gguf import TokenType
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from ..vocab import Vocab
from .shapes import VOCABULARY

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS = {
    "llama-bpe": LLAMA3,
    "qwen2": LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"),
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
}


def trained(shape, texts):
    """The tokenizer, without the special tokens, whose ids follow its own."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(SPLITS[shape.pre]), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(shape.specials), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def for_file(shape, tokenizer):
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get) + list(shape.specials)
    types = [TokenType.NORMAL] * len(model["vocab"]) + [TokenType.CONTROL] * len(shape.specials)
    ids = {"bos": tokens.index(shape.specials[0]), "eos": tokens.index(shape.specials[-1])}
    merges = [" ".join(pair) for pair in model["merges"]]
    return Vocab("gpt2", shape.pre, tokens, types, merges=merges, special_ids=ids, add_bos=shape.add_bos)
