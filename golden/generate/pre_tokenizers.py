"""How the models behind each name of `tokenizer.ggml.pre` cut a text into words: the steps of their tokenizer.json.

Run as `python -m generate.pre_tokenizers` from golden/, this writes tests/data/tokenizers/words.json: for each name
pairs of a text and the sizes in bytes of the words that the `tokenizers` package cuts it into.
"""

import json
from pathlib import Path

OUT = Path(__file__).resolve().parents[2] / "tests" / "data" / "tokenizers" / "words.json"

CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORD = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
LINES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|" + LINES
REST_WITH_SLASH = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + LINES
HAN_AND_KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"


def cased(after, letters=""):
    upper = rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{letters}]"
    lower = rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{letters}]"
    before = r"[^\r\n\p{L}\p{N}]?"
    return f"{before}{upper}*{lower}+{after}|{before}{upper}+{lower}*{after}|"


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def digits(individual):
    return {"type": "Digits", "individual_digits": individual}


def byte_level(use_regex=False):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


PUNCTUATION = {"type": "Punctuation", "behavior": "Contiguous"}
DEEPSEEK_LETTERS = (
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ"
    "Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳ"
    "Ꙁ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
)
GPT_4O = cased(CONTRACTION + "?") + r"\p{N}{1,3}" + REST_WITH_SLASH

PIPELINES = {
    "gpt-2": [byte_level(use_regex=True)],
    "smollm": [digits(individual=True), byte_level(use_regex=True)],
    "llama-bpe": [split(WORD + r"\p{N}{1,3}" + REST), byte_level()],
    "qwen2": [split(WORD + r"\p{N}" + REST), byte_level()],
    "qwen35": [
        split(
            CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + LINES,
        ),
        byte_level(),
    ],
    "ufakzeka": [split(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + REST), byte_level()],
    "jais-2": [
        split(
            WORD
            + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
            + "".join(rf"\s{{{count}}}(?!\S)|" for count in ("512", "256", "128", "64", "32", "16", "8", "4", "1,2"))
            + r"\s{1}"
        ),
        byte_level(),
    ],
    "bailingmoe": [
        split(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|"
            r"\s+(?!\S)|\s+"
        ),
        byte_level(),
    ],
    "exaone-moe": [
        split(
            CONTRACTION
            + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
            + r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
        ),
        byte_level(),
    ],
    "minicpm5": [split(r"\p{N}{1,3}"), split(WORD + r"\p{N}+" + REST), byte_level()],
    "seed-coder": [
        split(
            (CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|" + LINES)
            .replace(r"\r", "\r")
            .replace(r"\n", "\n")
        ),
        byte_level(),
    ],
    "tekken": [split(cased("") + r"\p{N}" + REST_WITH_SLASH), byte_level()],
    "gpt-4o": [split(GPT_4O, "Removed", invert=True), byte_level()],
    "tiny_aya": [split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(GPT_4O), byte_level()],
    "youtu": [
        split("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + HAN_AND_KANA),
        split(cased(CONTRACTION + "?") + r"\p{N}" + REST_WITH_SLASH),
        byte_level(),
    ],
    # Of tokenization_kimi.py: there is no tokenizer.json.
    "kimi-k2": [
        split(r"[\p{Han}]+|" + cased(CONTRACTION + "?", r"&&[^\p{Han}]") + r"\p{N}{1,3}" + REST),
        byte_level(),
    ],
    "deepseek-v3": [
        split(r"\p{N}{1,3}"),
        split(HAN_AND_KANA),
        split(
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|"""
            "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
        ),
        byte_level(),
    ],
    "deepseek-llm": [
        split("[\r\n]"),
        split(DEEPSEEK_LETTERS),
        split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
        split(r"\s+$"),
        split(ASIAN),
        digits(individual=True),
        byte_level(),
    ],
    "deepseek-coder": [
        split("[\r\n]"),
        split(r"\s?\p{L}+"),
        split(r"\s?\p{P}+"),
        split(ASIAN),
        digits(individual=True),
        byte_level(),
    ],
    "viking": [split(r" ?[^(\s|.,!?…。，、।۔،)]+"), digits(individual=True), byte_level()],
    "falcon": [PUNCTUATION, byte_level(use_regex=True), digits(individual=False), split("[0-9][0-9][0-9]")],
    "falcon3": [PUNCTUATION, byte_level(use_regex=True), digits(individual=True)],
}

TEXTS = [
    "Hello, world! How's it GOING?  I'd say: fine...\r\n\r\n  ok\t\tend ",
    "I'm you'RE they'Ve he'D 'tis DON'T can'T a'ſ b'S 'ſx o'clock'",
    "0 12 123 1234 12345 123456 1234567 1,234,567.89 1e10 12345678901",
    "12abc 1234_ 1234é 12345. ٣٤٥٦ ४५६७ ⅧⅨ ½ 9² ²³ ①② 12️⃣ 1234\u0301 9Ⓐ",
    "naïve Straße ÀÉÎx ΕΛΛΗΝΙΚΆ Русский ǅa ǆ ʰ İstanbul ıI McDonald iPhone XMLHttp aBcDeF",
    "a\u0301e\u0301 \u0301x नमस्ते ไทย สวัสดี مَرْحَبًا שָׁלוֹם தமிழ் ខ្មែរ",
    "日本語のテキスト、カタカナ。中文！你好，世界 한국어 ㄱㄴ ㄅㄆ 々〇〻 ｶﾀ ＡＢ１２ 𠀀 龥龦",
    "😀😃 👩‍👩‍👧 🇩🇪 ❤️ ∑∫≠ …—–“”‘’ ‟ „ « » ¿¡ € ₹ ©",
    "def f(x):\n    return x**2 + 1  # no\n\n\nclass A(B):\n\t\tpass\n        print(f\"{a!r}: {b:>10}\")\n",
    "http://example.org/a?c=1&d=2#e user@host /usr/local C:\\Windows //// /\n/\r\n ./../",
    "    leading, x\n y\n  z\n\n w \n  \n trailing    ",
    "a\u00a0b\u3000c\u2003d\u200be\u2028f\u0085h\u180ei\u205fj\ufeffl \u00a0\u00a0x  \u3000中",
    "$100 +5 -3 <=> ^~|` == != `code` ``x`` |a|b| \x01\x7f !a #b &e *f /k \\s ]t ^u _v {x ~0",
    "_under_ snake_case kebab-case ALLCAPS UPPERlower LowerUPPER aAAa ªº ƻ ʔ Ა Ꞌ",
    "   中文   abc   \r\n \r\n\t \n",
]


def words_of(steps, text):
    """The words of `text` as sizes in bytes."""
    from tokenizers import Tokenizer

    nothing = {"type": "BPE", "vocab": {}, "merges": []}
    pre_tokenizer = {"type": "Sequence", "pretokenizers": steps}
    tokenizer = Tokenizer.from_str(json.dumps({"model": nothing, "added_tokens": [], "pre_tokenizer": pre_tokenizer}))
    places = [place for _, place in tokenizer.pre_tokenizer.pre_tokenize_str(text)]
    sizes = [len(text[begin:end].encode()) for begin, end in places]
    assert sum(sizes) == len(text.encode()), (text, places)
    return sizes


def without_letters(name, steps):
    """Falcon's Digits also cuts letters that stand for bytes, within a character; no merge of Falcon crosses these."""
    plain = split("[0-9]+" if name == "falcon" else "[0-9]")
    if not name.startswith("falcon"):
        return steps
    return [plain if step["type"] == "Digits" else step for step in steps]


def main():
    lines = []
    for name, steps in PIPELINES.items():
        for text in TEXTS:
            lines.append(json.dumps([name, text, words_of(without_letters(name, steps), text)], ensure_ascii=False))
    OUT.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
