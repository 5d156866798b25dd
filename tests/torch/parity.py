"""Compares graft with PyTorch on the CPU: forward, gradients of every parameter and input, training curves.

Usage: parity.py GRAFT [CASE ...]     (GRAFT: the command line tool; run with a Python that has torch and onnx)

Networks are exported to ONNX by torch and go through `graft convert`. Exit status: 0 all agree, 1 some do not,
77 torch is not installed (ctest counts that as skipped).
"""

import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from networks import NETWORKS

# f32 on both sides, other orders of summation: 1e-4 and 1e-3 leave room for some hundred roundings in a row.
FORWARD_TOLERANCE = 1e-4
GRADIENT_TOLERANCE = 1e-3
# Differences grow from step to step while two trainings drift apart.
CURVE_TOLERANCE = 2e-3

GRAFT = ""


def graft(*arguments):
    """Runs the command line tool and returns what it printed."""
    done = subprocess.run([GRAFT, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"graft {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


def error(actual, expected):
    """Norm of the difference over the norm of what is expected. Shapes first: numpy would stretch one to the other's."""
    if actual.shape != expected.shape:
        raise RuntimeError(f"A result has the shape {actual.shape} instead of {expected.shape}.")
    return float(np.linalg.norm(actual - expected) / max(np.linalg.norm(expected), 1e-12))


def export(model, inputs, folder, names, opset=14, open_batch=True):
    """Writes folder/model.onnx as torch sees it, batch norm and dropout kept as they are, and converts it."""
    onnx = f"{folder}/model.onnx"
    axes = {name: {0: "batch"} for name in (*names, "output")} if open_batch else {}
    torch.onnx.export(model, inputs, onnx, input_names=list(names), output_names=["output"], dynamic_axes=axes,
                      opset_version=opset, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    graft("convert", onnx, "-o", f"{folder}/model.graft")
    return f"{folder}/model.graft"


def file_of(name):
    return name.replace("/", "_").replace(":", "_") + ".npy"


class Report:
    def __init__(self):
        self.failures = 0

    def check(self, case, what, value, limit):
        verdict = "ok" if value <= limit else "FAILED"
        self.failures += value > limit
        print(f"{case:28} {what:44} {value:9.2e}  (limit {limit:g})  {verdict}", flush=True)


def check_gradients(report, case, make, train_mode, opset=14, open_batch=True):
    """Forward, and gradients with respect to every parameter and float input, for a random cotangent."""
    torch.manual_seed(1)
    model, inputs = make()
    model.eval()
    with tempfile.TemporaryDirectory() as folder:
        names = [f"input{i}" for i in range(len(inputs))]
        path = export(model, tuple(inputs), folder, names, opset, open_batch)
        model.train(train_mode)
        for tensor in inputs:
            tensor.requires_grad_(tensor.is_floating_point())
        output = model(*inputs)
        cotangent = torch.randn_like(output)
        parameters = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        wrt = [(n, t) for n, t in zip(names, inputs) if t.requires_grad] + parameters
        gradients = torch.autograd.grad(output, [t for _, t in wrt], cotangent)
        feeds = []
        for name, tensor in zip(names, inputs):
            np.save(f"{folder}/{name}.npy", tensor.detach().numpy())
            feeds += ["--input", f"{name}={folder}/{name}.npy"]
        np.save(f"{folder}/cotangent.npy", cotangent.numpy())
        mode = ["--train-mode"] if train_mode else []
        if not train_mode:
            graft("run", path, *feeds, "--out", f"{folder}/out")
            report.check(case, "forward", error(np.load(f"{folder}/out/output.npy"), output.detach().numpy()),
                         FORWARD_TOLERANCE)
        graft("grad", path, *feeds, *mode, "--of", "output", "--cotangent", f"{folder}/cotangent.npy", "--wrt",
              ",".join(n for n, _ in wrt), "--out", f"{folder}/grad")
        worst, worst_name = 0.0, ""
        for (name, _), expected in zip(wrt, gradients):
            actual = np.load(f"{folder}/grad/{file_of(name)}")
            if actual.shape != tuple(expected.shape):
                raise RuntimeError(f"{case}: the gradient of {name} has the shape {actual.shape}")
            # A gradient that is zero but for rounding (a bias before batch norm) is measured against its peers.
            scale = max(float(expected.norm()), 1e-3 * max(float(g.norm()) for g in gradients))
            value = float(np.linalg.norm(actual - expected.numpy()) / max(scale, 1e-12))
            if value >= worst:
                worst, worst_name = value, name
        report.check(case, f"{len(wrt)} gradients, worst {worst_name}", worst, GRADIENT_TOLERANCE)


# A bias before batch norm has no gradient but rounding, which AdamW scales up to steps of full size: two trainings
# then differ by their rounding, in any precision. These stay as they are, on both sides.
FROZEN = {"depthwise_residual": ["3.pointwise.bias", "4.pointwise.bias"]}


def optimizer_of(kind, parameters):
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=0.05), ["--optimizer", "sgd", "--lr", "0.05"]
    if kind == "momentum":
        return (torch.optim.SGD(parameters, lr=0.02, momentum=0.9, weight_decay=1e-3),
                ["--optimizer", "sgd", "--lr", "0.02", "--momentum", "0.9", "--weight-decay", "1e-3"])
    return (torch.optim.AdamW(parameters, lr=2e-3, weight_decay=0.01),
            ["--optimizer", "adamw", "--lr", "2e-3", "--weight-decay", "0.01"])


def check_curve(report, case, make, kind, steps=30, batch=16):
    """The loss of each of `steps` steps on the same batches in the same order."""
    torch.manual_seed(2)
    model, inputs = make()
    model.train()
    samples = steps * batch
    shape = inputs[0].shape[1:]
    labels = torch.randint(0, 10, (samples,))
    # Something to learn: each class has its own mean.
    x = torch.randn(10, *shape)[labels] * 0.5 + torch.randn(samples, *shape)
    with tempfile.TemporaryDirectory() as folder:
        path = export(model, (x[:batch],), folder, ["input0"])
        model.train()
        np.save(f"{folder}/x.npy", x.numpy())
        np.save(f"{folder}/y.npy", labels.numpy())
        frozen = FROZEN.get(case, [])
        optimizer, flags = optimizer_of(kind, [p for name, p in model.named_parameters() if name not in frozen])
        flags += ["--freeze", ",".join(frozen)] if frozen else []
        graft("train", path, "--data", f"npy:{folder}/x.npy,{folder}/y.npy", "--batch", batch, "--steps", steps, *flags,
              "--no-shuffle", "--metrics", f"{folder}/metrics.jsonl", "-o", f"{folder}/trained.graft")
        expected = []
        for step in range(steps):
            part = slice(step * batch, (step + 1) * batch)
            loss = nn.functional.cross_entropy(model(x[part]), labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            expected.append(float(loss))
        with open(f"{folder}/metrics.jsonl") as lines:
            actual = [row["loss"] for row in map(json.loads, lines) if row.get("kind", "step") == "step"]
        if len(actual) != steps:
            raise RuntimeError(f"{case}: {len(actual)} steps in the metrics, {steps} expected")
        worst = max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(actual, expected))
        report.check(case, f"{kind}: loss of {steps} steps ({expected[0]:.3f} to {expected[-1]:.3f})", worst,
                     CURVE_TOLERANCE)
        # What was learnt, in eval mode: the weights, and batch norm's running statistics.
        model.eval()
        np.save(f"{folder}/some.npy", x[:batch].numpy())
        graft("run", f"{folder}/trained.graft", "--input", f"input0={folder}/some.npy", "--out", f"{folder}/out")
        with torch.no_grad():
            expected = model(x[:batch]).numpy()
        report.check(case, f"{kind}: outputs of the trained network",
                     error(np.load(f"{folder}/out/output.npy"), expected), CURVE_TOLERANCE)


def main():
    global GRAFT
    GRAFT = os.path.abspath(sys.argv[1])
    wanted = sys.argv[2:]
    torch.set_num_threads(1)
    report = Report()
    for name, make in NETWORKS.items():
        if wanted and name not in wanted:
            continue
        check_gradients(report, name, make, train_mode=False)
        model, _ = make()
        if any(isinstance(m, nn.BatchNorm2d) for m in model.modules()):
            check_gradients(report, f"{name} (train mode)", make, train_mode=True)
        if name == "vit":  # opset 17 has layer norm as one op
            check_gradients(report, "vit (opset 17)", make, train_mode=False, opset=17)
    for name in ("mlp", "strided_cnn", "depthwise_residual", "fresh_batch_norm", "vit"):
        if wanted and name not in wanted:
            continue
        for kind in ("sgd", "momentum", "adamw"):
            check_curve(report, name, NETWORKS[name], kind)
    print("all agree" if report.failures == 0 else f"{report.failures} do not agree")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
