"""Embeddings of texts by `graft embed` beside the same pooled in plain torch, family by family.

Usage: embed_parity.py GRAFT     (GRAFT: the command line tool; run with a Python that has torch)
Exit status: 0 all agree, 1 some do not, 77 torch is not installed.
"""

import json
import os
import shutil
import sys
import tempfile

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

import decoders
import letter_text
import parity
from decoder_parity import CASES, like, write_folder
from encoder_parity import write_modules
from parity import FORWARD_TOLERANCE, Report, error, graft

# Of several lengths beyond and below what groups are padded to, two of them alike.
TEXTS = ["a", "The quick brown fox jumps over the lazy dog", "short one", "a", "An answer: 42", "x" * 16, "y" * 17]


def hidden_states(config, weights, tokens):
    """What the head reads: an identity in its place, without its scale and cap."""
    width = config.get("hidden_size", config.get("n_embd"))
    plain = {**config, "tie_word_embeddings": False, "logits_scaling": 1.0, "final_logit_softcapping": None}
    return decoders.forward(plain, {**weights, "lm_head.weight": torch.eye(width)}, tokens)


def pooled(config, weights, text, pooling):
    states = hidden_states(config, weights, torch.tensor([letter_text.ids(text)]))[0]
    return {"mean": states.mean(0), "last": states[-1], "cls": states[0]}[pooling].numpy()


def check(report, case, config):
    config = like(config, vocab_size=len(letter_text.IDS), eos_token_id=letter_text.END)
    weights = decoders.random_weights(config, seed=2)
    with tempfile.TemporaryDirectory() as folder:
        letter_text.write_model(f"{folder}/letters")
        write_folder(f"{folder}/model", config, weights)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"{folder}/letters/{name}", f"{folder}/model/{name}")
        graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
        with open(f"{folder}/texts.txt", "w") as out:
            out.write("".join(text + "\n" for text in TEXTS))
        for pooling in ("mean", "last", "cls"):
            longest = config.get("n_positions", 60)
            expected = np.stack([pooled(config, weights, text[:longest], pooling) for text in TEXTS])
            flags = ("embed", f"{folder}/a.graft", "--file", f"{folder}/texts.txt", "--pooling", pooling, "--length", longest,
                     "--on-long", "cut", "--batch", 3)
            graft(*flags, "-o", f"{folder}/out.npy")
            report.check(case, f"{pooling} of texts", error(np.load(f"{folder}/out.npy"), expected), FORWARD_TOLERANCE)
            lines = [json.loads(line) for line in graft(*flags, "--normalize").splitlines()]
            assert [line["text"] for line in lines] == TEXTS and [line["tokens"] for line in lines] == list(map(len, TEXTS))
            expected /= np.linalg.norm(expected, axis=1, keepdims=True)
            got = np.array([line["embedding"] for line in lines])
            report.check(case, f"{pooling} of length 1", error(got, expected), FORWARD_TOLERANCE)
            assert (got[0] == got[3]).all(), "what stands beside a text changes nothing"


def check_qwen_embedding(report):
    """A Qwen3-Embedding's folder: names of the base class, the last token's vector, of length 1."""
    config = like(CASES["qwen3_tied"], vocab_size=len(letter_text.IDS), eos_token_id=letter_text.END,
                  architectures=["Qwen3ForCausalLM"])
    weights = decoders.random_weights(config, seed=3)
    with tempfile.TemporaryDirectory() as folder:
        letter_text.write_model(f"{folder}/letters")
        write_folder(f"{folder}/model", config, {name.removeprefix("model."): w for name, w in weights.items()})
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"{folder}/letters/{name}", f"{folder}/model/{name}")
        write_modules(f"{folder}/model", ["lasttoken"], True)
        graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
        expected = np.stack([pooled(config, weights, text, "last") for text in TEXTS])[:, :9]
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        graft("embed", f"{folder}/a.graft", *(part for text in TEXTS for part in ("--text", text)), "--dimensions", 9, "-o",
              f"{folder}/out.npy")
        report.check("qwen3_embedding", "9 dimensions of texts", error(np.load(f"{folder}/out.npy"), expected),
                     FORWARD_TOLERANCE)


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    report = Report()
    with torch.no_grad():
        for case in ("llama", "qwen3_tied", "gemma2", "granite", "gpt2"):
            check(report, case, CASES[case])
        check_qwen_embedding(report)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
