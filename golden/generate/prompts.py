"""The prompts of the goldens: the published one, one beyond ASCII, and one long enough for mistakes in positions."""

from . import vocab

HAIKU = "GPU haiku with word fifty-one: "
UNICODE = "Größe naïve, 東京 – ещё e\u0301 \U0001f994: "
LONG_TOKENS = 512

FURTHER = {
    "capital": "The capital of France is",
    "story": "Once upon a time",
    "primes": "The first ten prime numbers are",
}


def long_text(tokenize):
    """Sentences in ever new order until they make LONG_TOKENS tokens or more."""
    sentences = vocab.CORPUS.strip().split("\n")
    text, turn = "", 0
    while len(tokenize(text)) < LONG_TOKENS:
        text += (" " if text else "") + sentences[(turn + turn // len(sentences)) % len(sentences)]
        turn += 1
    return text


def texts(tokenize):
    return {"haiku": HAIKU, "unicode": UNICODE, "long": long_text(tokenize)}
