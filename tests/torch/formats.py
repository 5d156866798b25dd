"""What goes in and out of formats, beside PyTorch: checkpoints as weights of an ONNX graph, ONNX files that are written
without their source, opened axes, inputs with fixed contents or without readers.

Usage: formats.py GRAFT [CASE ...]     (GRAFT: the command line tool; run with a Python that has torch and onnx)
Exit status: 0 all agree, 1 some do not, 77 torch or onnx is not installed.
"""

import importlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import torch
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import parity
from parity import FORWARD_TOLERANCE, Report, error, graft


class Images(nn.Module):
    """Convolutions, norms, pools, resizing: what stands channels-first in ONNX."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(2, stride=1),
            nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.GroupNorm(2, 8), nn.Hardswish(), nn.AvgPool2d(2),
            nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1), nn.GELU(),
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.Upsample(scale_factor=2), nn.PReLU(4))
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        y = self.body(x)
        return torch.log_softmax(self.head(torch.cat([y.mean((2, 3)), y.amax((2, 3))], 1)[:, 1:5]), 1)


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        return self.head(self.layers(self.embedding(ids))).softmax(-1)


def images():
    return Images().eval(), torch.randn(2, 3, 13, 12)


def text():
    return Text().eval(), torch.randint(0, 11, (2, 6))


NETWORKS = {"images": images, "text": text}


def save_onnx(model, x, path, dynamic=True, **more):
    axes = {"x": {0: "batch"}, "y": {0: "batch"}} if dynamic else None
    torch.onnx.export(model, (x,), path, input_names=["x"], output_names=["y"], dynamic_axes=axes, opset_version=14,
                      training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False, **more)


def run(folder, model, **inputs):
    flags = []
    for name, value in inputs.items():
        np.save(f"{folder}/{name}.npy", value.numpy())
        flags += ["--input", f"{name}={folder}/{name}.npy"]
    graft("run", f"{folder}/{model}", *flags, "--out", f"{folder}/out")
    return np.load(f"{folder}/out/y.npy")


def refused(*arguments):
    try:
        graft(*arguments)
    except RuntimeError as problem:
        return str(problem)
    return ""


def check_checkpoints(report):
    for case, make in NETWORKS.items():
        torch.manual_seed(1)
        model, x = make()
        with tempfile.TemporaryDirectory() as folder:
            save_onnx(model, x, f"{folder}/m.onnx")
            with torch.no_grad():
                for tensor in model.parameters():
                    tensor.add_(0.3 * torch.randn_like(tensor))
                for name, tensor in model.named_buffers():
                    if "running" in name:
                        tensor.add_(torch.rand_like(tensor))
                expected = model(x).numpy()
            state = model.state_dict()
            torch.save(state, f"{folder}/zip.pth")
            torch.save({"epoch": 1, "state_dict": {"module." + k: v for k, v in state.items()}}, f"{folder}/old.pt",
                       _use_new_zipfile_serialization=False)
            torch.save(model, f"{folder}/whole.pt")
            for file in ("zip.pth", "old.pt", "whole.pt"):
                text_of = graft("convert", f"{folder}/m.onnx", "--weights", f"{folder}/{file}", "-o", f"{folder}/m.graft")
                report.check(case, f"{file}: weights by name are told", float("by name" not in text_of), 0)
                report.check(case, f"{file}: forward", error(run(folder, "m.graft", x=x), expected), FORWARD_TOLERANCE)
            torch.save({"other": torch.ones(3)}, f"{folder}/other.pth")
            answer = refused("convert", f"{folder}/m.onnx", "--weights", f"{folder}/other.pth", "-o", f"{folder}/n.graft")
            report.check(case, "weights of something else are refused", float("Not one of" not in answer), 0)


def check_onnx_out(report):
    for case, make in NETWORKS.items():
        torch.manual_seed(2)
        model, x = make()
        with tempfile.TemporaryDirectory() as folder:
            save_onnx(model, x, f"{folder}/m.onnx")
            graft("convert", f"{folder}/m.onnx", "-o", f"{folder}/m.graft")
            graft("export", f"{folder}/m.graft", "-o", f"{folder}/out.onnx")
            written = onnx.load(f"{folder}/out.onnx")
            onnx.checker.check_model(written, full_check=True)
            shape = [d.dim_param or d.dim_value for d in written.graph.output[0].type.tensor_type.shape.dim]
            report.check(case, f"the output is {shape}", float(shape[0] != "batch"), 0)
            names = {i.name for i in written.graph.initializer}
            # PyTorch's exporter gives views and equal tensors names of its own.
            named = {i.name for i in onnx.load(f"{folder}/m.onnx").graph.initializer}
            missing = [n for n, _ in model.named_parameters() if n in named and n not in names]
            report.check(case, f"parameters that lost their names {missing[:2]}", len(missing), 0)
            graft("convert", f"{folder}/out.onnx", "-o", f"{folder}/again.graft")
            with torch.no_grad():
                expected = model(x).numpy()
            report.check(case, "forward of the written file", error(run(folder, "again.graft", x=x), expected),
                         FORWARD_TOLERANCE)


class Flat(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.layer = nn.Linear(12, 3)
        self.fixed = fixed

    def forward(self, x):
        return self.layer(torch.relu(x).reshape(1, 12) if self.fixed else torch.relu(x).flatten(1))


def check_inputs(report):
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as folder:
        model = Flat(False).eval()
        save_onnx(model, torch.randn(1, 3, 4), f"{folder}/m.onnx", dynamic=False)
        graft("convert", f"{folder}/m.onnx", "--open", "batch=x:0", "-o", f"{folder}/m.graft")
        x = torch.randn(5, 3, 4)
        with torch.no_grad():
            expected = model(x).numpy()
        report.check("open", "a batch of 5 of a file for 1", error(run(folder, "m.graft", x=x), expected),
                     FORWARD_TOLERANCE)
        save_onnx(Flat(True).eval(), torch.randn(1, 3, 4), f"{folder}/fixed.onnx", dynamic=False)
        for flag, wanted in (("batch=x:0", "batch"), ("b=x:1", "size 3"), ("b=z:0", "no input"), ("b=x:7", "axes")):
            answer = refused("convert", f"{folder}/fixed.onnx", "--open", flag, "-o", f"{folder}/f.graft")
            report.check("open", f"{flag} is refused", float(not answer or wanted not in answer), 0)

    make, numpy_helper = onnx.helper, importlib.import_module("onnx.numpy_helper")
    with tempfile.TemporaryDirectory() as folder:
        graph = make.make_graph(
            [make.make_node("Reshape", ["x", "sizes"], ["r"]), make.make_node("Mul", ["r", "w"], ["y"])], "g",
            [make.make_tensor_value_info("x", 1, [2, 6]), make.make_tensor_value_info("sizes", 7, [2]),
             make.make_tensor_value_info("unread", 1, [3])],
            [make.make_tensor_value_info("y", 1, [3, 4])],
            [numpy_helper.from_array(np.float32([[1.0, -2.0, 0.5, 3.0]]), "w")])
        onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 14)]), f"{folder}/m.onnx")
        answer = refused("convert", f"{folder}/m.onnx", "-o", f"{folder}/m.graft")
        report.check("contents", "sizes that are an input are refused without", float("sizes" not in answer), 0)
        np.save(f"{folder}/sizes.npy", np.int64([3, 4]))
        graft("convert", f"{folder}/m.onnx", "--constant", f"sizes={folder}/sizes.npy", "-o", f"{folder}/m.graft")
        x = torch.randn(2, 6)
        expected = x.reshape(3, 4).numpy() * np.float32([[1.0, -2.0, 0.5, 3.0]])
        report.check("contents", "a shape given once and for all",
                     error(run(folder, "m.graft", x=x, unread=torch.zeros(3)), expected), FORWARD_TOLERANCE)
        report.check("contents", "without the input that nothing reads", error(run(folder, "m.graft", x=x), expected),
                     FORWARD_TOLERANCE)


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x, mask):
        return self.layer(torch.where(mask, x, torch.zeros(1)))


def check_truth_values(report):
    """Data for an input of truth values: as such, or as zeros and ones of other types."""
    torch.manual_seed(5)
    model, x, mask = Masked().eval(), torch.randn(6, 4), torch.rand(6, 4) < 0.5
    with tempfile.TemporaryDirectory() as folder:
        axes = {n: {0: "batch"} for n in ("x", "mask", "y")}
        torch.onnx.export(model, (x, mask), f"{folder}/m.onnx", input_names=["x", "mask"], output_names=["y"], dynamic_axes=axes,
                          opset_version=14)
        graft("convert", f"{folder}/m.onnx", "-o", f"{folder}/m.graft")
        labels = torch.randint(0, 3, (6,))
        np.save(f"{folder}/x.npy", x.numpy())
        np.save(f"{folder}/y.npy", labels.numpy())
        with torch.no_grad():
            expected = float(nn.functional.cross_entropy(model(x, mask), labels))
        for kind in (np.bool_, np.float32, np.uint8):
            np.save(f"{folder}/mask.npy", mask.numpy().astype(kind))
            text_of = graft("eval", f"{folder}/m.graft", "--data", f"npy:x={folder}/x.npy,mask={folder}/mask.npy;y={folder}/y.npy",
                            "--loss", "ce")
            report.check("truth values", f"loss of a mask of {kind.__name__}",
                         abs(float(text_of.split("loss ")[1].split(",")[0]) - expected), FORWARD_TOLERANCE)
        np.save(f"{folder}/mask.npy", np.float32(mask.numpy()) * 2)
        answer = refused("eval", f"{folder}/m.graft", "--data", f"npy:x={folder}/x.npy,mask={folder}/mask.npy;y={folder}/y.npy")
        report.check("truth values", "a mask of twos is refused", float("neither 0 nor 1" not in answer), 0)


def check_copies(report):
    """A fresh network's equal tensors are written once; after training each has numbers of its own."""
    torch.manual_seed(2)
    model, x = images()
    labels = torch.randint(0, 5, (2,))
    with tempfile.TemporaryDirectory() as folder:
        save_onnx(model, x, f"{folder}/m.onnx")
        copies = [n.output[0] for n in onnx.load(f"{folder}/m.onnx").graph.node if n.op_type == "Identity"]
        report.check("copies", "the exporter writes some", float(not copies), 0)
        graft("convert", f"{folder}/m.onnx", "-o", f"{folder}/m.graft")
        np.save(f"{folder}/xs.npy", x.numpy())
        np.save(f"{folder}/ys.npy", labels.numpy())
        graft("train", f"{folder}/m.graft", "--data", f"npy:{folder}/xs.npy,{folder}/ys.npy", "--steps", 1, "--batch", 2, "--lr",
              0.05, "--optimizer", "sgd", "--quiet", "-o", f"{folder}/trained.graft")
        graft("export", f"{folder}/trained.graft", "--source", f"{folder}/m.onnx", "-o", f"{folder}/out.onnx")
        onnx.checker.check_model(onnx.load(f"{folder}/out.onnx"), full_check=True)
        graft("convert", f"{folder}/out.onnx", "-o", f"{folder}/again.graft")
        report.check("copies", "forward of the file with new weights",
                     error(run(folder, "again.graft", x=x), run(folder, "trained.graft", x=x)), FORWARD_TOLERANCE)


CHECKS = {"checkpoints": check_checkpoints, "onnx_out": check_onnx_out, "inputs": check_inputs,
          "truth_values": check_truth_values, "copies": check_copies}


def main():
    parity.GRAFT = sys.argv[1]
    report = Report()
    for name in sys.argv[2:] or CHECKS:
        CHECKS[name](report)
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
