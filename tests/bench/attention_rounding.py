"""How far attention is off when what goes from one product to the next is rounded to f16: attention_rounding.py [DRAWS]

In double, with numbers that f16 holds, with and without the two roundings that the kernels for matrix units do: of the
softmax weights before they are multiplied with values (and with gradients, for dv), of the gradients of scores before
dq and dk. Printed are, in percent of an element or of its tensor's root mean square, whichever is larger (as the tests
of ops compare), the largest and the median largest difference of a draw: result, dq, dk, dv.
"""

import sys

import numpy as np


def to_half(x):
    return x.astype(np.float16).astype(np.float64)


def attend(q, k, v, dy, mask, scale, softcap, rounded):
    scores = q @ k.T * scale
    slope = np.ones_like(scores)
    if softcap:
        t = np.tanh(scores / softcap)
        scores, slope = softcap * t, 1 - t * t
    scores = np.where(mask, scores, -1e30)
    weights = np.exp(scores - scores.max(1, keepdims=True)) * mask
    total = np.maximum(weights.sum(1, keepdims=True), 1e-300)
    y = rounded(weights) @ v / total
    weights = weights / total
    d_scores = weights * (dy @ v.T - (dy * y).sum(1, keepdims=True)) * slope * scale
    return y, rounded(d_scores) @ k, rounded(d_scores).T @ q, rounded(weights).T @ dy


def differences(seed, queries, keys, group, dim, spread=1, scale=None, softcap=0, window=0):
    random = np.random.default_rng(seed)

    def numbers(rows, most=1):
        return to_half(random.uniform(-most, most, (rows, dim)))

    k, v = numbers(keys, spread), numbers(keys)
    row, key = np.arange(queries)[:, None] + keys - queries, np.arange(keys)[None]
    mask = (key <= row) & ((row - key < window) if window else True)
    sides = []
    heads = [(numbers(queries, spread), numbers(queries)) for _ in range(group)]
    for rounded in (lambda x: x, to_half):
        parts = [attend(q, k, v, dy, mask, scale or dim**-0.5, softcap, rounded) for q, dy in heads]
        y, dq, dk, dv = (np.array(x) for x in zip(*parts))
        sides.append((y, dq, dk.sum(0), dv.sum(0)))  # a group's heads share keys and values
    return [(np.abs(a - b) / np.maximum(np.abs(a), np.sqrt((a * a).mean()))).max() for a, b in zip(*sides)]


CASES = {
    "several tiles": (70, 70, 1, 16),
    "group of four": (41, 41, 4, 32),
    "more keys": (20, 67, 2, 16),
    "more queries": (67, 20, 2, 16),
    "head of one": (34, 34, 1, 1),
    "head of 48": (40, 40, 2, 48),
    "head of 128": (36, 36, 1, 128),
    "head of 256": (36, 36, 2, 256),
    "scale": (33, 33, 2, 8, 1, 0.9),
    "softcap": (33, 33, 2, 8, 1, 2.0, 1.5),
    "window": (100, 100, 2, 8, 1, None, 0, 20),
    "far scores": (80, 80, 2, 16, 6),
}


def main():
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    print(f"{'percent':16} {'result':>15} {'dq':>15} {'dk':>15} {'dv':>15}")
    for name, sizes in CASES.items():
        found = 100 * np.array([differences(seed, *sizes) for seed in range(draws)])
        cells = (f"{most:6.3f} ({middle:.3f})" for most, middle in zip(found.max(0), np.median(found, 0)))
        print(f"{name:16} " + " ".join(f"{cell:>15}" for cell in cells))


if __name__ == "__main__":
    main()
