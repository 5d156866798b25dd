"""Preference losses (DPO, IPO, ORPO, KTO) against plain torch forms of their papers' formulas: gradients of adapters, and
the losses, accuracies and reward margins of 30 steps from the same start.

Usage: preference_parity.py GRAFT [LOSS ...]     (GRAFT: the command line tool; run with a Python that has torch; no LOSS: all)
Exit status: 0 all agree, 1 some do not, 77 torch is not installed.
"""

import json
import os
import random
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
import decoders
import letter_text
import parity
from letter_text import CONFIG, END, ids
from lora_parity import ALPHA, RANK, peft_matrices, weight_with
from parity import CURVE_TOLERANCE, Report, graft

STEPS, BATCH, RECORDS, LENGTH, RATE = 30, 2, 6, 24, 3e-3
GRADIENT_TOLERANCE = 1e-3
LOSSES = {"dpo": {"beta": 0.5}, "dpo smooth": {"beta": 0.3, "label_smoothing": 0.2}, "ipo": {"beta": 0.2},
          "orpo": {"beta": 0.4}, "kto": {"beta": 0.5, "desirable": 1.5, "undesirable": 0.5}}


def records(kind):
    draw = random.Random(3)
    text = lambda most: "".join(draw.choice("abcdefgh ") for _ in range(draw.randint(2, most)))
    if kind == "kto":
        return [{"prompt": text(8), "completion": text(10), "label": i % 3 != 0} for i in range(RECORDS)]
    return [{"prompt": text(8), "chosen": text(10), "rejected": text(12)} for i in range(RECORDS)]


def log_probability(weights, prompt, answer):
    """Of the answer and the token that ends it; and how many tokens that is."""
    row = ids(prompt) + ids(answer) + [END]
    logits = decoders.forward(CONFIG, weights, torch.tensor([row[:-1]]))[0].log_softmax(-1)
    said = torch.tensor(row[1:])
    return logits.gather(1, said[:, None])[len(ids(prompt)) - 1:].sum(), len(row) - len(ids(prompt))


KNOWN = {}


def reference(base, prompt, text):
    """What the model without adapters gives, computed once."""
    key = id(base), prompt, text
    if key not in KNOWN:
        with torch.no_grad():
            KNOWN[key] = float(log_probability(base, prompt, text)[0])
    return KNOWN[key]


def texts_of(kind, index, data):
    record = data[index]
    if kind != "kto":
        return record["chosen"], record["rejected"]
    return record["completion"], data[(index + 1) % len(data)]["completion"]


def loss_of(kind, options, policy, base, batch, data):
    """The mean loss of a batch, the share of samples that are told apart rightly, and the mean reward margin."""
    beta = options["beta"]
    now, then, sizes = [], [], []
    for i in batch:
        pair = [log_probability(policy, data[i]["prompt"], text) for text in texts_of(kind, i, data)]
        now.append(torch.stack([p for p, _ in pair]))
        sizes.append(torch.tensor([float(n) for _, n in pair]))
        then.append(torch.tensor([reference(base, data[i]["prompt"], text) for text in texts_of(kind, i, data)]))
    now, then, sizes = torch.stack(now), torch.stack(then), torch.stack(sizes)
    if kind == "dpo":
        x = beta * ((now - then)[:, 0] - (now - then)[:, 1])
        wrong = options.get("label_smoothing", 0)
        return (-(1 - wrong) * F.logsigmoid(x) - wrong * F.logsigmoid(-x)).mean(), (x > 0).float().mean(), x.mean()
    if kind == "ipo":
        x = ((now - then) / sizes)[:, 0] - ((now - then) / sizes)[:, 1]
        return (x - 1 / (2 * beta)).square().mean(), (x > 0).float().mean(), beta * x.mean()
    if kind == "orpo":
        mean = now / sizes
        odds = mean - torch.log1p(-mean.exp())
        loss = -mean[:, 0] - beta * F.logsigmoid(odds[:, 0] - odds[:, 1])
        x = beta * (mean[:, 0] - mean[:, 1])
        return loss.mean(), (x > 0).float().mean(), x.mean()
    reward, other = (now - then)[:, 0], (now - then)[:, 1]
    zero = other.mean().clamp(min=0).detach()
    wanted = torch.tensor([1.0 if data[i]["label"] else -1.0 for i in batch])
    weight = torch.where(wanted > 0, options["desirable"], options["undesirable"])
    x = beta * wanted * (reward - zero)
    return (weight * (1 - torch.sigmoid(x))).mean(), (x > 0).float().mean(), (beta * wanted * reward).mean()


def flags(kind, options, folder):
    given = ["--data", f"jsonl:{folder}/data.jsonl", "--seq", str(LENGTH), "--loss", kind, "--beta", str(options["beta"]), "--batch",
             str(BATCH), "--no-shuffle", "--quiet", "--metrics", f"{folder}/metrics.jsonl", "--seed", "5"]
    for name, flag in (("label_smoothing", "--label-smoothing"), ("desirable", "--desirable-weight"),
                       ("undesirable", "--undesirable-weight")):
        given += [flag, str(options[name])] if name in options else []
    return given


def steps_of(folder):
    with open(f"{folder}/metrics.jsonl") as file:
        return [row for row in map(json.loads, file) if row["kind"] == "step"]


def adapted(weights, adapters):
    return {name: weight_with(w, *adapters[name][:2]) if name in adapters else w for name, w in weights.items()}


def check_gradients(report, name, kind, options, folder, weights, data):
    """One plain step from adapters that have learned something: what they moved by is the gradient."""
    given = flags(kind, options, folder)
    graft("train", f"{folder}/m.graft", *given, "--adapter", f"{folder}/learned.graft", "--optimizer", "sgd", "--lr", "1",
          "--steps", "1", "-o", f"{folder}/moved.graft")
    before, after = peft_matrices(f"{folder}/learned.graft", folder), peft_matrices(f"{folder}/moved.graft", folder)
    loss, right, margin = loss_of(kind, options, adapted(weights, before), weights, range(BATCH), data)
    loss.backward()
    step = steps_of(folder)[0]
    report.check(name, "loss, accuracy and reward margin of a step from adapters that have learned",
                 max(abs(step["loss"] - float(loss)), abs(step["accuracy"] - float(right)),
                     abs(step["reward_margin"] - float(margin))), CURVE_TOLERANCE)
    for part in (0, 1):
        wanted = torch.cat([pair[part].grad.flatten() for pair in before.values()])
        moved = torch.cat([(b[part] - a[part]).detach().flatten() for a, b in zip(after.values(), before.values())])
        report.check(name, f"gradients of {'AB'[part]}", float((moved - wanted).norm() / wanted.norm()), GRADIENT_TOLERANCE)


def check_curve(report, name, kind, options, folder, weights, data):
    given = flags(kind, options, folder) + ["--lora", f"r={RANK},alpha={ALPHA}", "--weight-decay", "0"]
    graft("train", f"{folder}/m.graft", *given, "--lr", "0", "--steps", "1", "-o", f"{folder}/start.graft")
    adapters = peft_matrices(f"{folder}/start.graft", folder)
    optimizer = torch.optim.AdamW([m for pair in adapters.values() for m in pair[:2]], lr=RATE, weight_decay=0)
    expected = []
    for step in range(STEPS):
        batch = [(step * BATCH + i) % RECORDS for i in range(BATCH)]
        loss, right, margin = loss_of(kind, options, adapted(weights, adapters), weights, batch, data)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append((float(loss), float(right), float(margin)))
    graft("train", f"{folder}/m.graft", *given, "--lr", str(RATE), "--steps", str(STEPS), "-o", f"{folder}/end.graft")
    rows = steps_of(folder)
    assert len(rows) == STEPS
    assert expected[-1][2] > expected[0][2] + 0.02, "the margin grows"
    report.check(name, f"losses of {STEPS} steps, {expected[0][0]:.3f} to {expected[-1][0]:.3f}",
                 max(abs(row["loss"] - e[0]) for row, e in zip(rows, expected)), CURVE_TOLERANCE)
    report.check(name, f"reward margins, {expected[0][2]:.3f} to {expected[-1][2]:.3f}",
                 max(abs(row["reward_margin"] - e[2]) for row, e in zip(rows, expected)), CURVE_TOLERANCE)


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    torch.set_num_threads(1)
    report = Report()
    for name, options in LOSSES.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        kind = name.split()[0]
        KNOWN.clear()
        data = records(kind)
        with tempfile.TemporaryDirectory() as folder:
            letter_text.write_model(f"{folder}/model")
            weights = decoders.load_safetensors(f"{folder}/model/model.safetensors")
            graft("convert", f"{folder}/model", "-o", f"{folder}/m.graft")
            with open(f"{folder}/data.jsonl", "w") as out:
                out.writelines(json.dumps(record) + "\n" for record in data)
            graft("train", f"{folder}/m.graft", *flags(kind, options, folder), "--lora", f"r={RANK},alpha={ALPHA}", "--lr",
                  "1e-2", "--steps", "4", "-o", f"{folder}/learned.graft")
            check_gradients(report, name, kind, options, folder, weights, data)
            check_curve(report, name, kind, options, folder, weights, data)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
