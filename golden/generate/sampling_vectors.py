"""`python -m generate.sampling_vectors`: what a sampler must choose, written to tests/data/sampling/vectors.json.

The sampler is implemented again, from the specification in engine/sampler.h: the highest `top_k` logits (ties to the
lowest id), of these the fewest whose probabilities reach `top_p`, and one of them by softmax(logit / temperature), at
random by the 64-bit Mersenne twister of Matsumoto and Nishimura (2004). Temperature 0 is the highest logit.
"""

import json
import math
from pathlib import Path

import numpy as np

OUTPUT = Path(__file__).resolve().parents[2] / "tests" / "data" / "sampling" / "vectors.json"
MASK = (1 << 64) - 1


def mersenne_twister(seed):
    """The numbers of mt19937-64."""
    size, half = 312, 156
    state = [seed]
    for i in range(1, size):
        state.append((6364136223846793005 * (state[-1] ^ state[-1] >> 62) + i) & MASK)
    while True:
        for i in range(size):
            joined = state[i] & 0xFFFFFFFF80000000 | state[(i + 1) % size] & 0x7FFFFFFF
            state[i] = state[(i + half) % size] ^ joined >> 1 ^ (0xB5026F5AA96619E9 if joined & 1 else 0)
        for word in state:
            word ^= word >> 29 & 0x5555555555555555
            word ^= word << 17 & 0x71D67FFFEDA60000
            word ^= word << 37 & 0xFFF7EEE000000000
            yield word ^ word >> 43


def sample(logits, padding, temperature, top_k, top_p, seed, count):
    order = sorted((i for i in range(len(logits)) if i not in padding), key=lambda i: (-logits[i], i))
    if temperature == 0.0:
        return [order[0]] * count
    order = order[: top_k or None]
    highest = logits[order[0]]
    if top_p < 1.0:
        weights = [math.exp(logits[i] - highest) for i in order]
        total, reached, kept = sum(weights), 0.0, 0
        while kept < len(order) and reached < top_p * total:
            reached += weights[kept]
            kept += 1
        order = order[:kept]
    weights = [math.exp((logits[i] - highest) / temperature) for i in order]
    total = sum(weights)
    chosen = []
    numbers = mersenne_twister(seed)
    for _ in range(count):
        left = (next(numbers) >> 11) * 2.0**-53 * total
        for i, weight in zip(order, weights, strict=True):
            left -= weight
            if left < 0.0:
                break
        if abs(left) < 1e-9 * total:
            raise RuntimeError("a number falls on the border of two tokens; choose another seed")
        chosen.append(i)
    return chosen


def main():
    # The value that the authors' paper and the C++ standard ([rand.predef]) give for the 10000th number.
    numbers = mersenne_twister(5489)
    if [next(numbers) for _ in range(10000)][-1] != 9981545732273789042:
        raise RuntimeError("the Mersenne twister is wrong")
    logits = np.random.default_rng(7).normal(0.0, 2.0, 64).astype(np.float32)
    # The highest logit is shared by three ids, and by one more of padding that stands before them.
    logits[[11, 23, 24, 57]] = np.float32(4.25)
    values, padding = [float(x) for x in logits], {3, 11, 40}
    draws = []
    for temperature, top_k, top_p, seed in (
        (0.0, 0, 1.0, 0),
        (1.0, 0, 1.0, 1),
        (0.8, 8, 1.0, 42),
        (1.3, 0, 0.9, 7),
        (0.7, 12, 0.8, 123456789012345),
    ):
        tokens = sample(values, padding, temperature, top_k, top_p, seed, 32)
        draw = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "tokens": tokens}
        draws.append(draw)
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    rows = ",\n  ".join(json.dumps(draw) for draw in draws)
    OUTPUT.write_text(
        f'{{\n "logits": {json.dumps(values)},\n "padding": {json.dumps(sorted(padding))},\n "draws": [\n  {rows}\n ]\n}}\n'
    )


if __name__ == "__main__":
    main()
