"""Small vocabularies of our own, in the two forms that model files have: SentencePiece-style and byte-level BPE.

The merges come from byte-pair training over a few sentences, so that both tokenisers have real work to do.
"""

from collections import Counter
from dataclasses import dataclass, field

from gguf import TokenType

CORPUS = """
A golden log holds what the reference computed for every layer and every token, and the engine is held to it.
When the two differ, the first place where they differ is the place to look at, for the rest follows from it.
The wind in the birch, a word that nobody wrote down; the kernel is warm and the rain went on till morning.
Each head reads the keys of the words that came before, and the values that they hold are added with their weights.
With more than one thread the order of a sum is easily lost, and with it the last bits of the result.
"""

SPACE = "\u2581"  # SentencePiece writes a space as this character


@dataclass
class Vocab:
    model: str  # tokenizer.ggml.model
    pre: str  # tokenizer.ggml.pre
    tokens: list[str]
    types: list[TokenType]
    scores: list[float] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)
    special_ids: dict[str, int] = field(default_factory=dict)  # bos, eos, eot, unk, pad
    add_bos: bool | None = None

    def padding_ids(self):
        return [i for i, kind in enumerate(self.types) if kind == TokenType.UNUSED]


def train_merges(words, count):
    """Byte-pair training: `count` times joins the pair seen most often; ties go to the alphabetically first pair."""
    pieces = Counter(tuple(word) for word in words)
    merges = []
    for _ in range(count):
        pairs = Counter()
        for piece, times in pieces.items():
            for pair in zip(piece, piece[1:]):
                pairs[pair] += times
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        pieces = Counter({join_pair(piece, best): times for piece, times in pieces.items()})
    return merges


def join_pair(piece, pair):
    joined, i = [], 0
    while i < len(piece):
        if piece[i : i + 2] == pair:
            joined.append(piece[i] + piece[i + 1])
            i += 2
        else:
            joined.append(piece[i])
            i += 1
    return tuple(joined)


def byte_characters():
    """GPT-2's map from bytes to printable characters: printable ones map to themselves, others follow U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable}
    table.update({byte: chr(0x100 + i) for i, byte in enumerate(rest)})
    return [table[byte] for byte in (*printable, *rest)], table


def bpe(pre, merge_count, specials, padded_to=None, add_bos=None, **special_names):
    """A byte-level BPE vocabulary: 256 bytes, the merged pieces, control tokens, and unused rows as padding."""
    alphabet, table = byte_characters()
    words = ["".join(table[b] for b in (" " + word).encode()) for word in CORPUS.split()]
    merges = train_merges(words, merge_count)
    tokens = alphabet + [left + right for left, right in merges]
    types = [TokenType.NORMAL] * len(tokens)
    tokens += specials
    types += [TokenType.CONTROL] * len(specials)
    while padded_to is not None and len(tokens) < padded_to:
        tokens.append(f"[PAD{len(tokens)}]")
        types.append(TokenType.UNUSED)
    ids = {role: tokens.index(name) for role, name in special_names.items()}
    joined = [f"{left} {right}" for left, right in merges]
    return Vocab("gpt2", pre, tokens, types, merges=joined, special_ids=ids, add_bos=add_bos)


def spm(merge_count, specials=(), add_bos=None, **special_names):
    """A SentencePiece-style vocabulary: unknown, control and byte tokens, merged pieces by rank, single characters."""
    merges = train_merges([SPACE + word for word in CORPUS.lower().split()], merge_count)
    letters = [SPACE, *"etaoinshrdlucmwfgypbvkxjqz", "-", ":", ".", ","]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL] + [TokenType.BYTE] * 256
    scores = [0.0] * len(tokens)
    pieces = [left + right for left, right in merges] + letters
    tokens += pieces
    types += [TokenType.NORMAL] * len(pieces)
    scores += [-float(rank) for rank in range(len(pieces))]
    tokens += specials
    types += [TokenType.CONTROL] * len(specials)
    scores += [-1000.0] * len(specials)
    ids = {role: tokens.index(name) for role, name in special_names.items()}
    return Vocab("llama", "default", tokens, types, scores=scores, special_ids=ids, add_bos=add_bos)


def add_to_gguf(writer, vocab):
    writer.add_tokenizer_model(vocab.model)
    writer.add_tokenizer_pre(vocab.pre)
    writer.add_token_list(vocab.tokens)
    writer.add_token_types(vocab.types)
    if vocab.scores:
        writer.add_token_scores(vocab.scores)
    if vocab.merges:
        writer.add_token_merges(vocab.merges)
    add_id = {
        "bos": writer.add_bos_token_id,
        "eos": writer.add_eos_token_id,
        "eot": writer.add_eot_token_id,
        "unk": writer.add_unk_token_id,
        "pad": writer.add_pad_token_id,
    }
    for role, token in vocab.special_ids.items():
        add_id[role](token)
    if vocab.add_bos is not None:
        writer.add_add_bos_token(vocab.add_bos)
