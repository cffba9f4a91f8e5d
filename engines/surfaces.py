"""The surfaces of a case, for engines with sessions: the ways in which the same tokens are evaluated.

A model has start(), a new session, and together(sequences), which evaluates several at once and returns what was
computed for the first. A session has feed(tokens), which evaluates them after those before, and restored(), a session
that goes on from what this one has cached. Both feed() and together() return {checkpoint: rows [tokens, n]}; where an
engine computes fewer rows, as logits of the last token alone, they are of the last tokens.
"""


def others(tokens, count):
    """`count` further prompts, of other lengths: the tokens rotated, one shorter, one longer, two shorter, …"""
    made = []
    for i in range(1, count + 1):
        length = max(1, len(tokens) + (i + 1) // 2 * (1 if i % 2 == 0 else -1))
        start = i % len(tokens)
        turned = tokens[start:] + tokens[:start]
        made.append((turned * 2)[:length] if length <= 2 * len(tokens) else turned * 2)
    return made


def parts(case):
    """The tokens of a case as they are fed one after the other."""
    step = {"alone": len(case.tokens), "steps": 1, "chunks": case.size}.get(case.surface)
    if step is None:  # cached: a prefix, then the rest
        step = max(1, len(case.tokens) // 2)
        halves = case.tokens[:step], case.tokens[step:]
        return [half for half in halves if half]
    return [case.tokens[i : i + step] for i in range(0, len(case.tokens), step)]


def placed(name, rows, first, count):
    """The rows with the positions of the last of `count` tokens from `first` on."""
    if not 0 < len(rows) <= count:
        raise ValueError(f"'{name}': {len(rows)} rows of {count} tokens")
    return name, range(first + count - len(rows), first + count), rows


def records(case, model):
    """What an adapter's run(case) returns."""
    if case.surface == "batch":
        found = model.together([case.tokens, *others(case.tokens, case.size - 1)])
        return [placed(name, rows, 0, len(case.tokens)) for name, rows in found.items()]
    made, first = [], 0
    session = model.start()
    for part in parts(case):
        if first and case.surface == "cached":
            session = session.restored()
        for name, rows in session.feed(part).items():
            made.append(placed(name, rows, first, len(part)))
        first += len(part)
    return made


def padded(sequences, pad=0):
    """(ids, mask), each [sequences, longest], padded on the left."""
    longest = max(map(len, sequences))
    ids = [[pad] * (longest - len(one)) + list(one) for one in sequences]
    mask = [[0] * (longest - len(one)) + [1] * len(one) for one in sequences]
    return ids, mask
