"""Whatever order of axes graft keeps a value in: outputs, gradients, losses and exports have ONNX's.

Usage: layout_test.py GRAFT [-v] [TEST ...]      (a Python with numpy and onnx; GRAFT_TEST_ROWS=TEXT: rows named so, empty: all)
Every row of layout_cases.py against numpy in double precision (onnx_numpy.py).
"""

import json
import os
import re
import sys

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import cli
import files
from layout_cases import DISTINCT, EQUAL, ROWS
from onnx_numpy import evaluate

# f32 in the place of double, with sums of some ten products of numbers about 1; a wrong order of axes is off by about 1.
TOLERANCE = 1e-5
# Central differences in double: the step's square for the curvature, and 1e-16 over the step for the rounding, are both far
# below what f32 adds to that.
STEP = 1e-5
GRADIENT_TOLERANCE = 3e-5
RATE = 0.1  # of the step of training
KINDS = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}


def value_of(text, sizes):
    """An attribute: integers or expressions of sizes, a word, or an equation."""
    if re.fullmatch(r"[a-z]+|.*->.*", text):
        return text
    numbers = [eval(part, {}, sizes) for part in text.split(",") if part]
    return numbers if "," in text else numbers[0]


class Network:
    """A row at given sizes: its nodes, the arrays of its inputs and constants, and its ONNX file."""

    def __init__(self, row, sizes):
        self.row, self.sizes = row, sizes
        self.rng = np.random.default_rng(sum(map(ord, row.name)))
        self.weights, self.constants, self.nodes = {}, {}, []
        self.inputs = {name: self.random(self.shape(text)) for name, text in row.inputs.items()}
        for text in row.nodes.split("|"):
            self.add(text.strip())

    def shape(self, text):
        return tuple(eval(part, {}, self.sizes) for part in text.split(","))

    def random(self, shape):
        """Numbers that f32 holds as they are."""
        return self.rng.normal(size=shape).astype(np.float32).astype(np.float64)

    def operand(self, text):
        """The name of what stands between commas of a node's operands."""
        if weight := re.fullmatch(r"(\+?)(\w+)\[(.*)\]", text):
            name = weight[2]
            made = self.random(self.shape(weight[3]))
            self.weights[name] = abs(made) + 0.5 if weight[1] else made  # +: variances
            return name
        if not text or text.isidentifier():
            return text
        name = f"const{len(self.constants)}"
        if text[0] == "{":
            self.constants[name] = np.array(self.shape(text[1:-1]), np.int64)
        elif text[0] == "<":
            self.constants[name] = np.array(self.shape(text[1:-1]), np.float64)
        else:
            self.constants[name] = np.float64(text)
        return name

    def add(self, text):
        outputs, op, operands, attributes = re.fullmatch(r"([\w, ]+) = (\w+)\((.*?)\)(?: (.*))?", text).groups()
        inputs = [self.operand(t.strip()) for t in re.split(r",(?![^\[{<]*[\]}>])", operands)]
        found = re.findall(r"(\w+)=(.*?)(?=, \w+=|$)", attributes or "")
        lists = {"perm", "pads", "strides", "dilations", "kernel_shape", "axes"}
        made = {k: value_of(v + "," if k in lists else v, self.sizes) for k, v in found}
        self.nodes.append((op, inputs, [o.strip() for o in outputs.split(",")], made))

    def values(self, given=None, shift=None):
        """Every value of the network. given: other inputs or weights; shift: see evaluate()."""
        return evaluate(self.nodes, {**self.inputs, **self.weights, **self.constants, **(given or {})}, shift)

    def gradient(self, of, wrt, cotangent):
        """By central differences, element by element."""
        given = {**self.inputs, **self.weights}
        at = given[wrt] if wrt in given else self.values()[wrt]
        result = np.zeros(at.shape)
        for index in np.ndindex(at.shape):
            sides = []
            for step in (STEP, -STEP):
                delta = np.zeros(at.shape)
                delta[index] = step
                values = self.values({wrt: at + delta}) if wrt in given else self.values(shift=(wrt, delta))
                sides.append((values[of] * cotangent).sum())
            result[index] = (sides[0] - sides[1]) / (2 * STEP)
        return result

    def save(self, path, named_batch=False):
        def info(name, array):
            shape = ["batch" if named_batch and i == 0 else n for i, n in enumerate(array.shape)]
            return helper.make_tensor_value_info(name, KINDS["i" if array.dtype.kind == "i" else "f"], shape)

        def tensor(name, array):
            return numpy_helper.from_array(array.astype(np.float32) if array.dtype.kind == "f" else array, name)

        values = self.values()
        graph = helper.make_graph(
            [helper.make_node(op, i, o, name=f"node{k}", **a) for k, (op, i, o, a) in enumerate(self.nodes)], "row",
            [info(n, a) for n, a in self.inputs.items()], [info(n, values[n]) for n in self.row.outputs],
            [tensor(n, np.asarray(a)) for n, a in {**self.weights, **self.constants}.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.row.opset)])
        model.ir_version = 8
        onnx.save(model, path)


def loss_of(kind, output, target):
    if kind == "mse":
        return ((output - target) ** 2).mean()
    logs = output - np.log(np.exp(output).sum(1, keepdims=True))
    return -np.take_along_axis(logs, np.expand_dims(target, 1), 1).mean()


class Layouts(cli.CliTest):
    def setUp(self):
        # Every third by default; GRAFT_TEST_ROWS takes those whose names hold it, all where it is empty.
        wanted = os.environ.get("GRAFT_TEST_ROWS")
        self.rows = ROWS[::3] if wanted is None else [row for row in ROWS if wanted in row.name]
        super().setUp()

    def check_rows(self, sizes, rows, *checks):
        """Each row at these sizes, converted and with its inputs in files; each check in a subtest."""
        def convert(network):
            network.save(self.path("net.onnx"))
            self.graft("convert", "net.onnx", "-o", "net.graft")
            for name, array in network.inputs.items():
                np.save(self.path(f"{name}.npy"), array.astype(np.float32))

        for row in rows:
            network = Network(row, sizes)
            for check in (convert, *checks):
                with self.subTest(row.name, check=check.__name__):
                    check(network)

    def feeds(self, network):
        return [a for name in network.inputs for a in ("--input", f"{name}={name}.npy")]

    def compare(self, actual, expected, tolerance, what, scale=1e-3):
        """Shapes first: arrays of other shapes might hold the same numbers. scale: the least size that errors are relative to."""
        self.assertEqual(actual.shape, np.shape(expected), what)
        error = np.linalg.norm(actual - expected) / max(np.linalg.norm(expected), scale)
        self.assertLessEqual(error, tolerance, what)

    def check_outputs(self, network):
        self.graft("run", "net.graft", *self.feeds(network), "--out", "out")
        values = network.values()
        for name in network.row.outputs:
            self.compare(np.load(self.path(f"out/{name}.npy")), values[name], TOLERANCE, f"output {name}")

    def check_gradients(self, network):
        """With respect to inputs and weights: not a batch norm's statistics, which are no parameters."""
        statistics = {i for op, inputs, _, _ in network.nodes if op == "BatchNormalization" for i in inputs[3:]}
        self.differentiate(network, [n for n in (*network.inputs, *network.weights) if n not in statistics])

    def check_gradients_on_the_way(self, network):
        """With respect to values between: along the paths through exactly that value."""
        self.differentiate(network, network.row.wrt)

    def differentiate(self, network, names):
        values = network.values()
        for of in network.row.outputs:
            if values[of].dtype.kind != "f":
                continue
            scalar = values[of].size == 1
            cotangent = np.ones(values[of].shape) if scalar else network.random(values[of].shape)
            flags = [] if scalar else ["--cotangent", "dy.npy"]
            np.save(self.path("dy.npy"), cotangent.astype(np.float32))
            expected = {name: network.gradient(of, name, cotangent) for name in names}
            expected = {n: g for n, g in expected.items() if g.any()}  # what the output depends on
            if not expected:
                continue
            self.graft("grad", "net.graft", *self.feeds(network), "--of", of, *flags, "--wrt", ",".join(expected), "--out", "grad")
            # A gradient that is zero but for rounding, as a bias' before a softmax, is measured against its peers.
            scale = 0.1 * max(map(np.linalg.norm, expected.values()))
            for name, gradient in expected.items():
                self.compare(np.load(self.path(f"grad/{name}.npy")), gradient, GRADIENT_TOLERANCE,
                             f"gradient of {of} for {name}", scale)

    def check_shapes(self, network):
        told = json.loads(self.graft("info", "net.graft", "--json"))
        values = network.values()
        for name in network.row.outputs:  # the row itself: sizes, other than 1, that all differ
            sizes = [n for n in values[name].shape if n != 1]
            self.assertEqual(len(sizes), len(set(sizes)), f"{name} {sizes}")
        self.assertEqual({o["name"]: o["shape"] for o in told["outputs"]},
                         {n: str(list(values[n].shape)) for n in network.row.outputs})
        self.assertEqual({i["name"]: i["shape"] for i in told["inputs"]},
                         {n: str(list(a.shape)) for n, a in network.inputs.items()})

    def test_sizes_that_differ(self):
        self.check_rows(DISTINCT, self.rows, self.check_shapes, self.check_outputs, self.check_gradients,
                        self.check_gradients_on_the_way)

    def test_sizes_that_are_equal(self):
        self.check_rows(EQUAL, [row for row in self.rows if row.equal], self.check_outputs, self.check_gradients)

    def test_exports(self):
        self.check_rows(DISTINCT, [row for row in self.rows if row.train and "[" in row.nodes], self.check_exports)

    def test_training(self):
        self.check_rows(DISTINCT, [row for row in self.rows if row.train], self.check_training)

    def check_exports(self, network):
        """Weights have the source's shapes and values, in safetensors and in the ONNX file that the model came from."""
        self.graft("export", "net.graft", "-o", "net.safetensors")
        tensors = files.load_safetensors(self.path("net.safetensors"))
        self.graft("export", "net.graft", "-o", "back.onnx", "--source", "net.onnx")
        back = onnx.load(self.path("back.onnx")).graph
        initializers = {t.name: numpy_helper.to_array(t) for t in back.initializer}
        for name, weight in network.weights.items():
            dtype, shape, raw = tensors[name]
            self.assertEqual((dtype, tuple(shape)), ("F32", weight.shape), name)
            np.testing.assert_array_equal(np.frombuffer(raw, np.float32).reshape(shape), weight, name)
            self.assertEqual(initializers[name].shape, weight.shape, name)
            np.testing.assert_array_equal(initializers[name], weight, name)
        self.assertEqual(list(back.output), list(onnx.load(self.path("net.onnx")).graph.output))

    def check_training(self, network):
        """A step: its loss, values on the way that it hands out, and the weights after it, SGD's step along numpy's gradient."""
        network.save(self.path("open.onnx"), named_batch=True)
        self.graft("convert", "open.onnx", "-o", "open.graft")
        values, kind = network.values(), network.row.train
        output = values[network.row.outputs[0]]
        target = (network.random(output.shape) if kind == "mse" else
                  network.rng.integers(0, output.shape[1], (output.shape[0], *output.shape[2:])))
        np.save(self.path("target.npy"), target.astype(np.float32) if kind == "mse" else target)
        flags = ["--data", "npy:x.npy,target.npy", "--loss", kind, "--batch", output.shape[0]]
        expected = loss_of(kind, output, target)
        if not network.weights:  # nothing to train, but a loss all the same
            told = json.loads(self.graft("eval", "open.graft", *flags, "--json"))
            self.assertAlmostEqual(told["loss"], expected, delta=1e-5 * expected)
            return
        fetch = ["--fetch", ",".join(network.row.wrt), "--fetch-out", "fetched"] if network.row.wrt else []
        self.graft("train", "open.graft", *flags, *fetch, "--steps", 1, "--no-shuffle", "--optimizer", "sgd", "--lr", RATE,
                   "--metrics", "metrics.jsonl", "-o", "after.graft")
        self.assertAlmostEqual(self.metrics()[0]["loss"], expected, delta=1e-5 * expected)
        for name in network.row.wrt:
            self.compare(np.load(self.path(f"fetched/{name}.npy")), values[name], TOLERANCE, f"value {name}")
        self.graft("export", "after.graft", "-o", "after.safetensors")
        after = files.load_safetensors(self.path("after.safetensors"))
        for name, weight in network.weights.items():
            step = -RATE * self.loss_gradient(network, name, target)
            moved = np.frombuffer(after[name][2], np.float32).reshape(weight.shape) - weight
            # Weights are about 1 and f32, so that each element's move is known to 1e-7.
            self.assertLess(np.linalg.norm(moved - step), 1e-4 * np.linalg.norm(step) + 1e-7 * weight.size ** 0.5, name)

    def loss_gradient(self, network, name, target):
        weight, kind, output = network.weights[name], network.row.train, network.row.outputs[0]
        result = np.zeros(weight.shape)
        for index in np.ndindex(weight.shape):
            sides = []
            for step in (STEP, -STEP):
                delta = np.zeros(weight.shape)
                delta[index] = step
                sides.append(loss_of(kind, network.values({name: weight + delta})[output], target))
            result[index] = (sides[0] - sides[1]) / (2 * STEP)
        return result


if __name__ == "__main__":
    cli.main()
