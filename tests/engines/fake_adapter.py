"""An adapter whose engine does what its first token says."""

import os
import sys

import numpy as np

import surfaces
from protocol import Unsupported, main

UNSUPPORTED, FAILS, ABORTS, NOT_A_NUMBER = 1, 2, 3, 4
SIZE = 6  # of the vocabulary


class Session:
    def __init__(self, seen=()):
        self.seen = list(seen)

    def feed(self, tokens):
        """A row is the number of tokens so far, and the sum of their ids."""
        rows = np.zeros((len(tokens), SIZE))
        for i, token in enumerate(tokens):
            self.seen.append(token)
            rows[i, :2] = len(self.seen), sum(self.seen)
        return {"layer_0_output": rows * 2, "logits": rows}

    def restored(self):
        return Session(self.seen)


class Model:
    def start(self):
        return Session()

    def together(self, sequences):
        print(f"{len(sequences)} sequences of {' '.join(str(len(one)) for one in sequences)}", file=sys.stderr)
        return Session().feed(sequences[0])


def run(case):
    print("an engine prints what it likes", flush=True)
    case.folder()
    if case.tokens[0] == UNSUPPORTED:
        raise Unsupported("no such\n architecture")
    if case.tokens[0] == FAILS:
        raise ValueError("a bug")
    if case.tokens[0] == ABORTS:
        os.abort()
    if case.tokens[0] == NOT_A_NUMBER:
        return [("logits", [0], np.array([[np.nan, np.inf, -np.inf, 0, 0, 0]]))]
    return surfaces.records(case, Model())


main(run, "fake", "1.0")
