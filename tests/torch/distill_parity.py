"""Distillation from a larger model's logits against plain torch (Hinton et al. 2015): gradients of the trained model, and the
losses of 30 steps from the same start; adapters, a teacher of blocks.

Usage: distill_parity.py GRAFT [brief]     (GRAFT: the command line tool; run with a Python that has torch)
Exit status: 0 all agree, 1 some do not, 77 torch is not installed.
"""

import json
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
from decoder_parity import CASES, LLAMA, like, write_folder
from lora_parity import ALPHA, BATCH, LENGTH, RANK, STEPS, batches, peft_matrices, weight_with
from parity import CURVE_TOLERANCE, GRADIENT_TOLERANCE, Report, graft

RATE, WEIGHT, TEMPERATURE = 1e-2, 0.7, 3.0
TEACHER = like(LLAMA, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4)


def distillation(own, teacher, labels, weight, temperature):
    """weight T^2 KL(teacher | own) + (1 - weight) ce, means over the tokens that are learned."""
    own, teacher, labels = own.flatten(0, 1), teacher.flatten(0, 1), labels.flatten()
    counts = labels != -100
    soft = F.kl_div((own[counts] / temperature).log_softmax(-1), (teacher[counts] / temperature).softmax(-1), reduction="batchmean")
    return weight * temperature ** 2 * soft + (1 - weight) * F.cross_entropy(own, labels)


def curve(folder, path, output, steps, *flags, rate=RATE, batch=("--batch", str(BATCH))):
    graft("train", path, "--teacher", f"{folder}/teacher.graft", "--data", f"npy:{folder}/x.npy,{folder}/y.npy?integers=yes",
          "--seq", str(LENGTH), *batch, "--steps", str(steps), "--lr", str(rate), "--weight-decay", "0",
          "--no-shuffle", "--seed", "11", "--quiet", "--metrics", f"{folder}/metrics.jsonl", "-o", f"{folder}/{output}", *flags)
    with open(f"{folder}/metrics.jsonl") as file:
        return [json.loads(line)["loss"] for line in file if "loss" in line]


def weights_of(folder, name):
    graft("export", f"{folder}/{name}.graft", "-o", f"{folder}/{name}.safetensors")
    return decoders.load_safetensors(f"{folder}/{name}.safetensors")


def torch_curve(parameters, forward, teacher, tokens, labels, weight, temperature):
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0)
    losses = []
    for step in range(STEPS):
        first = step * BATCH % len(tokens)
        rows = slice(first, first + BATCH)
        loss = distillation(forward(tokens[rows]), teacher[rows], labels[rows], weight, temperature)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def check_adapters(report, case, config, weights, student, said, tokens, labels, settings, folder):
    """Adapters, and micro-batches."""
    lora = ("--lora", f"r={RANK},alpha={ALPHA}")
    curve(folder, student, "start.graft", 1, *lora, rate=0)
    adapters = peft_matrices(f"{folder}/start.graft", folder)
    parts = [part for pair in adapters.values() for part in pair if part is not None]
    adapted = lambda: {name: weight_with(w, *adapters[name]) if name in adapters else w for name, w in weights.items()}
    expected = torch_curve(parts, lambda x: decoders.forward(config, adapted(), x), said, tokens, labels, WEIGHT, TEMPERATURE)
    actual = curve(folder, student, "end.graft", STEPS, *lora, *settings, batch=("--batch", str(BATCH // 2), "--accumulate", "2"))
    report.check(case, f"adapters, {expected[0]:.3f} to {expected[-1]:.3f}",
                 max(abs(a - b) for a, b in zip(actual, expected, strict=True)), CURVE_TOLERANCE)


def check(report, case, config, quantize, folder, brief):
    tokens, labels = batches(config)
    np.save(f"{folder}/x.npy", tokens.numpy().astype(np.int32))
    np.save(f"{folder}/y.npy", labels.numpy().astype(np.int32))
    weights, larger = decoders.random_weights(config, seed=1), decoders.random_weights({**TEACHER, "vocab_size": config["vocab_size"]}, seed=2)
    larger = {name: tensor * 2 if "head" in name else tensor for name, tensor in larger.items()}  # surer of itself
    write_folder(f"{folder}/student", config, weights)
    write_folder(f"{folder}/larger", {**TEACHER, "vocab_size": config["vocab_size"]}, larger)
    graft("convert", f"{folder}/student", "-o", f"{folder}/student.graft")
    graft("convert", f"{folder}/larger", "-o", f"{folder}/teacher.graft", *(["--quantize", "q8_0"] if quantize else []))
    np.save(f"{folder}/tokens.npy", tokens.numpy().astype(np.int32))
    if quantize:  # what the blocks stand for
        graft("run", f"{folder}/teacher.graft", "--input", f"tokens={folder}/tokens.npy", "--out", f"{folder}/out")
        said = torch.from_numpy(np.load(f"{folder}/out/logits.npy"))
    else:
        said = decoders.forward({**TEACHER, "vocab_size": config["vocab_size"]}, larger, tokens)
    student = f"{folder}/student.graft"
    settings = ("--distill-weight", str(WEIGHT), "--distill-temperature", str(TEMPERATURE))

    if quantize:
        return check_adapters(report, case, config, weights, student, said, tokens, labels, settings, folder)
    # One step of plain descent at a rate of 1: what it takes off is the gradient.
    own = {name: tensor.clone().requires_grad_() for name, tensor in weights.items()}
    loss = distillation(decoders.forward(config, own, tokens[:BATCH]), said[:BATCH], labels[:BATCH], WEIGHT, TEMPERATURE)
    loss.backward()
    first = curve(folder, student, "one.graft", 1, "--optimizer", "sgd", *settings, rate=1)
    report.check(case, "loss before the first step", abs(first[0] - float(loss)), 1e-5 * max(1, float(loss)))
    moved = weights_of(folder, "one")
    worst = max(parity.error((weights[name] - moved[name]).numpy(), own[name].grad.numpy()) for name in own)
    report.check(case, "gradients", worst, GRADIENT_TOLERANCE)

    for weight, temperature in [(0.5, 2), (1, 1)][:1 if brief else None]:
        own = {name: tensor.clone().requires_grad_() for name, tensor in weights.items()}
        expected = torch_curve(list(own.values()), lambda x: decoders.forward(config, own, x), said, tokens, labels, weight, temperature)
        flags = [] if weight == 0.5 else ["--distill-weight", str(weight), "--distill-temperature", str(temperature)]
        actual = curve(folder, student, "end.graft", STEPS, *flags)
        assert expected[-1] < expected[0] - 0.05, "the model learns"
        report.check(case, f"losses of {STEPS} steps, weight {weight}, temperature {temperature}, {expected[0]:.3f} to {expected[-1]:.3f}",
                     max(abs(a - b) for a, b in zip(actual, expected, strict=True)), CURVE_TOLERANCE)


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    report = Report()
    brief = "brief" in sys.argv[2:]
    for case, quantize in [("llama", False), ("gemma2", True)][:1 if brief else None]:
        with tempfile.TemporaryDirectory() as folder:
            check(report, case, CASES[case], quantize, folder, brief)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
