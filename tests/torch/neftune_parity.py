"""Trains language models with noise on their embeddings (NEFTune) with graft and with plain torch, all weights of a
step alike, and compares the losses. The noise is drawn here by a Philox of its own.

Usage: neftune_parity.py GRAFT     (GRAFT: the command line tool; run with a Python that has torch)
Exit status: 0 all agree, 1 some do not, 77 torch is not installed.
"""

import json
import math
import os
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import decoders
import parity
from decoder_parity import CASES, write_folder
from parity import CURVE_TOLERANCE, Report, graft

STEPS, BATCH, ACCUMULATE, LENGTH, RATE, SEED, ALPHA = 30, 2, 2, 12, 3e-3, 11, 40
STREAM = 0x4e454654
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def philox(counter, key):
    """Philox4x32-10 (Salmon et al. 2011) of arrays of counters."""
    c, k = [np.asarray(part, np.uint64) for part in counter], list(key)
    low = np.uint64(0xffffffff)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), b & low, (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), a & low]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
    return c


def noise(step, micro_step, width):
    """Uniform in +-alpha / sqrt(length * width), as Jain et al. 2023 have it."""
    count = BATCH * LENGTH * width
    blocks = np.arange(-(-count // 4), dtype=np.uint64)
    same = lambda number: np.full_like(blocks, number)
    words = np.stack(philox((blocks, same(micro_step), same(step), same(0)), (SEED, STREAM)), -1).reshape(-1)[:count]
    unit = (words >> np.uint64(8)).astype(np.float64) / 2 ** 24
    bound = ALPHA / math.sqrt(LENGTH * width)
    return torch.from_numpy((2 * unit - 1) * bound).float().reshape(BATCH * LENGTH, width)


def loss_of(config, weights, tokens, labels, added=None):
    """The embedding's rows of these tokens are given as a table of their own, so that each place has its noise."""
    rows = weights[EMBEDDING][tokens.flatten()]
    given = {**weights, HEAD: weights.get(HEAD, weights[EMBEDDING]), EMBEDDING: rows if added is None else rows + added}
    logits = decoders.forward({**config, "tie_word_embeddings": False}, given, torch.arange(tokens.numel()).reshape(tokens.shape))
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")


def torch_curve(config, weights, tokens, labels, alpha):
    weights = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    optimizer = torch.optim.AdamW(weights.values(), lr=RATE, weight_decay=0)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for micro in range(ACCUMULATE):
            first = (step * ACCUMULATE + micro) * BATCH % len(tokens)
            x, y = tokens[first:first + BATCH], labels[first:first + BATCH]
            added = noise(step, micro, weights[EMBEDDING].shape[1]) if alpha else None
            loss = loss_of(config, weights, x, y, added) / (BATCH * ACCUMULATE * (LENGTH - 1))
            loss.backward()
            total += float(loss)
        optimizer.step()
        losses.append(total)
    return losses


def rows_of(folder, kind):
    with open(f"{folder}/metrics.jsonl") as file:
        return [row for row in map(json.loads, file) if row.get("kind", "step") == kind]


def check(report, case, config):
    weights = decoders.random_weights(config, seed=1)
    torch.manual_seed(7)
    tokens = torch.randint(0, config["vocab_size"], (4 * BATCH, LENGTH))
    labels = torch.roll(tokens, -1, 1)
    labels[:, -1] = -100
    with tempfile.TemporaryDirectory() as folder:
        write_folder(f"{folder}/model", config, weights)
        np.save(f"{folder}/x.npy", tokens.numpy().astype(np.int32))
        np.save(f"{folder}/y.npy", labels.numpy().astype(np.int32))
        graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
        data = f"npy:{folder}/x.npy,{folder}/y.npy?integers=yes"
        flags = ["train", f"{folder}/a.graft", "--data", data, "--seq", LENGTH, "--batch", BATCH, "--accumulate", ACCUMULATE,
                 "--weight-decay", 0, "--no-shuffle", "--seed", SEED, "--quiet", "--metrics", f"{folder}/metrics.jsonl"]
        graft(*flags, "--lr", RATE, "--steps", STEPS, "--neftune", ALPHA)
        actual = [row["loss"] for row in rows_of(folder, "step")]
        expected = torch_curve(config, weights, tokens, labels, ALPHA)
        plain = torch_curve(config, weights, tokens, labels, 0)
        assert len(actual) == STEPS
        worst = max(abs(a - b) for a, b in zip(actual, expected))
        report.check(case, f"losses of {STEPS} steps, {expected[0]:.3f} to {expected[-1]:.3f}", worst, CURVE_TOLERANCE)
        assert max(abs(a - b) for a, b in zip(plain, expected)) > 10 * CURVE_TOLERANCE, "the noise is seen"
        # Nothing moves, so that what is held out is the same model's loss without noise, and the training's is not.
        graft(*flags, "--lr", 0, "--steps", 1, "--neftune", ALPHA, "--eval", data, "-o", f"{folder}/b.graft")
        with torch.no_grad():
            still = float(loss_of(config, weights, tokens, labels)) / (tokens.shape[0] * (LENGTH - 1))
        for row in rows_of(folder, "held_out"):
            report.check(case, "held-out loss", abs(row["loss"] - still), CURVE_TOLERANCE / 10)


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    report = Report()
    for case in ("llama", "gemma2"):
        check(report, case, CASES[case])
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
