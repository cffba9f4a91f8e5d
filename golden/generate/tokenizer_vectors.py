"""Writes tests/data/tokenizers/: a small tokenizer.json of each kind that Assay has, and the ids that it gives.

`<KIND>/tokenizer.json` is trained by the `tokenizers` package over the texts below; `<KIND>/ids.json` has lists of a
text, its ids, special tokens added and parsed, and the text that these give. Run as `python -m
generate.tokenizer_vectors` from golden/.
"""

import json
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

OUT = Path(__file__).resolve().parents[2] / "tests" / "data" / "tokenizers"
SIZE = 420
SPACE = "\u2581"
BEFORE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
AFTER = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and the dog's tail doesn't move: it's 12345 o'clock.",
    "We'll see what they've said; I'm sure you'd agree that HE'LL SAY WE'RE WRONG, that's that.",
    "def main(argument):\n    if argument == 1024:\n        return argument * 3.14159\n\n\tprint('done')\n",
    "Die Straße führt über den Fluß; naïve café, señor, œuvre. Ελληνικά και русский текст, 日本語の文章。",
    "temperature 36.6, pressure 101325, year 2024, version 1.0.0-rc2, price $9.99 (reduced by 20%)",
    "the then there these this that thing think through other another mother brother whether weather",
]
TEXTS = [
    "",
    " ",
    "   ",
    "a",
    "Hello world",
    " Hello  world   with    runs     of spaces ",
    "tabs\tand\t\tmore\n\nnew lines\r\n\r\n \n end\n",
    "it's IT'S we'll WE'LL they've I'm you'd don't 'quoted' ''",
    "0 1 12 123 1234 12345 123456 1234567890 1.5e-10 ٣٤٥ Ⅷ ½ ²",
    "naïve café Straße œuvre Ελληνικά русский 日本語 中文字符 한국어 ไทย हिन्दी عربى",
    "emoji 😀😀 👩‍👩‍👧 🇩🇪 and symbols ∑∫≠→ …—–“”",
    "def main():\n    return {'a': [1, 2, 3]}  # comment\n\t\tx += 1",
    "<s>special</s> <|end|> text<|end|>  after\nmore<s>",
    "<unk> <pad> <0x41> <|not a token|> [PAD3]",
    "the the the thethe THE weather whether",
    "\u00a0no-break\u3000wide\u2003em\u200bzero",
    "\u2581under\u2581 \u2581\u2581bar",
    "control \x01\x02\x7f characters",
    "punctuation!!! ??? ... ,,, ;;; $$$ %%% ^^^ &&& *** ((( ))) ``` ~~~",
    "mixed123abc456 a1b2c3 x86_64 v1.2.3",
    "http://example.org/path?query=1&other=2#frag user@example.org",
    "\n",
    "\n\n\n",
    " \n",
    "ending space ",
]


def split(pattern):
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def add_tokens(tokenizer, strips=False):
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in ("<s>", "</s>")])
    tokenizer.add_special_tokens([AddedToken("<|end|>", normalized=False, rstrip=strips)])
    tokenizer.add_tokens([AddedToken("<pad>", normalized=False)])


def template(tokenizer, single):
    ids = [(text, tokenizer.token_to_id(text)) for text in ("<s>", "</s>") if text in single]
    return processors.TemplateProcessing(single=single, special_tokens=ids)


def byte_level(pre_tokenizer, normalizer=None, bos=False, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=SIZE, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    add_tokens(tokenizer)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    if bos:
        tokenizer.post_processor = processors.Sequence([tokenizer.post_processor, template(tokenizer, "<s> $A")])
    return tokenizer


def characters(normalizer, pre_tokenizer, single, strips=False, runs=()):
    """Trained over words, then put behind the byte tokens, so that these are no special ones.

    `runs` of spaces are tokens that merges make, and added tokens as well, as Gemma has them.
    """
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always", split=True)
    trained.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=SIZE, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    texts = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    texts += sorted(model["vocab"], key=model["vocab"].get)
    merges = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model["merges"]]
    texts += runs
    merges = [(SPACE, run[1:]) for run in runs] + merges
    vocab = {text: number for number, text in enumerate(texts)}
    tokenizer = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.add_special_tokens([AddedToken("<unk>", normalized=False)])
    add_tokens(tokenizer, strips)
    tokenizer.add_tokens([AddedToken(run, normalized=False) for run in runs])
    if single:
        tokenizer.post_processor = template(tokenizer, single)
    return tokenizer


def kinds():
    own = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    replace = normalizers.Replace(" ", SPACE)
    prepend = normalizers.Sequence([normalizers.Prepend(SPACE), replace])
    digits = pre_tokenizers.Digits(individual_digits=True)
    gemma = pre_tokenizers.Split(" ", behavior="merged_with_previous", invert=False)

    def metaspace(scheme):
        return pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=False)

    yield "gpt2", byte_level(own)
    yield "llama3", byte_level(split(BEFORE + r"\p{N}{1,3}" + AFTER), bos=True, ignore_merges=True)
    yield "llama3-merges", byte_level(split(BEFORE + r"\p{N}{1,3}" + AFTER))
    yield "qwen2", byte_level(split(BEFORE + r"\p{N}" + AFTER), normalizers.NFC())
    yield "smollm", byte_level(pre_tokenizers.Sequence([digits, own]))
    yield "llama2", characters(prepend, None, "<s> $A")
    yield "phi3", characters(prepend, None, "", strips=True)
    yield "metaspace-first", characters(None, metaspace("first"), "<s> $A </s>")
    yield "metaspace-always", characters(None, metaspace("always"), "")
    yield "metaspace-never", characters(None, metaspace("never"), "")
    yield "gemma", characters(replace, gemma, "<s> $A")
    yield "gemma-spaces", characters(replace, gemma, "<s> $A", runs=[2 * SPACE, 3 * SPACE])


def decoder(tokenizer):
    """As the published tokenizers of the kind have it."""
    file = json.loads(tokenizer.to_str())
    if "ByteLevel" in json.dumps(file["pre_tokenizer"]):
        return decoders.ByteLevel()
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    around = json.dumps([file["normalizer"], file["pre_tokenizer"]])
    if "Prepend" in around or '"always"' in around or '"first"' in around:
        steps.append(decoders.Strip(" ", 1, 0))
    return decoders.Sequence(steps)


def main():
    for name, tokenizer in kinds():
        folder = OUT / name
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        saved = Tokenizer.from_file(str(folder / "tokenizer.json"))
        saved.decoder = decoder(saved)
        pairs = [[text, saved.encode(text).ids] for text in TEXTS]
        pairs = [[text, ids, saved.decode(ids)] for text, ids in pairs]
        lines = ",\n".join(json.dumps(pair, ensure_ascii=False) for pair in pairs)
        (folder / "ids.json").write_text(f"[\n{lines}\n]\n")
        print(f"{name}: {saved.get_vocab_size()} tokens, {sum(len(ids) for _, ids, _ in pairs)} ids")


if __name__ == "__main__":
    main()
