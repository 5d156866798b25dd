"""A quantized network as ONNX Runtime's quantizer writes it (QuantizeLinear, DequantizeLinear), against PyTorch.

Usage: quantized.py GRAFT     (GRAFT: the command line tool; run with a Python that has torch and onnx)

A network like MobileNetV2 of random weights is written with int8 weights (a scale for each channel), uint8 activations
and int32 biases. Its forward pass, its fine-tuning with straight-through gradients and what is exported again are
compared with the same network in PyTorch. Exit status: 0 all agree, 1 some do not, 77 torch or onnx is not installed.
"""

import json
import os
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import torch
    import torch.nn.functional as F
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import parity
from parity import Report, graft

# An activation near a tie may go to the next of 255 steps, where f32 sums in another order: each such step is 4e-3 of
# a tensor's range, and later layers average over many.
FORWARD_TOLERANCE = 1e-2
CURVE_TOLERANCE = 1e-2
# Of weights after training: a master weight near a tie is rounded the other way.
LEAST_EQUAL_WEIGHTS = 0.99


class Writer:
    """Nodes and initializers of an ONNX file, and the same in torch, run once over calibration data."""

    def __init__(self, x):
        self.nodes, self.initializers = [], []
        self.steps = []  # functions of a dictionary of values, of parameters
        self.parameters = {}
        self.values = {"x": x}
        self.scales = {}

    def run(self, x, parameters):
        values = {"x": x}
        for step in self.steps:
            step(values, parameters)
        return values

    def add(self, step):
        self.steps.append(step)
        with torch.no_grad():
            step(self.values, self.parameters)

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def activation(self, name):
        value = self.values[name]
        low, high = min(float(value.min()), 0.0), max(float(value.max()), 0.0)
        scale = np.float32((high - low) / 255)
        zero = int(np.clip(np.rint(-low / scale), 0, 255))
        scales = [self.constant(f"{name}_scale", np.array(scale)),
                  self.constant(f"{name}_zero", np.array(zero, np.uint8))]
        self.nodes.append(helper.make_node("QuantizeLinear", [name, *scales], [f"{name}_q"], f"{name}_quantize"))
        self.nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *scales], [f"{name}_dq"], f"{name}_dequantize"))

        def step(values, _):
            values[f"{name}_dq"] = torch.fake_quantize_per_tensor_affine(values[name], float(scale), zero, 0, 255)

        self.add(step)
        self.scales[f"{name}_dq"] = scale
        return f"{name}_dq"

    def weight(self, name, array):
        scale = np.maximum(np.abs(array.reshape(len(array), -1)).max(1), 1e-6).astype(np.float32) / np.float32(127)
        wide = scale.reshape(-1, *[1] * (array.ndim - 1))
        q = np.clip(np.rint(array / wide), -128, 127).astype(np.int8)
        names = [self.constant(name, q), self.constant(f"{name}_scale", scale),
                 self.constant(f"{name}_zero", np.zeros(len(array), np.int8))]
        self.nodes.append(helper.make_node("DequantizeLinear", names, [f"{name}_dq"], f"{name}_dequantize", axis=0))
        self.parameters[name] = torch.from_numpy(q.astype(np.float32) * wide)
        self.scales[f"{name}_dq"] = scale
        zeros = torch.zeros(len(array), dtype=torch.int32)

        def step(values, parameters):
            values[f"{name}_dq"] = torch.fake_quantize_per_channel_affine(
                parameters[name], torch.from_numpy(scale), zeros, 0, -128, 127)

        self.add(step)
        return f"{name}_dq"

    def bias(self, name, array, x, w):
        scale = (self.scales[x] * self.scales[w]).astype(np.float32)
        q = np.rint(array / scale).astype(np.int32)
        names = [self.constant(name, q), self.constant(f"{name}_scale", scale)]
        self.nodes.append(helper.make_node("DequantizeLinear", names, [f"{name}_dq"], f"{name}_dequantize", axis=0))
        self.parameters[name] = torch.from_numpy(q.astype(np.float32) * scale)
        return f"{name}_dq"

    def conv(self, name, x, channels, kernel, stride=1, groups=1, clip=True):
        inputs = self.values[x].shape[1]
        fan = inputs // groups * kernel * kernel
        array = (np.random.randn(channels, inputs // groups, kernel, kernel) * np.sqrt(2 / fan)).astype(np.float32)
        w = self.weight(f"{name}.weight", array)
        b = self.bias(f"{name}.bias", np.random.randn(channels).astype(np.float32) * 0.1, x, w)
        pads = [kernel // 2] * 4
        self.nodes.append(helper.make_node("Conv", [x, w, b], [f"{name}_sum"], name, kernel_shape=[kernel, kernel],
                                           strides=[stride, stride], pads=pads, group=groups))
        if clip:
            limits = [self.constant(f"{name}_low", np.float32(0)), self.constant(f"{name}_high", np.float32(6))]
            self.nodes.append(helper.make_node("Clip", [f"{name}_sum", *limits], [f"{name}_out"], f"{name}_clip"))

        def step(values, parameters):
            y = F.conv2d(values[x], values[w], parameters[f"{name}.bias"], stride, kernel // 2, 1, groups)
            values[f"{name}_sum"] = y
            values[f"{name}_out"] = y.clamp(0, 6)

        self.add(step)
        return self.activation(f"{name}_out" if clip else f"{name}_sum")

    def block(self, name, x, channels, stride, factor=4):
        inputs = self.values[x].shape[1]
        y = self.conv(f"{name}.expand", x, factor * inputs, 1)
        y = self.conv(f"{name}.depthwise", y, factor * inputs, 3, stride, factor * inputs)
        y = self.conv(f"{name}.project", y, channels, 1, clip=False)
        if stride != 1 or channels != inputs:
            return y
        self.nodes.append(helper.make_node("Add", [x, y], [f"{name}_added"], f"{name}_add"))
        self.add(lambda values, _: values.__setitem__(f"{name}_added", values[x] + values[y]))
        return self.activation(f"{name}_added")

    def head(self, x, classes):
        self.nodes.append(helper.make_node("GlobalAveragePool", [x], ["pooled"], "pool"))
        self.nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"))
        self.add(lambda values, _: values.__setitem__("flat", values[x].mean((2, 3))))
        flat = self.activation("flat")
        array = (np.random.randn(classes, self.values[flat].shape[1]) * 0.1).astype(np.float32)
        w = self.weight("classifier.weight", array)
        b = self.bias("classifier.bias", np.zeros(classes, np.float32), flat, w)
        self.nodes.append(helper.make_node("Gemm", [flat, w, b], ["y"], "classifier", transB=1))
        self.add(lambda values, parameters: values.__setitem__(
            "y", F.linear(values[flat], values[w], parameters["classifier.bias"])))

    def save(self, path):
        size = self.values["x"].shape[1:]
        graph = helper.make_graph(
            self.nodes, "quantized", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *size])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", *self.values["y"].shape[1:]])],
            self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        onnx.save(model, path)


def network(x):
    w = Writer(x)
    y = w.activation("x")
    y = w.conv("stem", y, 16, 3, 2)
    y = w.block("block1", y, 16, 1)
    y = w.block("block2", y, 24, 2)
    y = w.block("block3", y, 24, 1)
    y = w.conv("last", y, 64, 1)
    w.head(y, 10)
    return w


def largest(actual, expected):
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def forward(graft_file, folder, x):
    np.save(f"{folder}/x.npy", x.numpy())
    graft("run", graft_file, "--input", f"x={folder}/x.npy", "--out", f"{folder}/out")
    return np.load(f"{folder}/out/y.npy")


def train(writer, x, labels, steps, batch, rate):
    """The losses of SGD, and the parameters after it."""
    parameters = {name: value.clone().requires_grad_() for name, value in writer.parameters.items()}
    optimizer = torch.optim.SGD(parameters.values(), lr=rate)
    losses = []
    for i in range(steps):
        part = slice(i * batch, (i + 1) * batch)
        loss = F.cross_entropy(writer.run(x[part], parameters)["y"], labels[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses, {name: value.detach() for name, value in parameters.items()}


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    report = Report()
    np.random.seed(3)
    torch.manual_seed(3)
    steps, batch, rate = 10, 8, 0.005
    labels = torch.randint(0, 10, (steps * batch,))
    x = torch.randn(10, 3, 32, 32)[labels] * 0.7 + torch.randn(steps * batch, 3, 32, 32) * 0.5
    writer = network(x[:16])
    with tempfile.TemporaryDirectory() as folder:
        source = f"{folder}/q.onnx"
        writer.save(source)
        graft("convert", source, "-o", f"{folder}/frozen.graft")
        graft("convert", source, "--expand", "-o", f"{folder}/trained.graft")
        expected = writer.run(x[:8], writer.parameters)["y"].numpy()
        for name in ("frozen", "trained"):
            report.check(name, "forward", largest(forward(f"{folder}/{name}.graft", folder, x[:8]), expected),
                         FORWARD_TOLERANCE)
        plan = json.loads(graft("plan", f"{folder}/frozen.graft", "--mode", "infer", "--bind", "batch=8", "--json"))
        elements = sum(value.numel() for value in writer.parameters.values())
        # Biases and scales take four bytes each.
        report.check("frozen", "bytes of weights on the device, of those of f32",
                     plan["memory"]["weights"] / (4 * elements), 0.6)

        np.save(f"{folder}/xs.npy", x.numpy())
        np.save(f"{folder}/ys.npy", labels.numpy())
        graft("train", f"{folder}/trained.graft", "--data", f"npy:{folder}/xs.npy,{folder}/ys.npy", "--loss", "ce",
              "--optimizer", "sgd", "--lr", rate, "--batch", batch, "--steps", steps, "--no-shuffle", "--metrics",
              f"{folder}/metrics.jsonl", "-o", f"{folder}/after.graft")
        with open(f"{folder}/metrics.jsonl") as lines:
            losses = [row["loss"] for row in map(json.loads, lines) if row.get("kind", "step") == "step"]
        wanted, parameters = train(writer, x, labels, steps, batch, rate)
        report.check("trained", f"{steps} losses of SGD", largest(np.array(losses), np.array(wanted)), CURVE_TOLERANCE)

        graft("export", f"{folder}/after.graft", "-o", f"{folder}/after.onnx", "--source", source)
        before, after = onnx.load(source), onnx.load(f"{folder}/after.onnx")
        new = {t.name: numpy_helper.to_array(t) for t in after.graph.initializer}
        equal = total = changed = 0
        for tensor in before.graph.initializer:
            old = numpy_helper.to_array(tensor)
            if tensor.name not in writer.parameters:
                if not np.array_equal(old, new[tensor.name]):
                    raise RuntimeError(f"{tensor.name} is another after training.")
                continue
            if old.dtype != np.int8:
                continue
            scale = writer.scales[f"{tensor.name}_dq"].reshape(-1, *[1] * (old.ndim - 1))
            wanted = np.clip(np.rint(parameters[tensor.name].numpy() / scale), -128, 127).astype(np.int8)
            equal += int((wanted == new[tensor.name]).sum())
            changed += int((old != new[tensor.name]).sum())
            total += old.size
        report.check("exported", "weights that are not PyTorch's", 1 - equal / total, 1 - LEAST_EQUAL_WEIGHTS)
        report.check("exported", "weights that training left alone", 1 - changed / total, 0.999)
        # What was written, read by torch: weights and biases are whole steps now.
        rounded = {name: torch.from_numpy(new[name].astype(np.float32) *
                                          new[f"{name}_scale"].reshape(-1, *[1] * (new[name].ndim - 1)))
                   for name in writer.parameters}
        graft("convert", f"{folder}/after.onnx", "-o", f"{folder}/again.graft")
        report.check("exported", "forward", largest(forward(f"{folder}/again.graft", folder, x[:8]),
                                                    writer.run(x[:8], rounded)["y"].numpy()), FORWARD_TOLERANCE)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
