"""InfoNCE training of encoders and decoders of texts against plain torch: the loss of each step and the weights behind it.

Usage: contrast_parity.py GRAFT     (GRAFT: the command line tool; run with a Python that has torch)
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
    import torch.nn.functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

import decoders
import encoders
import letter_text
import parity
from decoder_parity import LLAMA, like, write_folder
from embed_parity import hidden_states
from encoder_parity import CASES as ENCODERS
from parity import Report, error, graft

LENGTH = 12
TEMPERATURE = 0.2
LOSS_TOLERANCE = 1e-5
# One step of plain SGD moves weights by their gradients alone.
GRADIENT_TOLERANCE = 1e-3

# Records with no, one and two negatives; one text is cut.
RECORDS = [{"query": "red apple", "positive": "fruit", "negatives": ["car", "a blue sea"]},
           {"anchor": "fast", "positive": "a quick car"},
           {"query": "deep", "positive": "the sea", "negative": "very much too long for it"},
           {"query": "tall", "positive": "tower", "negatives": []}]


def states_of(config, weights, ids):
    tokens = torch.tensor([ids])
    if config["model_type"] == "llama":
        return hidden_states(config, weights, tokens)[0]
    return encoders.forward(config, weights, tokens)["last_hidden_state"][0]


def loss_of(config, weights, pooling):
    def vector(text):
        states = states_of(config, weights, letter_text.ids(text)[:LENGTH])
        return F.normalize({"mean": states.mean(0), "last": states[-1], "cls": states[0]}[pooling], dim=0)

    queries = torch.stack([vector(r.get("query", r.get("anchor"))) for r in RECORDS])
    positives = [vector(r["positive"]) for r in RECORDS]
    negatives = [vector(text) for r in RECORDS
                 for text in r.get("negatives", [r["negative"]] if "negative" in r else [])]
    scores = queries @ torch.stack(positives + negatives).T / TEMPERATURE
    right = (scores.argmax(1) == torch.arange(len(RECORDS))).float().mean()
    return F.cross_entropy(scores, torch.arange(len(RECORDS))), float(right)


def check(report, case, config, weights, pooling):
    with tempfile.TemporaryDirectory() as folder:
        letter_text.write_model(f"{folder}/letters")
        write_folder(f"{folder}/model", config, weights)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"{folder}/letters/{name}", f"{folder}/model/{name}")
        graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
        with open(f"{folder}/groups.jsonl", "w") as out:
            out.writelines(json.dumps(record) + "\n" for record in RECORDS)
        flags = ["--data", f"jsonl:{folder}/groups.jsonl", "--seq", LENGTH, "--batch", len(RECORDS), "--loss", "infonce",
                 "--temperature", TEMPERATURE, "--pooling", pooling]
        graft("train", f"{folder}/a.graft", *flags, "--optimizer", "sgd", "--lr", 1, "--steps", 1, "--no-shuffle",
              "--metrics", f"{folder}/metrics.jsonl", "-o", f"{folder}/b.graft")
        with open(f"{folder}/metrics.jsonl") as file:
            rows = [json.loads(line) for line in file]
        step = next(row for row in rows if row["kind"] == "step")
        for tensor in weights.values():
            tensor.requires_grad_()
        expected, right = loss_of(config, weights, pooling)
        report.check(case, f"loss, {pooling}", abs(step["loss"] - float(expected)) / float(expected), LOSS_TOLERANCE)
        assert step["accuracy"] == right, (step, right)
        gradients = torch.autograd.grad(expected, list(weights.values()), allow_unused=True)
        graft("export", f"{folder}/b.graft", "-o", f"{folder}/back")
        after = decoders.load_safetensors(f"{folder}/back/model.safetensors")
        moved = {name: weights[name].detach() - after[name] for name, g in zip(weights, gradients) if g is not None}
        wanted = {name: g for name, g in zip(weights, gradients) if g is not None}
        largest = max(float(g.norm()) for g in wanted.values())
        # What is left of a small gradient between two rounded weights counts against the largest.
        worst = max(float((moved[name] - g).norm()) / max(float(g.norm()), 1e-2 * largest) for name, g in wanted.items())
        report.check(case, f"{len(wanted)} gradients, {pooling}", worst, GRADIENT_TOLERANCE)
        told = json.loads(graft("eval", f"{folder}/a.graft", *flags, "--json"))
        report.check(case, "evaluation", abs(told["loss"] - float(expected)) / float(expected), LOSS_TOLERANCE)
        # What was trained is what `graft embed` gives without a word.
        graft("embed", f"{folder}/b.graft", "--text", "red apple", "-o", f"{folder}/out.npy")
        with torch.no_grad():
            states = states_of(config, {name: after[name] for name in weights}, letter_text.ids("red apple"))
            pooled = F.normalize({"mean": states.mean(0), "last": states[-1], "cls": states[0]}[pooling], dim=0)
        report.check(case, "embedding behind it", error(np.load(f"{folder}/out.npy")[0], pooled.numpy()), 1e-5)


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    report = Report()
    words = {"vocab_size": len(letter_text.IDS)}
    for case, pooling in (("bert", "mean"), ("roberta_masked", "cls"), ("distilbert", "last")):
        config, flags = ENCODERS[case]
        config = like(config, **words)
        check(report, case, config, encoders.random_weights(config, seed=6, **flags), pooling)
    config = like(LLAMA, tie_word_embeddings=True, eos_token_id=letter_text.END, **words)
    check(report, "llama", config, decoders.random_weights(config, seed=6), "last")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
