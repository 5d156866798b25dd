"""Losses, optimizers and schedules of `graft train` against PyTorch, in double precision.

Usage: loss_parity.py GRAFT [CASE ...]

Each case trains a small network by SGD on the same batches in both; gradients that differ show in the losses of the
steps after the first, and in the outputs of the trained network. Optimizers that PyTorch 1.13 lacks are plain loops
here, by their papers.
"""

import json
import os
import sys
import tempfile

try:
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import parity
from parity import Report, graft

# f32 against f64 over a few steps.
TOLERANCE = 2e-4
STEPS = 6
BATCH = 8


class Net(nn.Module):
    """Two outputs of given shapes from vectors of 6."""

    def __init__(self, *shapes):
        super().__init__()
        self.shapes = shapes
        self.body = nn.Linear(6, 10)
        self.heads = nn.ModuleList(nn.Linear(10, int(np.prod(s))) for s in shapes)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        outs = tuple(head(h).reshape(-1, *s) for head, s in zip(self.heads, self.shapes))
        return outs if len(outs) > 1 else outs[0]


def labels(shape, classes, seed=3, ignored=False):
    y = torch.randint(0, classes, shape, generator=torch.Generator().manual_seed(seed))
    if ignored:
        y.flatten()[::5] = -100
    return y


def noise(*shape, seed=4):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


N = STEPS * BATCH


def softened(student, teacher, y, t=2):
    kl = F.kl_div(F.log_softmax(student / t, 1), F.log_softmax(teacher / t, 1), reduction="batchmean", log_target=True)
    return 0.5 * t * t * kl + 0.5 * F.cross_entropy(student, y)


def soft(*shape):
    return torch.softmax(noise(*shape), 1)


def focal(out, y, weights=None, gamma=2.0):
    rows = F.cross_entropy(out, y, reduction="none")
    p = torch.exp(-rows)
    alpha = weights[y] if weights is not None else 1
    return (alpha * (1 - p) ** gamma * rows).mean()


def binary_focal(out, z, gamma=2.0, alpha=0.25):
    p = torch.sigmoid(out)
    ce = F.binary_cross_entropy_with_logits(out, z, reduction="none")
    p_t = p * z + (1 - p) * (1 - z)
    return ((alpha * z + (1 - alpha) * (1 - z)) * ce * (1 - p_t) ** gamma).mean()


def dice(p, z, axes):
    return (1 - (2 * (p * z).sum(axes) + 1e-5) / (p.sum(axes) + z.sum(axes) + 1e-5)).mean()


def class_dice(out, y):
    p, z = torch.softmax(out, 1), F.one_hot(y, out.shape[1]).movedim(-1, 1).to(out.dtype)
    return dice(p, z, (2, 3))


def info_nce(a, b, t=0.2):
    logits = F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / t
    return F.cross_entropy(logits, torch.arange(len(a)))


def ctc(out, y):
    lengths = (y >= 0).sum(1)
    return F.ctc_loss(F.log_softmax(out, -1).transpose(0, 1), y.clamp(min=0), torch.full((len(y),), out.shape[1]), lengths)


CTC_LABELS = labels((N, 3), 4, seed=9) + 1
CTC_LABELS[::3, 2] = -1
CTC_LABELS[::4, 1] = CTC_LABELS[::4, 0]
WEIGHTS = torch.tensor([1.0, 0.5, 2.0, 1.5, 0.25], dtype=torch.float64)
W_TEXT = "1,0.5,2,1.5,0.25"
SAMPLE_WEIGHTS = noise(N, seed=8).abs().float().double()
BITS = (noise(N, 4) > 0).double()
MASK = (noise(N, 1, 3, 4) > 0).double()

# name: output shapes, targets by name, flags, the loss of (outputs, targets)
LOSSES = {
    "ce": ([(5,)], {"y": labels((N,), 5)}, ["--loss", "ce"], lambda o, y: F.cross_entropy(o, y)),
    "ce ignored, smoothed, weighted": (
        [(5,)], {"y": labels((N,), 5, ignored=True)},
        ["--loss", "ce", "--class-weights", W_TEXT, "--label-smoothing", "0.1"],
        lambda o, y: F.cross_entropy(o, y, weight=WEIGHTS, label_smoothing=0.1)),
    "ce smoothed to the uniform": ([(5,)], {"y": labels((N,), 5)}, ["--loss", "ce", "--label-smoothing", "1"],
                                   lambda o, y: F.cross_entropy(o, y, label_smoothing=1.0)),
    "distill": ([(5,), (5,)], {"y": labels((N,), 5)}, ["--loss", "distill"], softened),
    "ce weighted": ([(5,)], {"y": labels((N,), 5, ignored=True)}, ["--loss", "ce", "--class-weights", W_TEXT],
                    lambda o, y: F.cross_entropy(o, y, weight=WEIGHTS)),
    "ce of masks": ([(5, 3, 4)], {"y": labels((N, 3, 4), 5)}, ["--loss", "ce"], lambda o, y: F.cross_entropy(o, y)),
    "ce of masks, classes last": ([(3, 4, 5)], {"y": labels((N, 3, 4), 5)}, ["--loss", "ce"],
                                  lambda o, y: F.cross_entropy(o.movedim(-1, 1), y)),
    "ce of a named axis": ([(5, 5)], {"y": labels((N, 5), 5)}, ["--loss", "ce", "--class-axis", "2"],
                           lambda o, y: F.cross_entropy(o.transpose(1, 2), y)),
    "ce of probabilities": ([(5,)], {"y": soft(N, 5)}, ["--loss", "ce", "--label-smoothing", "0.1"],
                            lambda o, y: F.cross_entropy(o, y, label_smoothing=0.1)),
    "bce": ([(4,)], {"y": BITS}, ["--loss", "bce"], lambda o, y: F.binary_cross_entropy_with_logits(o, y)),
    "bce with pos weights": ([(4,)], {"y": BITS}, ["--loss", "bce", "--pos-weight", "1,2,0.5,3"],
                             lambda o, y: F.binary_cross_entropy_with_logits(
                                 o, y, pos_weight=torch.tensor([1, 2, 0.5, 3], dtype=torch.float64))),
    "focal": ([(5,)], {"y": labels((N,), 5)}, ["--loss", "focal", "--class-weights", W_TEXT],
              lambda o, y: focal(o, y, WEIGHTS)),
    "focal of bits": ([(4,)], {"y": BITS}, ["--loss", "focal", "--focal-alpha", "0.25", "--focal-gamma", "1.5"],
                      lambda o, y: binary_focal(o, y, 1.5)),
    "dice of masks": ([(1, 3, 4)], {"y": MASK}, ["--loss", "dice"], lambda o, y: dice(torch.sigmoid(o), y, (2, 3))),
    "dice of classes": ([(3, 3, 4)], {"y": labels((N, 3, 4), 3)}, ["--loss", "dice"], class_dice),
    "huber": ([(4,)], {"y": noise(N, 4)}, ["--loss", "huber", "--huber-delta", "0.5"],
              lambda o, y: F.huber_loss(o, y, delta=0.5)),
    "smooth_l1": ([(4,)], {"y": noise(N, 4)}, ["--loss", "smooth_l1", "--smooth-l1-beta", "0.5"],
                  lambda o, y: F.smooth_l1_loss(o, y, beta=0.5)),
    "kl": ([(5,)], {"y": soft(N, 5)}, ["--loss", "kl"],
           lambda o, y: F.kl_div(F.log_softmax(o, 1), y, reduction="batchmean")),
    "cosine": ([(4,), (4,)], {"y": labels((N,), 2).double() * 2 - 1}, ["--loss", "cosine", "--cosine-margin", "0.1"],
               lambda a, b, y: F.cosine_embedding_loss(a, b, y, margin=0.1)),
    "triplet": ([(4,), (4,), (4,)], {"y": labels((N,), 2)}, ["--loss", "triplet:output0,output1,output2"],
                lambda a, p, n, y: F.triplet_margin_loss(a, p, n)),
    "info_nce": ([(4,), (4,)], {"y": labels((N,), 2)}, ["--loss", "info_nce", "--temperature", "0.2"],
                 lambda a, b, y: info_nce(a, b)),
    "ctc": ([(8, 6)], {"y": CTC_LABELS}, ["--loss", "ctc"], ctc),
    "two outputs": ([(5,), (4,)], {"label": labels((N,), 5, ignored=True), "box": noise(N, 4)},
                    ["--loss", "ce:label+0.5*mse:box"],
                    lambda o, p, y, z: F.cross_entropy(o, y) + 0.5 * F.mse_loss(p, z)),
    "outputs and fields": ([(5,), (4,)], {"b": noise(N, 4), "a": labels((N,), 5)},
                           ["--loss", "0.25*l1:output1=b+ce:output0=a"],
                           lambda o, p, z, y: F.cross_entropy(o, y) + 0.25 * F.l1_loss(p, z)),
    "sample weights": ([(5,)], {"y": labels((N,), 5), "weight": SAMPLE_WEIGHTS}, ["--loss", "ce"],
                       lambda o, y, w: (F.cross_entropy(o, y, reduction="none") * w).sum() / w.sum()),
}


def step_lion(p, g, s, lr, t):
    s.setdefault("m", torch.zeros_like(p))
    p.mul_(1 - lr * 0.1).sub_(lr * torch.sign(0.9 * s["m"] + 0.1 * g))
    s["m"].mul_(0.99).add_(g, alpha=0.01)


def step_lamb(p, g, s, lr, t):
    m, v = s.setdefault("m", torch.zeros_like(p)), s.setdefault("v", torch.zeros_like(p))
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    r = (m / (1 - 0.9 ** t)) / ((v / (1 - 0.999 ** t)).sqrt() + 1e-6) + 0.01 * p
    w, n = p.norm(), r.norm()
    p.sub_(r, alpha=float(lr * (w / n if w > 0 and n > 0 else 1)))


def step_adafactor(p, g, s, lr, t):
    eps = torch.finfo(torch.float32).eps
    w = t ** -0.8
    if p.dim() > 1:
        row, col = s.setdefault("r", torch.zeros_like(p[..., :1])), s.setdefault("c", torch.zeros_like(p[..., :1, :]))
        row.lerp_((g * g).mean(-1, keepdim=True), w)
        col.lerp_((g * g).mean(-2, keepdim=True), w)
        var = row * col / row.mean(-2, keepdim=True).clamp(min=eps)
    else:
        var = s.setdefault("v", torch.zeros_like(p)).lerp_(g * g, w)
    u = var.clamp(min=eps * eps).rsqrt() * g
    rms = lambda x: float(x.norm() / x.numel() ** 0.5)
    rate = max(1e-3, rms(p)) * min(lr, t ** -0.5)
    p.sub_(u, alpha=rate / max(1.0, rms(u)))


def step_muon(p, g, s, lr, t):
    if p.dim() < 2:
        m, v = s.setdefault("m", torch.zeros_like(p)), s.setdefault("v", torch.zeros_like(p))
        p.mul_(1 - lr * 0.1)
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.sub_(lr / (1 - 0.9 ** t) * m / ((v / (1 - 0.999 ** t)).sqrt() + 1e-8))
        return
    m = s.setdefault("m", torch.zeros_like(p))
    m.lerp_(g, 0.05)
    x = g.lerp(m, 0.95)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    x = x.T if tall else x
    p.mul_(1 - lr * 0.1).sub_(x, alpha=lr * max(1, p.shape[0] / p.shape[1]) ** 0.5)


class Plain:
    def __init__(self, named, step, lr):
        self.parameters, self.step_of, self.lr = [p for _, p in named], step, lr
        self.states, self.t = [{} for _ in self.parameters], 0

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        self.t += 1
        for p, s in zip(self.parameters, self.states):
            self.step_of(p, p.grad, s, self.lr, self.t)


def layered(named):
    scale = {"body": 0.5, "heads.0": 1.0}
    return torch.optim.SGD([{"params": [p], "lr": 0.1 * scale[n.rsplit(".", 1)[0]]} for n, p in named], lr=0.1)


# name: the optimizer of named parameters, flags
OPTIMIZERS = {
    "rmsprop": (lambda named: torch.optim.RMSprop([p for _, p in named], lr=0.01), ["--optimizer", "rmsprop", "--lr", "0.01"]),
    "rmsprop centered, momentum": (
        lambda named: torch.optim.RMSprop([p for _, p in named], lr=0.002, alpha=0.9, eps=1e-4, momentum=0.8, centered=True,
                                          weight_decay=0.01),
        ["--optimizer", "rmsprop", "--lr", "0.002", "--alpha", "0.9", "--eps", "1e-4", "--momentum", "0.8", "--centered",
         "--weight-decay", "0.01"]),
    "adagrad": (
        lambda named: torch.optim.Adagrad([p for _, p in named], lr=0.05, lr_decay=0.1, initial_accumulator_value=0.1,
                                          weight_decay=0.01),
        ["--optimizer", "adagrad", "--lr", "0.05", "--lr-decay", "0.1", "--initial-accumulator-value", "0.1",
         "--weight-decay", "0.01"]),
    "lion": (lambda named: Plain(named, step_lion, 0.003), ["--optimizer", "lion", "--lr", "0.003", "--weight-decay", "0.1"]),
    "lamb": (lambda named: Plain(named, step_lamb, 0.02), ["--optimizer", "lamb", "--lr", "0.02"]),
    "adafactor": (lambda named: Plain(named, step_adafactor, 0.05), ["--optimizer", "adafactor", "--lr", "0.05"]),
    "muon": (lambda named: Plain(named, step_muon, 0.02), ["--optimizer", "muon", "--lr", "0.02"]),
    "layer decay": (layered, ["--optimizer", "sgd", "--lr", "0.1", "--layer-decay", "0.5"]),
    "muon in micro-batches": (lambda named: Plain(named, step_muon, 0.02),
                              ["--optimizer", "muon", "--lr", "0.02", "--batch", "4", "--accumulate", "2"]),
}


def schedule_one_cycle(optimizer):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=STEPS, cycle_momentum=False)


SCHEDULES = {
    "one-cycle": (schedule_one_cycle, ["--schedule", "one-cycle"]),
    "polynomial": (lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda s: (1 - s / STEPS) ** 2),
                   ["--schedule", "polynomial", "--power", "2"]),
}


def run_case(report, name, shapes, targets, flags, loss, optimizer_of=None, schedule_of=None):
    torch.manual_seed(1)
    model = Net(*shapes)
    x = noise(N, 6, seed=5).float()
    outputs = [f"output{i}" for i in range(len(shapes))]
    with tempfile.TemporaryDirectory() as folder:
        axes = {n: {0: "batch"} for n in ["x", *outputs]}
        torch.onnx.export(model, (x[:BATCH],), f"{folder}/m.onnx", input_names=["x"], output_names=outputs,
                          dynamic_axes=axes, opset_version=14)
        graft("convert", f"{folder}/m.onnx", "-o", f"{folder}/m.graft")
        model = model.double()
        np.save(f"{folder}/x.npy", x.numpy())
        spec, weight = [], ""
        for key, value in targets.items():
            np.save(f"{folder}/{key}.npy", value.float().numpy() if value.is_floating_point() else value.int().numpy())
            if key == "weight":
                weight = f"?weight={folder}/{key}.npy"
            else:
                spec.append(f"{key}={folder}/{key}.npy")
        data = f"npy:x={folder}/x.npy;{','.join(spec)}{weight}"
        own = flags if "--batch" in flags else [*flags, "--batch", BATCH]
        if optimizer_of is None:
            own = [*own, "--optimizer", "sgd", "--lr", "0.1"]
        graft("train", f"{folder}/m.graft", "--data", data, "--steps", STEPS, "--no-shuffle", *own, "--metrics",
              f"{folder}/m.jsonl", "-o", f"{folder}/t.graft")
        optimizer = (torch.optim.SGD(model.parameters(), lr=0.1) if optimizer_of is None
                     else optimizer_of(list(model.named_parameters())))
        schedule = schedule_of(optimizer) if schedule_of else None
        expected = []
        for step in range(STEPS):
            part = slice(step * BATCH, (step + 1) * BATCH)
            out = model(x[part].double())
            value = loss(*(out if isinstance(out, tuple) else (out,)), *(t[part] for t in targets.values()))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            if schedule:
                schedule.step()
            expected.append(float(value))
        with open(f"{folder}/m.jsonl") as lines:
            actual = [row["loss"] for row in map(json.loads, lines) if row["kind"] == "step"]
        worst = max(abs(a - b) / max(abs(b), 1e-2) for a, b in zip(actual, expected, strict=True))
        report.check(name, f"loss of {STEPS} steps ({expected[0]:.4f} to {expected[-1]:.4f})", worst, TOLERANCE)
        graft("run", f"{folder}/t.graft", "--input", f"x={folder}/x.npy", "--bind", f"batch={N}", "--out", f"{folder}/out")
        with torch.no_grad():
            out = model(x.double())
        for output, value in zip(outputs, out if isinstance(out, tuple) else (out,)):
            report.check(name, f"{output} of the trained network",
                         parity.error(np.load(f"{folder}/out/{output}.npy"), value.numpy()), TOLERANCE)


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    wanted = sys.argv[2:]
    torch.set_num_threads(1)
    report = Report()
    plain = ([(5,)], {"y": labels((N,), 5)}, [], lambda o, y: F.cross_entropy(o, y))
    cases = [(name, *case) for name, case in LOSSES.items()]
    cases += [(name, *plain[:2], flags, plain[3], make) for name, (make, flags) in OPTIMIZERS.items()]
    cases += [(name, *plain[:2], flags, plain[3], None, make) for name, (make, flags) in SCHEDULES.items()]
    for case in cases:
        if not wanted or case[0] in wanted:
            try:
                run_case(report, *case)
            except RuntimeError as failure:
                report.failures += 1
                print(f"{case[0]:28} FAILED\n{failure}", flush=True)
    print("all agree" if report.failures == 0 else f"{report.failures} do not agree")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
