"""A tokenizer for model folders that have none, as some engines do not load a model without one."""

import json
import tempfile
from contextlib import contextmanager
from pathlib import Path


def vocabulary_size(folder):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return int(config.get("vocab_size") or config["text_config"]["vocab_size"])


def text_of(tokens):
    """The text that the tokenizer made here turns into these ids."""
    return " ".join(f"t{token}" for token in tokens)


def write(folder, size):
    """A vocabulary of the words t0, t1, …, separated by spaces; nothing is added to a text."""
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "WordLevel", "vocab": {f"t{i}": i for i in range(size)}, "unk_token": "t0"},
    }
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    config |= {"unk_token": "t0", "bos_token": "t1", "eos_token": "t2", "pad_token": "t0"}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


@contextmanager
def with_tokenizer(folder, always=False):
    """The folder, or one with links to its files and a tokenizer where it has none; always: in any case."""
    names = {path.name for path in folder.iterdir()}
    if not always and names & {"tokenizer.json", "tokenizer.model"}:
        yield folder
        return
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch)
        for path in folder.iterdir():
            if "token" not in path.name and path.is_file():
                (made / path.name).symlink_to(path.resolve())
        write(made, vocabulary_size(folder))
        yield made
