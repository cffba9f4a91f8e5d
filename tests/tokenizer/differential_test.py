"""Assay's ids beside those of the `tokenizers` package. Needs tokenizers and gguf; skips without.

    differential_test.py --assay ASSAY
"""

import argparse
import copy
import json
import random
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path

MISSING = [name for name in ("tokenizers", "gguf") if find_spec(name) is None]
SKIPPED = 77
ROOT = Path(__file__).resolve().parents[2]
KINDS = ROOT / "tests" / "data" / "tokenizers"
SEPARATOR = "<|separator|>"

if not MISSING:
    import gguf
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    sys.path.insert(0, str(ROOT / "golden"))
    from generate.pre_tokenizers import PIPELINES, TEXTS

CHARACTERS = [
    *"aAbzZsStTrReEvVmMlLdD   ''\n\r\t0123456789.,!?;:-_/\\@#$%^&*()[]{}<>|`~+=\"",
    *"\u00a0\u3000\u2003\u0085\u2028\u200b\u200d\ufe0f\u0301\u0308\u093f\u094d\u20e3éÉßſǅʰªİıΩωяЯ中日龥あカ々한ㄱㄅกไ٣४ⅧⅨ½²①Ⓐ❤😀🇩€",
    *"。，！？、।،“”‘’…—Აꭰა𐐀𐐨𠀀",
]
# The letters of bytes that Digits cuts after ByteLevel.
DIGIT_LETTERS = set("²³¹¼½¾")


def made_up(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        some = rng.sample(CHARACTERS, rng.randint(2, 12)) if rng.random() < 0.7 else CHARACTERS
        yield "".join(rng.choice(some) for _ in range(rng.randint(1, 20)))


def run(model, text):
    """The ids, or the line that says why there are none."""
    result = subprocess.run(
        [ASSAY, "tokenize", model, "-f", "/dev/stdin"], input=text.encode(), capture_output=True, check=False
    )
    if result.returncode == 0:
        return json.loads(result.stdout)
    assert result.returncode == 2 and result.stderr.count(b"\n") == 1, result
    return result.stderr.decode()


def trained(texts):
    """Merges across every cut that a pre-tokenizer may make, so that a cut elsewhere gives other ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=2500, initial_alphabet=alphabet, show_progress=False, max_token_length=12
    )
    tokenizer.train_from_iterator([*texts, *texts], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]


def without_digit_letters(name, merges):
    """Falcon's vocabularies have no merge across its Digits, and Assay reads no others."""
    if not name.startswith("falcon"):
        return merges
    kept, known = [], set(pre_tokenizers.ByteLevel.alphabet())
    for left, right in merges:
        digits = DIGIT_LETTERS.intersection(left + right)
        fits = not digits or (name == "falcon" and DIGIT_LETTERS.issuperset(left + right))
        if fits and left in known and right in known:
            kept.append((left, right))
            known.add(left + right)
    return kept


def write_gguf(path, name, tokens, merges):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list(tokens)
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    writer.add_token_types([control if token == SEPARATOR else normal for token in tokens])
    writer.add_token_merges([f"{left} {right}" for left, right in merges])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def cut(ids, separator):
    lists = [[]]
    for token in ids:
        lists.append([]) if token == separator else lists[-1].append(token)
    return lists


class Words(unittest.TestCase):
    def test_every_family_has_the_packages_ids(self):
        """Breaks if a pattern, or how it is read, cut a text elsewhere than the model's own tokenizer."""
        texts = TEXTS + list(made_up(600, seed=11))
        merges = trained(texts)
        for name, steps in PIPELINES.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                own = without_digit_letters(name, merges)
                tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet())]
                tokens += dict.fromkeys(left + right for left, right in own)
                vocab = {token: place for place, token in enumerate(tokens)}
                tokenizer = Tokenizer(models.BPE(vocab, own))
                tokenizer.add_special_tokens([AddedToken(SEPARATOR, normalized=False)])
                file = json.loads(tokenizer.to_str())
                file["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
                Path(folder, "tokenizer.json").write_text(json.dumps(file))
                tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
                write_gguf(f"{folder}/vocab.gguf", name, [*tokens, SEPARATOR], own)
                for model in [f"{folder}/vocab.gguf"] + [folder] * (name != "kimi-k2"):
                    got = cut(run(model, SEPARATOR.join(texts)), len(tokens))
                    for text, ids in zip(texts, got, strict=True):
                        self.assertEqual(ids, tokenizer.encode(text).ids, (model, text))


PROMPTS = [
    "",
    " Hello  world ",
    "x<s>y</s> <s> z<pad>w <|end|>  q<|end|>r",
    "it's IT'S  12345 naïve 日本 😀\n\n tab\t",
    "The quick brown, quickly  quick",
    "a  b   c <unk>\u2581a",
]
# What a key may be instead.
OTHERS = {
    "type": ["NFKC", "Lowercase", "Whitespace", "Digits", "Punctuation", "Metaspace", "BPE", "Unigram", "Split"],
    "behavior": ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"],
    "prepend_scheme": ["first", "never", "always"],
    "prepend": ["x", ""],
    "replacement": ["_", " "],
    "content": ["_", "", " "],
    "String": ["x", ""],
    "Regex": ["x", r"\s+", r"\p{N}"],
    "unk_token": ["a", "no token"],
    "continuing_subword_prefix": [""],  # with others the package may abort
    "end_of_word_suffix": ["", "</w>"],
    "dropout": [0.0, 0.5],
    "ids": [[5], [], [1, 2]],
    "ignore_merges": [True, False],
    "byte_fallback": [True, False],
    "fuse_unk": [True, False],
}
ADDED = ["quick", " quick", "it's", "\u2581quick", "\u2581\u2581", "\n", "e q"]
FLAGS = [{}, *({flag: True} for flag in ("lstrip", "rstrip", "single_word", "normalized", "special"))]


def paths(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for key, inner in items:
        if key not in ("vocab", "merges", "truncation", "padding"):  # the latter two are ignored, as docs say
            yield (*path, key)
            yield from paths(inner, (*path, key))


def changed(file):
    """Each key changed, null and left out, and tokens added: what was done, and the file."""
    for path in paths(file):
        if path[0] == "post_processor" and path[-1] == "type":
            continue  # the package goes by the other keys
        parent = file
        for key in path[:-1]:
            parent = parent[key]
        value = parent[path[-1]]
        others = OTHERS.get(path[-1], [not value] if isinstance(value, bool) else [])
        if isinstance(value, int) and not isinstance(value, bool):
            others = [value + 1, 0]
        for other in (None, *others, KeyError):
            other_file = copy.deepcopy(file)
            parent = other_file
            for key in path[:-1]:
                parent = parent[key]
            if other is KeyError:
                del parent[path[-1]]
            else:
                parent[path[-1]] = other
            yield f"{path} is {other!r}", other_file
    ids = {**file["model"]["vocab"], **{token["content"]: token["id"] for token in file["added_tokens"]}}
    for content in ADDED:
        for flags in FLAGS:
            token = dict.fromkeys(("special", "single_word", "lstrip", "rstrip", "normalized"), False)
            token |= {"content": content, "id": ids.get(content, max(ids.values()) + 1), **flags}
            other_file = copy.deepcopy(file)
            other_file["added_tokens"].append(token)
            yield f"added {content!r} {flags}", other_file


class Keys(unittest.TestCase):
    def check(self, kind):
        file = json.loads((KINDS / kind / "tokenizer.json").read_text())
        same = 0
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "tokenizer.json")
            for what, other in changed(file):
                path.write_text(json.dumps(other))
                try:
                    tokenizer = Tokenizer.from_file(str(path))
                    wanted = [tokenizer.encode(prompt).ids for prompt in PROMPTS]
                except BaseException:  # noqa: BLE001 -- what the package panics at has no ids either
                    continue
                for prompt, ids in zip(PROMPTS, wanted, strict=True):
                    got = run(folder, prompt)
                    if isinstance(got, str):
                        break
                    self.assertEqual(got, ids, (kind, what, prompt))
                    same += 1
        self.assertGreater(same, len(PROMPTS))

    def test_llama3(self):
        """Breaks if a key of a tokenizer.json were overlooked: the ids would be others, and nothing would say so."""
        self.check("llama3")

    def test_gemma(self):
        self.check("gemma-spaces")

    def test_llama2(self):
        self.check("llama2")

    def test_metaspace(self):
        self.check("metaspace-first")


def main():
    global ASSAY
    if MISSING:
        print(f"skipped: no {', '.join(MISSING)} here; see golden/generate/requirements.txt")
        return SKIPPED
    parser = argparse.ArgumentParser()
    parser.add_argument("--assay", required=True)
    arguments, rest = parser.parse_known_args()
    ASSAY = arguments.assay
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
