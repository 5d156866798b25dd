"""Differential fuzzing of the ONNX importer against ONNX Runtime, through the command line.

    fuzz_onnx.py graphs GRAFT [--minutes M] [--seed S] [--save DIR]       random graphs: values and gradients
    fuzz_onnx.py attributes GRAFT [CASES] [--every N] [--start K]         every attribute of every operator, perturbed
    fuzz_onnx.py cases GRAFT [CASES] [--every N] [--start K]              ONNX's own backend cases, as a user runs them

CASES is a folder or tar.gz of CASE/model.onnx and CASE/test_data_set_0/{input,output}_*.pb; onnx-conformance/cases.tar.gz of
GRAFT_TEST_DATA without. A difference is a wrong value, shape or
type, or a crash; what graft refuses with a sentence is counted. `graphs` removes nodes from a failing graph as long as it still
fails, and saves it. Gradients are PyTorch's if it is installed and has the operators (onnx_in_torch.py), else central
differences of ONNX Runtime's. Needs onnx, numpy and npm's onnxruntime-node (ONNXRUNTIME_NODE names its folder; tests/torch/onnx_runtime.py
installs it). Exit status: 0 no difference, 1 some, 77 something is not installed.
"""

import argparse
import collections
import copy
import glob
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/torch"))
try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    import onnx_runtime
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

try:
    import onnx_in_torch
except ImportError:  # without PyTorch
    onnx_in_torch = None

DATA = os.environ.get("GRAFT_TEST_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/data"))
TYPES = onnx.mapping.NP_TYPE_TO_TENSOR_TYPE
FORWARD, GRADIENT = 2e-4, 2e-2  # of the largest number; gradients are compared with central differences in f32
TIMEOUT = 600


stopped = []  # signals: Ctrl-C ends a run after its seed or case, with its counts


class Refused(Exception):
    """What graft says of a model that it does not convert or run."""


class Crashed(Exception):
    """A signal, a time-out, or an error without a sentence."""


class Graft:
    def __init__(self, path):
        self.path = os.path.abspath(path)

    def __call__(self, *arguments):
        try:
            done = subprocess.run([self.path, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired as late:
            raise Crashed(f"no answer within {TIMEOUT} s: {arguments[0]}") from late
        if done.returncode == 0:
            return done.stdout
        message = done.stderr.strip().splitlines()
        if done.returncode not in (1, 2) or not message:
            raise Crashed(f"exit status {done.returncode} of {arguments[0]}")
        raise Refused(message[-1])

    def convert(self, model, inputs, folder):
        """Fixes what the converter asks for, as its messages say. The inputs that are left."""
        flags, left = [], dict(inputs)
        while True:
            try:
                self("convert", model, "-o", f"{folder}/net.graft", *flags)
                return left
            except Refused as problem:
                asked = re.search(r"--constant ((?:'[^']*'|\\')+)", str(problem))  # as a shell takes it
                name = re.sub(r"\\([,=\\])", r"\1", shlex.split(asked.group(1))[0].removesuffix("=FILE.npy")) if asked else None
                if name not in left:
                    raise
                np.save(f"{folder}/constant.{len(flags)}.npy", left.pop(name))
                flags += ["--constant", f"{quoted(name)}={folder}/constant.{len(flags)}.npy"]

    def feeds(self, inputs, folder):
        flags = []
        for i, (name, array) in enumerate(inputs.items()):
            np.save(f"{folder}/in.{i}.npy", array)
            flags += ["--input", f"{quoted(name)}={folder}/in.{i}.npy"]
        return flags

    def run(self, inputs, folder, command=("run",)):
        """What is written, by the files' names."""
        out = f"{folder}/out"
        shutil.rmtree(out, ignore_errors=True)
        self(*command, f"{folder}/net.graft", *self.feeds(inputs, folder), "--allow-non-finite", "--out", out)
        return {os.path.basename(path): np.load(path) for path in glob.glob(f"{out}/*.npy")}


def quoted(name):
    return re.sub(r"([,=\\])", r"\\\1", name)


def file_of(name):
    return re.sub(r"[/:\\]", "_", name) + ".npy"


def difference(got, expected, tolerance=FORWARD):
    """Empty where the arrays agree."""
    if got.shape != expected.shape:
        return f"has the shape {got.shape} instead of {expected.shape}"
    if got.dtype != expected.dtype:
        return f"is {got.dtype} instead of {expected.dtype}"
    if got.dtype.kind not in "fc":
        off = np.argwhere(got != expected)
        return f"differs at {tuple(off[0])}: {got[tuple(off[0])]} instead of {expected[tuple(off[0])]}" if len(off) else ""
    a, e = got.astype(np.float64), expected.astype(np.float64)
    bad = ~np.isfinite(e)
    if not np.array_equal(a[bad], e[bad], equal_nan=True) or not np.isfinite(a[~bad]).all():
        return "has other places that are not finite"
    a, e = a[~bad], e[~bad]
    if not a.size:
        return ""
    off = np.abs(a - e)
    limit = tolerance * np.maximum(np.abs(e), max(np.abs(e).max() * 0.05, 1e-3)) * (5 if expected.dtype == np.float16 else 1)
    worst = int(np.argmax(off - limit))
    return f"is {a[worst]:.6g} instead of {e[worst]:.6g}" if off[worst] > limit[worst] else ""


# --- random graphs

class Generator:
    """Adds nodes one by one; ONNX Runtime says whether each is valid and what it gives."""

    def __init__(self, runtime, seed, folder):
        self.rng = np.random.default_rng(seed)
        self.runtime, self.folder = runtime, folder
        self.opset = int(self.rng.choice([11, 12, 13, 14, 15, 17, 18, 19, 20, 21]))
        self.nodes, self.constants, self.inputs, self.values = [], {}, {}, {}

    # Choices.
    def pick(self, *of):
        return of[self.rng.integers(len(of))]

    def maybe(self, chance=0.5):
        return self.rng.random() < chance

    def shape(self, low=1, high=4, sizes=(1, 2, 3, 4, 5)):
        return tuple(int(self.rng.choice(sizes)) for _ in range(self.rng.integers(low, high + 1)))

    def array(self, shape, kind="f"):
        if kind == "f":
            return self.rng.normal(size=shape).astype(np.float32)
        if kind == "b":
            return self.rng.random(shape) < 0.5
        return self.rng.integers(-5, 6, shape).astype({"i": np.int64, "j": np.int32}[kind])

    # Values.
    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def fresh(self, shape, kind="f"):
        """An input or, less often, a constant."""
        if self.maybe(0.3):
            return self.constant(self.array(shape, kind))
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.values[name] = self.array(shape, kind)
        return name

    def of(self, kind="f", low=0, high=5):
        """A value of so many axes."""
        types = {"f": (np.float32,), "i": (np.int64,), "j": (np.int32,), "b": (np.bool_,), "n": (np.float32, np.int64, np.int32)}[kind]
        fitting = [n for n, v in self.values.items() if v.dtype in types and low <= v.ndim <= high and 0 < v.size <= 2000]
        if fitting and self.maybe(0.8):
            return fitting[self.rng.integers(len(fitting))]
        return self.fresh(self.shape(max(low, 1), max(min(high, 4), 1)), self.pick("f", "i", "j") if kind == "n" else kind)

    def like(self, name, kind="f"):
        """Something that broadcasts with it."""
        shape = list(self.values[name].shape if name in self.values else self.constants[name].shape)
        same = [n for n, v in self.values.items() if v.shape == tuple(shape) and v.dtype == self.at(name).dtype and n != name]
        if kind == "f" and same and self.maybe(0.4):
            return same[self.rng.integers(len(same))]
        shape = [1 if self.maybe(0.25) else s for s in shape][int(self.rng.integers(0, len(shape) + 1)) if self.maybe(0.3) else 0:]
        kinds = {"float32": "f", "int64": "i", "int32": "j", "bool": "b"}
        return self.fresh(tuple(shape), kinds[str(self.at(name).dtype)])

    def at(self, name):
        return self.values[name] if name in self.values else self.constants[name]

    def axis(self, name, extra=0):
        rank = self.at(name).ndim + extra
        return int(self.rng.integers(-rank, rank)) if rank else 0

    def model(self, nodes=None, outputs=None):
        nodes = self.nodes if nodes is None else nodes
        made = [o for n in nodes for o in n.output if o]
        read = {i for n in nodes for i in n.input} | {i for n in nodes for a in n.attribute for k in a.g.node for i in k.input}
        outputs = made if outputs is None else outputs
        graph = helper.make_graph(
            nodes, "fuzz",
            [helper.make_tensor_value_info(n, TYPES[v.dtype], v.shape) for n, v in self.inputs.items() if n in read],
            [helper.make_tensor_value_info(n, TYPES[self.values[n].dtype] if n in self.values else TensorProto.FLOAT, None) for n in outputs],
            [numpy_helper.from_array(v, n) for n, v in self.constants.items() if n in read])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def add(self, make):
        """True where ONNX Runtime takes the node and gives finite numbers that are not large."""
        before = len(self.constants), len(self.inputs)
        try:
            made = make(self)
        except (ValueError, IndexError, KeyError, ZeroDivisionError):
            made = None
        if made is None:
            return False
        op, inputs, attributes, *count = made
        outputs = [f"v{len(self.nodes)}" + ("" if k == 0 else f"_{k}") for k in range(count[0] if count else 1)]
        node = helper.make_node(op, inputs, outputs, f"n{len(self.nodes)}", **attributes)
        types = {n: self.values.pop(n) for n in outputs if n in self.values}
        assert not types
        try:
            path = f"{self.folder}/part.onnx"
            for elem in (TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.INT32, TensorProto.UINT8, TensorProto.INT8):
                model = self.model([node])
                given = {n: self.values[n] for n in node.input if n in self.values}
                del model.graph.input[:]
                model.graph.input.extend(helper.make_tensor_value_info(n, TYPES[v.dtype], v.shape) for n, v in given.items())
                for output in model.graph.output:
                    output.type.Clear()
                    output.type.tensor_type.elem_type = elem
                if len(outputs) == 2 and op in ("MaxPool", "TopK"):
                    model.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
                onnx.save(model, path)
                try:
                    results = self.runtime.run(path, given)
                    break
                except onnx_runtime.Refused as problem:
                    if "Type Error" not in str(problem) and "does not match" not in str(problem):
                        return False
            else:
                return False
        except onnx_runtime.Refused:
            return False
        for value in results.values():
            if value.size > 4000 or (value.dtype.kind == "f" and (not np.isfinite(value).all() or np.abs(value).max(initial=0) > 1e4)):
                return False
            if value.dtype.kind in "iu" and np.abs(value.astype(np.float64)).max(initial=0) > 2**31 - 1:
                return False
        self.values.update(results)
        self.nodes.append(node)
        return before is not None


def windows(g, axes, sizes):
    attributes = {"kernel_shape": [int(g.pick(1, 2, 3)) for _ in range(axes)]}
    if g.maybe():
        attributes["strides"] = [int(g.pick(1, 2, 3)) for _ in range(axes)]
    if g.maybe(0.3):
        attributes["dilations"] = [int(g.pick(1, 2)) for _ in range(axes)]
    if g.maybe():
        attributes["pads"] = [int(g.rng.integers(0, k)) for k in attributes["kernel_shape"]] + [int(g.rng.integers(0, k)) for k in attributes["kernel_shape"]]
    elif g.maybe(0.5) and "dilations" not in attributes:
        attributes["auto_pad"] = g.pick("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    return attributes


def images(g):
    fitting = [n for n, v in g.values.items() if v.dtype == np.float32 and 3 <= v.ndim <= 5 and v.size]
    if fitting and g.maybe():
        return g.pick(*fitting)
    axes = g.pick(1, 2, 2, 2, 3)
    return g.fresh((g.pick(1, 2), g.pick(1, 2, 4, 6), *(int(g.rng.integers(3, 9)) for _ in range(axes))))


def conv(g):
    x = images(g)
    shape = g.at(x).shape
    groups = g.pick(*[d for d in (1, 2, 3, shape[1]) if shape[1] % d == 0])
    attributes = windows(g, len(shape) - 2, shape[2:])
    out = groups * g.pick(1, 2)
    w = g.fresh((out, shape[1] // groups, *attributes["kernel_shape"]))
    if g.maybe(0.3):
        del attributes["kernel_shape"]
    return "Conv", [x, w] + ([g.fresh((out,))] if g.maybe() else []), {**attributes, "group": groups}


def conv_transpose(g):
    x = images(g)
    shape = g.at(x).shape
    groups = g.pick(*[d for d in (1, 2) if shape[1] % d == 0])
    attributes = windows(g, len(shape) - 2, shape[2:])
    if "strides" in attributes and g.maybe(0.4):
        attributes["output_padding"] = [int(g.rng.integers(0, s)) for s in attributes["strides"]]
    w = g.fresh((shape[1], g.pick(1, 2), *attributes["kernel_shape"]))
    out = g.at(w).shape[1] * groups
    return "ConvTranspose", [x, w] + ([g.fresh((out,))] if g.maybe() else []), {**attributes, "group": groups}


def pool(op):
    def make(g):
        x = images(g)
        attributes = windows(g, g.at(x).ndim - 2, g.at(x).shape[2:])
        if op == "LpPool":
            attributes["p"] = g.pick(1, 2, 3)
        if g.maybe(0.4):
            attributes["ceil_mode"] = 1
        if op == "AveragePool" and g.maybe():
            attributes["count_include_pad"] = g.pick(0, 1)
        if op == "MaxPool" and g.maybe(0.3):
            attributes["storage_order"] = g.pick(0, 1)
            return op, [x], attributes, 2
        return op, [x], attributes
    return make


def unary(op, **ranges):
    return lambda g: (op, [g.of()], {k: float(g.rng.uniform(*v)) for k, v in ranges.items() if g.maybe(0.6)})


def binary(op, kind="f"):
    def make(g):
        a = g.of(kind, 1)
        b = g.like(a, kind)
        return op, [a, b] if g.maybe(0.8) else [b, a], {}
    return make


def reduce(op):
    def make(g):
        x = g.of(low=1)
        rank = g.at(x).ndim
        axes = sorted(g.rng.choice(rank, g.rng.integers(1, rank + 1), replace=False).tolist())
        axes = [a - rank if g.maybe(0.3) else a for a in axes]
        attributes = {"keepdims": g.pick(0, 1)} if g.maybe(0.7) else {}
        if g.maybe(0.2):
            if g.opset >= 18 and g.maybe():
                attributes["noop_with_empty_axes"] = 1
            return op, [x], attributes
        if g.opset >= 18 or (op == "ReduceSum" and g.opset >= 13):
            return op, [x, g.ints(*axes)], attributes
        return op, [x], {**attributes, "axes": axes}
    return make


def arg(op):
    def make(g):
        x = g.of(low=1)
        return op, [x], {"axis": g.axis(x), "keepdims": g.pick(0, 1), **({"select_last_index": 1} if g.opset >= 12 and g.maybe() else {})}
    return make


def softmax(op):
    return lambda g: (op, [x := g.of(low=1)], {"axis": g.axis(x)} if g.maybe(0.8) else {})


def matmul(g):
    a = g.of(low=1, high=4)
    shape = g.at(a).shape
    if g.maybe(0.2):
        return "MatMul", [a, g.fresh((shape[-1],))], {}
    lead = [1 if g.maybe(0.3) else s for s in shape[:-2]] if g.maybe() else []
    return "MatMul", [a, g.fresh((*lead, shape[-1], g.pick(1, 2, 3, 5)))], {}


def gemm(g):
    ta, tb = g.pick(0, 1), g.pick(0, 1)
    m, k, n = (g.pick(1, 2, 3, 5) for _ in range(3))
    a, b = g.fresh((k, m) if ta else (m, k)), g.fresh((n, k) if tb else (k, n))
    c = [g.fresh(g.pick((n,), (1, n), (m, 1), (m, n), (1,), ()))] if g.maybe(0.7) else []
    attributes = {"transA": ta, "transB": tb}
    for name in ("alpha", "beta"):
        if g.maybe():
            attributes[name] = float(g.rng.normal())
    return "Gemm", [a, b, *c], attributes


def transpose(g):
    x = g.of(low=1)
    return "Transpose", [x], {"perm": g.rng.permutation(g.at(x).ndim).tolist()} if g.maybe(0.8) else {}


def reshape(g):
    x = g.of()
    shape = list(g.at(x).shape)
    sizes = shape[:]
    if len(sizes) > 1 and g.maybe():
        i = int(g.rng.integers(len(sizes) - 1))
        sizes[i:i + 2] = [sizes[i] * sizes[i + 1]]
    elif g.maybe():
        sizes.insert(int(g.rng.integers(len(sizes) + 1)), 1)
    if sizes and g.maybe():
        sizes[int(g.rng.integers(len(sizes)))] = -1
    if sizes and shape and sizes[0] == shape[0] and g.maybe(0.3):
        sizes[0] = 0
    return "Reshape", [x, g.ints(*sizes)], {"allowzero": 0} if g.opset >= 14 and g.maybe(0.3) else {}


def slice_(g):
    x = g.of(low=1)
    rank = g.at(x).ndim
    axes = g.rng.choice(rank, g.rng.integers(1, rank + 1), replace=False).tolist()
    starts, ends, steps = [], [], []
    for axis in axes:
        size = g.at(x).shape[axis]
        step = g.pick(1, 1, 1, 2, -1, -2)
        starts.append(int(g.rng.integers(-size - 1, size + 1)))
        ends.append(g.pick(int(g.rng.integers(-size - 1, size + 2)), 2**31 - 1 if step > 0 else -2**31, 2**63 - 1 if step > 0 else -2**63))
        steps.append(step)
    return "Slice", [x, g.ints(*starts), g.ints(*ends), g.ints(*axes), g.ints(*steps)], {}


def concat(g):
    x = g.of(low=1)
    axis = g.axis(x)
    parts = [x]
    for _ in range(g.pick(1, 1, 2)):
        shape = list(g.at(x).shape)
        shape[axis] = g.pick(1, 2, 3)
        parts.append(g.fresh(tuple(shape)))
    g.rng.shuffle(parts)
    return "Concat", parts, {"axis": axis}


def split(g):
    x = g.of(low=1)
    axis = g.axis(x)
    size = g.at(x).shape[axis]
    if size < 2:
        return None
    first = int(g.rng.integers(1, size))
    if g.opset >= 13:
        return "Split", [x, g.ints(first, size - first)], {"axis": axis}, 2
    return "Split", [x], {"axis": axis, "split": [first, size - first]}, 2


def pad(g):
    x = g.of(low=1)
    rank = g.at(x).ndim
    mode = g.pick("constant", "reflect", "edge", *(["wrap"] if g.opset >= 19 else []))
    pads = [int(v) for v in g.rng.integers(-1 if g.maybe(0.3) else 0, 3, 2 * rank)]
    inputs = [x, g.ints(*pads)]
    if mode == "constant" and g.maybe():
        inputs.append(g.constant(np.float32(g.rng.normal())))
    elif g.opset >= 18 and g.maybe(0.4):
        axes = g.rng.choice(rank, g.rng.integers(1, rank + 1), replace=False).tolist()
        inputs = [x, g.ints(*[int(v) for v in g.rng.integers(0, 3, 2 * len(axes))]), "", g.ints(*axes)]
    return "Pad", inputs, {"mode": mode} if mode != "constant" or g.maybe() else {}


def squeeze(op):
    def make(g):
        x = g.of(low=0 if op == "Unsqueeze" else 1, high=4)
        shape = g.at(x).shape
        if op == "Unsqueeze":
            axes = [g.axis(x, 1)]
        else:
            ones = [i for i, s in enumerate(shape) if s == 1]
            if not ones:
                return None
            axes = [g.pick(*ones)]
        if g.opset >= 13:
            return op, [x, g.ints(*axes)], {}
        return op, [x], {"axes": axes}
    return make


def gather(op):
    def make(g):
        x = g.of(low=1, high=4)
        shape, axis = list(g.at(x).shape), g.axis(x)
        size = shape[axis]
        if op == "Gather":
            index = g.rng.integers(-size, size, g.shape(1, 2))
            return op, [x, g.constant(index if g.maybe(0.8) else index.astype(np.int32))], {"axis": axis} if g.maybe(0.8) else {"axis": axis}
        shape[axis] = g.pick(1, 2, 3)
        index = g.rng.integers(-size, size, shape)
        if op == "GatherElements":
            return op, [x, g.constant(index)], {"axis": axis}
        updates = g.fresh(tuple(shape))
        reductions = ["none"] + (["add", "mul"] if g.opset >= 16 else []) + (["max", "min"] if g.opset >= 18 else [])
        reduction = g.pick(*reductions)
        if reduction == "none" and g.at(x).ndim:
            shape[axis] = min(shape[axis], size)
            index = np.argsort(g.rng.random([size if i == axis % len(shape) else s for i, s in enumerate(shape)]), axis)
            index = np.take(index, range(shape[axis]), axis)
            updates = g.fresh(tuple(index.shape))
        return op, [x, g.constant(index.astype(np.int64)), updates], {"axis": axis, **({"reduction": reduction} if g.opset >= 16 else {})}
    return make


def gather_nd(g):
    x = g.of(low=1, high=4)
    shape = g.at(x).shape
    batch = g.pick(0, 0, 1) if len(shape) > 1 and g.opset >= 12 else 0
    depth = int(g.rng.integers(1, len(shape) - batch + 1))
    index = np.stack([g.rng.integers(-shape[batch + i], shape[batch + i], (*shape[:batch], 2, 3)) for i in range(depth)], -1)
    return "GatherND", [x, g.constant(index)], {"batch_dims": batch} if batch else {}


def expand(g):
    x = g.of(high=4)
    shape = [g.pick(2, 3) if s == 1 else s for s in g.at(x).shape]
    return "Expand", [x, g.ints(*([g.pick(1, 2)] if g.maybe(0.3) else []), *[1 if g.maybe(0.2) else s for s in shape])], {}


def tile(g):
    x = g.of(low=1, high=4)
    return "Tile", [x, g.ints(*[g.pick(1, 1, 2, 3) for _ in g.at(x).shape])], {}


def where(g):
    a = g.of(low=1)
    b = g.like(a)
    shape = [1 if g.maybe(0.2) else s for s in g.at(a).shape]
    return "Where", [g.fresh(tuple(shape), "b"), a, b], {}


def normalization(g):
    x = images(g)
    channels = g.at(x).shape[1]
    positive = g.constant(np.abs(g.array((channels,))) + 0.1)
    epsilon = {"epsilon": float(g.pick(1e-5, 1e-3, 0.1))} if g.maybe() else {}
    kind = g.pick("BatchNormalization", "InstanceNormalization", "LpNormalization", "LRN", "GroupNormalization", "LayerNormalization")
    if kind == "BatchNormalization":
        return kind, [x, g.fresh((channels,)), g.fresh((channels,)), g.constant(g.array((channels,))), positive], {**epsilon, **({"momentum": 0.7} if g.maybe(0.3) else {})}
    if kind == "InstanceNormalization":
        return kind, [x, g.fresh((channels,)), g.fresh((channels,))], epsilon
    if kind == "LpNormalization":
        return kind, [x], {"axis": g.axis(x), "p": g.pick(1, 2)}
    if kind == "LRN":
        return kind, [x], {"size": g.pick(1, 3, 5), **({"alpha": 0.01} if g.maybe() else {}), **({"beta": 0.5} if g.maybe() else {}), **({"bias": 2.0} if g.maybe() else {})}
    if kind == "GroupNormalization":
        groups = g.pick(*[d for d in (1, 2, 3) if channels % d == 0])
        if g.opset < 21:
            return None
        return kind, [x, g.fresh((channels,)), g.fresh((channels,))], {**epsilon, "num_groups": groups}
    x = g.of(low=1)
    axis = g.axis(x)
    if g.opset < 17:
        return None
    shape = g.at(x).shape[axis:] if axis < 0 else g.at(x).shape[axis:]
    return kind, [x, g.fresh(shape)] + ([g.fresh(shape)] if g.maybe() else []), {**epsilon, "axis": axis}


def resize(g):
    x = images(g)
    shape = g.at(x).shape
    mode = g.pick("nearest", "linear", "cubic") if len(shape) == 4 else g.pick("nearest", "linear")
    attributes = {"mode": mode, "coordinate_transformation_mode": g.pick("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", *(["half_pixel_symmetric"] if g.opset >= 19 else []))}
    if mode == "nearest":
        attributes["nearest_mode"] = g.pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic" and g.maybe(0.4):
        attributes["cubic_coeff_a"] = g.pick(-0.5, -0.75)
        attributes["exclude_outside"] = g.pick(0, 1)
    if g.opset >= 18 and mode != "nearest" and len(shape) == 4 and g.maybe(0.3):
        attributes["antialias"] = 1
    if g.maybe():
        return "Resize", [x, "", "", g.ints(*shape[:2], *[int(g.rng.integers(1, 10)) for _ in shape[2:]])], attributes
    scales = np.array([1, 1, *[g.pick(0.5, 1, 1.5, 2, 0.6, 1.3, 3) for _ in shape[2:]]], np.float32)
    return "Resize", [x, "", g.constant(scales)], attributes


def recurrent(g):
    op, gates = g.pick(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    steps, rows, width, hidden = (g.pick(1, 2, 3, 4) for _ in range(4))
    direction = g.pick("forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    inputs = [g.fresh((steps, rows, width)), g.fresh((d, gates * hidden, width)), g.fresh((d, gates * hidden, hidden))]
    if g.maybe():
        inputs.append(g.fresh((d, 2 * gates * hidden)))
        if g.maybe():
            inputs += [g.constant(g.rng.integers(1, steps + 1, rows).astype(np.int32)) if g.maybe() else "", g.fresh((d, rows, hidden))]
            if op == "LSTM" and g.maybe():
                inputs.append(g.fresh((d, rows, hidden)))
                if g.maybe():
                    inputs.append(g.fresh((d, 3 * hidden)))
    attributes = {"hidden_size": hidden, "direction": direction}
    if g.maybe(0.3):
        attributes["clip"] = float(g.rng.uniform(0.2, 1.5))
    if op == "GRU" and g.maybe():
        attributes["linear_before_reset"] = g.pick(0, 1)
    if op == "LSTM" and g.maybe(0.2):
        attributes["input_forget"] = 1
    if g.maybe(0.3):
        each = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
        attributes["activations"] = [g.pick("Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign") for _ in range(each * d)]
    return op, inputs, attributes, {"LSTM": 3, "GRU": 2, "RNN": 2}[op]


def clip(g):
    x = g.of("n")
    low, high = sorted(g.rng.normal(size=2) * 2)
    kind = g.at(x).dtype
    if kind != np.float32 and g.opset < 12:
        return None
    number = lambda v: g.constant(np.array(v).astype(kind))
    return "Clip", g.pick([x, number(low), number(high)], [x, number(low)], [x, "", number(high)], [x]), {}


def cumsum(g):
    x = g.of("n", 1)
    return "CumSum", [x, g.constant(np.int64(g.axis(x)))], {k: 1 for k in ("exclusive", "reverse") if g.maybe(0.4)}


def top_k(g):
    x = g.of(low=1)
    axis = g.axis(x)
    if len(np.unique(g.at(x))) != g.at(x).size:
        return None
    return "TopK", [x, g.ints(int(g.rng.integers(1, g.at(x).shape[axis] + 1)))], {"axis": axis, "largest": g.pick(0, 1)}, 2


def cast(g):
    x = g.of(g.pick("f", "i", "j", "b"))
    return "Cast", [x], {"to": int(g.pick(TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.INT8, TensorProto.UINT8))}


def einsum(g):
    if g.opset < 12:
        return None
    equation, shapes = g.pick(("ij,jk->ik", "2 3,3 4"), ("bij,bjk->bik", "2 3 2,2 2 3"), ("bhqd,bhkd->bhqk", "1 2 3 2,1 2 4 2"), ("ii->i", "3 3"),
                              ("ij->ji", "2 3"), ("ij->", "2 3"), ("i,j->ij", "2,3"), ("...ij,jk->...ik", "2 2 3,3 2"), ("bi,ij,bj->b", "2 3,3 2,2 2"), ("ijk->kj", "2 3 4"))
    return "Einsum", [g.fresh(tuple(map(int, s.split()))) for s in shapes.split(",")], {"equation": equation}


def depth(op):
    def make(g):
        b = g.pick(1, 2, 3)
        n, c, h, w = g.pick(1, 2), g.pick(1, 2), g.pick(1, 2, 3), g.pick(1, 2)
        shape = (n, c * b * b, h, w) if op == "DepthToSpace" else (n, c, h * b, w * b)
        return op, [g.fresh(shape)], {"blocksize": b, **({"mode": g.pick("DCR", "CRD")} if op == "DepthToSpace" and g.maybe() else {})}
    return make


def grid_sample(g):
    if g.opset < 16:
        return None
    x = g.fresh((g.pick(1, 2), 2, g.pick(2, 3, 5), g.pick(2, 4)))
    grid = g.constant(g.rng.uniform(-1.3, 1.3, (g.at(x).shape[0], 3, 2, 2)).astype(np.float32))
    return "GridSample", [x, grid], {"mode": g.pick(*(("linear", "nearest", "cubic") if g.opset >= 20 else ("bilinear", "nearest", "bicubic"))),
                                     "padding_mode": g.pick("zeros", "border", "reflection"), "align_corners": g.pick(0, 1)}


def attention(g):
    g.opset = 23
    b, h, q, k, d = g.pick(1, 2), g.pick(1, 2), g.pick(1, 2, 3), g.pick(2, 3), g.pick(2, 4)
    inputs = [g.fresh((b, h, q, d)), g.fresh((b, h, k, d)), g.fresh((b, h, k, d))]
    if g.maybe():
        mask = g.rng.random((q, k)) < 0.6
        inputs.append(g.constant(mask if g.maybe() else np.where(mask, 0, g.pick(-np.inf, -3.0)).astype(np.float32)))
    attributes = {}
    if g.maybe(0.3):
        attributes["is_causal"] = 1
    if g.maybe(0.3):
        attributes["scale"] = 0.3
    if g.maybe(0.3):
        attributes["softcap"] = 1.5
    return "Attention", inputs, attributes


def one_hot(g):
    index = g.constant(g.rng.integers(-4, 4, g.shape(1, 2)))
    return "OneHot", [index, g.constant(np.int64(4)), g.constant(np.array([0.5, 2], np.float32))], {"axis": g.pick(-1, 0, 1)} if g.maybe() else {}


def scatter_nd(g):
    x = g.of(low=1, high=3)
    shape = g.at(x).shape
    depth_ = int(g.rng.integers(1, len(shape) + 1))
    all_ = np.stack(np.meshgrid(*[np.arange(s) for s in shape[:depth_]], indexing="ij"), -1).reshape(-1, depth_)
    index = g.rng.permutation(all_)[:g.pick(1, 2, 3)]
    reduction = g.pick("none", *(["add", "mul"] if g.opset >= 16 else []), *(["max", "min"] if g.opset >= 18 else []))
    return "ScatterND", [x, g.constant(index), g.fresh((len(index), *shape[depth_:]))], {"reduction": reduction} if g.opset >= 16 else {}


def flatten(g):
    x = g.of(low=1)
    return "Flatten", [x], {"axis": g.axis(x)} if g.maybe(0.8) else {}


def trilu(g):
    if g.opset < 14:
        return None
    x = g.of(low=2)
    return "Trilu", [x] + ([g.constant(np.int64(g.pick(-1, 0, 1, 2)))] if g.maybe() else []), {"upper": g.pick(0, 1)} if g.maybe() else {}


def prelu(g):
    x = g.of(low=2)
    return "PRelu", [x, g.fresh(g.pick((1,), g.at(x).shape[-1:], g.at(x).shape))], {}


def mod(g):
    if g.maybe():
        x = g.of("i", 1)
        return "Mod", [x, g.constant(np.int64(g.pick(2, 3, -3)))], {}
    return "Mod", [g.of(), g.constant(np.float32(g.pick(1.5, 2, -0.7)))], {"fmod": 1}


def loss(g):
    if g.opset < 13:
        return None
    classes, rows = g.pick(2, 3, 5), g.pick(2, 3)
    extra = g.pick((), (2,))
    label = g.constant(g.rng.integers(0, classes, (rows, *extra)))
    attributes = {"reduction": g.pick("none", "sum", "mean")}
    if g.maybe(0.3):
        attributes["ignore_index"] = 0
    return g.pick("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"), [g.fresh((rows, classes, *extra)), label] + ([g.constant(np.abs(g.array((classes,))) + 0.1)] if g.maybe(0.3) else []), attributes


def variadic(op):
    def make(g):
        a = g.of(low=1)
        return op, [a, *[g.like(a) for _ in range(g.pick(0, 1, 2))]], {}
    return make


def integers(op):
    return binary(op, "i")


SMOOTH = [unary(op) for op in ("Sigmoid", "Tanh", "Exp", "Sin", "Cos", "Erf", "Softplus", "Softsign", "Neg", "Identity", "Atan", "Sinh", "Cosh", "Asinh", "Reciprocal")]
NODES = SMOOTH + [
    unary("Relu"), unary("Abs"), unary("Sign"), unary("Floor"), unary("Ceil"), unary("Round"), unary("Sqrt"), unary("Log"), unary("Elu", alpha=(0.1, 2)),
    unary("Selu", alpha=(1, 2), gamma=(0.5, 2)), unary("Celu", alpha=(0.5, 2)), unary("LeakyRelu", alpha=(-0.5, 0.5)), unary("ThresholdedRelu", alpha=(-1, 1)),
    unary("HardSigmoid", alpha=(0.1, 0.5), beta=(0, 1)), unary("HardSwish"), unary("Mish"), unary("Shrink", bias=(0, 1), lambd=(0, 1)), unary("Gelu"), unary("Tan"),
    lambda g: ("Gelu", [g.of()], {"approximate": "tanh"}), unary("IsNaN"), lambda g: ("IsInf", [g.of()], {"detect_negative": g.pick(0, 1)}),
    *[binary(op) for op in ("Add", "Sub", "Mul", "Div", "Add", "Mul", "Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual")],
    *[integers(op) for op in ("Add", "Sub", "Mul", "Div", "Equal", "Less")], *[binary(op, "b") for op in ("And", "Or", "Xor")],
    lambda g: ("Not", [g.of("b")], {}), lambda g: ("Pow", [g.of(), g.constant(np.float32(g.pick(2, 3, 1, 0)))], {}),
    *[variadic(op) for op in ("Max", "Min", "Sum", "Mean")],
    *[reduce(op) for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare", "ReduceLogSum")],
    arg("ArgMax"), arg("ArgMin"), softmax("Softmax"), softmax("LogSoftmax"), softmax("Hardmax"), matmul, matmul, gemm, gemm, transpose, reshape, slice_, slice_, concat,
    split, pad, pad, squeeze("Squeeze"), squeeze("Unsqueeze"), gather("Gather"), gather("GatherElements"), gather("ScatterElements"), gather_nd, scatter_nd, expand, tile, where,
    normalization, normalization, resize, resize, recurrent, recurrent, clip, cumsum, top_k, cast, einsum, depth("DepthToSpace"), depth("SpaceToDepth"), grid_sample, one_hot, flatten,
    trilu, prelu, mod, loss, conv, conv, conv, conv_transpose, pool("MaxPool"), pool("AveragePool"), pool("LpPool"), attention,
    lambda g: (g.pick("GlobalAveragePool", "GlobalMaxPool"), [images(g)], {}), lambda g: ("Shape", [g.of()], {}), lambda g: ("Size", [g.of()], {}),
]


def torch_fault(model, g, inputs, of, cotangent, made):
    """Compares gradients with PyTorch's; None if it does not have the graph, or gives another value."""
    if onnx_in_torch is None:
        return None
    try:
        value, expected = onnx_in_torch.gradients(model, g.constants, inputs, of, cotangent, list(made))
    except onnx_in_torch.Unknown:
        return None
    if value.shape != g.values[of].shape or difference(value, g.values[of]):
        return None
    for name, gradient in expected.items():
        if not np.isfinite(gradient).all():  # at the edge of a domain, as of Sqrt at 0
            return None
        fault = difference(made[name], gradient, 1e-3)
        if fault:
            return f"gradient of {of} by {name} {fault} (PyTorch)"
    return ""


def gradient_fault(g, graft, runtime, folder, path, model):
    """Compares gradients with PyTorch's where it has the graph, else a directional derivative with central differences of ONNX
    Runtime's; empty where they agree or nothing can be said."""
    outputs = [n for n in (o.name for o in model.graph.output) if g.values[n].dtype == np.float32 and g.values[n].size]
    floats = [v.name for v in model.graph.input if g.values[v.name].dtype == np.float32]
    if not outputs or not floats:
        return None
    of = outputs[-1]
    cotangent = g.rng.normal(size=g.values[of].shape).astype(np.float32)
    np.save(f"{folder}/cotangent.npy", cotangent)
    inputs = {v.name: g.values[v.name] for v in model.graph.input}
    try:
        made = graft.run(inputs, folder, ("grad", "--of", of, "--wrt", ",".join(floats), *(["--cotangent", f"{folder}/cotangent.npy"] if cotangent.size != 1 else [])))
    except Refused as problem:
        return f"refused: {problem}"
    if cotangent.size == 1:
        cotangent = np.ones_like(cotangent)
    fault = torch_fault(model, g, inputs, of, cotangent, {n: made[file_of(n)] for n in floats})
    if fault is not None:
        return fault or "PyTorch"
    direction = {n: g.rng.normal(size=g.values[n].shape).astype(np.float32) for n in floats}
    got = sum(float((made[file_of(n)].astype(np.float64) * direction[n]).sum()) for n in floats)

    def along(step):
        moved = [{n: (v + s * step * direction[n]).astype(np.float32) if n in direction else v for n, v in inputs.items()} for s in (1, -1)]
        ends = [runtime.run(path, m, "disabled")[of].astype(np.float64) for m in moved]
        return float(((ends[0] - ends[1]) * cotangent).sum() / (2 * step))

    steps = [along(h) for h in (1e-2, 5e-3, 2.5e-3)]
    scale = max(abs(s) for s in steps) + 1e-2 * float(np.abs(cotangent * g.values[of]).sum()) + 1e-2
    if max(steps) - min(steps) > 0.5 * GRADIENT * scale:  # a kink, or too few digits
        return None
    off = abs(got - steps[-1])
    return "" if off <= GRADIENT * scale else f"gradient of {of}: {got:.5g} along a direction instead of {steps[-1]:.5g}"


def invented(node, g, expected):
    """Whether ONNX Runtime gives numbers that the node cannot give. It reads beyond an axis that it wraps twice or more."""
    wraps = node.op_type == "Pad" and any(a.name == "mode" and a.s == b"wrap" for a in node.attribute)
    return wraps and not np.isin(expected, g.at(node.input[0])).all()


def check_graph(g, graft, runtime, folder, nodes=None):
    """(kind, text): right, refused, known (a fault of ONNX Runtime), wrong."""
    model = g.model(nodes)
    path = f"{folder}/net.onnx"
    onnx.save(model, path)
    inputs = {v.name: g.values[v.name] for v in model.graph.input}
    try:
        expected = runtime.run(path, inputs, "disabled")
    except onnx_runtime.Refused as problem:
        return "invalid", str(problem)
    try:
        left = graft.convert(path, inputs, folder)
        got = graft.run(left, folder)
    except Refused as problem:
        return "refused", str(problem)
    except Crashed as problem:
        return "wrong", str(problem)
    for node in model.graph.node:
        for name in node.output:
            found = got.get(file_of(name))
            fault = "was not written" if found is None else difference(found, expected[name])
            if fault:
                return "known" if invented(node, g, expected[name]) else "wrong", f"{node.op_type}: {name} {fault}"
    try:
        fault = gradient_fault(g, graft, runtime, folder, path, model)
    except Crashed as problem:
        return "wrong", str(problem)
    except onnx_runtime.Refused:
        fault = None
    if fault and fault.startswith("refused"):
        return "right", fault
    if fault == "PyTorch":
        return "right", "with gradients of PyTorch"
    return ("wrong", fault) if fault else ("right", "with gradients" if fault == "" else "")


def minimised(g, graft, runtime, folder, text):
    """Leaves out nodes from the end and the beginning as long as it fails."""
    nodes = list(g.nodes)
    for node in list(nodes):
        needed = {i for n in nodes if n is not node for i in n.input}
        if any(o in needed for o in node.output):
            continue
        rest = [n for n in nodes if n is not node]
        kind, said = check_graph(g, graft, runtime, folder, rest) if rest else ("right", "")
        if kind == "wrong":
            nodes, text = rest, said
    for node in list(nodes):  # what a node gives becomes an input
        rest = [n for n in nodes if n is not node]
        trial = copy.copy(g)
        trial.inputs = {**g.inputs, **{o: g.values[o] for o in node.output if o in g.values}}
        kind, said = check_graph(trial, graft, runtime, folder, rest) if rest else ("right", "")
        if kind == "wrong":
            nodes, text, g = rest, said, trial
    return g, nodes, text


def fuzz_graphs(options, graft, runtime):
    counts, refusals, ops, wrong = collections.Counter(), collections.Counter(), collections.Counter(), 0
    end = time.time() + 60 * options.minutes
    seed = options.seed
    while not stopped and time.time() < end and (not options.count or seed < options.seed + options.count):
        with tempfile.TemporaryDirectory() as folder:
            g = Generator(runtime, seed, folder)
            for _ in range(int(g.rng.integers(1, 9))):
                g.add(NODES[g.rng.integers(len(NODES))])
            if g.nodes:
                kind, text = check_graph(g, graft, runtime, folder)
                counts[kind] += 1
                ops.update(n.op_type for n in g.nodes)
                if kind == "right" and text:
                    counts["gradients refused" if text.startswith("refused") else
                           "gradients as PyTorch's" if text.endswith("PyTorch") else "gradients as central differences"] += 1
                if kind == "refused":
                    refusals[re.sub(r'"[^"]*"|\d+', "_", text)[:150]] += 1
                if kind == "wrong":
                    wrong += 1
                    g, nodes, text = minimised(g, graft, runtime, folder, text)
                    print(f"seed {seed}: {text}\n    " + "; ".join(f"{n.op_type}({', '.join(n.input)}) {[helper.printable_attribute(a) for a in n.attribute]}" for n in nodes), flush=True)
                    if options.save:
                        os.makedirs(options.save, exist_ok=True)
                        model = g.model(nodes)
                        onnx.save(model, f"{options.save}/{seed}.onnx")
                        np.savez(f"{options.save}/{seed}.npz", **{v.name: g.values[v.name] for v in model.graph.input})
        seed += 1
    for text, count in refusals.most_common(30):
        print(f"{count:6} refused: {text}")
    print(f"{len(ops)} operators in {sum(ops.values())} nodes; seeds {options.seed} to {seed - 1}: {dict(counts)}")
    return wrong


# --- ONNX's own cases

def read_cases(path):
    files = collections.defaultdict(dict)
    if os.path.isdir(path):
        for name in glob.glob(f"{path}/**/*.*", recursive=True):
            place = re.fullmatch(r"(.*?)/(model\.onnx|test_data_set_0/[^/]*\.pb)", os.path.relpath(name, path))
            if place:
                with open(name, "rb") as file:
                    files[place.group(1)][place.group(2)] = file.read()
    else:
        with tarfile.open(path) as archive:
            for member in archive:
                place = re.fullmatch(r"(.*?)/(model\.onnx|test_data_set_0/[^/]*\.pb)", os.path.normpath(member.name))
                if member.isfile() and place:
                    files[place.group(1)][place.group(2)] = archive.extractfile(member).read()
    return {name: parts for name, parts in sorted(files.items()) if "model.onnx" in parts}


def tensors_of(parts, values, kind):
    """Arrays by name; None where one is no tensor that numpy holds."""
    arrays = {}
    for i, value in enumerate(values):
        data = parts.get(f"test_data_set_0/{kind}_{i}.pb")
        if data is None or not value.type.HasField("tensor_type"):
            return None
        tensor = TensorProto()
        tensor.ParseFromString(data)
        try:
            array = numpy_helper.to_array(tensor)
        except (KeyError, ValueError, TypeError):
            return None
        if array.dtype == object:
            return None
        arrays[value.name] = array
    return arrays


def plain_inputs(model):
    given = {t.name for t in model.graph.initializer}
    return [v for v in model.graph.input if v.name not in given]


def run_cases(options, graft, runtime):
    counts, refusals = collections.Counter(), collections.Counter()
    end = time.time() + 60 * options.minutes
    for name, parts in list(read_cases(options.cases).items())[options.start::options.every]:
        if stopped or time.time() > end:
            print(f"stopped before {name}")
            break
        model = onnx.ModelProto()
        model.ParseFromString(parts["model.onnx"])
        inputs, outputs = tensors_of(parts, plain_inputs(model), "input"), tensors_of(parts, model.graph.output, "output")
        if inputs is None or outputs is None:
            counts["not of numpy's tensors"] += 1
            continue
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/net.onnx", "wb") as file:
                file.write(parts["model.onnx"])
            try:
                got = graft.run(graft.convert(f"{folder}/net.onnx", inputs, folder), folder)
                faults = [f"{n} {f}" for n, e in outputs.items() if (f := difference(got[file_of(n)], e, 1e-3) if file_of(n) in got else "was not written")]
            except Refused as problem:
                counts["refused"] += 1
                refusals[re.sub(r'"[^"]*"', "_", str(problem))[:170]] += 1
                if options.verbose:
                    print(f"refused {name}: {problem}", flush=True)
                continue
            except Crashed as problem:
                faults = [str(problem)]
        counts["wrong" if faults else "right"] += 1
        if faults:
            print(f"wrong   {name}: {'; '.join(faults)}", flush=True)
    for text, count in refusals.most_common(40):
        print(f"{count:6} {text}")
    print(dict(counts))
    return counts["wrong"]


# --- attributes

def perturbed(attribute, current):
    """Other values than the one that is there, or than the default."""
    kind = onnx.defs.OpSchema.AttrType
    if attribute.type == kind.INT:
        return [v for v in (0, 1, 2, -1) if v != current][:3]
    if attribute.type == kind.FLOAT:
        return [0.37, 2.5]
    if attribute.type == kind.STRING:
        words = re.findall(r"['\"`]([A-Za-z_]{2,30})['\"`]", attribute.description)
        return [w for w in dict.fromkeys(words) if w != current][:4] + ["no_such_value"]
    if attribute.type == kind.INTS:
        base = list(current) if current else [1, 1]
        return [[v + 1 for v in base], base[::-1]]
    if attribute.type == kind.FLOATS:
        return [[v * 1.5 + 0.1 for v in (current or [0.5, 0.5])]]
    return []


class Seen:
    """An attribute of an operator that this onnx has no schema of: as the cases have it."""

    description = "'HALF' 'half' 'none' 'linear'"

    def __init__(self, given):
        kinds = onnx.defs.OpSchema.AttrType
        self.type = {onnx.AttributeProto.INT: kinds.INT, onnx.AttributeProto.FLOAT: kinds.FLOAT, onnx.AttributeProto.STRING: kinds.STRING,
                     onnx.AttributeProto.INTS: kinds.INTS, onnx.AttributeProto.FLOATS: kinds.FLOATS}.get(given.type)
        self.default_value = onnx.AttributeProto()


def attributes_of(node, version, seen):
    """Those of the schema, and those that cases have and this onnx does not know."""
    try:
        schema = onnx.defs.get_schema(node.op_type, min(version, onnx.defs.onnx_opset_version()), node.domain)
        known = dict(schema.attributes)
    except onnx.defs.SchemaError:
        known = {}
    return {**{name: one for name, one in seen[node.op_type].items() if one.type is not None}, **known}


def default_of(attribute):
    return helper.get_attribute_value(attribute.default_value) if attribute.default_value.name else None


def excused(node, value_of):
    """What ONNX leaves open, or ONNX Runtime computes differently from ONNX's text and its own inference of shapes."""
    if node.op_type in ("MaxPool", "AveragePool", "LpPool"):  # it forgets dilations when it pads to the same size
        return value_of("auto_pad", b"NOTSET")[:4] == b"SAME" and value_of("dilations", None) is not None
    return {
        "TopK": value_of("sorted", 1) == 0,  # in any order
        "NegativeLogLikelihoodLoss": value_of("ignore_index", -1) >= 0,  # the cases' labels are then no classes
        "MaxUnpool": len(node.input) > 2,  # ONNX's own case says otherwise
        "Dropout": value_of("seed", None) is not None,
    }.get(node.op_type, False)


def run_attributes(options, graft, runtime):
    counts, seen, attributes_seen = collections.Counter(), set(), collections.defaultdict(dict)
    cases = list(read_cases(options.cases).items())
    for _, parts in cases:
        model = onnx.ModelProto()
        model.ParseFromString(parts["model.onnx"])
        for node in model.graph.node:
            attributes_seen[node.op_type].update({a.name: Seen(a) for a in node.attribute})
    end = time.time() + 60 * options.minutes
    for name, parts in cases[options.start::options.every]:
        if stopped or time.time() > end:
            print(f"stopped before {name}")
            break
        model = onnx.ModelProto()
        model.ParseFromString(parts["model.onnx"])
        if len(model.graph.node) != 1:
            continue
        node = model.graph.node[0]
        version = next((o.version for o in model.opset_import if o.domain in (node.domain, "ai.onnx")), 1)
        inputs = tensors_of(parts, plain_inputs(model), "input")
        key = (node.op_type, version, tuple(sorted(a.name for a in node.attribute)), len(node.input))
        if inputs is None or key in seen:
            continue
        seen.add(key)
        with tempfile.TemporaryDirectory() as folder:  # an old operator set, or one that it lacks: no second opinion
            onnx.save(model, f"{folder}/net.onnx")
            try:
                runtime.run(f"{folder}/net.onnx", inputs, "disabled")
            except onnx_runtime.Refused:
                counts["cases that ONNX Runtime refuses"] += 1
                continue
        attributes = list(attributes_of(node, version, attributes_seen).items())
        for attribute_name, attribute in [*attributes, ("no_such_attribute", None)]:
            own = next((a for a in node.attribute if a.name == attribute_name), None)
            current = helper.get_attribute_value(own) if own else attribute and default_of(attribute)
            current = current.decode() if isinstance(current, bytes) else current
            for value in [3] if attribute is None else perturbed(attribute, current):
                changed = copy.deepcopy(model)
                kept = [a for a in changed.graph.node[0].attribute if a.name != attribute_name]
                del changed.graph.node[0].attribute[:]
                changed.graph.node[0].attribute.extend([*kept, helper.make_attribute(attribute_name, value)])
                for output in changed.graph.output:
                    output.type.tensor_type.ClearField("shape")
                with tempfile.TemporaryDirectory() as folder:
                    path = f"{folder}/net.onnx"
                    onnx.save(changed, path)
                    what = f"{name}: {attribute_name} = {value!r}"
                    try:
                        expected = runtime.run(path, inputs, "disabled")
                    except onnx_runtime.Refused as problem:
                        expected, why = None, str(problem)
                    try:
                        got = graft.run(graft.convert(path, inputs, folder), folder)
                    except Refused as problem:
                        counts["both refuse" if expected is None else "graft refuses"] += 1
                        if options.verbose and expected is not None:
                            print(f"refused {what}: {problem}", flush=True)
                        continue
                    except Crashed as problem:
                        counts["wrong"] += 1
                        print(f"wrong   {what}: {problem}", flush=True)
                        continue
                    if expected is None:
                        counts["only ONNX Runtime refuses"] += 1
                        if options.verbose or attribute is None:
                            print(f"taken   {what}, which ONNX Runtime refuses: {why[-200:]}", flush=True)
                        continue
                    faults = [f"{n} {f}" for n, e in expected.items() if (f := difference(got[file_of(n)], e, 1e-3) if file_of(n) in got else "was not written")]
                    given = {a.name: helper.get_attribute_value(a) for a in changed.graph.node[0].attribute}
                    known = faults and excused(changed.graph.node[0], given.get)
                    counts["known differences" if known else "wrong" if faults else "right"] += 1
                    if faults and not known:
                        print(f"wrong   {what}: {'; '.join(faults)}", flush=True)
    print(dict(counts))
    return counts["wrong"]


def main():
    signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=("graphs", "attributes", "cases"))
    options.add_argument("graft")
    options.add_argument("cases", nargs="?")
    options.add_argument("--minutes", type=float)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=0)
    options.add_argument("--every", type=int, default=1)
    options.add_argument("--start", type=int, default=0)
    options.add_argument("--save")
    options.add_argument("--verbose", action="store_true")
    options = options.parse_args()
    options.minutes = options.minutes or (5 if options.what == "graphs" else 1e6)
    options.cases = options.cases or os.path.join(DATA, "onnx-conformance/cases.tar.gz")
    if options.what != "graphs" and not os.path.exists(options.cases):
        print(f"skipped: there is no {options.cases}")
        return 77
    runtime = onnx_runtime.find()
    if runtime is None:
        print("skipped: ONNXRUNTIME_NODE names no folder with npm's onnxruntime-node")
        return 77
    run = {"graphs": fuzz_graphs, "attributes": run_attributes, "cases": run_cases}[options.what]
    return 1 if run(options, Graft(options.graft), runtime) else 0


if __name__ == "__main__":
    sys.exit(main())
